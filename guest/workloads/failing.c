// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes to a file again and again; in the first attempt the first allocation of the
 * kernel fails, in the next one the second, and so on, until a write succeeds or no
 * allocation is left. Needs FAILSLAB and FAIL_PAGE_ALLOC.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "echo.h"

#define TRACING "/sys/kernel/tracing/"
#define FAILSLAB "/sys/kernel/debug/failslab/"
#define FAIL_PAGE_ALLOC "/sys/kernel/debug/fail_page_alloc/"

/* After that many failures, the last attempt is made without any. */
#define ATTEMPTS_MAX 500

static const char usage[] =
	"Usage: failing [--append] FILE TEXT\n"
	"\n"
	"Writes TEXT and a newline to FILE, absolute or below tracefs, like `echo`, with one\n"
	"allocation of the kernel failing in each attempt. Prints how many attempts failed,\n"
	"and how the last one ended, in which no allocation failed or it was put up with.\n";

static void set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd == -1 || write(fd, text, strlen(text)) == -1)
		err(EXIT_FAILURE, "%s", path);
	close(fd);
}

int main(int argc, char **argv)
{
	int how = O_TRUNC;
	char path[4096], text[4096], left[16];
	const char *file;
	int failures = 0;
	int error, nth, n;
	ssize_t size;

	if (argc > 1 && !strcmp(argv[1], "--append")) {
		how = O_APPEND;
		argv++;
		argc--;
	}
	if (argc != 3) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	file = argv[1];
	snprintf(path, sizeof(path), "%s%s", *file == '/' ? "" : TRACING, file);
	snprintf(text, sizeof(text), "%s\n", argv[2]);

	/* Those that may wait, too, and without a stack in the kernel log. */
	set(FAILSLAB "ignore-gfp-wait", "N");
	set(FAILSLAB "verbose", "0");
	set(FAIL_PAGE_ALLOC "ignore-gfp-wait", "N");
	set(FAIL_PAGE_ALLOC "min-order", "0");
	set(FAIL_PAGE_ALLOC "verbose", "0");
	nth = open("/proc/thread-self/fail-nth", O_RDWR);
	if (nth == -1)
		err(EXIT_FAILURE, "/proc/thread-self/fail-nth");

	for (n = 1; n <= ATTEMPTS_MAX; n++) {
		snprintf(left, sizeof(left), "%d", n);
		if (pwrite(nth, left, strlen(left), 0) == -1)
			err(EXIT_FAILURE, "arming the failure of an allocation");
		error = echo(path, how, text, strlen(text));
		size = pread(nth, left, sizeof(left) - 1, 0);
		if (size == -1)
			err(EXIT_FAILURE, "/proc/thread-self/fail-nth");
		left[size] = '\0';
		if (pwrite(nth, "0", 1, 0) == -1)
			err(EXIT_FAILURE, "disarming");
		/* Zero: the allocation did fail. */
		if (!error || atoi(left))
			break;
		failures++;
	}
	if (n > ATTEMPTS_MAX)
		error = echo(path, how, text, strlen(text));
	printf("%d attempts failed\n", failures);
	if (error)
		printf("fails with %s\n", strerrorname_np(error));
	else
		printf("succeeds\n");
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
