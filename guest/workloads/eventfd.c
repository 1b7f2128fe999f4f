// SPDX-License-Identifier: GPL-2.0-only
/*
 * The example program of the eventfd(2) manual page: a child writes each of
 * its arguments to an eventfd, the parent sleeps, then reads the sum.
 *
 * With --sleep 0 the parent waits for the child to exit instead, which is
 * deterministic.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
	"Usage: eventfd [--sleep SECONDS] NUMBER...\n"
	"\n"
	"A child writes each NUMBER to an eventfd; its parent sleeps SECONDS (2)\n"
	"and reads their sum. With --sleep 0 it waits for the child to exit.\n";

static unsigned long long number(const char *text)
{
	unsigned long long value;
	char *end;

	value = strtoull(text, &end, 0);
	if (end == text || *end)
		errx(EXIT_FAILURE, "`%s` is not an integer", text);
	return value;
}

static void write_each(int efd, char **numbers)
{
	uint64_t value;

	for (; *numbers; numbers++) {
		printf("Child writing %s to efd\n", *numbers);
		/* strtoull() allows various bases, as in the manual. */
		value = number(*numbers);
		if (write(efd, &value, sizeof(value)) != sizeof(value))
			err(EXIT_FAILURE, "write");
	}
	printf("Child completed write loop\n");
}

static void read_sum(int efd)
{
	uint64_t sum;

	printf("Parent about to read\n");
	if (read(efd, &sum, sizeof(sum)) != sizeof(sum))
		err(EXIT_FAILURE, "read");
	printf("Parent read %" PRIu64 " (%#" PRIx64 ") from efd\n", sum, sum);
}

int main(int argc, char **argv)
{
	unsigned int seconds = 2;
	int first = 1;
	int status;
	int efd;
	pid_t child;

	if (argc > 1 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	if (argc > 2 && !strcmp(argv[1], "--sleep")) {
		seconds = number(argv[2]);
		first = 3;
	}
	if (first >= argc || argv[first][0] == '-') {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}

	/* Line-buffered, so that lines of parent and child are in order of time. */
	setvbuf(stdout, NULL, _IOLBF, 0);

	efd = eventfd(0, 0);
	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");

	child = fork();
	switch (child) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		write_each(efd, argv + first);
		return EXIT_SUCCESS;
	default:
		if (seconds)
			sleep(seconds);
		else if (waitpid(child, &status, 0) == -1)
			err(EXIT_FAILURE, "waitpid");
		else if (status)
			errx(EXIT_FAILURE, "the child failed");
		read_sum(efd);
		return EXIT_SUCCESS;
	}
}
