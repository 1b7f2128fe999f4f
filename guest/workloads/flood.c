// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes large amounts of data: to its own stdout, to a file such as the console,
 * or to the agent's port, where it is garbage between frames.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: flood FILE BYTES\n"
	"\n"
	"Writes BYTES bytes to FILE, in lines of 64; endlessly if BYTES is 0. FILE may\n"
	"be `-' for stdout, or `port' for the port that process 1 has open.\n";

/* Both calls have the same numbers on every architecture. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* The port can be opened only once, so this copies the agent's descriptor. */
static int agent_port(void)
{
	char path[300], target[300];
	struct dirent *entry;
	ssize_t length;
	int pidfd, fd;
	DIR *fds;

	pidfd = syscall(SYS_pidfd_open, 1, 0);
	if (pidfd == -1)
		err(EXIT_FAILURE, "pidfd_open");
	fds = opendir("/proc/1/fd");
	if (!fds)
		err(EXIT_FAILURE, "/proc/1/fd");
	while ((entry = readdir(fds))) {
		snprintf(path, sizeof(path), "/proc/1/fd/%s", entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		if (!strstr(target, "vport"))
			continue;
		fd = syscall(SYS_pidfd_getfd, pidfd, atoi(entry->d_name), 0);
		if (fd == -1)
			err(EXIT_FAILURE, "pidfd_getfd");
		closedir(fds);
		return fd;
	}
	errx(EXIT_FAILURE, "process 1 has no port open");
}

int main(int argc, char **argv)
{
	unsigned long long bytes, left;
	char lines[4096];
	size_t want;
	ssize_t done;
	char *end;
	int fd;

	expect_arguments(argc, argv, 2, usage);
	bytes = strtoull(argv[2], &end, 10);
	if (*end || end == argv[2])
		errx(EXIT_FAILURE, "`%s' is not a number of bytes", argv[2]);
	if (!strcmp(argv[1], "-"))
		fd = STDOUT_FILENO;
	else if (!strcmp(argv[1], "port"))
		fd = agent_port();
	else
		fd = open(argv[1], O_WRONLY);
	if (fd == -1)
		err(EXIT_FAILURE, "%s", argv[1]);
	memset(lines, '#', sizeof(lines));
	for (want = 63; want < sizeof(lines); want += 64)
		lines[want] = '\n';
	for (left = bytes; !bytes || left; left -= bytes ? done : 0) {
		want = sizeof(lines);
		if (bytes && left < want)
			want = left;
		done = write(fd, lines, want);
		/* The agent's port does not block: retry while it is full. */
		if (done < 0 && !strcmp(argv[1], "port"))
			done = 0;
		else if (done < 0)
			err(EXIT_FAILURE, "%s", argv[1]);
	}
	return EXIT_SUCCESS;
}
