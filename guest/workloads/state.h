/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef STATE_H
#define STATE_H

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

/*
 * The state of a thread, as in ps: `S` sleeps, `T` is stopped, `t` is stopped by
 * a tracer, `Z` is dead.
 */
static inline char state_of(pid_t tid)
{
	char path[64], state;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	stat = fopen(path, "r");
	if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
		err(EXIT_FAILURE, "%s", path);
	fclose(stat);
	return state;
}

#endif
