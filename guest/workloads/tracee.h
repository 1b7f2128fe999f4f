/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Common code of the workloads that trace their child. The child names itself
 * "tracee".
 */
#ifndef TRACEE_H
#define TRACEE_H

#include <elf.h>
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* More stops than any of the workloads needs. */
#define STOPS_MAX 64

static inline void trace(int request, pid_t pid, uintptr_t addr, uintptr_t data)
{
	if (ptrace(request, pid, addr, data) == -1)
		err(EXIT_FAILURE, "ptrace request %#x", request);
}

static inline const char *result_of(long result)
{
	return result == -1 ? strerrorname_np(errno) : "done";
}

/* A request whose arguments the C library would not change. */
static inline long request(int number, pid_t pid, uintptr_t addr, uintptr_t data)
{
	return syscall(SYS_ptrace, number, pid, addr, data);
}

static inline void try_request(const char *what, int number, pid_t pid, uintptr_t addr, uintptr_t data)
{
	printf("%s: %s\n", what, result_of(request(number, pid, addr, data)));
}

static inline int wait_for(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, __WALL) != pid)
		err(EXIT_FAILURE, "waitpid");
	return status;
}

/* Fails unless the child stopped for this signal (event in the bits above). */
static inline void expect_stop(int status, int wanted)
{
	if (!WIFSTOPPED(status))
		errx(EXIT_FAILURE, "no stop but status %#x", status);
	if (status >> 8 != wanted)
		errx(EXIT_FAILURE, "a stop by %#x, not %#x", status >> 8, wanted);
}

static inline void expect_end(pid_t pid)
{
	int status = wait_for(pid);

	if (WIFSIGNALED(status))
		printf("killed by signal %d\n", WTERMSIG(status));
	else if (WIFEXITED(status))
		printf("ended with %d\n", WEXITSTATUS(status));
	else
		errx(EXIT_FAILURE, "no end but status %#x", status);
}

static inline void name_tracee(void)
{
	if (prctl(PR_SET_NAME, "tracee"))
		err(EXIT_FAILURE, "prctl");
}

/* Starts a traced child, which has stopped between make_ready() and part(). */
static inline pid_t start_traced(void (*make_ready)(void), void (*part)(void))
{
	pid_t pid = fork();

	switch (pid) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		name_tracee();
		make_ready();
		trace(PTRACE_TRACEME, 0, 0, 0);
		if (kill(getpid(), SIGSTOP))
			err(EXIT_FAILURE, "kill");
		part();
		_exit(EXIT_SUCCESS);
	}
	expect_stop(wait_for(pid), SIGSTOP);
	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
	return pid;
}

static inline void nothing(void)
{
}

static inline struct user_regs_struct registers(pid_t pid)
{
	struct user_regs_struct regs;
	struct iovec iov = { .iov_base = &regs, .iov_len = sizeof(regs) };

	trace(PTRACE_GETREGSET, pid, NT_PRSTATUS, (uintptr_t)&iov);
	if (iov.iov_len != sizeof(regs))
		errx(EXIT_FAILURE, "registers of %zu bytes", iov.iov_len);
	return regs;
}

#endif
