// SPDX-License-Identifier: GPL-2.0-only
/*
 * Controls its child with the requests of ptrace(2) that concern stops and
 * events, and prints what they report.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"
#include "state.h"
#include "tracee.h"
#include "ways.h"

static const char usage[] =
	"Usage: traced events|listen|detach|options|rseq|info|gone|zombie\n"
	"\n"
	"events   stops a child when it forks, executes and exits\n"
	"listen   lets a child in a group stop notice that it is continued\n"
	"detach   detaches with and without a signal\n"
	"options  tries options and arguments that must be refused\n"
	"rseq     reads the registration of restartable sequences\n"
	"info     asks for system call information where there is none\n"
	"gone     asks for tasks that are not traced or not stopped\n"
	"zombie   lets the tracer of a dead child exit before its parent waits for it\n";

static void finish(pid_t pid)
{
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
}

static int exit_at_once(void *unused)
{
	(void)unused;
	_exit(EXIT_SUCCESS);
}

static void part_has_children(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	pid_t pid;

	if (!fork())
		_exit(EXIT_SUCCESS);
	if (!vfork())
		_exit(EXIT_SUCCESS);
	/* Not SIGCHLD, so that it is not a fork. */
	pid = clone(exit_at_once, stack + sizeof(stack), SIGURG, NULL);
	if (pid == -1)
		err(EXIT_FAILURE, "clone");
	execl("/proc/self/exe", "traced", "exits", NULL);
	err(EXIT_FAILURE, "exec");
}

static const char *event_name(int event)
{
	switch (event) {
	case PTRACE_EVENT_FORK:
		return "fork";
	case PTRACE_EVENT_VFORK:
		return "vfork";
	case PTRACE_EVENT_CLONE:
		return "clone";
	case PTRACE_EVENT_EXEC:
		return "exec";
	case PTRACE_EVENT_VFORK_DONE:
		return "vfork done";
	case PTRACE_EVENT_EXIT:
		return "exit";
	}
	errx(EXIT_FAILURE, "event %d", event);
}

/* New tasks are traced, too, and stop at once. */
static void tell_new_task(pid_t pid)
{
	int status = wait_for(pid);

	expect_stop(status, SIGSTOP);
	printf(", traced");
	trace(PTRACE_CONT, pid, 0, 0);
	/* It stops before it exits. */
	expect_stop(wait_for(pid), SIGTRAP | PTRACE_EVENT_EXIT << 8);
	trace(PTRACE_CONT, pid, 0, 0);
	if (wait_for(pid))
		errx(EXIT_FAILURE, "%d failed", pid);
}

static int events(void)
{
	pid_t pid = start_traced(nothing, part_has_children);
	unsigned long message;
	int event;

	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK |
	      PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
	      PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACEEXIT);
	do {
		int status;

		trace(PTRACE_CONT, pid, 0, 0);
		status = wait_for(pid);
		/* Signals of children that ended, which it does not need. */
		while (WIFSTOPPED(status) && !(status >> 16)) {
			trace(PTRACE_CONT, pid, 0, 0);
			status = wait_for(pid);
		}
		event = status >> 16;
		trace(PTRACE_GETEVENTMSG, pid, 0, (uintptr_t)&message);
		printf("%s", event_name(event));
		if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
		    event == PTRACE_EVENT_CLONE)
			tell_new_task(message);
		else if (event == PTRACE_EVENT_EXEC)
			printf(", %s", (pid_t)message == pid ? "same task" : "other task");
		else if (event == PTRACE_EVENT_EXIT)
			printf(", status %lu", message >> 8);
		printf("\n");
	} while (event != PTRACE_EVENT_EXIT);
	finish(pid);
	return EXIT_SUCCESS;
}

/* The program that `events` executes. */
static int exits(void)
{
	return 3;
}

static void part_stops_itself(void)
{
	kill(getpid(), SIGSTOP);
	_exit(5);
}

/* Returns a seized child that is in a group stop. */
static pid_t start_stopped(void)
{
	pid_t pid = fork();
	int status;

	switch (pid) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		name_tracee();
		part_stops_itself();
	}
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		err(EXIT_FAILURE, "no stop but %#x", status);
	return pid;
}

static int listen_stopped(void)
{
	pid_t pid = start_stopped();
	siginfo_t info;

	trace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL);
	expect_stop(wait_for(pid), SIGSTOP | PTRACE_EVENT_STOP << 8);
	try_request("listen", PTRACE_LISTEN, pid, 0, 0);
	try_request("signal while it listens", PTRACE_GETSIGINFO, pid, 0, (uintptr_t)&info);
	printf("stops again: %s\n", waitpid(pid, NULL, __WALL | WNOHANG) ? "yes" : "no");
	/* Ends the listening. */
	trace(PTRACE_INTERRUPT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGSTOP | PTRACE_EVENT_STOP << 8);
	try_request("listen again", PTRACE_LISTEN, pid, 0, 0);
	kill(pid, SIGCONT);
	expect_stop(wait_for(pid), SIGTRAP | PTRACE_EVENT_STOP << 8);
	printf("continued\n");
	trace(PTRACE_CONT, pid, 0, 0);
	/* The signal itself is still to be delivered; there is nothing to listen for. */
	expect_stop(wait_for(pid), SIGCONT);
	try_request("listen at a signal", PTRACE_LISTEN, pid, 0, 0);
	finish(pid);
	return EXIT_SUCCESS;
}

static int detach(void)
{
	pid_t pid = start_traced(nothing, nothing);
	char state;

	try_request("signal 65", PTRACE_DETACH, pid, 0, 65);
	/* It is still traced, and dies of the signal that it gets. */
	try_request("signal 15", PTRACE_DETACH, pid, 0, SIGTERM);
	expect_end(pid);
	/* A group stop outlives the tracing. */
	pid = start_stopped();
	trace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL);
	expect_stop(wait_for(pid), SIGSTOP | PTRACE_EVENT_STOP << 8);
	try_request("in a group stop", PTRACE_DETACH, pid, 0, 0);
	do {
		state = state_of(pid);
	} while (state != 'T' && state != 'Z');
	printf("state %c\n", state);
	kill(pid, SIGCONT);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void part_traced_already(void)
{
	_exit(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == EPERM);
}

static int options(void)
{
	pid_t pid = start_traced(nothing, part_traced_already);
	pid_t other = start_stopped();

	try_request("unknown option", PTRACE_SETOPTIONS, pid, 0, 1 << 9);
	try_request("unknown request", 0x4fff, pid, 0, 0);
	try_request("signal 65", PTRACE_CONT, pid, 0, 65);
	try_request("interrupt what is not seized", PTRACE_INTERRUPT, pid, 0, 0);
	try_request("listen to what is not seized", PTRACE_LISTEN, pid, 0, 0);
	try_request("attach twice", PTRACE_ATTACH, pid, 0, 0);
	try_request("seize at an address", PTRACE_SEIZE, other, 8, 0);
	try_request("seize, unknown option", PTRACE_SEIZE, other, 0, 1 << 9);
	/* None of these left it traced. */
	try_request("attach", PTRACE_ATTACH, other, 0, 0);
	kill(other, SIGKILL);
	/* It finds that it is already traced. */
	finish(pid);
	return EXIT_SUCCESS;
}

static int sequences(void)
{
	pid_t pid = start_traced(nothing, nothing);
	struct __ptrace_rseq_configuration found = { 0 };
	const uintptr_t own = (uintptr_t)__builtin_thread_pointer() + __rseq_offset;
	long size = request(PTRACE_GET_RSEQ_CONFIGURATION, pid, sizeof(found), (uintptr_t)&found);

	/* A child inherits the registration. */
	printf("%ld bytes: %s, signature %s, %s\n", size,
	       found.rseq_abi_pointer == own ? "own area" : "other area",
	       found.signature == RSEQ_SIG ? "agrees" : "differs",
	       found.flags ? "flags" : "no flags");
	memset(&found, 0, sizeof(found));
	size = request(PTRACE_GET_RSEQ_CONFIGURATION, pid, sizeof(uint64_t), (uintptr_t)&found);
	printf("%ld bytes: %s, %s\n", size,
	       found.rseq_abi_pointer == own ? "own area" : "other area",
	       found.signature ? "signature" : "no more");
	try_request("to nowhere", PTRACE_GET_RSEQ_CONFIGURATION, pid, sizeof(found), 0);
	finish(pid);
	return EXIT_SUCCESS;
}

static int info(void)
{
	pid_t pid = start_traced(nothing, nothing);
	struct __ptrace_syscall_info found = { .op = 0xff, .arch = 0xff };
	const struct user_regs_struct regs = registers(pid);
	long size = request(PTRACE_GET_SYSCALL_INFO, pid, sizeof(found), (uintptr_t)&found);

	printf("%ld bytes: kind %u, arch %#x, %s\n", size, found.op, found.arch,
	       found.instruction_pointer == regs.pc && found.stack_pointer == regs.sp ?
	       "its pc and sp" : "another place");
	found.op = found.arch = 0xff;
	size = request(PTRACE_GET_SYSCALL_INFO, pid, sizeof(found.op), (uintptr_t)&found);
	printf("%ld bytes: kind %u, arch %#x\n", size, found.op, found.arch);
	try_request("to nowhere", PTRACE_GET_SYSCALL_INFO, pid, sizeof(found), 0);
	try_request("registers to nowhere", PTRACE_GETREGSET, pid, NT_PRSTATUS, 0);
	try_request("message to nowhere", PTRACE_GETEVENTMSG, pid, 0, 0);
	finish(pid);
	return EXIT_SUCCESS;
}

static int gone(void)
{
	pid_t pid = start_stopped(), dead = fork();
	siginfo_t ended;

	if (!dead)
		_exit(EXIT_SUCCESS);
	if (dead == -1 || waitid(P_PID, dead, &ended, WEXITED | WNOWAIT))
		err(EXIT_FAILURE, "waitid");
	try_request("attach to a zombie", PTRACE_ATTACH, dead, 0, 0);
	expect_end(dead);
	try_request("attach to nothing", PTRACE_ATTACH, dead, 0, 0);
	try_request("continue nothing", PTRACE_CONT, dead, 0, 0);
	try_request("continue what is not traced", PTRACE_CONT, pid, 0, 0);
	trace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL);
	expect_stop(wait_for(pid), SIGSTOP | PTRACE_EVENT_STOP << 8);
	kill(pid, SIGKILL);
	expect_end(pid);
	try_request("continue the killed", PTRACE_CONT, pid, 0, 0);
	return EXIT_SUCCESS;
}

/* Has a process trace the child until it is dead, then until a byte is read from the pipe. */
static void trace_zombie(pid_t pid, int in, int out)
{
	siginfo_t ended;
	char byte;

	trace(PTRACE_SEIZE, pid, 0, 0);
	kill(pid, SIGKILL);
	if (waitid(P_PID, pid, &ended, WEXITED | WNOWAIT | __WALL))
		err(EXIT_FAILURE, "waitid");
	if (write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		err(EXIT_FAILURE, "pipe");
	_exit(EXIT_SUCCESS);
}

static int zombie(void)
{
	pid_t pid = start_stopped(), tracer;
	int there[2], back[2], status;
	char byte;

	if (pipe(there) || pipe(back))
		err(EXIT_FAILURE, "pipe");
	tracer = fork();
	if (!tracer)
		trace_zombie(pid, there[0], back[1]);
	if (tracer == -1 || read(back[0], &byte, 1) != 1)
		err(EXIT_FAILURE, "tracer");
	/* Its parent is not notified as long as it is traced. */
	printf("dead: %s\n", waitpid(pid, &status, WNOHANG) ? "yes" : "not yet");
	if (write(there[1], "", 1) != 1)
		err(EXIT_FAILURE, "write");
	expect_end(tracer);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "events", events },
	{ "exits", exits },
	{ "listen", listen_stopped },
	{ "detach", detach },
	{ "options", options },
	{ "rseq", sequences },
	{ "info", info },
	{ "gone", gone },
	{ "zombie", zombie },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
