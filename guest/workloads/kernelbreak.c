// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts hits of hardware breakpoints and watchpoints in the kernel through
 * perf_event_open(2), and prints the counts.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "arguments.h"
#include "perfbreak.h"
#include "pin.h"

static const char usage[] =
	"Usage: kernelbreak execute|watch\n"
	"\n"
	"execute  counts calls of eventfd_write, on each CPU\n"
	"watch    counts accesses of the variable of kernel.panic_on_oops, on each CPU\n";

static uintptr_t kernel_symbol(const char *name)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	char line[256], symbol[128];
	uintptr_t address;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNxPTR " %*c %127s", &address, symbol) == 2 &&
		    !strcmp(symbol, name)) {
			fclose(file);
			return address;
		}
	}
	errx(EXIT_FAILURE, "no `%s` in /proc/kallsyms", name);
}

static void reset(int event)
{
	if (ioctl(event, PERF_EVENT_IOC_RESET, 0))
		err(EXIT_FAILURE, "PERF_EVENT_IOC_RESET");
}

/*
 * Prints whether an event saw all of the hits on a CPU, and the one of another CPU
 * none. A hit counts twice if an interrupt is taken before the instruction is
 * stepped over (seen with 7.2).
 */
static void tell(const char *what, int cpu, const int *events, uint64_t hits)
{
	const uint64_t own = count_of(events[cpu]), other = count_of(events[!cpu]);

	printf("%s on CPU %d:", what, cpu);
	if (own < hits || own > 2 * hits)
		printf(" %" PRIu64 " of %" PRIu64 ",", own, hits);
	else
		printf(" all,");
	printf(" %" PRIu64 " elsewhere\n", other);
	reset(events[0]);
	reset(events[1]);
}

static void write_numbers(int times)
{
	const uint64_t one = 1;
	int efd = eventfd(0, 0);

	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	while (times--)
		if (write(efd, &one, sizeof(one)) != sizeof(one))
			err(EXIT_FAILURE, "write");
	close(efd);
}

/* Opens an event on each of two CPUs. */
static void open_both(int *events, uint32_t type, const char *symbol, uint64_t length)
{
	struct perf_event_attr attr = breakpoint_attr(type, (void *)kernel_symbol(symbol), length);

	attr.exclude_kernel = 0;
	events[0] = open_event(&attr, -1, 0);
	events[1] = open_event(&attr, -1, 1);
}

static int execute(void)
{
	int events[2], cpu;

	open_both(events, HW_BREAKPOINT_X, "eventfd_write", sizeof(long));
	for (cpu = 0; cpu < 2; cpu++) {
		pin(cpu);
		write_numbers(5);
		tell("calls", cpu, events, 5);
	}
	return EXIT_SUCCESS;
}

/* Writes the setting, or reads it. */
static void access_setting(int flags, int times)
{
	int fd = open("/proc/sys/kernel/panic_on_oops", flags);
	char byte = '0';
	ssize_t done;

	if (fd == -1)
		err(EXIT_FAILURE, "panic_on_oops");
	while (times--) {
		done = flags == O_WRONLY ? pwrite(fd, &byte, 1, 0) : pread(fd, &byte, 1, 0);
		if (done != 1)
			err(EXIT_FAILURE, "panic_on_oops");
	}
	close(fd);
}

static void watch(const char *what, uint32_t type, int flags, int other_flags)
{
	int events[2], cpu;

	open_both(events, type, "panic_on_oops", 4);
	for (cpu = 0; cpu < 2; cpu++) {
		pin(cpu);
		access_setting(flags, 5);
		access_setting(other_flags, 50);
		tell(what, cpu, events, 5);
	}
	close(events[0]);
	close(events[1]);
}

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[1], "execute"))
		return execute();
	if (!strcmp(argv[1], "watch")) {
		watch("writes", HW_BREAKPOINT_W, O_WRONLY, O_RDONLY);
		watch("reads", HW_BREAKPOINT_R, O_RDONLY, O_WRONLY);
		return EXIT_SUCCESS;
	}
	errx(EXIT_FAILURE, "no command called `%s`", argv[1]);
}
