// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions for uprobes that are entered and left in unusual ways. Prints what
 * each function does, which uprobes must not change.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "file-offset.h"
#include "ways.h"

static const char usage[] =
	"Usage: uprobed deep|jump|tail|fork|fault|brk|trampoline|map|places|wait\n"
	"\n"
	"deep        calls deep() 70 times, each within the last\n"
	"jump        leaves leap() by longjmp(3) 100 times, then calls plain()\n"
	"tail        calls first(), which ends with a branch to second()\n"
	"fork        forks in forks(), and calls plain() in a child of vfork(2)\n"
	"fault       executes load() with a bad address, which a signal handler corrects\n"
	"brk         executes a BRK #5 of its own, and calls plain()\n"
	"trampoline  jumps to the first instruction of [uprobes]\n"
	"map         calls plain() in other mappings of this file\n"
	"places      prints the file offsets of exclusive() and own_brk()\n"
	"wait        waits until it is killed\n";

#define DEPTH 70
#define LEAPS 100
#define INSTRUCTION 4

extern const char first[] __attribute__((visibility("hidden")));
extern const char load[] __attribute__((visibility("hidden")));
extern const char own_brk[] __attribute__((visibility("hidden")));
extern const char exclusive[] __attribute__((visibility("hidden")));

__asm__(".pushsection .text\n"
	"	.globl	first, second, load, own_brk, exclusive\n"
	"	.type	first, %function\n"
	"	.type	second, %function\n"
	"	.type	load, %function\n"
	"	.type	own_brk, %function\n"
	"	.type	exclusive, %function\n"
	"	.balign	8\n"
	"first:	mov	x0, #1\n"
	"	b	second\n"
	"	.size	first, . - first\n"
	"second:	add	x0, x0, #1\n"
	"	ret\n"
	"	.size	second, . - second\n"
	"load:	ldr	x0, [x0]\n"
	"	ret\n"
	"	.size	load, . - load\n"
	"own_brk:	brk	#5\n"
	"	ret\n"
	"	.size	own_brk, . - own_brk\n"
	/* An instruction that uprobes refuse: it cannot be stepped over elsewhere. */
	"exclusive:	ldxr	x1, [x0]\n"
	"	mov	x0, #7\n"
	"	ret\n"
	"	.size	exclusive, . - exclusive\n"
	".popsection");

static jmp_buf back;

/* Not a tail call, which would replace the frame. */
static int __attribute__((noinline)) deep(int left)
{
	int result = left > 1 ? deep(left - 1) : 0;

	__asm__ volatile("" : "+r"(result));
	return result + 1;
}

static void __attribute__((noinline)) leap(void)
{
	longjmp(back, 1);
}

static int __attribute__((noinline)) plain(void)
{
	int result = 42;

	__asm__ volatile("" : "+r"(result));
	return result;
}

static pid_t __attribute__((noinline)) forks(void)
{
	pid_t pid = fork();

	__asm__ volatile("" : "+r"(pid));
	return pid;
}

static int go_deep(void)
{
	printf("depth %d\n", deep(DEPTH));
	return EXIT_SUCCESS;
}

static int jump(void)
{
	volatile int leaps = 0;

	if (setjmp(back))
		leaps++;
	if (leaps < LEAPS)
		leap();
	printf("%d leaps, then %d\n", leaps, plain());
	return EXIT_SUCCESS;
}

static int tail(void)
{
	printf("returned %d\n", ((int (*)(void))first)());
	return EXIT_SUCCESS;
}

static void expect_child(pid_t pid, int wanted)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != wanted)
		errx(EXIT_FAILURE, "a child ended with %#x", status);
}

static int __attribute__((noinline)) fork_inside(void)
{
	pid_t pid = forks();

	if (!pid)
		_exit(plain());
	expect_child(pid, 42);
	pid = vfork();
	if (!pid)
		_exit(plain());
	expect_child(pid, 42);
	printf("both children returned\n");
	return EXIT_SUCCESS;
}

static volatile uintptr_t signal_pc, signal_address;
static uint64_t value = 7;

static void correct(int number, siginfo_t *info, void *context)
{
	struct ucontext_t *state = context;

	signal_pc = state->uc_mcontext.pc;
	signal_address = (uintptr_t)info->si_addr;
	if (number == SIGSEGV)
		state->uc_mcontext.regs[0] = (uintptr_t)&value;
	else
		state->uc_mcontext.pc += INSTRUCTION;
}

static void handle(int number)
{
	const struct sigaction action = { .sa_sigaction = correct, .sa_flags = SA_SIGINFO };

	if (sigaction(number, &action, NULL))
		err(EXIT_FAILURE, "sigaction");
}

static int fault(void)
{
	uint64_t result;

	handle(SIGSEGV);
	result = ((uint64_t (*)(uintptr_t))load)(8);
	printf("loaded %" PRIu64 ", fault of %#" PRIxPTR " at load+%#tx\n", result,
	       signal_address, signal_pc - (uintptr_t)load);
	return EXIT_SUCCESS;
}

static int brk_inside(void)
{
	handle(SIGTRAP);
	/* Some kernels repeat it forever. */
	alarm(2);
	((void (*)(void))own_brk)();
	printf("SIGTRAP at own_brk+%#tx\n", signal_pc - (uintptr_t)own_brk);
	printf("then %d, and %d\n", plain(), ((int (*)(void *))exclusive)(&value));
	return EXIT_SUCCESS;
}

/* The page to which the kernel copies probed instructions. */
static uintptr_t uprobes_page(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uintptr_t start;
	char line[256];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[uprobes]") && sscanf(line, "%" SCNxPTR, &start) == 1) {
			fclose(maps);
			return start;
		}
	errx(EXIT_FAILURE, "no [uprobes] in /proc/self/maps");
}

static sigjmp_buf illegal;

static void leave(int number)
{
	siglongjmp(illegal, number);
}

static int trampoline(void)
{
	int number;

	printf("plain %d\n", plain());
	signal(SIGILL, leave);
	signal(SIGTRAP, leave);
	number = sigsetjmp(illegal, 1);
	if (!number)
		((void (*)(void))uprobes_page())();
	printf("%s\n", number == SIGILL ? "SIGILL" : "another signal");
	return EXIT_SUCCESS;
}

/* Maps the page of plain() again, and returns the function's address there. */
static int (*map_plain(int protection, int flags))(void)
{
	const size_t size = sysconf(_SC_PAGESIZE);
	const uintptr_t offset = file_offset((uintptr_t)plain);
	int fd = open("/proc/self/exe", O_RDONLY);
	char *page = mmap(NULL, size, protection, flags, fd, offset & -size);

	if (page == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	close(fd);
	return (int (*)(void))(page + offset % size);
}

static void call_in(const char *what, int (*function)(void))
{
	const uint32_t brk = 0xd42000a0;

	printf("%s: %d, %s\n", what, function(),
	       memcmp((void *)function, &brk, sizeof(brk)) ? "original" : "probed");
}

static int map(void)
{
	const size_t size = sysconf(_SC_PAGESIZE);
	int (*function)(void) = map_plain(PROT_READ | PROT_EXEC, MAP_PRIVATE);
	char *page, *moved;

	call_in("own", plain);
	call_in("private", function);
	page = (char *)((uintptr_t)function & -size);
	/* Moved to a place that is free. */
	moved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	moved = mremap(page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, moved);
	if (moved == MAP_FAILED)
		err(EXIT_FAILURE, "mremap");
	function = (int (*)(void))(moved + ((uintptr_t)function & (size - 1)));
	call_in("moved", function);
	munmap(moved, size);
	call_in("shared", map_plain(PROT_READ | PROT_EXEC, MAP_SHARED));
	call_in("writable", map_plain(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE));
	call_in("own", plain);
	return EXIT_SUCCESS;
}

static int places(void)
{
	printf("exclusive %#" PRIxPTR "\n", file_offset((uintptr_t)exclusive));
	printf("own_brk %#" PRIxPTR "\n", file_offset((uintptr_t)own_brk));
	return EXIT_SUCCESS;
}

static int wait_forever(void)
{
	printf("waits\n");
	return pause() ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "deep", go_deep },
	{ "jump", jump },
	{ "tail", tail },
	{ "fork", fork_inside },
	{ "fault", fault },
	{ "brk", brk_inside },
	{ "trampoline", trampoline },
	{ "map", map },
	{ "places", places },
	{ "wait", wait_forever },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
