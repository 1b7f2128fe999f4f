// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes to an eventfd by write(2) and writev(2), which call the same function of
 * the kernel from two places. Runs on CPU 0, since tracing distinguishes CPUs.
 */
#define _GNU_SOURCE
#include <err.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: writev CALLS\n"
	"\n"
	"Writes 1 to an eventfd once for each letter of CALLS, w for write(2) and v\n"
	"for writev(2), and prints the sum.\n";

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(EXIT_FAILURE, "cannot run on CPU %d", cpu);
}

static void write_one(int efd, char call)
{
	uint64_t one = 1;
	const struct iovec iov = { .iov_base = &one, .iov_len = sizeof(one) };
	ssize_t length;

	switch (call) {
	case 'w':
		length = write(efd, &one, sizeof(one));
		break;
	case 'v':
		length = writev(efd, &iov, 1);
		break;
	default:
		errx(EXIT_FAILURE, "no call `%c'", call);
	}
	if (length != sizeof(one))
		err(EXIT_FAILURE, "%c", call);
}

int main(int argc, char **argv)
{
	const char *call;
	uint64_t sum;
	int efd;

	expect_arguments(argc, argv, 1, usage);
	run_on(0);
	efd = eventfd(0, 0);
	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	for (call = argv[1]; *call; call++)
		write_one(efd, *call);
	if (read(efd, &sum, sizeof(sum)) != sizeof(sum))
		err(EXIT_FAILURE, "read");
	printf("read %" PRIu64 "\n", sum);
	return EXIT_SUCCESS;
}
