// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes numbers to an eventfd and reads it, and prints the result of each call,
 * including those that fail. Never blocks.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const char usage[] =
	"Usage: counter NUMBER...\n"
	"\n"
	"Writes each NUMBER to an eventfd, reads the eventfd, and prints the result\n"
	"or the error of each of these calls.\n";

int main(int argc, char **argv)
{
	uint64_t value;
	char *end;
	int efd;
	int i;

	if (argc < 2) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	if (!strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	efd = eventfd(0, EFD_NONBLOCK);
	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	for (i = 1; i < argc; i++) {
		value = strtoull(argv[i], &end, 0);
		if (end == argv[i] || *end)
			errx(EXIT_FAILURE, "`%s` is not an integer", argv[i]);
		if (write(efd, &value, sizeof(value)) == sizeof(value))
			printf("wrote %" PRIu64 "\n", value);
		else
			printf("write: %s\n", strerror(errno));
	}
	if (read(efd, &value, sizeof(value)) == sizeof(value))
		printf("read %" PRIu64 "\n", value);
	else
		printf("read: %s\n", strerror(errno));
	return EXIT_SUCCESS;
}
