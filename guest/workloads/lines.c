// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the lines of a file that are not comments, without storing them: the
 * minimum cost of reading a file as text.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: lines FILE\n"
	"\n"
	"Prints the number of lines of FILE that do not begin with `#`.\n";

static unsigned long count(int fd)
{
	static char buffer[65536];
	unsigned long lines = 0;
	int at_start = 1;
	int comment = 0;
	ssize_t length;
	ssize_t i;

	while ((length = read(fd, buffer, sizeof(buffer))) > 0) {
		for (i = 0; i < length; i++) {
			if (at_start)
				comment = buffer[i] == '#';
			at_start = buffer[i] == '\n';
			lines += at_start && !comment;
		}
	}
	if (length < 0)
		err(EXIT_FAILURE, "read");
	return lines;
}

int main(int argc, char **argv)
{
	int fd;

	expect_arguments(argc, argv, 1, usage);
	fd = open(argv[1], O_RDONLY);
	if (fd == -1)
		err(EXIT_FAILURE, "%s", argv[1]);
	printf("%lu\n", count(fd));
	return EXIT_SUCCESS;
}
