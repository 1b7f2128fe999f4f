// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads and changes the registers of its child, one register set of ptrace(2)
 * after the other, and prints them.
 *
 * The child only runs instructions of this file between two stops, so that its
 * registers are known.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"
#include "tracee.h"
#include "ways.h"

/* Only after the headers of libc, parts of which it defines again. */
#include <asm/ptrace.h>

static const char usage[] =
	"Usage: regsets general|pstate|vectors|tls|call|skip|emulate|sizes\n"
	"\n"
	"general  reads the general registers of a child, and changes the first ones\n"
	"pstate   sets bits of the processor state, permitted and not\n"
	"vectors  reads the vector registers, and changes the first one\n"
	"tls      moves the thread pointer\n"
	"call     reads the number of a system call\n"
	"skip     replaces system calls by none, with two results\n"
	"emulate  answers the system calls of a child, and steps over one\n"
	"sizes    reads each register set with different sizes\n";

/* BRK #0 stops the child with a SIGTRAP; its registers remain. */
#define STOP "	brk	#0\n"

/* x20 is 20, ..., x23 is 23; after the stop x0 is the sum of x20 and x22. */
extern const char numbered[] __attribute__((visibility("hidden")));
/* N and C are set; after the stop x0 is the four flags. */
extern const char flagged[] __attribute__((visibility("hidden")));
/* v0 and v31 are the words at x0; after the stop they are stored there. */
extern const char filled[] __attribute__((visibility("hidden")));
/* x0 is the thread pointer, at each of two stops. */
extern const char pointed[] __attribute__((visibility("hidden")));

__asm__(".pushsection .text\n"
	"	.globl	numbered, flagged, filled, pointed\n"
	"	.balign	8\n"
	"numbered:\n"
	"	mov	x20, #20\n"
	"	mov	x21, #21\n"
	"	mov	x22, #22\n"
	"	mov	x23, #23\n"
	STOP
	"	add	x0, x20, x22\n"
	"	ret\n"
	"flagged:\n"
	"	mov	x0, #0xa0000000\n"
	"	msr	nzcv, x0\n"
	STOP
	"	mrs	x0, nzcv\n"
	"	lsr	x0, x0, #28\n"
	"	ret\n"
	"filled:\n"
	"	ldr	q0, [x0]\n"
	"	ldr	q31, [x0, #16]\n"
	STOP
	"	str	q0, [x0]\n"
	"	str	q31, [x0, #16]\n"
	"	ret\n"
	"pointed:\n"
	"	mrs	x0, tpidr_el0\n"
	STOP
	"	mrs	x0, tpidr_el0\n"
	STOP
	"	ret\n"
	".popsection");

/* Instructions are skipped by moving the program counter. */
#define INSTRUCTION 4

static uint64_t words[4] = { 0x1111, 0x2222, 0x3333, 0x4444 };

/* Returns the number of bytes that the request transferred, or -1 with errno. */
static ssize_t transfer(int request, pid_t pid, int set, void *buffer, size_t size)
{
	struct iovec iov = { .iov_base = buffer, .iov_len = size };

	return ptrace(request, pid, set, &iov) ? -1 : (ssize_t)iov.iov_len;
}

static void change(pid_t pid, int set, void *buffer, size_t size)
{
	if (transfer(PTRACE_SETREGSET, pid, set, buffer, size) != (ssize_t)size)
		err(EXIT_FAILURE, "set %#x of %zu bytes", set, size);
}

static void look(pid_t pid, int set, void *buffer, size_t size)
{
	if (transfer(PTRACE_GETREGSET, pid, set, buffer, size) != (ssize_t)size)
		err(EXIT_FAILURE, "get %#x of %zu bytes", set, size);
}

/* Lets the child run to its next BRK, and past it when it next continues. */
static struct user_regs_struct run_to_stop(pid_t pid)
{
	struct user_regs_struct regs;

	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP);
	regs = registers(pid);
	regs.pc += INSTRUCTION;
	change(pid, NT_PRSTATUS, &regs, sizeof(regs));
	return regs;
}

static void finish(pid_t pid)
{
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
}

static void part_numbered(void)
{
	_exit(((int (*)(void))numbered)());
}

static void part_flagged(void)
{
	_exit(((int (*)(void))flagged)());
}

static int general(void)
{
	pid_t pid = start_traced(nothing, part_numbered);
	struct user_regs_struct regs = run_to_stop(pid);
	uint64_t first[22];

	printf("continues at +%#llx\n", regs.pc - (uintptr_t)numbered);
	printf("x20 to x23: %llu %llu %llu %llu\n", regs.regs[20], regs.regs[21],
	       regs.regs[22], regs.regs[23]);
	look(pid, NT_PRSTATUS, first, sizeof(first));
	first[20] = 120;
	first[21] = 121;
	change(pid, NT_PRSTATUS, first, sizeof(first));
	regs = registers(pid);
	printf("x20 to x23: %llu %llu %llu %llu\n", regs.regs[20], regs.regs[21],
	       regs.regs[22], regs.regs[23]);
	finish(pid);
	return EXIT_SUCCESS;
}

static void set_pstate(pid_t pid, const char *what, uint64_t pstate)
{
	struct user_regs_struct regs = registers(pid);
	ssize_t size;

	regs.pstate = pstate;
	size = transfer(PTRACE_SETREGSET, pid, NT_PRSTATUS, &regs, sizeof(regs));
	printf("%s: %s, now %#llx\n", what, size == -1 ? strerrorname_np(errno) : "done",
	       registers(pid).pstate & (PSR_N_BIT | PSR_Z_BIT | PSR_C_BIT | PSR_V_BIT |
					PSR_MODE_MASK | PSR_MODE32_BIT | PSR_D_BIT |
					PSR_A_BIT | PSR_I_BIT | PSR_F_BIT | 1 << 20));
}

static int pstate(void)
{
	pid_t pid = start_traced(nothing, part_flagged);

	run_to_stop(pid);
	set_pstate(pid, "flags", PSR_Z_BIT | PSR_V_BIT);
	set_pstate(pid, "reserved bit", PSR_N_BIT | 1 << 20);
	set_pstate(pid, "masked interrupts", PSR_N_BIT | PSR_I_BIT);
	set_pstate(pid, "kernel mode", PSR_N_BIT | PSR_MODE_EL1h);
	set_pstate(pid, "32-bit mode", PSR_N_BIT | PSR_MODE32_BIT);
	set_pstate(pid, "flags again", PSR_Z_BIT | PSR_V_BIT);
	/* The child exits with its flags. */
	finish(pid);
	return EXIT_SUCCESS;
}

static void part_filled(void)
{
	((void (*)(uint64_t *))filled)(words);
	printf("stored %#" PRIx64 " %#" PRIx64 " %#" PRIx64 " %#" PRIx64 "\n", words[0],
	       words[1], words[2], words[3]);
	fflush(stdout);
}

static void tell_vectors(pid_t pid)
{
	struct user_fpsimd_state state;

	look(pid, NT_PRFPREG, &state, sizeof(state));
	printf("v0 %#" PRIx64 " %#" PRIx64 ", v31 %#" PRIx64 " %#" PRIx64 "\n",
	       (uint64_t)state.vregs[0], (uint64_t)(state.vregs[0] >> 64),
	       (uint64_t)state.vregs[31], (uint64_t)(state.vregs[31] >> 64));
}

static int vectors(void)
{
	uint64_t first[2] = { 0x5555, 0x6666 };
	pid_t pid = start_traced(nothing, part_filled);

	run_to_stop(pid);
	tell_vectors(pid);
	change(pid, NT_PRFPREG, first, sizeof(first));
	tell_vectors(pid);
	finish(pid);
	return EXIT_SUCCESS;
}

static void part_pointed(void)
{
	((void (*)(void))pointed)();
}

static int tls(void)
{
	pid_t pid = start_traced(nothing, part_pointed);
	uint64_t pointer, original, other = 0x7e57;

	original = run_to_stop(pid).regs[0];
	look(pid, NT_ARM_TLS, &pointer, sizeof(pointer));
	printf("the set %s the register\n", pointer == original ? "agrees with" : "is not");
	change(pid, NT_ARM_TLS, &other, sizeof(other));
	printf("the child reads %#llx\n", run_to_stop(pid).regs[0]);
	change(pid, NT_ARM_TLS, &original, sizeof(original));
	finish(pid);
	return EXIT_SUCCESS;
}

static void part_calls(void)
{
	long first, second;

	errno = 0;
	first = syscall(SYS_getppid);
	second = syscall(SYS_getppid);
	_exit(first == 77 && second == -1 && errno == EPERM ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void run_to_call(pid_t pid, int request)
{
	trace(request, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP | 0x80);
}

static int call_number(pid_t pid)
{
	int number;

	look(pid, NT_ARM_SYSTEM_CALL, &number, sizeof(number));
	return number;
}

static int call(void)
{
	pid_t pid = start_traced(nothing, part_calls);

	run_to_call(pid, PTRACE_SYSCALL);
	printf("enters %d\n", call_number(pid));
	run_to_call(pid, PTRACE_SYSCALL);
	printf("leaves %d\n", call_number(pid));
	trace(PTRACE_KILL, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static void set_result(pid_t pid, uint64_t result)
{
	struct user_regs_struct regs = registers(pid);

	regs.regs[0] = result;
	change(pid, NT_PRSTATUS, &regs, sizeof(regs));
}

/* A call that is replaced by none returns what x0 is then. */
static int skip(void)
{
	pid_t pid = start_traced(nothing, part_calls);
	const uint64_t results[] = { 77, -EPERM };
	int none = -1;
	size_t i;

	for (i = 0; i < sizeof(results) / sizeof(*results); i++) {
		run_to_call(pid, PTRACE_SYSCALL);
		printf("skips %d\n", call_number(pid));
		change(pid, NT_ARM_SYSTEM_CALL, &none, sizeof(none));
		set_result(pid, results[i]);
		run_to_call(pid, PTRACE_SYSCALL);
		printf("result %lld of %d\n", (long long)registers(pid).regs[0],
		       call_number(pid));
	}
	finish(pid);
	return EXIT_SUCCESS;
}

static int emulate(void)
{
	pid_t pid = start_traced(nothing, part_calls);

	run_to_call(pid, PTRACE_SYSEMU);
	printf("emulates %d\n", call_number(pid));
	set_result(pid, 77);
	/* The next stop is the entry of the next call. */
	run_to_call(pid, PTRACE_SYSEMU);
	printf("emulates %d\n", call_number(pid));
	set_result(pid, -EPERM);
	/* A step from there executes no instruction but reports the end of the call. */
	trace(PTRACE_SYSEMU_SINGLESTEP, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP);
	printf("stepped\n");
	finish(pid);
	return EXIT_SUCCESS;
}

static void try_size(pid_t pid, const char *name, int set, size_t size)
{
	char buffer[4096];
	ssize_t got = transfer(PTRACE_GETREGSET, pid, set, buffer, size);

	if (got == -1)
		printf("%s %zu: %s\n", name, size, strerrorname_np(errno));
	else
		printf("%s %zu: %zd\n", name, size, got);
}

static int sizes(void)
{
	pid_t pid = start_traced(nothing, part_numbered);

	try_size(pid, "general", NT_PRSTATUS, 0);
	try_size(pid, "general", NT_PRSTATUS, 8);
	try_size(pid, "general", NT_PRSTATUS, 12);
	try_size(pid, "general", NT_PRSTATUS, 4096);
	try_size(pid, "vectors", NT_PRFPREG, 4);
	try_size(pid, "vectors", NT_PRFPREG, 6);
	try_size(pid, "vectors", NT_PRFPREG, 4096);
	try_size(pid, "call", NT_ARM_SYSTEM_CALL, 4096);
	try_size(pid, "unknown", NT_PRPSINFO, 8);
	trace(PTRACE_KILL, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "general", general },
	{ "pstate", pstate },
	{ "vectors", vectors },
	{ "tls", tls },
	{ "call", call },
	{ "skip", skip },
	{ "emulate", emulate },
	{ "sizes", sizes },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
