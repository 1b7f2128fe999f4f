// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function that calls itself, and sees where the outermost call returns to:
 * its caller, or what a kretprobe has put in its place.
 */
#include <linux/compiler.h>
#include <linux/seq_file.h>

#include "statickeys.h"

/* Calls in one another. */
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
	/* The compiler must not make a loop of it. */
	barrier();
	return depth + below;
}

void calls_show(struct seq_file *out)
{
	long sum = recursed(DEPTH);

	seq_printf(out, "sum %ld\nreturns to %ps\n", sum, returns_to);
}
