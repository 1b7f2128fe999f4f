// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program with a user event: `tick`, with a u32 named count. It writes one per
 * argument while the event is enabled.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arguments.h"
#include "user-events.h"

static const char usage[] =
	"Usage: ticks NUMBER...\n"
	"\n"
	"Registers the user event `tick u32 count`, writes one with each NUMBER while\n"
	"the event is enabled, and prints how many it wrote.\n";

/* The kernel sets bit 0 while the event is enabled anywhere. */
static volatile uint32_t enabled;

int main(int argc, char **argv)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = 0,
		.enable_size = sizeof(enabled),
		.enable_addr = (uintptr_t)&enabled,
		.name_args = (uintptr_t)"tick u32 count",
	};
	int written = 0;
	int i;
	int fd;

	if (argc < 2)
		expect_arguments(argc, argv, 1, usage);

	fd = open("/sys/kernel/tracing/user_events_data", O_RDWR);
	if (fd == -1)
		err(EXIT_FAILURE, "user_events_data");
	if (ioctl(fd, DIAG_IOCSREG, &reg) == -1)
		err(EXIT_FAILURE, "cannot register the event");

	for (i = 1; i < argc; i++) {
		uint32_t count = integer(argv[i]);
		struct iovec parts[] = {
			{ &reg.write_index, sizeof(reg.write_index) },
			{ &count, sizeof(count) },
		};

		if (!(enabled & 1))
			continue;
		if (writev(fd, parts, 2) == -1)
			err(EXIT_FAILURE, "cannot write the event");
		written++;
	}
	printf("%d of %d ticks written\n", written, argc - 1);
	return EXIT_SUCCESS;
}
