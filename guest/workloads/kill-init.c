// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kills PID 1, which no signal can, by making it jump to address 0.
 */
#include <elf.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static const char usage[] =
	"Usage: kill-init\n"
	"\n"
	"Makes PID 1 jump to address 0, with ptrace(2). The kernel panics.\n";

int main(int argc, char **argv)
{
	struct user_regs_struct regs;
	struct iovec area = { .iov_base = &regs, .iov_len = sizeof(regs) };

	if (argc > 1) {
		int help = !strcmp(argv[1], "--help");

		fputs(usage, help ? stdout : stderr);
		return help ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	if (ptrace(PTRACE_ATTACH, 1, NULL, NULL) || waitpid(1, NULL, __WALL) != 1)
		err(EXIT_FAILURE, "attach to 1");
	if (ptrace(PTRACE_GETREGSET, 1, NT_PRSTATUS, &area))
		err(EXIT_FAILURE, "read registers of 1");
	regs.pc = 0;
	if (ptrace(PTRACE_SETREGSET, 1, NT_PRSTATUS, &area))
		err(EXIT_FAILURE, "write registers of 1");
	if (ptrace(PTRACE_DETACH, 1, NULL, NULL))
		err(EXIT_FAILURE, "detach from 1");
	return EXIT_SUCCESS;
}
