// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads one byte of one file on each of several filesystems, and nothing else,
 * so that a trace of its reads is a list of them.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: filesystems\n"
	"\n"
	"Reads one byte with read(2) from a file of devtmpfs, tmpfs, proc, pipefs and\n"
	"sockfs, in this order.\n";

static int opened(const char *path)
{
	int fd = open(path, O_RDONLY);

	if (fd == -1)
		err(EXIT_FAILURE, "%s", path);
	return fd;
}

/* Returns an anonymous file with one byte. */
static int in_memory(void)
{
	int fd = memfd_create("filesystems", 0);

	if (fd == -1)
		err(EXIT_FAILURE, "memfd_create");
	if (pwrite(fd, "x", 1, 0) != 1)
		err(EXIT_FAILURE, "tmpfs");
	return fd;
}

/* Writes one byte to one end of a pair, and returns the other. */
static int readable(const int ends[2], int failed, const char *what)
{
	if (failed)
		err(EXIT_FAILURE, "%s", what);
	if (write(ends[1], "x", 1) != 1)
		err(EXIT_FAILURE, "%s", what);
	return ends[0];
}

int main(int argc, char **argv)
{
	int fds[5], ends[2], failed;
	size_t i;
	char byte;

	expect_arguments(argc, argv, 0, usage);
	fds[0] = opened("/dev/zero");
	fds[1] = in_memory();
	fds[2] = opened("/proc/version");
	failed = pipe(ends);
	fds[3] = readable(ends, failed, "pipe");
	failed = socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	fds[4] = readable(ends, failed, "socketpair");
	for (i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (read(fds[i], &byte, 1) != 1)
			err(EXIT_FAILURE, "read of file %zu", i + 1);
	}
	return EXIT_SUCCESS;
}
