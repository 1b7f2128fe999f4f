// SPDX-License-Identifier: GPL-2.0-only
/* Processes that begin and end, one after the other. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
	"Usage: children NUMBER\n"
	"\n"
	"Starts NUMBER processes, each when the one before has ended.\n";

int main(int argc, char **argv)
{
	unsigned long number, i;
	int status;
	char *end;
	pid_t child;

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	}
	if (argc != 2) {
		fputs(usage, stderr);
		return EXIT_FAILURE;
	}
	number = strtoul(argv[1], &end, 0);
	if (end == argv[1] || *end)
		errx(EXIT_FAILURE, "`%s` is not an integer", argv[1]);
	for (i = 0; i < number; i++) {
		child = fork();
		if (child == -1)
			err(EXIT_FAILURE, "fork");
		if (!child)
			_exit(EXIT_SUCCESS);
		if (waitpid(child, &status, 0) == -1)
			err(EXIT_FAILURE, "waitpid");
	}
	printf("%lu children\n", number);
	return EXIT_SUCCESS;
}
