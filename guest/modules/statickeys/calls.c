// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function that calls itself, and records the return address of the outermost
 * call: its caller, or the trampoline of a kretprobe.
 */
#include <linux/compiler.h>
#include <linux/seq_file.h>

#include "statickeys.h"

/* The depth of the recursion. */
#define DEPTH 5

static void *returns_to;

static noinline long recursed(long depth)
{
	long below;

	if (depth == DEPTH)
		returns_to = __builtin_return_address(0);
	if (!depth)
		return 0;
	below = recursed(depth - 1);
	/* Keeps the compiler from turning the recursion into a loop. */
	barrier();
	return depth + below;
}

void calls_show(struct seq_file *out)
{
	long sum = recursed(DEPTH);

	seq_printf(out, "sum %ld\nreturns to %ps\n", sum, returns_to);
}
