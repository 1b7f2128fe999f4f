// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits for the contents of a file to match, for events without a fixed time.
 */
#include <err.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: await FILE EXPRESSION\n"
	"\n"
	"Reads the first page of FILE again and again, until it matches the extended\n"
	"regular EXPRESSION, and prints it.\n";

/* Microseconds between two reads. */
#define PAUSE 5000

static void look(const char *path, char *text, size_t size)
{
	ssize_t length;
	int fd;

	fd = open(path, O_RDONLY);
	if (fd == -1)
		err(EXIT_FAILURE, "%s", path);
	length = read(fd, text, size - 1);
	if (length == -1)
		err(EXIT_FAILURE, "%s", path);
	text[length] = '\0';
	close(fd);
}

/* There is no time limit here; the caller has one. */
int main(int argc, char **argv)
{
	static char text[4096];
	regex_t expression;

	expect_arguments(argc, argv, 2, usage);
	if (regcomp(&expression, argv[2], REG_EXTENDED | REG_NOSUB | REG_NEWLINE))
		errx(EXIT_FAILURE, "`%s` is not a regular expression", argv[2]);
	for (look(argv[1], text, sizeof(text)); regexec(&expression, text, 0, NULL, 0);
	     look(argv[1], text, sizeof(text)))
		usleep(PAUSE);
	regfree(&expression);
	fputs(text, stdout);
	return EXIT_SUCCESS;
}
