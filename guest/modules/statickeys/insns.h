/* SPDX-License-Identifier: GPL-2.0-only */
/* What the functions of insns.c and edges.c have in common. */
#ifndef INSNS_H
#define INSNS_H

#include <linux/seq_file.h>

struct insn {
	const char *name;
	long (*run)(long x);
};

/* Prints each function's results for 0 and 1. */
static inline void show_insns(struct seq_file *out, const struct insn *insns, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		seq_printf(out, "%s %ld %ld\n", insns[i].name, insns[i].run(0), insns[i].run(1));
}

/* edges.c */
void edges_show(struct seq_file *out);

/*
 * A kind of branch: returns 1 if it is taken, else 2. The label is global, so
 * that a second copy of it is an error.
 */
#define BRANCH(name, setup, instruction)				\
	static noinline long run_##name(long x)				\
	{								\
		long result;						\
									\
		asm volatile(setup "\n"					\
			     "	mov	%0, #1\n"			\
			     "	.globl	insn_" #name "\n"		\
			     "insn_" #name ":\n"			\
			     "	" instruction "\n"			\
			     "	mov	%0, #2\n"			\
			     "9:	hint	#36\n" /* bti j */		\
			     : "=&r" (result)				\
			     : "r" (x)					\
			     : "cc", "x9", "memory");			\
		return result;						\
	}

/* PC-relative addresses: the distance from the instruction's own label. */
#define ADDRESS(name, instruction, label)				\
	static noinline long run_##name(long x)				\
	{								\
		long here, found;					\
									\
		asm volatile("	.globl	insn_" #name "\n"		\
			     "insn_" #name ":\n"			\
			     "	" instruction "\n"			\
			     "	adr	%1, insn_" #name "\n"		\
			     : "=&r" (found), "=&r" (here)		\
			     : : "memory");				\
		return label;						\
	}

#endif /* INSNS_H */
