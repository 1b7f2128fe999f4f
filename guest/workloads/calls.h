/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The open files and the arguments of the calls that calls.c makes.
 */
#ifndef CALLS_H
#define CALLS_H

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"

#define FILES_MAX 16
#define SIZE_MAX_BYTES (1 << 20)

/* An open file and its name. */
static struct file {
	char name[32];
	int fd;
} files[FILES_MAX];

static struct file *find(const char *name)
{
	int i;

	for (i = 0; i < FILES_MAX; i++)
		if (!strcmp(files[i].name, name))
			return &files[i];
	return NULL;
}

/* Removes the next word from the arguments and returns it, or "" at the end. */
static char *word(char **arguments)
{
	char *start = *arguments + strspn(*arguments, " ");
	char *end = start + strcspn(start, " ");

	*arguments = *end ? end + 1 : end;
	*end = '\0';
	return start;
}

static int descriptor(char **arguments)
{
	const char *name = word(arguments);
	struct file *file = find(name);

	if (!*name || !file)
		errx(EXIT_FAILURE, "`%s` is not an open file", name);
	return file->fd;
}

static size_t size(char **arguments)
{
	unsigned long long value = integer(word(arguments));

	if (value > SIZE_MAX_BYTES)
		errx(EXIT_FAILURE, "a size of %llu bytes is too much", value);
	return value;
}

/* Replaces the escapes of a text, which is terminated again, and returns its length. */
static size_t unescape(char *text)
{
	char *from, *to = text;
	unsigned int byte;

	for (from = text; *from; from++) {
		if (!strncmp(from, "\\n", 2)) {
			*to++ = '\n';
			from++;
		} else if (sscanf(from, "\\x%2x", &byte) == 1) {
			*to++ = byte;
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	return to - text;
}

/* Replaces $pid and $tid by those of the caller. */
static void expand(const char *text, char *expanded, size_t room)
{
	size_t used = 0;

	while (*text && used + 16 < room) {
		int own = !strncmp(text, "$pid", 4);

		if (own || !strncmp(text, "$tid", 4)) {
			used += sprintf(expanded + used, "%d", own ? getpid() : gettid());
			text += 4;
		} else {
			expanded[used++] = *text++;
		}
	}
	expanded[used] = '\0';
}

#endif
