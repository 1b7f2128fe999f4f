/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <linux/types.h>

/* Counts a value. */
void histogram_add(u64 value);

/* Prints a line for each power of two that was counted. Returns the number of bytes. */
int histogram_print(char *buffer);

#endif
