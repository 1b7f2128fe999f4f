// SPDX-License-Identifier: GPL-2.0-only
/*
 * Types on a pseudoterminal. The input passes through a kernel worker.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: terminal LINE...\n"
	"\n"
	"Types each LINE at the master of a pseudoterminal, and prints it as read from\n"
	"the slave before typing the next.\n";

static void pass(int keyboard, int shell, const char *line)
{
	char text[256];
	int typed = snprintf(text, sizeof(text), "%s\n", line);
	ssize_t length;

	if (typed >= (int)sizeof(text))
		errx(EXIT_FAILURE, "a line of more than %zu bytes", sizeof(text) - 2);
	if (write(keyboard, text, typed) != typed)
		err(EXIT_FAILURE, "write");
	length = read(shell, text, sizeof(text));
	if (length == -1)
		err(EXIT_FAILURE, "read");
	printf("%.*s", (int)length, text);
}

int main(int argc, char **argv)
{
	int keyboard, shell, i;

	if (argc < 2) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	if (!strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	keyboard = posix_openpt(O_RDWR | O_NOCTTY);
	if (keyboard == -1 || grantpt(keyboard) || unlockpt(keyboard))
		err(EXIT_FAILURE, "no pseudoterminal");
	shell = open(ptsname(keyboard), O_RDWR | O_NOCTTY);
	if (shell == -1)
		err(EXIT_FAILURE, "%s", ptsname(keyboard));
	for (i = 1; i < argc; i++)
		pass(keyboard, shell, argv[i]);
	return EXIT_SUCCESS;
}
