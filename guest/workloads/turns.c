// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes very many system calls and task switches, the same number every time.
 *
 * On each CPU, two processes take turns over two eventfds. Both are pinned to
 * the CPU, so each turn is a write, a read that sleeps, a wakeup and a switch.
 */
#define _GNU_SOURCE
#include <err.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: turns ROUNDS\n"
	"\n"
	"On each CPU two processes pass a turn to each other and back, ROUNDS times.\n";

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(EXIT_FAILURE, "sched_setaffinity");
}

static void give(int efd)
{
	const uint64_t one = 1;

	if (write(efd, &one, sizeof(one)) != sizeof(one))
		err(EXIT_FAILURE, "write");
}

static void take(int efd)
{
	uint64_t value;

	if (read(efd, &value, sizeof(value)) != sizeof(value))
		err(EXIT_FAILURE, "read");
}

static void play(unsigned long rounds, int there, int back, int serves)
{
	for (; rounds; rounds--) {
		if (serves)
			give(there);
		take(back);
		if (!serves)
			give(there);
	}
}

static void start_pair(int cpu, unsigned long rounds)
{
	int ping = eventfd(0, 0);
	int pong = eventfd(0, 0);
	int serves;

	if (ping == -1 || pong == -1)
		err(EXIT_FAILURE, "eventfd");
	for (serves = 0; serves < 2; serves++) {
		switch (fork()) {
		case -1:
			err(EXIT_FAILURE, "fork");
		case 0:
			pin(cpu);
			play(rounds, serves ? ping : pong, serves ? pong : ping, serves);
			_exit(EXIT_SUCCESS);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned long rounds;
	long cpus, cpu;
	int status;

	expect_arguments(argc, argv, 1, usage);
	rounds = integer(argv[1]);

	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	for (cpu = 0; cpu < cpus; cpu++)
		start_pair(cpu, rounds);
	while (wait(&status) > 0) {
		if (status)
			errx(EXIT_FAILURE, "a player failed");
	}
	printf("%ld pairs played %lu rounds\n", cpus, rounds);
	return EXIT_SUCCESS;
}
