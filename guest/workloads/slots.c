// SPDX-License-Identifier: GPL-2.0-only
/*
 * Uses up the hardware's breakpoint registers with perf events of tasks and of
 * CPUs, and prints which events the kernel still accepts.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "arguments.h"
#include "perfbreak.h"
#include "tracee.h"

/* Only after the headers of libc, parts of which it defines again. */
#include <asm/ptrace.h>

static const char usage[] =
	"Usage: slots COMMAND...\n"
	"\n"
	"+EVENT  opens an event\n"
	"*EVENT  opens events until one is refused\n"
	"-EVENT  closes the last one of this name\n"
	"~EVENT  turns the last one of this name, a watchpoint, into a breakpoint\n"
	"=       prints a line, and waits until it is killed\n"
	"An EVENT is `task`, `child`, `task@CPU`, `child@CPU` or `cpu@CPU`, a watchpoint,\n"
	"or, with an `x` before it, a breakpoint.\n";

#define EVENTS_MAX 128

static struct {
	const char *name;
	int fd;
} events[EVENTS_MAX];

static int count;
static pid_t child;
/* The numbers of watchpoint and breakpoint registers. */
static int watch_registers, break_registers;

static volatile uint64_t word;

static int registers_of(int set)
{
	struct user_hwdebug_state state;
	struct iovec iov = { .iov_base = &state, .iov_len = sizeof(state) };

	trace(PTRACE_GETREGSET, child, set, (uintptr_t)&iov);
	return state.dbg_info & 0xff;
}

static bool is(const char *word, size_t length, const char *wanted)
{
	return length == strlen(wanted) && !strncmp(word, wanted, length);
}

/* Opens an event. Returns the errno, or 0. */
static int open_named(const char *name)
{
	const bool executes = *name == 'x';
	struct perf_event_attr attr = executes ?
		breakpoint_attr(HW_BREAKPOINT_X, usage, sizeof(long)) :
		breakpoint_attr(HW_BREAKPOINT_W, &word, HW_BREAKPOINT_LEN_8);
	const char *who = name + executes, *at = strchr(who, '@');
	const size_t length = at ? (size_t)(at - who) : strlen(who);
	pid_t pid;
	int fd;

	if (is(who, length, "task"))
		pid = 0;
	else if (is(who, length, "child"))
		pid = child;
	else if (is(who, length, "cpu") && at)
		pid = -1;
	else
		errx(EXIT_FAILURE, "no event called `%s`", name);
	if (count == EVENTS_MAX)
		errx(EXIT_FAILURE, "more than %d events", EVENTS_MAX);
	fd = try_open(&attr, pid, at ? (int)integer(at + 1) : -1);
	if (fd == -1)
		return errno;
	events[count].name = name;
	events[count++].fd = fd;
	return 0;
}

/* Returns the index of the last open event of this name. */
static int find(const char *name)
{
	int i = count;

	while (i--)
		if (events[i].fd != -1 && !strcmp(events[i].name, name))
			return i;
	errx(EXIT_FAILURE, "`%s` is not open", name);
}

static void close_named(const char *name)
{
	const int i = find(name);

	close(events[i].fd);
	events[i].fd = -1;
}

/* Returns the errno, or 0. */
static int turn(const char *name)
{
	struct perf_event_attr attr = breakpoint_attr(HW_BREAKPOINT_X, usage, sizeof(long));

	return ioctl(events[find(name)].fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr) ? errno : 0;
}

static void fill(const char *name)
{
	const int all = *name == 'x' ? break_registers : watch_registers;
	int opened = 0, error;

	while (!(error = open_named(name)))
		opened++;
	if (opened == all)
		printf("*%s: all, then %s\n", name, strerrorname_np(error));
	else
		printf("*%s: all but %d, then %s\n", name, all - opened, strerrorname_np(error));
}

static void run(const char *command)
{
	int error;

	switch (*command) {
	case '+':
		error = open_named(command + 1);
		printf("%s: %s\n", command, error ? strerrorname_np(error) : "opened");
		break;
	case '~':
		error = turn(command + 1);
		printf("%s: %s\n", command, error ? strerrorname_np(error) : "turned");
		break;
	case '*':
		fill(command + 1);
		break;
	case '-':
		close_named(command + 1);
		break;
	case '=':
		printf("waits\n");
		pause();
		break;
	default:
		errx(EXIT_FAILURE, "no command called `%s`", command);
	}
}

int main(int argc, char **argv)
{
	int i;

	if (argc < 2 || !strcmp(argv[1], "--help")) {
		fputs(usage, argc < 2 ? stderr : stdout);
		return argc < 2 ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	child = start_traced(nothing, nothing);
	watch_registers = registers_of(NT_ARM_HW_WATCH);
	break_registers = registers_of(NT_ARM_HW_BREAK);
	for (i = 1; i < argc; i++)
		run(argv[i]);
	trace(PTRACE_KILL, child, 0, 0);
	wait_for(child);
	return EXIT_SUCCESS;
}
