// SPDX-License-Identifier: GPL-2.0-only
/*
 * Traces its child in one of several ways, and prints what ptrace(2) and
 * waitpid(2) report.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arguments.h"
#include "tracee.h"
#include "ways.h"

static const char usage[] =
	"Usage: ptrace attach|seize|interrupt|exitkill|signals|syscall|replace|refused\n"
	"\n"
	"attach      stops a child, then detaches from it\n"
	"seize       traces a child without stopping it\n"
	"interrupt   does that, then stops it\n"
	"exitkill    lets the tracer of a child exit, without and with PTRACE_O_EXITKILL\n"
	"signals     looks at the signals that wait for a child\n"
	"syscall     stops a child at entry and exit of each of its system calls\n"
	"replace     replaces a system call by another\n"
	"refused     tries to trace tasks that cannot be traced\n";

/* A child, with the parent's ends of the pipes to it and from it. */
struct child {
	pid_t pid;
	int to;
	int from;
};

/* Answers each byte until end of file. */
static void answer_bytes(int in, int out)
{
	char byte;

	name_tracee();
	do {
		if (write(out, "", 1) != 1)
			err(EXIT_FAILURE, "write");
	} while (read(in, &byte, 1) == 1);
	_exit(EXIT_SUCCESS);
}

/* Waits for an answer of the child, which then sleeps or is about to. */
static void hear(const struct child *child)
{
	char byte;

	if (read(child->from, &byte, 1) != 1)
		err(EXIT_FAILURE, "the child does not answer");
}

static void call(const struct child *child)
{
	if (write(child->to, "", 1) != 1)
		err(EXIT_FAILURE, "write");
	hear(child);
}

static struct child start(void)
{
	struct child child;
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		err(EXIT_FAILURE, "pipe");
	child.pid = fork();
	switch (child.pid) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		close(there[1]);
		close(back[0]);
		answer_bytes(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	child.to = there[1];
	child.from = back[0];
	hear(&child);
	return child;
}

static void finish(const struct child *child)
{
	close(child->to);
	expect_end(child->pid);
	close(child->from);
}

static int attach(void)
{
	struct child child = start();

	trace(PTRACE_ATTACH, child.pid, 0, 0);
	expect_stop(wait_for(child.pid), SIGSTOP);
	printf("%d stopped\n", child.pid);
	trace(PTRACE_DETACH, child.pid, 0, 0);
	call(&child);
	printf("answers again\n");
	finish(&child);
	return EXIT_SUCCESS;
}

static struct child start_seized(void)
{
	struct child child = start();
	int status;

	trace(PTRACE_SEIZE, child.pid, 0, PTRACE_O_EXITKILL);
	/* Twice, so that it has left the system call in which it was seized. */
	call(&child);
	call(&child);
	if (waitpid(child.pid, &status, __WALL | WNOHANG))
		errx(EXIT_FAILURE, "a stop by %#x", status >> 8);
	printf("%d runs\n", child.pid);
	return child;
}

static int seize(void)
{
	struct child child = start_seized();

	finish(&child);
	return EXIT_SUCCESS;
}

static int interrupt(void)
{
	struct child child = start_seized();

	trace(PTRACE_INTERRUPT, child.pid, 0, 0);
	expect_stop(wait_for(child.pid), SIGTRAP | PTRACE_EVENT_STOP << 8);
	printf("stopped\n");
	trace(PTRACE_CONT, child.pid, 0, 0);
	call(&child);
	printf("answers again\n");
	finish(&child);
	return EXIT_SUCCESS;
}

/* Has a process trace the child and exit. */
static void trace_until_exit(const struct child *child, uintptr_t options)
{
	pid_t tracer = fork();
	int status;

	switch (tracer) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		trace(PTRACE_SEIZE, child->pid, 0, options);
		_exit(EXIT_SUCCESS);
	}
	status = wait_for(tracer);
	if (status)
		errx(EXIT_FAILURE, "the tracer ended with status %#x", status);
}

static int exitkill(void)
{
	struct child child = start();

	trace_until_exit(&child, 0);
	printf("seized without PTRACE_O_EXITKILL\n");
	call(&child);
	printf("answers again\n");
	finish(&child);
	child = start();
	trace_until_exit(&child, PTRACE_O_EXITKILL);
	printf("seized with PTRACE_O_EXITKILL\n");
	/* If the child is still alive, it reads the end of file and exits. */
	finish(&child);
	return EXIT_SUCCESS;
}

static void block_signal(void)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	if (sigprocmask(SIG_BLOCK, &blocked, NULL))
		err(EXIT_FAILURE, "sigprocmask");
}

/* Prints the values of up to `count` signals that wait for the child, from number `from` on. */
static void tell_signals(pid_t pid, uint64_t from, int32_t count)
{
	struct __ptrace_peeksiginfo_args which = { .off = from, .nr = count };
	siginfo_t infos[4];
	long i, found;

	which.flags = PTRACE_PEEKSIGINFO_SHARED;
	found = ptrace(PTRACE_PEEKSIGINFO, pid, &which, infos);
	if (found == -1)
		err(EXIT_FAILURE, "PTRACE_PEEKSIGINFO");
	printf("%ld from %" PRIu64 " on:", found, from);
	for (i = 0; i < found; i++)
		printf(" %d", infos[i].si_signo == SIGRTMIN ? infos[i].si_value.sival_int : -1);
	printf("\n");
}

static int signals(void)
{
	pid_t pid = start_traced(block_signal, nothing);
	union sigval value;

	for (value.sival_int = 1; value.sival_int <= 4; value.sival_int++)
		if (sigqueue(pid, SIGRTMIN, value))
			err(EXIT_FAILURE, "sigqueue");
	tell_signals(pid, 0, 4);
	tell_signals(pid, 1, 2);
	tell_signals(pid, 3, 4);
	tell_signals(pid, 4, 4);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void part_syscalls(void)
{
	/* One that succeeds, one that fails, and one that does not return. */
	syscall(SYS_getppid);
	syscall(SYS_close, -1);
	syscall(SYS_exit_group, 7);
}

/*
 * Prints a system call stop, and returns whether it is an entry, on which x7 must
 * agree with ptrace.
 */
static int tell_syscall(pid_t pid)
{
	const struct user_regs_struct regs = registers(pid);
	struct __ptrace_syscall_info info;
	int begins;

	trace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), (uintptr_t)&info);
	begins = info.op == PTRACE_SYSCALL_INFO_ENTRY;
	if (!begins && info.op != PTRACE_SYSCALL_INFO_EXIT)
		errx(EXIT_FAILURE, "a system call's stop of kind %u", info.op);
	if (regs.regs[7] != !begins)
		errx(EXIT_FAILURE, "x7 is %#llx", regs.regs[7]);
	if (begins)
		printf("enter %" PRIu64 "\n", (uint64_t)info.entry.nr);
	else
		printf("exit %llu = %" PRId64 "\n", regs.regs[8], (int64_t)info.exit.rval);
	return begins;
}

static int syscall_stops(void)
{
	pid_t pid = start_traced(nothing, part_syscalls);
	int status, stops;

	for (stops = 0; stops < STOPS_MAX; stops++) {
		trace(PTRACE_SYSCALL, pid, 0, 0);
		status = wait_for(pid);
		if (!WIFSTOPPED(status)) {
			printf("ended with %d after %d stops\n", WEXITSTATUS(status), stops);
			return EXIT_SUCCESS;
		}
		expect_stop(status, SIGTRAP | 0x80);
		tell_syscall(pid);
	}
	errx(EXIT_FAILURE, "more than %d stops", STOPS_MAX);
}

static void part_asks_its_parent(void)
{
	_exit(syscall(SYS_getppid) == getpid() ? EXIT_SUCCESS : EXIT_FAILURE);
}

static int replace(void)
{
	pid_t pid = start_traced(nothing, part_asks_its_parent);
	int number = SYS_gettid;
	struct iovec iov = { .iov_base = &number, .iov_len = sizeof(number) };

	trace(PTRACE_SYSCALL, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP | 0x80);
	if (!tell_syscall(pid))
		errx(EXIT_FAILURE, "no system call begins");
	trace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, (uintptr_t)&iov);
	printf("becomes %d\n", number);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void try_to_trace(int request, pid_t pid, const char *whose)
{
	const char *result = ptrace(request, pid, 0, 0) ? strerrorname_np(errno) : "traced";

	printf("%s %d, %s: %s\n", request == PTRACE_SEIZE ? "seize" : "attach", pid, whose, result);
}

static void *thread(void *unused)
{
	(void)unused;
	try_to_trace(PTRACE_ATTACH, getpid(), "another thread of mine");
	return NULL;
}

static int refused(void)
{
	/* The first kernel thread, parent of the others. */
	const pid_t kthreadd = 2;
	pthread_t other;

	try_to_trace(PTRACE_ATTACH, kthreadd, "a kernel thread");
	try_to_trace(PTRACE_SEIZE, kthreadd, "a kernel thread");
	try_to_trace(PTRACE_ATTACH, getpid(), "myself");
	try_to_trace(PTRACE_SEIZE, getpid(), "myself");
	if (pthread_create(&other, NULL, thread, NULL) || pthread_join(other, NULL))
		errx(EXIT_FAILURE, "no thread");
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "attach", attach },
	{ "seize", seize },
	{ "interrupt", interrupt },
	{ "exitkill", exitkill },
	{ "signals", signals },
	{ "syscall", syscall_stops },
	{ "replace", replace },
	{ "refused", refused },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
