/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels 5.10 to 7.3, told apart by what their
 * headers have.
 */
#ifndef STATICKEYS_COMPAT_H
#define STATICKEYS_COMPAT_H

#include <linux/ftrace.h>
#include <linux/uaccess.h>

/* An entry of the exception table: a fault at "from" goes on at "to". */
#ifdef _ASM_EXTABLE_UACCESS
#define EXTABLE(from, to) _ASM_EXTABLE_UACCESS(from, to)
#else
#define EXTABLE(from, to) _ASM_EXTABLE(from, to)
#endif

/*
 * linux/trace_recursion.h came with 5.11, together with struct ftrace_regs;
 * before, whoever does not say that he needs no protection has it.
 */
#ifdef trace_recursion_set
#define race_regs ftrace_regs
#define RACE_FL_RECURSION FTRACE_OPS_FL_RECURSION
#else
#define race_regs pt_regs
#define RACE_FL_RECURSION 0
#endif

#endif
