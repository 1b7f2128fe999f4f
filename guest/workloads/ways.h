/* SPDX-License-Identifier: GPL-2.0-only */
/* For workloads that can run in several ways, of which an argument names one. */
#ifndef WAYS_H
#define WAYS_H

#include <err.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct way {
	const char *name;
	int (*run)(void);
};

/* Runs the way that the program's argument names. */
static inline int go(const struct way *ways, size_t count, const char *name)
{
	size_t i;

	/* Line-buffered, so that a child does not repeat its parent's output. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < count; i++) {
		if (!strcmp(ways[i].name, name))
			return ways[i].run();
	}
	errx(EXIT_FAILURE, "no way called `%s`", name);
}

#endif
