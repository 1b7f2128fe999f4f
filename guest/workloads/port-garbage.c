// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes garbage to the port over which PID 1 talks to the host, like a driver
 * or a program with a wild pointer.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char usage[] =
	"Usage: port-garbage\n"
	"\n"
	"Copies PID 1's descriptor of a virtio port, and writes garbage to it.\n";

/* Returns the number of PID 1's descriptor of /dev/vport*, or -1. */
static int find_port(void)
{
	char path[64], target[64];
	struct dirent *entry;
	ssize_t length;
	int port = -1;
	DIR *fds;

	fds = opendir("/proc/1/fd");
	if (!fds)
		err(EXIT_FAILURE, "/proc/1/fd");
	while (port == -1 && (entry = readdir(fds))) {
		snprintf(path, sizeof(path), "/proc/1/fd/%.20s", entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		if (length <= 0)
			continue;
		target[length] = '\0';
		if (!strncmp(target, "/dev/vport", strlen("/dev/vport")))
			port = atoi(entry->d_name);
	}
	closedir(fds);
	return port;
}

int main(int argc, char **argv)
{
	char garbage[4096];
	int init, port;

	if (argc > 1) {
		int help = !strcmp(argv[1], "--help");

		fputs(usage, help ? stdout : stderr);
		return help ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	port = find_port();
	if (port == -1)
		errx(EXIT_FAILURE, "PID 1 has no virtio port open");
	init = syscall(SYS_pidfd_open, 1, 0);
	if (init == -1)
		err(EXIT_FAILURE, "pidfd_open");
	port = syscall(SYS_pidfd_getfd, init, port, 0);
	if (port == -1)
		err(EXIT_FAILURE, "pidfd_getfd");
	memset(garbage, 0xff, sizeof(garbage));
	if (write(port, garbage, sizeof(garbage)) == -1)
		err(EXIT_FAILURE, "write to the port");
	return EXIT_SUCCESS;
}
