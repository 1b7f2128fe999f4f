/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PIN_H
#define PIN_H

#include <err.h>
#include <sched.h>
#include <stdlib.h>

/* Keeps this process, and the children that it starts, on one CPU. Needs _GNU_SOURCE. */
static inline void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(EXIT_FAILURE, "CPU %d", cpu);
}

#endif
