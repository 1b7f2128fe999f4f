/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Prints the usage of a program and exits, on --help or if the number of
 * arguments is not "count".
 */
static inline void expect_arguments(int argc, char **argv, int count,
				    const char *usage)
{
	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		exit(EXIT_SUCCESS);
	}
	if (argc != count + 1) {
		fputs(usage, stderr);
		exit(EXIT_FAILURE);
	}
}

/* Parses an argument as an integer, or exits. */
static inline unsigned long long integer(const char *text)
{
	unsigned long long value;
	char *end;

	value = strtoull(text, &end, 0);
	if (end == text || *end)
		errx(EXIT_FAILURE, "`%s` is not an integer", text);
	return value;
}

#endif
