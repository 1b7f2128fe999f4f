/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls that calls.c makes, their arguments, and the files that they open.
 */
#ifndef CALLS_H
#define CALLS_H

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"
#include "echo.h"

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

static long call_open(char *arguments)
{
	static const struct { const char *name; int flag; } flags[] = {
		{ "wronly", O_WRONLY }, { "rdwr", O_RDWR }, { "append", O_APPEND },
		{ "nonblock", O_NONBLOCK }, { "trunc", O_TRUNC },
	};
	const char *name = word(&arguments);
	const char *path = word(&arguments);
	struct file *file = find("");
	const char *flag;
	int all = 0;
	size_t i;

	for (flag = word(&arguments); *flag; flag = word(&arguments)) {
		for (i = 0; strcmp(flags[i].name, flag); i++)
			if (i + 1 == sizeof(flags) / sizeof(*flags))
				errx(EXIT_FAILURE, "`%s` is not a flag", flag);
		all |= flags[i].flag;
	}
	if (!file || strlen(name) >= sizeof(file->name) || find(name))
		errx(EXIT_FAILURE, "cannot open a file as `%s`", name);
	file->fd = open(path, all | O_CLOEXEC);
	if (file->fd == -1)
		return -1;
	strcpy(file->name, name);
	return 0;
}

static long call_close(char *arguments)
{
	struct file *file = find(word(&arguments));

	if (!file || !*file->name)
		errx(EXIT_FAILURE, "close: not an open file");
	*file->name = '\0';
	return close(file->fd);
}

static char *room(size_t bytes)
{
	char *buffer = malloc(bytes + 1);

	if (!buffer)
		err(EXIT_FAILURE, "malloc");
	return buffer;
}

static long read_to(char *arguments, FILE *copy)
{
	int fd = descriptor(&arguments);
	size_t bytes = size(&arguments);
	char *buffer = room(bytes);
	ssize_t length;

	length = read(fd, buffer, bytes);
	if (length > 0 && copy)
		fwrite(buffer, 1, length, copy);
	free(buffer);
	return length;
}

static long call_read(char *arguments)
{
	return read_to(arguments, stdout);
}

static long call_skip(char *arguments)
{
	return read_to(arguments, NULL);
}

static long call_write(char *arguments)
{
	int fd = descriptor(&arguments);
	size_t length = unescape(arguments);

	return write(fd, arguments, length);
}

static long echo_to(char *arguments, int how)
{
	const char *path = word(&arguments);
	size_t length = unescape(arguments);

	arguments[length++] = '\n';
	errno = echo(path, how, arguments, length);
	return errno ? -1 : 0;
}

static long call_echo(char *arguments)
{
	return echo_to(arguments, O_TRUNC);
}

static long call_append(char *arguments)
{
	return echo_to(arguments, O_APPEND);
}

static long call_fill(char *arguments)
{
	int fd = descriptor(&arguments);
	size_t bytes = size(&arguments);
	char *buffer = room(bytes);
	ssize_t length;

	memset(buffer, 'x', bytes);
	length = write(fd, buffer, bytes);
	free(buffer);
	return length;
}

static long call_seek(char *arguments)
{
	int fd = descriptor(&arguments);

	return lseek(fd, integer(word(&arguments)), SEEK_SET);
}

static long call_splice(char *arguments)
{
	static char buffer[SIZE_MAX_BYTES];
	int fd = descriptor(&arguments);
	size_t bytes = size(&arguments);
	bool copies = !strcmp(word(&arguments), "copy");
	ssize_t length;
	int ends[2];
	int error;

	if (pipe(ends) == -1)
		err(EXIT_FAILURE, "pipe");
	length = splice(fd, NULL, ends[1], NULL, bytes, 0);
	error = errno;
	if (length > 0 && read(ends[0], buffer, sizeof(buffer)) != length)
		errx(EXIT_FAILURE, "the pipe has not what was spliced");
	if (length > 0 && copies)
		fwrite(buffer, 1, length, stdout);
	close(ends[0]);
	close(ends[1]);
	errno = error;
	return length;
}

static long call_ioctl(char *arguments)
{
	int fd = descriptor(&arguments);

	return ioctl(fd, integer(word(&arguments)), 0);
}

/* The mapping, of which there is one at a time. */
static void *mapping;
static size_t mapped;

static long call_map(char *arguments)
{
	int fd = descriptor(&arguments);
	void *map;

	mapped = size(&arguments);
	map = mmap(NULL, mapped, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -1;
	mapping = map;
	return 0;
}

static long call_unmap(char *arguments)
{
	(void)arguments;
	return munmap(mapping, mapped);
}

static long ready(char *arguments, int milliseconds)
{
	struct pollfd wait = { .events = POLLIN };

	wait.fd = descriptor(&arguments);
	if (poll(&wait, 1, milliseconds) == -1)
		return -1;
	return !!(wait.revents & POLLIN) + 2 * !!(wait.revents & POLLERR);
}

static long call_poll(char *arguments)
{
	return ready(arguments, -1);
}

static long call_ready(char *arguments)
{
	return ready(arguments, 0);
}

static long call_count(char *arguments)
{
	const char *path = word(&arguments);
	char text[256], *line = NULL;
	size_t room = 0;
	long lines = 0;
	FILE *file;

	unescape(arguments);
	expand(arguments, text, sizeof(text));
	file = fopen(path, "re");
	if (!file)
		return -1;
	while (getline(&line, &room, file) != -1)
		lines += !!strstr(line, text);
	free(line);
	fclose(file);
	return lines;
}

static long call_mkdir(char *arguments)
{
	return mkdir(word(&arguments), 0755);
}

static long call_rmdir(char *arguments)
{
	return rmdir(word(&arguments));
}

static long call_unlink(char *arguments)
{
	return unlink(word(&arguments));
}

static long call_cpu(char *arguments)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(integer(word(&arguments)), &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

#endif
