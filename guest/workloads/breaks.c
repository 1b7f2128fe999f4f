// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets hardware breakpoints and watchpoints of its child through the register
 * sets of ptrace(2), and prints the registers and the stops.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "pin.h"
#include "tracee.h"
#include "ways.h"

/* Only after the headers of libc, parts of which it defines again. */
#include <asm/ptrace.h>

static const char usage[] =
	"Usage: breaks execute|read|partial|refused|full|inherited\n"
	"\n"
	"execute    stops a child at one instruction of a function, not at the others\n"
	"read       reads the registers of a child back\n"
	"partial    sets a register by and by\n"
	"refused    tries values that the kernel must refuse\n"
	"full       uses up all registers\n"
	"inherited  lets a child with a breakpoint fork and execute a program\n";

/* See DBGBCR_EL1 and DBGWCR_EL1: the bytes, the kind of access, EL0, enabled. */
#define EXECUTE 0
#define LOAD 1
#define STORE 2
#define CONTROL(bytes, access) ((bytes) << 5 | (access) << 3 | 2 << 1 | 1)
#define ENABLED CONTROL(0xf, EXECUTE)

/* An address that only the kernel uses. */
#define KERNEL_ADDRESS 0xffff800080000000UL

/* Two instructions before the one to stop at, and one after it. */
extern const char steps[] __attribute__((visibility("hidden")));

__asm__(".pushsection .text\n"
	"	.globl	steps\n"
	"	.balign	8\n"
	"steps:	mov	w0, #1\n"
	"	add	w0, w0, #1\n"
	"	add	w0, w0, #1\n"
	"	ret\n"
	".popsection");

#define THIRD ((uintptr_t)steps + 8)

static volatile unsigned char bytes[16] __attribute__((aligned(8)));

/* Returns the number of bytes that the request transferred, or -1 with errno. */
static ssize_t transfer(int request, pid_t pid, int set, void *state, size_t size)
{
	struct iovec iov = { .iov_base = state, .iov_len = size };

	return ptrace(request, pid, set, &iov) ? -1 : (ssize_t)iov.iov_len;
}

/* The size of a set of which `count` registers are transferred. */
static size_t size_of(size_t count)
{
	return offsetof(struct user_hwdebug_state, dbg_regs[count]);
}

static struct user_hwdebug_state look(pid_t pid, int set)
{
	struct user_hwdebug_state state = { 0 };

	if (transfer(PTRACE_GETREGSET, pid, set, &state, sizeof(state)) == -1)
		err(EXIT_FAILURE, "set %#x", set);
	return state;
}

/* Sets one register. Returns the errno, or 0. */
static int place(pid_t pid, int set, size_t index, uint64_t address, uint32_t control)
{
	struct user_hwdebug_state state = look(pid, set);

	state.dbg_regs[index].addr = address;
	state.dbg_regs[index].ctrl = control;
	if (transfer(PTRACE_SETREGSET, pid, set, &state, size_of(index + 1)) == -1)
		return errno;
	return 0;
}

static void expect_placed(pid_t pid, int set, size_t index, uint64_t address, uint32_t control)
{
	errno = place(pid, set, index, address, control);
	if (errno)
		err(EXIT_FAILURE, "register %zu of set %#x", index, set);
}

static void part_steps(void)
{
	int (*function)(void) = (int (*)(void))steps;

	_exit(function() + function());
}

static void expect_breakpoint(pid_t pid)
{
	siginfo_t info;

	expect_stop(wait_for(pid), SIGTRAP);
	trace(PTRACE_GETSIGINFO, pid, 0, (uintptr_t)&info);
	printf("code %d at steps+%#tx, pc at steps+%#llx\n", info.si_code,
	       (uintptr_t)info.si_addr - (uintptr_t)steps,
	       registers(pid).pc - (uintptr_t)steps);
}

static int execute(void)
{
	pid_t pid = start_traced(nothing, part_steps);

	expect_placed(pid, NT_ARM_HW_BREAK, 0, THIRD, ENABLED);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_breakpoint(pid);
	/* It is hit again as long as it is enabled. */
	trace(PTRACE_CONT, pid, 0, 0);
	expect_breakpoint(pid);
	/* Disabled for one instruction. */
	expect_placed(pid, NT_ARM_HW_BREAK, 0, THIRD, 0);
	trace(PTRACE_SINGLESTEP, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP);
	printf("stepped to steps+%#llx\n", registers(pid).pc - (uintptr_t)steps);
	expect_placed(pid, NT_ARM_HW_BREAK, 0, THIRD, ENABLED);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_breakpoint(pid);
	expect_placed(pid, NT_ARM_HW_BREAK, 0, THIRD, 0);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

/* Prints the offset and the control of each register that has an address. */
static void tell(pid_t pid, const char *name, int set, uintptr_t base)
{
	struct user_hwdebug_state state = look(pid, set);
	size_t i;

	printf("%s:", name);
	for (i = 0; i < sizeof(state.dbg_regs) / sizeof(*state.dbg_regs); i++)
		if (state.dbg_regs[i].addr)
			printf(" %zu at %+td is %#x", i, (intptr_t)(state.dbg_regs[i].addr - base),
			       state.dbg_regs[i].ctrl);
	printf("\n");
}

static unsigned int number_of(pid_t pid, int set)
{
	return look(pid, set).dbg_info & 0xff;
}

static int read_back(void)
{
	const uintptr_t base = (uintptr_t)bytes;
	pid_t pid = start_traced(nothing, part_steps);

	tell(pid, "before", NT_ARM_HW_BREAK, (uintptr_t)steps);
	expect_placed(pid, NT_ARM_HW_BREAK, 1, THIRD, ENABLED);
	tell(pid, "break", NT_ARM_HW_BREAK, (uintptr_t)steps);
	/* Bytes 1 and 2 of those at 8. */
	expect_placed(pid, NT_ARM_HW_WATCH, 0, base + 8, CONTROL(0x6, STORE));
	tell(pid, "watch", NT_ARM_HW_WATCH, base);
	/* All but the address is kept while it is disabled. */
	expect_placed(pid, NT_ARM_HW_WATCH, 0, base, CONTROL(0x6, STORE) & ~1);
	tell(pid, "disabled", NT_ARM_HW_WATCH, base);
	expect_placed(pid, NT_ARM_HW_WATCH, 0, base, CONTROL(0xff, LOAD));
	tell(pid, "changed", NT_ARM_HW_WATCH, base);
	trace(PTRACE_KILL, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void try_size(pid_t pid, size_t size)
{
	struct user_hwdebug_state state = {
		.dbg_regs = {
			{ .addr = THIRD, .ctrl = ENABLED },
			{ .addr = THIRD + 4, .ctrl = ENABLED },
		},
	};
	ssize_t done = transfer(PTRACE_SETREGSET, pid, NT_ARM_HW_BREAK, &state, size);

	printf("%zu bytes: %s, ", size, done == -1 ? strerrorname_np(errno) : "set");
	tell(pid, "now", NT_ARM_HW_BREAK, (uintptr_t)steps);
}

static int partial(void)
{
	pid_t pid = start_traced(nothing, part_steps);

	try_size(pid, 0);
	try_size(pid, 8);
	/* Half an address, an address, and its control. */
	try_size(pid, 12);
	try_size(pid, 16);
	try_size(pid, 20);
	try_size(pid, 24);
	/* The first is set again. */
	try_size(pid, 28);
	try_size(pid, 32);
	try_size(pid, 36);
	try_size(pid, 38);
	trace(PTRACE_KILL, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void try_place(pid_t pid, const char *what, int set, uint64_t address, uint32_t control)
{
	int error = place(pid, set, 0, address, control);

	printf("%s: %s\n", what, error ? strerrorname_np(error) : "set");
}

static int refused(void)
{
	const uintptr_t base = (uintptr_t)bytes;
	pid_t pid = start_traced(nothing, part_steps);

	try_place(pid, "watched bytes", NT_ARM_HW_WATCH, base, CONTROL(0xf, STORE));
	try_place(pid, "no bytes", NT_ARM_HW_WATCH, base, CONTROL(0, STORE));
	try_place(pid, "separate bytes", NT_ARM_HW_WATCH, base, CONTROL(0x5, STORE));
	try_place(pid, "watched execution", NT_ARM_HW_WATCH, base, CONTROL(0xf, EXECUTE));
	try_place(pid, "watched kernel", NT_ARM_HW_WATCH, KERNEL_ADDRESS, CONTROL(0xf, STORE));
	tell(pid, "watch", NT_ARM_HW_WATCH, base);
	try_place(pid, "instruction", NT_ARM_HW_BREAK, THIRD, ENABLED);
	try_place(pid, "broken store", NT_ARM_HW_BREAK, THIRD, CONTROL(0xf, STORE));
	try_place(pid, "broken kernel", NT_ARM_HW_BREAK, KERNEL_ADDRESS, ENABLED);
	tell(pid, "break", NT_ARM_HW_BREAK, (uintptr_t)steps);
	trace(PTRACE_KILL, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

/* Sets register after register until one is refused. */
static void fill(pid_t pid, const char *name, int set, uint64_t address, uint32_t control)
{
	const unsigned int number = number_of(pid, set);
	unsigned int count = 0;
	int error;

	while (!(error = place(pid, set, count, address, control)))
		count++;
	printf("%s %s, then %s\n", count == number ? "all" : "not all", name, strerrorname_np(error));
}

static int full(void)
{
	pid_t pid = start_traced(nothing, part_steps), second;

	fill(pid, "breakpoints", NT_ARM_HW_BREAK, THIRD, ENABLED);
	fill(pid, "watchpoints", NT_ARM_HW_WATCH, (uintptr_t)bytes, CONTROL(0xf, STORE));
	/* Another task has registers of its own. */
	second = start_traced(nothing, part_steps);
	fill(second, "breakpoints", NT_ARM_HW_BREAK, THIRD, ENABLED);
	trace(PTRACE_KILL, second, 0, 0);
	expect_end(second);
	trace(PTRACE_KILL, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void part_forks(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		part_steps();
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		err(EXIT_FAILURE, "fork");
	/* A process that is trapped but not traced is killed by SIGTRAP. */
	_exit(WIFSIGNALED(status));
}

static void part_executes(void)
{
	execl("/proc/self/exe", "breaks", "steps", NULL);
	err(EXIT_FAILURE, "exec");
}

static int inherited(void)
{
	pid_t pid = start_traced(nothing, part_forks);

	expect_placed(pid, NT_ARM_HW_BREAK, 0, THIRD, ENABLED);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGCHLD);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	pid = start_traced(nothing, part_executes);
	expect_placed(pid, NT_ARM_HW_BREAK, 0, THIRD, ENABLED);
	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC);
	tell(pid, "before", NT_ARM_HW_BREAK, (uintptr_t)steps);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP | PTRACE_EVENT_EXEC << 8);
	tell(pid, "after exec", NT_ARM_HW_BREAK, (uintptr_t)steps);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

/* The program that `inherited` executes. */
static int call_steps(void)
{
	part_steps();
	return EXIT_FAILURE;
}

static const struct way ways[] = {
	{ "execute", execute },
	{ "read", read_back },
	{ "partial", partial },
	{ "refused", refused },
	{ "full", full },
	{ "inherited", inherited },
	{ "steps", call_steps },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	/*
	 * The first breakpoint switches the key perf_sched_events. QEMU 7.2 may
	 * keep running the old text on another CPU.
	 */
	pin(0);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
