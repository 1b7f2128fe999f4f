// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attaches to other processes as one user or another, and prints whether that is
 * permitted.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "tracee.h"
#include "ways.h"

static const char usage[] =
	"Usage: permitted users|undumpable\n"
	"\n"
	"users       attaches to processes of the same and of other users and groups\n"
	"undumpable  attaches to a process that forbids it, and to one that does so later\n";

/* Users and groups without any privilege. */
#define USER 1001
#define OTHER 1002

struct identity {
	uid_t real_user, effective_user;
	gid_t real_group, effective_group;
};

static void become(const struct identity *identity)
{
	if (setgroups(0, NULL) ||
	    setresgid(identity->real_group, identity->effective_group, identity->effective_group) ||
	    setresuid(identity->real_user, identity->effective_user, identity->effective_user) ||
	    /* A change of identity forbids it. */
	    prctl(PR_SET_DUMPABLE, 1))
		err(EXIT_FAILURE, "identity");
}

/* Starts a process of this identity, which does nothing until it is killed. */
static pid_t start_as(const struct identity *identity, bool dumpable)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready))
		err(EXIT_FAILURE, "pipe");
	pid = fork();
	if (!pid) {
		become(identity);
		name_tracee();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prctl(PR_SET_DUMPABLE, dumpable) || write(ready[1], "", 1) != 1)
			err(EXIT_FAILURE, "ready");
		for (;;)
			pause();
	}
	if (pid == -1 || read(ready[0], &byte, 1) != 1)
		err(EXIT_FAILURE, "start");
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static const char *outcome(bool success)
{
	return success ? "permitted" : strerrorname_np(errno);
}

/* Needs the permission to read, not to attach. */
static void try_environment(pid_t pid)
{
	char path[64], byte;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY);
	printf(", environment %s\n", outcome(fd != -1 && read(fd, &byte, 1) != -1));
	if (fd != -1)
		close(fd);
}

static void try_attach(const char *what, pid_t pid)
{
	uint64_t word;
	struct iovec to = { &word, sizeof(word) }, from = { (void *)usage, sizeof(word) };
	long result = ptrace(PTRACE_SEIZE, pid, 0, 0);

	printf("%s: attach %s", what, outcome(!result));
	if (!result) {
		trace(PTRACE_INTERRUPT, pid, 0, 0);
		wait_for(pid);
		trace(PTRACE_DETACH, pid, 0, 0);
	}
	printf(", memory %s", outcome(process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(word)));
	try_environment(pid);
}

static int users(void)
{
	static const struct {
		const char *what;
		struct identity identity;
	} tracees[] = {
		{ "same user and group", { USER, USER, USER, USER } },
		{ "other user", { OTHER, OTHER, USER, USER } },
		{ "other group", { USER, USER, OTHER, OTHER } },
		{ "other effective user", { USER, OTHER, USER, USER } },
		{ "other effective group", { USER, USER, USER, OTHER } },
		{ "root", { 0, 0, 0, 0 } },
	};
	const size_t count = sizeof(tracees) / sizeof(*tracees);
	const struct identity me = { USER, USER, USER, USER };
	pid_t pids[count];
	size_t i;

	for (i = 0; i < count; i++)
		pids[i] = start_as(&tracees[i].identity, true);
	try_attach("as root: other user", pids[1]);
	become(&me);
	for (i = 0; i < count; i++)
		try_attach(tracees[i].what, pids[i]);
	return EXIT_SUCCESS;
}

static void part_undumpable(void)
{
	if (prctl(PR_SET_DUMPABLE, 0))
		err(EXIT_FAILURE, "prctl");
	raise(SIGSTOP);
}

static void tell_peek(pid_t pid)
{
	errno = 0;
	ptrace(PTRACE_PEEKDATA, pid, usage, 0);
	printf("peek %s", outcome(!errno));
	printf(", poke %s\n", outcome(!ptrace(PTRACE_POKEDATA, pid, usage, 0)));
}

static int undumpable(void)
{
	const struct identity me = { USER, USER, USER, USER };
	pid_t pid = start_as(&me, false);

	try_attach("as root", pid);
	become(&me);
	try_attach("as the same user", pid);
	pid = start_traced(nothing, part_undumpable);
	tell_peek(pid);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGSTOP);
	/* It is still traced, but its memory is out of reach. */
	tell_peek(pid);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "users", users },
	{ "undumpable", undumpable },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
