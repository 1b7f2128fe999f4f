// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two processes on two CPUs write 1, 2, 3, ... to each other's eventfd in
 * turn, each only after it has read the previous number. So the events in the
 * per-CPU buffers have one true order.
 */
#define _GNU_SOURCE
#include <err.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: pingpong [--fifo|--nice|--deadline] NUMBERS\n"
	"\n"
	"Two processes, one on CPU 0 and one on CPU 1, write the numbers 1 to\n"
	"NUMBERS to each other in turn, each after it has read the previous one.\n"
	"With --fifo the one on CPU 1 is a real-time task, with --nice it is a normal\n"
	"task of higher priority. With --deadline it is a deadline task, which may run\n"
	"on every CPU.\n";

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) == -1)
		err(EXIT_FAILURE, "cannot run on CPU %d", cpu);
}

static void run_in_real_time(void)
{
	struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &param) == -1)
		err(EXIT_FAILURE, "cannot run as SCHED_FIFO");
}

/* As in linux/sched/types.h, which a libc may define, too, or lack. */
struct deadline {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

#define POLICY_DEADLINE 6

/* The kernel refuses a deadline task that may not run on every CPU. */
static void run_to_deadlines(void)
{
	const struct deadline deadline = {
		.size = sizeof(deadline), .policy = POLICY_DEADLINE,
		.runtime = 10000000, .deadline = 100000000, .period = 100000000,
	};
	cpu_set_t set;

	memset(&set, 0xff, sizeof(set));
	if (sched_setaffinity(0, sizeof(set), &set) == -1)
		err(EXIT_FAILURE, "cannot run on every CPU");
	if (syscall(SYS_sched_setattr, 0, &deadline, 0) == -1)
		err(EXIT_FAILURE, "cannot run as SCHED_DEADLINE");
}

static void send(int efd, uint64_t value)
{
	if (write(efd, &value, sizeof(value)) != sizeof(value))
		err(EXIT_FAILURE, "write");
}

static void receive(int efd, uint64_t expected)
{
	uint64_t value;

	if (read(efd, &value, sizeof(value)) != sizeof(value))
		err(EXIT_FAILURE, "read");
	if (value != expected)
		errx(EXIT_FAILURE, "read %" PRIu64 ", expected %" PRIu64,
		     value, expected);
}

static void run_before_others(void)
{
	if (setpriority(PRIO_PROCESS, 0, -10) == -1)
		err(EXIT_FAILURE, "cannot run at nice -10");
}

/* Sends every second number and receives the others. */
static void play(int to, int from, uint64_t numbers, uint64_t first)
{
	uint64_t value;

	for (value = 1; value <= numbers; value++) {
		if (value % 2 == first % 2)
			send(to, value);
		else
			receive(from, value);
	}
}

int main(int argc, char **argv)
{
	uint64_t numbers;
	int there, back;
	void (*prepare)(void) = NULL;
	int status;
	pid_t child;

	if (argc > 1 && !strcmp(argv[1], "--fifo"))
		prepare = run_in_real_time;
	else if (argc > 1 && !strcmp(argv[1], "--nice"))
		prepare = run_before_others;
	else if (argc > 1 && !strcmp(argv[1], "--deadline"))
		prepare = run_to_deadlines;
	if (prepare) {
		argv++;
		argc--;
	}
	expect_arguments(argc, argv, 1, usage);
	numbers = integer(argv[1]);

	there = eventfd(0, 0);
	back = eventfd(0, 0);
	if (there == -1 || back == -1)
		err(EXIT_FAILURE, "eventfd");

	child = fork();
	switch (child) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		run_on(1);
		if (prepare)
			prepare();
		play(back, there, numbers, 2);
		return EXIT_SUCCESS;
	}
	run_on(0);
	play(there, back, numbers, 1);
	if (waitpid(child, &status, 0) == -1)
		err(EXIT_FAILURE, "waitpid");
	if (status)
		errx(EXIT_FAILURE, "the child failed");
	printf("%" PRIu64 " numbers sent\n", numbers);
	return EXIT_SUCCESS;
}
