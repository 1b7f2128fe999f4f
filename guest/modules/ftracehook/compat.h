/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels 5.10 to 7.3, detected by what their headers
 * define.
 *
 *			5.10		6.1		6.12 and later
 * callback's registers	pt_regs		ftrace_regs	ftrace_regs
 * their contents	pt_regs		pt_regs		x0-x8, fp, lr, sp, pc
 * IPMODIFY needs	SAVE_REGS	SAVE_REGS	nothing
 * recursion flag	RECURSION_SAFE	RECURSION	RECURSION
 *
 * RECURSION_SAFE disables the protection by ftrace, RECURSION enables it.
 */
#ifndef FTRACEHOOK_COMPAT_H
#define FTRACEHOOK_COMPAT_H

#include <linux/ftrace.h>
#include <linux/ptrace.h>

/* 5.11 added linux/trace_recursion.h, together with struct ftrace_regs. */
#ifdef trace_recursion_set

#define hook_regs ftrace_regs

#define HOOK_FL_RECURSION FTRACE_OPS_FL_RECURSION

static __always_inline int hook_trylock(unsigned long ip,
					unsigned long parent_ip)
{
	return ftrace_test_recursion_trylock(ip, parent_ip);
}

static __always_inline void hook_unlock(int bit)
{
	ftrace_test_recursion_unlock(bit);
}

static __always_inline bool hook_has_pt_regs(struct hook_regs *regs)
{
	return ftrace_get_regs(regs);
}

#else

#define hook_regs pt_regs

/* Without RECURSION_SAFE, ftrace protects the callback. */
#define HOOK_FL_RECURSION 0

static __always_inline int hook_trylock(unsigned long ip,
					unsigned long parent_ip)
{
	return 0;
}

static __always_inline void hook_unlock(int bit)
{
}

static __always_inline bool hook_has_pt_regs(struct hook_regs *regs)
{
	return regs;
}

#endif

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS

#define HOOK_FL_IPMODIFY FTRACE_OPS_FL_IPMODIFY

/* There is no helper to set an argument, and 6.12.75 renamed the registers. */
#ifndef arch_ftrace_regs
#define arch_ftrace_regs(fregs) (fregs)
#endif

static __always_inline unsigned long hook_argument(struct hook_regs *regs, int n)
{
	return ftrace_regs_get_argument(regs, n);
}

static __always_inline void hook_set_argument(struct hook_regs *regs, int n,
					      unsigned long value)
{
	arch_ftrace_regs(regs)->regs[n] = value;
}

static __always_inline void hook_redirect(struct hook_regs *regs, unsigned long to)
{
	ftrace_regs_set_instruction_pointer(regs, to);
}

static __always_inline void hook_return(struct hook_regs *regs, unsigned long value)
{
	ftrace_regs_set_return_value(regs, value);
	ftrace_override_function_with_return(regs);
}

#else

#define HOOK_FL_IPMODIFY (FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_SAVE_REGS)

static __always_inline struct pt_regs *hook_pt_regs(struct hook_regs *regs)
{
#ifdef trace_recursion_set
	return &regs->regs;
#else
	return regs;
#endif
}

static __always_inline unsigned long hook_argument(struct hook_regs *regs, int n)
{
	return hook_pt_regs(regs)->regs[n];
}

static __always_inline void hook_set_argument(struct hook_regs *regs, int n,
					      unsigned long value)
{
	hook_pt_regs(regs)->regs[n] = value;
}

static __always_inline void hook_redirect(struct hook_regs *regs, unsigned long to)
{
	instruction_pointer_set(hook_pt_regs(regs), to);
}

static __always_inline void hook_return(struct hook_regs *regs, unsigned long value)
{
	hook_pt_regs(regs)->regs[0] = value;
	instruction_pointer_set(hook_pt_regs(regs), hook_pt_regs(regs)->regs[30]);
}

#endif

#endif
