// SPDX-License-Identifier: GPL-2.0-only
/*
 * Handles its child like a debugger, and prints what ptrace(2) and waitpid(2)
 * report.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"
#include "tracee.h"
#include "ways.h"

/* Only after the headers of libc, parts of which it defines again. */
#include <asm/ptrace.h>

static const char usage[] =
	"Usage: debug singlestep|breakpoint|watchpoint|peek\n"
	"\n"
	"singlestep  stops a child after each instruction of a function\n"
	"breakpoint  puts a BRK into a function, and removes it when it is hit\n"
	"watchpoint  watches some of eight bytes while a child writes to each of them\n"
	"peek        reads and changes a page that its owner may only read\n";

/* BRK #0, the breakpoint of debuggers. */
#define BRK 0xd4200000U

/* The value in the child's page. */
#define HELD 41

/* Avoids accesses through the global offset table. */
#define __hidden __attribute__((visibility("hidden")))

/*
 * Stepped through from after its BRK to its caller: one instruction per stop,
 * including branches.
 */
extern const char walk[] __hidden, walk_end[] __hidden;
/* The function for the breakpoint: one instruction with a result, and a ret. */
extern const char answer[] __hidden;

__asm__(".pushsection .text\n"
	"	.globl	walk, walk_end, answer\n"
	"	.balign	8\n"
	"walk:	brk	#0\n"
	"	mov	x0, #1\n"
	"	b	1f\n"
	"	nop\n"
	"1:	add	x0, x0, #1\n"
	"	cbz	x0, 1b\n"
	"	ret\n"
	"walk_end:\n"
	"	.balign	8\n"
	"answer:	mov	w0, #42\n"
	"	ret\n"
	".popsection");

static void go_on_at(pid_t pid, uintptr_t pc)
{
	struct user_regs_struct regs = registers(pid);
	struct iovec iov = { .iov_base = &regs, .iov_len = sizeof(regs) };

	regs.pc = pc;
	trace(PTRACE_SETREGSET, pid, NT_PRSTATUS, (uintptr_t)&iov);
}

/* Prints the SIGTRAP of an instruction, and returns its address. */
static uintptr_t tell_trap(pid_t pid)
{
	const struct user_regs_struct regs = registers(pid);
	siginfo_t info;

	trace(PTRACE_GETSIGINFO, pid, 0, (uintptr_t)&info);
	if ((uintptr_t)info.si_addr != regs.pc)
		errx(EXIT_FAILURE, "a signal of %p at %#llx", info.si_addr, regs.pc);
	printf("signal %d code %d at %#llx", info.si_signo, info.si_code, regs.pc);
	return regs.pc;
}

static void part_walk(void)
{
	((void (*)(void))walk)();
}

static int singlestep(void)
{
	const uintptr_t first = (uintptr_t)walk, end = (uintptr_t)walk_end;
	pid_t pid = start_traced(nothing, part_walk);
	int steps = 0;
	uintptr_t pc;

	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP);
	pc = tell_trap(pid);
	printf(" walk+%#tx\n", pc - first);
	go_on_at(pid, pc + 4);
	do {
		if (++steps > STOPS_MAX)
			errx(EXIT_FAILURE, "more than %d stops", STOPS_MAX);
		trace(PTRACE_SINGLESTEP, pid, 0, 0);
		expect_stop(wait_for(pid), SIGTRAP);
		pc = tell_trap(pid);
		if (pc >= first && pc < end)
			printf(" walk+%#tx\n", pc - first);
		else
			printf(" its caller\n");
	} while (pc >= first && pc < end);
	trace(PTRACE_CONT, pid, 0, 0);
	printf("%d steps\n", steps);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static uint64_t peek(int request, pid_t pid, uintptr_t address)
{
	uint64_t word;

	/* Unlike that of libc, the raw system call stores the word separately. */
	if (syscall(SYS_ptrace, request, pid, address, &word)) {
		printf("peek %#" PRIxPTR ": %s\n", address, strerrorname_np(errno));
		return 0;
	}
	printf("peek %#" PRIxPTR ": %#" PRIx64 "\n", address, word);
	return word;
}

static void poke(int request, pid_t pid, uintptr_t address, uint64_t word)
{
	trace(request, pid, address, word);
	printf("poke %#" PRIxPTR ": %#" PRIx64 "\n", address, word);
}

static void part_answers(void)
{
	int (*function)(void) = (int (*)(void))answer;
	int first = function();

	/* The breakpoint is gone at the second call. */
	_exit(first == function() ? first : EXIT_FAILURE);
}

static int breakpoint(void)
{
	const uintptr_t address = (uintptr_t)answer;
	pid_t pid = start_traced(nothing, part_answers);
	uint64_t original;

	original = peek(PTRACE_PEEKTEXT, pid, address);
	poke(PTRACE_POKETEXT, pid, address, (original & ~0xffffffffULL) | BRK);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP);
	printf(" is answer+%#tx\n", tell_trap(pid) - address);
	poke(PTRACE_POKETEXT, pid, address, original);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static volatile unsigned char bytes[8] __attribute__((aligned(8)));

static void part_writes(void)
{
	size_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = 1;
}

/* Watches writes to the bytes of the mask; none removes the watchpoint. */
static void watch(pid_t pid, uint32_t mask)
{
	/* Of an unprivileged store; see DBGWCR_EL1. */
	const uint32_t control = mask ? mask << 5 | 2 << 3 | 2 << 1 | 1 : 0;
	struct user_hwdebug_state state = {
		.dbg_regs = { { .addr = (uintptr_t)bytes, .ctrl = control } },
	};
	struct iovec iov = {
		.iov_base = &state,
		.iov_len = offsetof(struct user_hwdebug_state, dbg_regs[1]),
	};

	trace(PTRACE_SETREGSET, pid, NT_ARM_HW_WATCH, (uintptr_t)&iov);
}

static void tell_writes(uint32_t mask)
{
	pid_t pid = start_traced(nothing, part_writes);
	siginfo_t info;
	int status;

	printf("watched %#" PRIx32 ":", mask);
	for (;;) {
		watch(pid, mask);
		trace(PTRACE_CONT, pid, 0, 0);
		status = wait_for(pid);
		if (!WIFSTOPPED(status))
			break;
		expect_stop(status, SIGTRAP);
		trace(PTRACE_GETSIGINFO, pid, 0, (uintptr_t)&info);
		printf(" %td", (uintptr_t)info.si_addr - (uintptr_t)bytes);
		/* The write itself is still to come. */
		watch(pid, 0);
		trace(PTRACE_SINGLESTEP, pid, 0, 0);
		expect_stop(wait_for(pid), SIGTRAP);
	}
	printf("\n");
}

static int watchpoint(void)
{
	static const uint32_t masks[] = { 0x01, 0x20, 0x80, 0x0c, 0xf0, 0xff };
	size_t i;

	for (i = 0; i < sizeof(masks) / sizeof(*masks); i++)
		tell_writes(masks[i]);
	return EXIT_SUCCESS;
}

/* Two pages at the same address in both processes; the child unmaps the second. */
static volatile uint64_t *pages;
static long page_size;

static void hold(void)
{
	*pages = HELD;
	if (mprotect((void *)pages, page_size, PROT_READ) ||
	    munmap((char *)pages + page_size, page_size))
		err(EXIT_FAILURE, "mprotect or munmap");
}

static void part_reads(void)
{
	_exit(*pages);
}

static int peek_and_poke(void)
{
	uintptr_t address;
	uint64_t word;
	pid_t pid;

	page_size = sysconf(_SC_PAGESIZE);
	pages = mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	address = (uintptr_t)pages;
	pid = start_traced(hold, part_reads);
	word = peek(PTRACE_PEEKDATA, pid, address);
	peek(PTRACE_PEEKDATA, pid, address + page_size);
	/* The child itself could not write there. */
	poke(PTRACE_POKEDATA, pid, address, word + 1);
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "singlestep", singlestep },
	{ "breakpoint", breakpoint },
	{ "watchpoint", watchpoint },
	{ "peek", peek_and_poke },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
