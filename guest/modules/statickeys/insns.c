// SPDX-License-Identifier: GPL-2.0-only
/*
 * One function per kind of instruction that a kprobe cannot execute out of line,
 * and one per kind of place that cannot be probed. The label insn_NAME marks the
 * instruction.
 */
#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/stringify.h>

#include <asm/asm-bug.h>

#include "compat.h"
#include "insns.h"
#include "statickeys.h"

#define LABEL_MAX 64

BRANCH(b, "", "b	9f")
BRANCH(b_cond, "	cmp	%1, #0", "b.eq	9f")
BRANCH(cbz, "", "cbz	%1, 9f")
BRANCH(cbnz, "", "cbnz	%1, 9f")
BRANCH(tbz, "", "tbz	%1, #0, 9f")
BRANCH(tbnz, "", "tbnz	%1, #0, 9f")
BRANCH(br, "	adr	x9, 9f", "br	x9")
BRANCH(nop, "", "nop")

ADDRESS(adr, "adr	%0, insn_adr", found - here + x)
ADDRESS(adrp, "adrp	%0, insn_adrp", found - (here & ~0xfffL) + x)

static noinline long run_ldr(long x)
{
	long found;

	asm volatile("	.globl	insn_ldr\n"
		     "insn_ldr:\n"
		     "	ldr	%0, 8f\n"
		     "	b	9f\n"
		     "	.align	3\n"
		     "8:	.quad	0x123456789abcdef0\n"
		     "9:\n"
		     : "=r" (found) : : "memory");
	return found == 0x123456789abcdef0L ? x : -1;
}

static noinline long run_ldrsw(long x)
{
	long found;

	asm volatile("	.globl	insn_ldrsw\n"
		     "insn_ldrsw:\n"
		     "	ldrsw	%0, 8f\n"
		     "	b	9f\n"
		     "8:	.word	0xfffffff0\n"
		     "9:\n"
		     : "=r" (found) : : "memory");
	return found == -16 ? x : -1;
}

/* Calls, by bl and by blr, code that returns 3 and 4. */
static noinline long run_bl(long x)
{
	long result;

	asm volatile("	mov	x10, x30\n"
		     "	.globl	insn_bl\n"
		     "insn_bl:\n"
		     "	bl	8f\n"
		     "	b	9f\n"
		     "8:	mov	%0, #3\n"
		     "	.globl	insn_ret\n"
		     "insn_ret:\n"
		     "	ret\n"
		     "9:	mov	x30, x10\n"
		     : "=&r" (result) : : "x10", "x30", "memory");
	return result + x;
}

static noinline long run_blr(long x)
{
	long result;

	asm volatile("	mov	x10, x30\n"
		     "	adr	x9, 8f\n"
		     "	.globl	insn_blr\n"
		     "insn_blr:\n"
		     "	blr	x9\n"
		     "	b	9f\n"
		     "8:	bti	c\n"
		     "	mov	%0, #4\n"
		     "	ret\n"
		     "9:	mov	x30, x10\n"
		     : "=&r" (result) : : "x9", "x10", "x30", "memory");
	return result + x;
}

/* Executed out of line. */
static noinline long run_add(long x)
{
	asm volatile("	.globl	insn_add\n"
		     "insn_add:\n"
		     "	add	%0, %0, #40\n"
		     : "+r" (x) : : "memory");
	return x;
}

/* From here on: places that cannot be probed. */
static noinline long run_window(long x)
{
	unsigned long cell = x;
	unsigned long old, failed;

	/*
	 * To find the load, the kernel looks back from a probed add no further
	 * than to the nearest symbol, so there must be no label between them.
	 */
	asm volatile("	.globl	insn_ldxr\n"
		     "insn_ldxr:\n"
		     "	ldxr	%0, %2\n"
		     "	add	%0, %0, #1\n"
		     "	.globl	insn_stxr\n"
		     "insn_stxr:\n"
		     "	stxr	%w1, %0, %2\n"
		     "	cbnz	%w1, insn_ldxr\n"
		     : "=&r" (old), "=&r" (failed), "+Q" (cell)
		     : : "memory");
	return cell;
}

static noinline long run_mrs(long x)
{
	unsigned long value;

	asm volatile("	.globl	insn_mrs\n"
		     "insn_mrs:\n"
		     "	mrs	%0, daif\n"
		     : "=r" (value) : : "memory");
	/* DAIF has no bits other than these four. */
	return value & ~0x3c0UL ? -1 : x;
}

static noinline long run_extable(long x)
{
	long value;

	asm volatile("	.globl	insn_extable\n"
		     "insn_extable:\n"
		     "	ldr	%0, %1\n"
		     "9:\n"
		     EXTABLE(insn_extable, 9b)
		     : "=r" (value) : "Q" (x) : "memory");
	return value;
}

static noinline long run_hint(long x)
{
	asm volatile("	.globl	insn_hint\n"
		     "insn_hint:\n"
		     "	yield\n"
		     : : : "memory");
	return x;
}

/* Never called with 2, so that the BRK is not executed. */
static noinline long run_brk(long x)
{
	asm volatile("	cmp	%0, #2\n"
		     "	b.ne	9f\n"
		     "	.globl	insn_brk\n"
		     "insn_brk:\n"
		     "	brk	#0x800\n"
		     "9:\n"
		     : : "r" (x) : "cc", "memory");
	return x;
}

/* The same for the instruction of BUG(), with its entry in the bug table. */
static noinline long run_bug(long x)
{
	asm volatile("	cmp	%0, #2\n"
		     "	b.ne	9f\n"
		     "	.globl	insn_bug\n"
		     "insn_bug:\n"
		     __stringify(ASM_BUG()) "\n"
		     "9:\n"
		     : : "r" (x) : "cc", "memory");
	return x;
}

/* A part of a function that must not be probed, named as a compiler would name it. */
static noinline long run_whole(long x)
{
	asm volatile("	.globl	insn_whole.part.0\n"
		     "insn_whole.part.0:\n"
		     "	add	%0, %0, #0\n"
		     : "+r" (x));
	return x;
}

static noinline long insn_whole(long x)
{
	return run_whole(x);
}
NOKPROBE_SYMBOL(insn_whole);

static const struct insn insns[] = {
	{ "b", run_b },
	{ "b_cond", run_b_cond },
	{ "cbz", run_cbz },
	{ "cbnz", run_cbnz },
	{ "tbz", run_tbz },
	{ "tbnz", run_tbnz },
	{ "br", run_br },
	{ "nop", run_nop },
	{ "adr", run_adr },
	{ "adrp", run_adrp },
	{ "ldr", run_ldr },
	{ "ldrsw", run_ldrsw },
	{ "bl", run_bl },
	{ "blr", run_blr },
	{ "add", run_add },
	{ "window", run_window },
	{ "mrs", run_mrs },
	{ "extable", run_extable },
	{ "hint", run_hint },
	{ "brk", run_brk },
	{ "bug", run_bug },
	{ "whole", insn_whole },
};

/* One probe at a time; the caller holds the lock. */
static char symbol[LABEL_MAX];
static struct kprobe probe;
static bool probed;
static atomic_t hits = ATOMIC_INIT(0);

static int probe_hit(struct kprobe *unused, struct pt_regs *regs)
{
	atomic_inc(&hits);
	return 0;
}

static int unprobe(void)
{
	if (!probed)
		return -ENOENT;
	unregister_kprobe(&probe);
	probed = false;
	return 0;
}

int insns_probe(const char *place, bool on)
{
	unsigned int offset = 0;
	char *plus;
	int error;

	if (!on)
		return unprobe();
	if (probed)
		return -EBUSY;
	if (strscpy(symbol, place, sizeof(symbol)) < 0)
		return -E2BIG;
	plus = strchr(symbol, '+');
	if (plus) {
		*plus++ = '\0';
		if (kstrtouint(plus, 0, &offset))
			return -EINVAL;
	}
	memset(&probe, 0, sizeof(probe));
	probe.symbol_name = symbol;
	probe.offset = offset;
	probe.pre_handler = probe_hit;
	atomic_set(&hits, 0);
	error = register_kprobe(&probe);
	probed = !error;
	return error;
}

/* Prints each function's results for 0 and 1, and finally the probe's hits. */
void insns_show(struct seq_file *out)
{
	show_insns(out, insns, ARRAY_SIZE(insns));
	edges_show(out);
	seq_printf(out, "hits %d\n", atomic_read(&hits));
}

void insns_exit(void)
{
	unprobe();
}
