// SPDX-License-Identifier: GPL-2.0-only
/*
 * Polls a histogram file around events that it causes, writes to an eventfd,
 * and prints what poll(2) reports.
 */
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: polled FILE ACTIONS\n"
	"\n"
	"Opens FILE and does what each letter says: p polls it, r reads it from its\n"
	"begin to its end, w writes to an eventfd.\n";

/* Does not wait. */
static void print_poll(int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN | POLLPRI };

	if (poll(&polled, 1, 0) == -1)
		err(EXIT_FAILURE, "poll");
	printf("polled:%s%s%s%s\n", polled.revents & POLLIN ? " in" : "",
	       polled.revents & POLLPRI ? " pri" : "", polled.revents & POLLERR ? " err" : "",
	       polled.revents ? "" : " nothing");
}

static void read_all(int fd)
{
	char buffer[4096];
	ssize_t length;

	if (lseek(fd, 0, SEEK_SET) == -1)
		err(EXIT_FAILURE, "lseek");
	do {
		length = read(fd, buffer, sizeof(buffer));
		if (length == -1)
			err(EXIT_FAILURE, "read");
	} while (length);
}

int main(int argc, char **argv)
{
	uint64_t one = 1;
	const char *action;
	int fd, efd;

	expect_arguments(argc, argv, 2, usage);
	fd = open(argv[1], O_RDONLY);
	if (fd == -1)
		err(EXIT_FAILURE, "%s", argv[1]);
	efd = eventfd(0, 0);
	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	for (action = argv[2]; *action; action++) {
		if (*action == 'p')
			print_poll(fd);
		else if (*action == 'r')
			read_all(fd);
		else if (*action != 'w')
			errx(EXIT_FAILURE, "`%c` is not an action", *action);
		else if (write(efd, &one, sizeof(one)) != sizeof(one))
			err(EXIT_FAILURE, "write");
	}
	return EXIT_SUCCESS;
}
