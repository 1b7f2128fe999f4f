// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies files to stdout. Each is opened once, read-only, by a plain openat(),
 * so that a trace of its opens is exactly the list of its arguments.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"Usage: cat FILE...\n"
	"\n"
	"Opens each FILE with openat(), read-only, and copies it to stdout. A FILE\n"
	"that cannot be opened or read is reported on stderr, and makes the exit\n"
	"status 1; the others are still copied.\n";

static int copy(const char *path)
{
	char buffer[4096];
	ssize_t length;
	int ret = 0;
	int fd;

	fd = openat(AT_FDCWD, path, O_RDONLY);
	if (fd == -1) {
		warn("%s", path);
		return -1;
	}
	while ((length = read(fd, buffer, sizeof(buffer))) > 0) {
		if (write(STDOUT_FILENO, buffer, length) != length)
			err(EXIT_FAILURE, "stdout");
	}
	if (length < 0) {
		warn("%s", path);
		ret = -1;
	}
	close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	int status = EXIT_SUCCESS;
	int i;

	if (argc < 2) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	if (!strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	for (i = 1; i < argc; i++) {
		if (copy(argv[i]))
			status = EXIT_FAILURE;
	}
	return status;
}
