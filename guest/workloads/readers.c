// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that are all in read(2) on one eventfd at the same time. Nothing is
 * written to it before all of them sleep there, so that there are as many calls
 * in flight as threads.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "state.h"

#define THREADS_MAX 64

static const char usage[] =
	"Usage: readers THREADS\n"
	"\n"
	"THREADS threads (at most 64) read from one eventfd, which is written to\n"
	"once all of them sleep in read(2).\n";

static int efd;

struct reader {
	pthread_t thread;
	/* Its thread ID, set when only read(2) is left to sleep in. */
	atomic_int tid;
};

static void *read_once(void *argument)
{
	struct reader *reader = argument;
	uint64_t value;

	atomic_store(&reader->tid, gettid());
	if (read(efd, &value, sizeof(value)) != sizeof(value))
		err(EXIT_FAILURE, "read");
	return NULL;
}

int main(int argc, char **argv)
{
	static struct reader readers[THREADS_MAX];
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t one = 1;
	long threads;
	char *end;
	long i;

	expect_arguments(argc, argv, 1, usage);
	threads = strtol(argv[1], &end, 0);
	if (end == argv[1] || *end || threads < 1 || threads > THREADS_MAX)
		errx(EXIT_FAILURE, "`%s` is not a number from 1 to %d", argv[1],
		     THREADS_MAX);

	/* A semaphore: each read takes one. */
	efd = eventfd(0, EFD_SEMAPHORE);
	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	for (i = 0; i < threads; i++) {
		errno = pthread_create(&readers[i].thread, NULL, read_once,
				       &readers[i]);
		if (errno)
			err(EXIT_FAILURE, "pthread_create");
	}
	for (i = 0; i < threads; i++) {
		while (!atomic_load(&readers[i].tid) ||
		       state_of(readers[i].tid) != 'S')
			nanosleep(&pause, NULL);
	}
	printf("%ld readers sleep\n", threads);
	for (i = 0; i < threads; i++) {
		if (write(efd, &one, sizeof(one)) != sizeof(one))
			err(EXIT_FAILURE, "write");
	}
	for (i = 0; i < threads; i++)
		pthread_join(readers[i].thread, NULL);
	return EXIT_SUCCESS;
}
