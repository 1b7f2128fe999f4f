// SPDX-License-Identifier: GPL-2.0-only
/* Starts processes that exit at once, one after the other. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: children NUMBER\n"
	"\n"
	"Starts NUMBER processes, each after the previous one has exited.\n";

int main(int argc, char **argv)
{
	unsigned long number, i;
	int status;
	pid_t child;

	expect_arguments(argc, argv, 1, usage);
	number = integer(argv[1]);
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
