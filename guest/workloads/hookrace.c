// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers a hook and unregisters it, over and over, while every CPU calls the
 * hooked functions. Nothing is timed: each round waits until every CPU has
 * called each function while it is hooked, and again afterwards.
 *
 * Unregistering waits for an RCU tasks grace period, a quarter of a second,
 * however many functions are hooked. So the hook is on several at once.
 *
 * An emulator may keep running code that it translated before a function was
 * patched: with several threads QEMU 7.2 does so in about one round of 200,
 * until the function is patched again; with one thread this was not seen. A
 * round whose hook was not called proves nothing about late calls, so it does
 * not count, and is reported.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arguments.h"

#define CPUS_MAX 64
#define DIRECTORY "/sys/kernel/debug/ftracehook/"

static const char usage[] =
	"Usage: hookrace ROUNDS\n"
	"\n"
	"Registers a hook of the module ftracehook on eight functions and unregisters\n"
	"it, ROUNDS times, while each CPU calls them by writing to an eventfd and\n"
	"reading from it. Rounds in which not every call is hooked do not count; more\n"
	"than one in ten of them is an error.\n";

/* Functions that a write and a read of an eventfd call at least once. */
#define FUNCTIONS 8
#define HOOKED \
	"__arm64_sys_write,ksys_write,vfs_write,eventfd_write," \
	"ksys_read,vfs_read,eventfd_read,rw_verify_area"

/* The number of writes on each CPU. */
static _Atomic uint64_t *writes;
static long cpus;

static void command(const char *text)
{
	int fd = open(DIRECTORY "control", O_WRONLY);

	if (fd == -1 || write(fd, text, strlen(text)) == -1)
		err(EXIT_FAILURE, DIRECTORY "control: `%s`", text);
	close(fd);
}

/* Returns the number of hits of the only hook. */
static uint64_t hits(void)
{
	FILE *file = fopen(DIRECTORY "hits", "r");
	uint64_t hits;

	if (!file || fscanf(file, "race %" SCNu64, &hits) != 1)
		err(EXIT_FAILURE, DIRECTORY "hits");
	fclose(file);
	return hits;
}

/*
 * Writes between two pauses. Without pauses the tasks never sleep voluntarily,
 * which unregistering waits for. A write and a read with hooks that linger for
 * 3 ms take a fiftieth of a second.
 */
#define BURST 4
#define PAUSE_US 1000

static void write_on(int cpu)
{
	const uint64_t one = 1;
	cpu_set_t set;
	uint64_t value;
	int efd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Uses only CPU time that no other task needs. */
	setpriority(PRIO_PROCESS, 0, 19);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	efd = eventfd(0, EFD_NONBLOCK);
	if (efd == -1 || sched_setaffinity(0, sizeof(set), &set))
		err(EXIT_FAILURE, "CPU %d", cpu);
	for (;;) {
		if (write(efd, &one, sizeof(one)) != sizeof(one) ||
		    read(efd, &value, sizeof(value)) != sizeof(value))
			err(EXIT_FAILURE, "eventfd");
		if (atomic_fetch_add(&writes[cpu], 1) % BURST == 0)
			usleep(PAUSE_US);
	}
}

/* Waits until each CPU has made a whole write from beginning to end. */
static void wait_for_all(void)
{
	uint64_t before[CPUS_MAX];
	long cpu;

	for (cpu = 0; cpu < cpus; cpu++)
		before[cpu] = atomic_load(&writes[cpu]);
	for (cpu = 0; cpu < cpus; cpu++) {
		while (atomic_load(&writes[cpu]) < before[cpu] + 2)
			sched_yield();
	}
}

int main(int argc, char **argv)
{
	unsigned long rounds, round, unseen = 0;
	uint64_t before;
	bool seen;
	long cpu;

	expect_arguments(argc, argv, 1, usage);
	rounds = integer(argv[1]);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > CPUS_MAX)
		errx(EXIT_FAILURE, "%ld CPUs, at most %d", cpus, CPUS_MAX);
	writes = mmap(NULL, CPUS_MAX * sizeof(*writes), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (writes == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	for (cpu = 0; cpu < cpus; cpu++) {
		switch (fork()) {
		case -1:
			err(EXIT_FAILURE, "fork");
		case 0:
			write_on(cpu);
		}
	}
	command("+race symbol=" HOOKED);
	for (round = 0; round < rounds; round += seen) {
		before = hits();
		wait_for_all();
		seen = hits() >= before + cpus * FUNCTIONS;
		/* Unregisters it; afterwards nothing may call it. */
		command("race disable");
		wait_for_all();
		command("race enable");
		unseen += !seen;
		if (unseen > rounds / 10 + 1)
			errx(EXIT_FAILURE, "not called in %lu rounds of %lu",
			     unseen, round + unseen);
	}
	command("-race");
	if (unseen)
		warnx("%lu more rounds, in which the hook was not called",
		      unseen);
	printf("%lu rounds on %ld CPUs\n", rounds, cpus);
	/* The writers are killed when their parent exits. */
	return EXIT_SUCCESS;
}
