/* SPDX-License-Identifier: GPL-2.0-only */
/* What own-workload prints. */
#define FORMAT "%s is argument %lu\n"
