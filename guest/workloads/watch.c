// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watches bytes with a hardware watchpoint, writes to each of sixteen, and
 * prints which writes it saw.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: watch OFFSET LENGTH\n"
	"\n"
	"Watches LENGTH of 16 bytes from OFFSET on, writes to each of the 16, and\n"
	"prints those whose write was seen, or why they cannot be watched.\n";

static volatile unsigned char bytes[16] __attribute__((aligned(16)));

static uint64_t seen(int watchpoint)
{
	uint64_t count;

	if (read(watchpoint, &count, sizeof(count)) != sizeof(count))
		err(EXIT_FAILURE, "read");
	return count;
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_W,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	uint64_t before;
	size_t i;
	int watchpoint;

	expect_arguments(argc, argv, 2, usage);
	attr.bp_addr = (uintptr_t)bytes + integer(argv[1]);
	attr.bp_len = integer(argv[2]);
	watchpoint = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (watchpoint == -1) {
		printf("not watched: %s\n", strerror(errno));
		return EXIT_SUCCESS;
	}
	printf("watched");
	for (i = 0; i < sizeof(bytes); i++) {
		before = seen(watchpoint);
		bytes[i] = 1;
		if (seen(watchpoint) != before)
			printf(" %zu", i);
	}
	printf("\n");
	return EXIT_SUCCESS;
}
