// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads and changes the signals of its child with ptrace(2), and prints them.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "tracee.h"
#include "ways.h"

static const char usage[] =
	"Usage: signalled mask|suspended|value|queues\n"
	"\n"
	"mask       reads and changes the blocked signals\n"
	"suspended  reads and changes them while sigsuspend(2) has replaced them\n"
	"value      changes the value of a signal before it is delivered\n"
	"queues     looks at the queues of signals of a thread and its process\n";

/* The kernel's sigset_t, one word. */
#define MASK_SIZE sizeof(uint64_t)
#define MASK_OF(signal) (1ULL << ((signal) - 1))

static volatile sig_atomic_t received = 0;

static void receive(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	received = info->si_value.sival_int;
}

static void handle_blocked(void)
{
	const struct sigaction action = { .sa_sigaction = receive, .sa_flags = SA_SIGINFO };
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	if (sigaction(SIGUSR1, &action, NULL) || sigprocmask(SIG_SETMASK, &blocked, NULL))
		err(EXIT_FAILURE, "signals");
}

static void part_received(void)
{
	_exit(received);
}

static void queue(pid_t pid, int signal, int value)
{
	if (sigqueue(pid, signal, (union sigval){ .sival_int = value }))
		err(EXIT_FAILURE, "sigqueue");
}

static void tell_mask(pid_t pid)
{
	uint64_t mask;

	trace(PTRACE_GETSIGMASK, pid, MASK_SIZE, (uintptr_t)&mask);
	printf("blocked: %#" PRIx64 "\n", mask);
}

static int mask(void)
{
	uint64_t other = MASK_OF(SIGUSR2) | MASK_OF(SIGKILL) | MASK_OF(SIGSTOP);
	pid_t pid = start_traced(handle_blocked, part_received);

	queue(pid, SIGUSR1, 7);
	tell_mask(pid);
	try_request("half a mask", PTRACE_GETSIGMASK, pid, MASK_SIZE / 2, (uintptr_t)&other);
	try_request("to nowhere", PTRACE_GETSIGMASK, pid, MASK_SIZE, 0);
	try_request("set half", PTRACE_SETSIGMASK, pid, MASK_SIZE / 2, (uintptr_t)&other);
	try_request("set from nowhere", PTRACE_SETSIGMASK, pid, MASK_SIZE, 0);
	tell_mask(pid);
	try_request("unblock", PTRACE_SETSIGMASK, pid, MASK_SIZE, (uintptr_t)&other);
	tell_mask(pid);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGUSR1);
	trace(PTRACE_CONT, pid, 0, SIGUSR1);
	/* Its exit status is the value of the signal. */
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void handle(void)
{
	const struct sigaction action = { .sa_sigaction = receive, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGUSR1, &action, NULL))
		err(EXIT_FAILURE, "sigaction");
}

static void part_suspends(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigsuspend(&none);
	/* Only what was blocked before is blocked again. */
	sigprocmask(SIG_BLOCK, NULL, &none);
	_exit(sigismember(&none, SIGUSR1) | sigismember(&none, SIGUSR2) << 1 |
	      sigismember(&none, SIGHUP) << 2);
}

/* A signal that it has a handler for ends the call. */
static int suspended(void)
{
	uint64_t other = MASK_OF(SIGHUP);
	pid_t pid = start_traced(handle_blocked, part_suspends);

	tell_mask(pid);
	queue(pid, SIGUSR1, 7);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGUSR1);
	tell_mask(pid);
	/* What it sets then remains. */
	try_request("block", PTRACE_SETSIGMASK, pid, MASK_SIZE, (uintptr_t)&other);
	tell_mask(pid);
	trace(PTRACE_CONT, pid, 0, SIGUSR1);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static int value(void)
{
	pid_t pid = start_traced(handle, part_received);
	siginfo_t info;

	queue(pid, SIGUSR1, 7);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGUSR1);
	trace(PTRACE_GETSIGINFO, pid, 0, (uintptr_t)&info);
	printf("value %d\n", info.si_value.sival_int);
	try_request("to nowhere", PTRACE_GETSIGINFO, pid, 0, 0);
	try_request("from nowhere", PTRACE_SETSIGINFO, pid, 0, 0);
	info.si_value.sival_int = 8;
	trace(PTRACE_SETSIGINFO, pid, 0, (uintptr_t)&info);
	trace(PTRACE_CONT, pid, 0, SIGUSR1);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void peek(const char *what, pid_t pid, struct __ptrace_peeksiginfo_args which)
{
	siginfo_t infos[4];
	long i, found = ptrace(PTRACE_PEEKSIGINFO, pid, &which, infos);

	printf("%s:", what);
	if (found == -1)
		printf(" %s", strerrorname_np(errno));
	for (i = 0; i < found; i++)
		printf(" %d", infos[i].si_value.sival_int);
	printf("\n");
}

static int queues(void)
{
	const uint32_t shared = PTRACE_PEEKSIGINFO_SHARED;
	struct __ptrace_peeksiginfo_args one = { .nr = 1, .flags = shared };
	pid_t pid = start_traced(handle_blocked, part_received);
	siginfo_t info = { .si_code = SI_QUEUE };

	info.si_value.sival_int = 1;
	if (syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGUSR1, &info))
		err(EXIT_FAILURE, "rt_tgsigqueueinfo");
	queue(pid, SIGUSR2, 2);
	peek("thread", pid, (struct __ptrace_peeksiginfo_args){ .nr = 4 });
	peek("process", pid, (struct __ptrace_peeksiginfo_args){ .nr = 4, .flags = shared });
	peek("no number", pid, (struct __ptrace_peeksiginfo_args){ .nr = -1 });
	peek("unknown flag", pid, (struct __ptrace_peeksiginfo_args){ .nr = 4, .flags = 2 });
	try_request("to nowhere", PTRACE_PEEKSIGINFO, pid, (uintptr_t)&one, 0);
	try_request("from nowhere", PTRACE_PEEKSIGINFO, pid, 0, (uintptr_t)&info);
	trace(PTRACE_KILL, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "mask", mask },
	{ "suspended", suspended },
	{ "value", value },
	{ "queues", queues },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
