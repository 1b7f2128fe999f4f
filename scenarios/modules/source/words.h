/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WORDS_H
#define WORDS_H

#define GREETING "good morning"
#define FAREWELL "good night"

#endif
