/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels 5.10 to 7.3, detected by what their headers
 * define.
 */
#ifndef STATICKEYS_COMPAT_H
#define STATICKEYS_COMPAT_H

#include <linux/ftrace.h>
#include <linux/uaccess.h>

/* An exception table entry: after a fault at "from", continue at "to". */
#ifdef _ASM_EXTABLE_UACCESS
#define EXTABLE(from, to) _ASM_EXTABLE_UACCESS(from, to)
#else
#define EXTABLE(from, to) _ASM_EXTABLE(from, to)
#endif

/*
 * 5.11 added linux/trace_recursion.h, together with struct ftrace_regs; before,
 * ftrace protects every callback without RECURSION_SAFE.
 */
#ifdef trace_recursion_set
#define race_regs ftrace_regs
#define RACE_FL_RECURSION FTRACE_OPS_FL_RECURSION
#else
#define race_regs pt_regs
#define RACE_FL_RECURSION 0
#endif

#endif
