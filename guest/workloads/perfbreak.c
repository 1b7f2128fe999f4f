// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts hits of hardware breakpoints and watchpoints through perf_event_open(2),
 * in this process, and prints the counts.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "perfbreak.h"
#include "pin.h"
#include "tracee.h"
#include "ways.h"

static const char usage[] =
	"Usage: perfbreak access|execute|sleep|both|step|buffer|preempt|modify|refused\n"
	"\n"
	"access   watches reads, writes, and both of a word that is read and written\n"
	"execute  counts calls of a function, while enabled\n"
	"sleep    breaks at a system call that sleeps\n"
	"both     breaks at an instruction whose access is also watched\n"
	"step     steps a child over a breakpoint\n"
	"buffer   watches a buffer that the kernel reads\n"
	"preempt  lets each hit wake a task that preempts this one\n"
	"modify   changes the address, length and type of a watchpoint\n"
	"refused  tries attributes that the kernel must refuse\n";


static volatile uint64_t word, other;

/* The functions whose first instruction has a breakpoint. */
static void __attribute__((noinline)) called(void)
{
	__asm__ volatile("" ::: "memory");
}

extern const char store_word[] __attribute__((visibility("hidden")));
extern const char sleeps[] __attribute__((visibility("hidden")));

__asm__(".pushsection .text\n"
	"	.globl	store_word, sleeps\n"
	"	.balign	8\n"
	"store_word:\n"
	"	str	x1, [x0]\n"
	"	ret\n"
	/* nanosleep(x0, x1); the breakpoint is at the svc. */
	"	mov	x8, #101\n"
	"sleeps:	svc	#0\n"
	"	ret\n"
	".popsection");

static void store(uint64_t value)
{
	((void (*)(volatile uint64_t *, uint64_t))store_word)(&word, value);
}

static int breakpoint_at(const volatile void *address)
{
	struct perf_event_attr attr = breakpoint_attr(HW_BREAKPOINT_X, address, sizeof(long));

	return open_event(&attr, 0, -1);
}

static int watchpoint_on(uint32_t type)
{
	struct perf_event_attr attr = breakpoint_attr(type, &word, HW_BREAKPOINT_LEN_8);

	return open_event(&attr, 0, -1);
}

static int access_kinds(void)
{
	int loads = watchpoint_on(HW_BREAKPOINT_R), stores = watchpoint_on(HW_BREAKPOINT_W);
	int all = watchpoint_on(HW_BREAKPOINT_RW), i;
	uint64_t sum = 0;

	for (i = 0; i < 3; i++)
		sum += word;
	for (i = 0; i < 5; i++)
		word = i;
	other = sum;
	printf("reads %" PRIu64 ", writes %" PRIu64 ", both %" PRIu64 "\n", count_of(loads),
	       count_of(stores), count_of(all));
	return EXIT_SUCCESS;
}

static void call_and_tell(const char *when, int fd, int calls)
{
	while (calls--)
		called();
	printf("%s: %" PRIu64 "\n", when, count_of(fd));
}

static void control(int fd, unsigned long request)
{
	if (ioctl(fd, request, 0))
		err(EXIT_FAILURE, "ioctl %#lx", request);
}

static int execute(void)
{
	int fd = breakpoint_at(called);

	call_and_tell("enabled", fd, 3);
	control(fd, PERF_EVENT_IOC_DISABLE);
	call_and_tell("disabled", fd, 5);
	control(fd, PERF_EVENT_IOC_ENABLE);
	call_and_tell("enabled again", fd, 7);
	close(fd);
	called();
	return EXIT_SUCCESS;
}

/* The address is in `sleeps - 4`, which loads the number of the system call. */
static int sleep_at_breakpoint(void)
{
	int (*function)(const struct timespec *, struct timespec *) =
		(int (*)(const struct timespec *, struct timespec *))(sleeps - 4);
	const struct timespec pause = { .tv_nsec = 1000000 };
	int fd = breakpoint_at(sleeps), own = breakpoint_at(called), i;

	for (i = 0; i < 3; i++) {
		if (function(&pause, NULL))
			errx(EXIT_FAILURE, "interrupted");
		/* The breakpoints are enabled again. */
		called();
	}
	printf("slept %" PRIu64 ", called %" PRIu64 "\n", count_of(fd), count_of(own));
	return EXIT_SUCCESS;
}

static int both(void)
{
	int at = breakpoint_at(store_word), on = watchpoint_on(HW_BREAKPOINT_W), i;

	for (i = 0; i < 3; i++)
		store(i);
	word = 3;
	printf("executed %" PRIu64 ", written %" PRIu64 "\n", count_of(at), count_of(on));
	return EXIT_SUCCESS;
}

static void part_stores(void)
{
	raise(SIGSTOP);
	store(1);
	store(2);
}

static int step(void)
{
	struct perf_event_attr attr = breakpoint_attr(HW_BREAKPOINT_X, store_word, sizeof(long));
	pid_t pid = start_traced(nothing, part_stores);
	int fd = open_event(&attr, pid, -1), steps = 0;
	struct user_regs_struct regs;

	trace(PTRACE_CONT, pid, 0, 0);
	expect_stop(wait_for(pid), SIGSTOP);
	/* Every instruction is one step, with a breakpoint or not. */
	do {
		trace(PTRACE_SINGLESTEP, pid, 0, 0);
		expect_stop(wait_for(pid), SIGTRAP);
		regs = registers(pid);
	} while (regs.pc != (uintptr_t)store_word && ++steps < 1000);
	printf("before: %" PRIu64 "\n", count_of(fd));
	trace(PTRACE_SINGLESTEP, pid, 0, 0);
	expect_stop(wait_for(pid), SIGTRAP);
	printf("stepped to store_word+%#llx: %" PRIu64 "\n",
	       registers(pid).pc - (uintptr_t)store_word, count_of(fd));
	trace(PTRACE_CONT, pid, 0, 0);
	expect_end(pid);
	printf("after: %" PRIu64 "\n", count_of(fd));
	return EXIT_SUCCESS;
}

static int buffer(void)
{
	int efd = eventfd(0, EFD_NONBLOCK), fd;
	uint64_t value;

	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	word = 5;
	fd = watchpoint_on(HW_BREAKPOINT_RW);
	if (write(efd, (const void *)&word, sizeof(word)) != sizeof(word))
		err(EXIT_FAILURE, "write");
	printf("read by the kernel: %" PRIu64 "\n", count_of(fd));
	if (read(efd, (void *)&word, sizeof(word)) != sizeof(word))
		err(EXIT_FAILURE, "read");
	printf("written by the kernel: %" PRIu64 "\n", count_of(fd));
	value = word;
	printf("read %" PRIu64 " here: %" PRIu64 "\n", value, count_of(fd));
	return EXIT_SUCCESS;
}

/* Counts the wakeups of an event, before any other task of this CPU. */
static void count_wakeups(int fd, volatile int *wakeups, int ready)
{
	const struct sched_param first = { .sched_priority = 1 };
	struct pollfd hit = { .fd = fd, .events = POLLIN };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, SCHED_FIFO, &first) || write(ready, "", 1) != 1)
		err(EXIT_FAILURE, "ready");
	while (poll(&hit, 1, -1) == 1)
		++*wakeups;
	err(EXIT_FAILURE, "poll");
}

/*
 * A hit disables the breakpoints until the next instruction; the other task runs
 * before that one.
 */
static int preempt(void)
{
	const size_t size = 2 * sysconf(_SC_PAGESIZE);
	struct perf_event_attr attr = breakpoint_attr(HW_BREAKPOINT_X, called, sizeof(long));
	volatile int *wakeups;
	int fd, own, ready[2], i;
	char byte;

	attr.sample_period = attr.wakeup_events = 1;
	fd = open_event(&attr, 0, -1);
	own = watchpoint_on(HW_BREAKPOINT_W);
	wakeups = mmap(NULL, sizeof(*wakeups), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (wakeups == MAP_FAILED ||
	    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	if (pipe(ready))
		err(EXIT_FAILURE, "pipe");
	switch (fork()) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		count_wakeups(fd, wakeups, ready[1]);
	}
	if (read(ready[0], &byte, 1) != 1)
		err(EXIT_FAILURE, "read");
	for (i = 0; i < 5; i++) {
		called();
		word = i;
	}
	printf("called %" PRIu64 ", written %" PRIu64 ", woken %d\n", count_of(fd), count_of(own),
	       *wakeups);
	return EXIT_SUCCESS;
}

static void modify_and_tell(int fd, const char *what, const struct perf_event_attr *attr)
{
	uint64_t before = count_of(fd);
	int error = ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, attr) ? errno : 0;

	word = 1;
	printf("%s: %s, word %" PRIu64, what, error ? strerrorname_np(error) : "done",
	       count_of(fd) - before);
	before = count_of(fd);
	other = 1;
	printf(", other %" PRIu64, count_of(fd) - before);
	before = count_of(fd);
	called();
	printf(", called %" PRIu64 "\n", count_of(fd) - before);
}

static int modify(void)
{
	struct perf_event_attr attr = breakpoint_attr(HW_BREAKPOINT_W, &word, HW_BREAKPOINT_LEN_8);
	int fd = open_event(&attr, 0, -1);

	modify_and_tell(fd, "same", &attr);
	attr.bp_addr = (uintptr_t)&other;
	modify_and_tell(fd, "other", &attr);
	attr.bp_type = HW_BREAKPOINT_X;
	attr.bp_addr = (uintptr_t)called;
	modify_and_tell(fd, "function", &attr);
	attr.disabled = 1;
	modify_and_tell(fd, "disabled", &attr);
	attr.disabled = 0;
	attr.bp_type = HW_BREAKPOINT_W;
	attr.bp_addr = (uintptr_t)&word;
	modify_and_tell(fd, "word", &attr);
	attr.bp_len = 9;
	modify_and_tell(fd, "nine bytes", &attr);
	attr.bp_len = HW_BREAKPOINT_LEN_8;
	attr.sample_period = 1;
	modify_and_tell(fd, "period", &attr);
	return EXIT_SUCCESS;
}

static void try_attr(const char *what, struct perf_event_attr attr, pid_t pid, int cpu)
{
	int fd = try_open(&attr, pid, cpu);

	printf("%s: %s\n", what, fd == -1 ? strerrorname_np(errno) : "opened");
	if (fd != -1)
		close(fd);
}

static void try_on_cpu(const char *what, uint32_t type, uint64_t length)
{
	try_attr(what, breakpoint_attr(type, &word, length), -1, 0);
}

/* Kernel addresses need CAP_SYS_ADMIN, and a CPU instead of a task. */
static int refused(void)
{
	struct perf_event_attr kernel =
		breakpoint_attr(HW_BREAKPOINT_W, (void *)0xffff800080000000UL, 8);

	try_on_cpu("word", HW_BREAKPOINT_W, 8);
	try_on_cpu("nothing", HW_BREAKPOINT_EMPTY, 8);
	try_on_cpu("invalid", HW_BREAKPOINT_INVALID, 8);
	try_on_cpu("no bytes", HW_BREAKPOINT_W, 0);
	try_on_cpu("nine bytes", HW_BREAKPOINT_W, 9);
	try_attr("kernel, excluded", kernel, -1, 0);
	kernel.exclude_kernel = 0;
	try_attr("kernel, of a task", kernel, 0, -1);
	try_attr("kernel, of a CPU", kernel, -1, 0);
	if (setresuid(1, 1, 1))
		err(EXIT_FAILURE, "setresuid");
	try_attr("kernel, of a CPU, as a user", kernel, -1, 0);
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "access", access_kinds },
	{ "execute", execute },
	{ "sleep", sleep_at_breakpoint },
	{ "both", both },
	{ "step", step },
	{ "buffer", buffer },
	{ "preempt", preempt },
	{ "modify", modify },
	{ "refused", refused },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	/*
	 * The first event of a task switches the key perf_sched_events. QEMU 7.2 may
	 * keep running the old text on another CPU.
	 */
	pin(0);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
