// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes the kernel read a semaphore eventfd, like a client that leaves the wait
 * queue, and prints the result and the remaining count.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: semaphore COUNT READS\n"
	"\n"
	"Creates an eventfd with EFD_SEMAPHORE and COUNT, and writes its descriptor\n"
	"READS times to /sys/kernel/debug/efdleave, the file of the module efdleave.\n";

static uint64_t left(int efd)
{
	static const char key[] = "eventfd-count:";
	char path[64], line[128];
	uint64_t count;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", efd);
	info = fopen(path, "r");
	if (!info)
		err(EXIT_FAILURE, "%s", path);
	while (fgets(line, sizeof(line), info)) {
		if (strncmp(line, key, sizeof(key) - 1))
			continue;
		count = strtoull(line + sizeof(key) - 1, NULL, 16);
		fclose(info);
		return count;
	}
	errx(EXIT_FAILURE, "no `%s` in %s", key, path);
}

int main(int argc, char **argv)
{
	unsigned long long reads;
	int efd, file;

	expect_arguments(argc, argv, 2, usage);
	efd = eventfd(integer(argv[1]), EFD_SEMAPHORE | EFD_NONBLOCK);
	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	file = open("/sys/kernel/debug/efdleave", O_WRONLY);
	if (file == -1)
		err(EXIT_FAILURE, "efdleave");
	for (reads = integer(argv[2]); reads; reads--) {
		if (dprintf(file, "%d", efd) > 0)
			printf("read");
		else
			printf("%s", strerror(errno));
		printf(", %" PRIu64 " left\n", left(efd));
	}
	return EXIT_SUCCESS;
}
