// SPDX-License-Identifier: GPL-2.0-only
/*
 * Instructions that a kprobe simulates, with operands at the edges of their
 * encoding: the high bits of a register, both register widths, and negative
 * offsets. The label insn_NAME marks the instruction.
 */
#include <linux/compiler.h>
#include <linux/kernel.h>

#include "insns.h"

/* All bits are set, except for BIT if x is 0. */
#define ONES_BUT(bit)							\
	"	mov	x9, #-1 ^ (1 << " #bit ")\n"			\
	"	orr	x9, x9, %1, lsl #" #bit

/* No bit is set, except for BIT if x is 1. */
#define ONLY(bit) "	lsl	x9, %1, #" #bit

BRANCH(tbz_31, ONES_BUT(31), "tbz	x9, #31, 9f")
BRANCH(tbz_32, ONES_BUT(32), "tbz	x9, #32, 9f")
BRANCH(tbz_63, ONES_BUT(63), "tbz	x9, #63, 9f")
BRANCH(tbnz_31, ONLY(31), "tbnz	x9, #31, 9f")
BRANCH(tbnz_32, ONLY(32), "tbnz	x9, #32, 9f")
BRANCH(tbnz_63, ONLY(63), "tbnz	x9, #63, 9f")
BRANCH(cbz_x_63, ONLY(63), "cbz	x9, 9f")
BRANCH(cbnz_x_63, ONLY(63), "cbnz	x9, 9f")
/* A w register is the lower half of x9, whose upper half is not 0. */
BRANCH(cbz_w, "	orr	x9, %1, #0x8000000000000000", "cbz	w9, 9f")
BRANCH(cbnz_w, "	orr	x9, %1, #0x100000000", "cbnz	w9, 9f")

/* A branch back: returns 1 if it is taken, else 2. */
#define BRANCH_BACK(name, setup, instruction)				\
	static noinline long run_##name(long x)				\
	{								\
		long result;						\
									\
		asm volatile(setup "\n"					\
			     "	b	7f\n"				\
			     "8:	mov	%0, #1\n"		\
			     "	b	9f\n"				\
			     "7:\n"					\
			     "	.globl	insn_" #name "\n"		\
			     "insn_" #name ":\n"			\
			     "	" instruction "\n"			\
			     "	mov	%0, #2\n"			\
			     "9:\n"					\
			     : "=&r" (result)				\
			     : "r" (x)					\
			     : "cc", "x9", "memory");			\
		return result;						\
	}

BRANCH_BACK(b_back, "", "b	8b")
BRANCH_BACK(b_cond_back, "	cmp	%1, #0", "b.ne	8b")
BRANCH_BACK(cbz_back, "", "cbz	%1, 8b")
BRANCH_BACK(cbnz_back, "", "cbnz	%1, 8b")
BRANCH_BACK(tbz_back, "", "tbz	%1, #0, 8b")
BRANCH_BACK(tbnz_back, "", "tbnz	%1, #0, 8b")

/* The offset of adr is in bytes, that of adrp in pages of 4 KiB. */
ADDRESS(adr_back, "adr	%0, insn_adr_back - 13", found - here + 13 + x)
ADDRESS(adr_forth, "adr	%0, insn_adr_forth + 14", found - here - 14 + x)
ADDRESS(adrp_back, "adrp	%0, insn_adrp_back - 0x3000", found - (here & ~0xfffL) + 0x3000 + x)

/* A literal before the load. Returns x if the register is EXPECTED. */
#define LITERAL_BACK(name, literal, load, expected)			\
	static noinline long run_##name(long x)				\
	{								\
		long found;						\
									\
		asm volatile("	mov	%0, #-1\n"			\
			     "	b	7f\n"				\
			     "	.align	3\n"				\
			     "8:	" literal "\n"			\
			     "7:\n"					\
			     "	.globl	insn_" #name "\n"		\
			     "insn_" #name ":\n"			\
			     "	" load "\n"				\
			     : "=&r" (found) : : "memory");		\
		return found == (expected) ? x : -1;			\
	}

LITERAL_BACK(ldr_back, ".quad	0x8123456789abcdef", "ldr	%0, 8b", -0x7edcba9876543211L)
/* A load of a w register clears the upper half. */
LITERAL_BACK(ldr_w, ".word	0xfffffff0", "ldr	%w0, 8b", 0xfffffff0L)
LITERAL_BACK(ldrsw_back, ".word	0x80000000", "ldrsw	%0, 8b", -0x80000000L)

static const struct insn edges[] = {
	{ "tbz_31", run_tbz_31 },
	{ "tbz_32", run_tbz_32 },
	{ "tbz_63", run_tbz_63 },
	{ "tbnz_31", run_tbnz_31 },
	{ "tbnz_32", run_tbnz_32 },
	{ "tbnz_63", run_tbnz_63 },
	{ "cbz_x_63", run_cbz_x_63 },
	{ "cbnz_x_63", run_cbnz_x_63 },
	{ "cbz_w", run_cbz_w },
	{ "cbnz_w", run_cbnz_w },
	{ "b_back", run_b_back },
	{ "b_cond_back", run_b_cond_back },
	{ "cbz_back", run_cbz_back },
	{ "cbnz_back", run_cbnz_back },
	{ "tbz_back", run_tbz_back },
	{ "tbnz_back", run_tbnz_back },
	{ "adr_back", run_adr_back },
	{ "adr_forth", run_adr_forth },
	{ "adrp_back", run_adrp_back },
	{ "ldr_back", run_ldr_back },
	{ "ldr_w", run_ldr_w },
	{ "ldrsw_back", run_ldrsw_back },
};

void edges_show(struct seq_file *out)
{
	show_insns(out, edges, ARRAY_SIZE(edges));
}
