// SPDX-License-Identifier: GPL-2.0-only
/*
 * Types on a pseudo terminal. What is typed goes by way of a kernel worker.
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
	"Types each LINE on the keyboard's side of a pseudo terminal, and prints it as\n"
	"it is read on the other side, before it types the next.\n";

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
		err(EXIT_FAILURE, "no pseudo terminal");
	shell = open(ptsname(keyboard), O_RDWR | O_NOCTTY);
	if (shell == -1)
		err(EXIT_FAILURE, "%s", ptsname(keyboard));
	for (i = 1; i < argc; i++)
		pass(keyboard, shell, argv[i]);
	return EXIT_SUCCESS;
}
