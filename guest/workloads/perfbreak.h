/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Common code of the workloads that set hardware breakpoints through
 * perf_event_open(2).
 */
#ifndef PERFBREAK_H
#define PERFBREAK_H

#include <err.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* The attributes of a breakpoint that counts in user mode. */
static inline struct perf_event_attr breakpoint_attr(uint32_t type, const volatile void *address,
						     uint64_t length)
{
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = type,
		.bp_addr = (uintptr_t)address,
		.bp_len = length,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return attr;
}

/* Returns a descriptor, or -1 with errno. */
static inline int try_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return syscall(SYS_perf_event_open, attr, pid, cpu, -1, 0);
}

static inline int open_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = try_open(attr, pid, cpu);

	if (fd == -1)
		err(EXIT_FAILURE, "perf_event_open");
	return fd;
}

static inline uint64_t count_of(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		err(EXIT_FAILURE, "read");
	return count;
}

#endif
