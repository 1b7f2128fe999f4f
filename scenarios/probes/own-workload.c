// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes the number of its arguments to an eventfd, and reads it.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "own-workload.h"

/* A function of its own, for uprobes. */
__attribute__((noinline)) uint64_t through_eventfd(uint64_t number)
{
	int efd = eventfd(0, 0);

	if (efd < 0 || write(efd, &number, sizeof(number)) != sizeof(number))
		err(EXIT_FAILURE, "write");
	if (read(efd, &number, sizeof(number)) != sizeof(number))
		err(EXIT_FAILURE, "read");
	return number;
}

int main(int argc, char **argv)
{
	printf(FORMAT, argv[argc - 1], (unsigned long)through_eventfd(argc - 1));
	return EXIT_SUCCESS;
}
