/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ECHO_H
#define ECHO_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * Opens a file with O_TRUNC or O_APPEND, writes a text to it and closes it, like
 * `echo` in a shell. Returns 0 or an errno.
 */
static inline int echo(const char *path, int how, const char *text, size_t length)
{
	ssize_t written;
	int error = 0;
	int fd;

	fd = open(path, O_WRONLY | O_CLOEXEC | how);
	if (fd == -1)
		return errno;
	/* The filter files take a word at a time. */
	while (length) {
		written = write(fd, text, length);
		if (written <= 0) {
			error = written ? errno : EIO;
			break;
		}
		text += written;
		length -= written;
	}
	if (close(fd) == -1 && !error)
		error = errno;
	return error;
}

#endif
