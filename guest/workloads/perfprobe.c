// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts calls through perf_event_open(2) with probes that perf defines itself, or
 * with an event of tracefs, in some tasks or on all CPUs, and prints the counts.
 *
 * A call is one of called() and one write to an eventfd. This process makes 3
 * calls, its child 5.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "file-offset.h"
#include "perfbreak.h"
#include "pin.h"

static const char usage[] =
	"Usage: perfprobe self|child|both|inherit|exec|cpus|bpf0|bpf1|open EVENT\n"
	"\n"
	"self     counts calls of this process\n"
	"child    counts those of its child\n"
	"both     counts both with one event each\n"
	"inherit  counts those of this process and of ten children\n"
	"exec     counts those of the child after it has executed this program again\n"
	"cpus     counts those of all processes with one event per CPU\n"
	"bpf0     has a BPF program drop those of this process\n"
	"bpf1     has a BPF program keep them\n"
	"open     opens the event, and does nothing else\n"
	"An EVENT is kprobe:SYMBOL, kretprobe:SYMBOL, uprobe or uretprobe, both of the\n"
	"function called(), uprobe:FILE, or tracepoint:GROUP/NAME.\n";

#define OWN_CALLS 3
#define CHILD_CALLS 5

static void __attribute__((noinline)) called(void)
{
	__asm__ volatile("" ::: "memory");
}

static void call(int times)
{
	const uint64_t one = 1;
	int efd = eventfd(0, 0);

	while (times--) {
		called();
		if (write(efd, &one, sizeof(one)) != sizeof(one))
			err(EXIT_FAILURE, "write");
	}
	close(efd);
}

/* Reads a number from a file, such as /sys/bus/event_source/devices/kprobe/type. */
static uint32_t number_in(const char *directory, const char *name, const char *file_name)
{
	char path[256];
	uint32_t number;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/%s", directory, name, file_name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%" SCNu32, &number) != 1)
		err(EXIT_FAILURE, "%s", path);
	fclose(file);
	return number;
}

static uint32_t pmu_type(const char *name)
{
	return number_in("/sys/bus/event_source/devices", name, "type");
}

static struct perf_event_attr parse(const char *event)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	const char *colon = strchr(event, ':');
	const bool returns = !strncmp(event, "kret", 4) || !strncmp(event, "uret", 4);

	if (!strncmp(event, "tracepoint:", 11)) {
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = number_in("/sys/kernel/tracing/events", colon + 1, "id");
	} else if (*event == 'k' && colon) {
		attr.type = pmu_type("kprobe");
		attr.config = returns;
		attr.kprobe_func = (uintptr_t)(colon + 1);
	} else if (*event == 'u') {
		attr.type = pmu_type("uprobe");
		attr.config = returns;
		attr.uprobe_path = (uintptr_t)(colon ? colon + 1 : "/proc/self/exe");
		attr.probe_offset = file_offset((uintptr_t)called);
	} else {
		errx(EXIT_FAILURE, "no event called `%s`", event);
	}
	return attr;
}

struct child {
	pid_t pid;
	int go;
};

/* Starts a child that waits. Then it makes its calls, or executes this program to do so. */
static struct child start(bool executes)
{
	struct child child;
	int there[2];
	char byte;

	if (pipe(there))
		err(EXIT_FAILURE, "pipe");
	child.pid = fork();
	switch (child.pid) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		if (read(there[0], &byte, 1) != 1)
			err(EXIT_FAILURE, "read");
		call(CHILD_CALLS);
		if (executes)
			execl("/proc/self/exe", "perfprobe", "calls", "", NULL);
		_exit(EXIT_SUCCESS);
	}
	close(there[0]);
	child.go = there[1];
	return child;
}

static void run(const struct child *child)
{
	int status;

	if (write(child->go, "", 1) != 1 || waitpid(child->pid, &status, 0) != child->pid || status)
		err(EXIT_FAILURE, "the child failed");
}

static void count_one(const char *mode, struct perf_event_attr *attr)
{
	struct child child;
	int own = -1, other = -1, others;

	attr->inherit = !strcmp(mode, "inherit");
	attr->enable_on_exec = attr->disabled = !strcmp(mode, "exec");
	if (attr->inherit || !strcmp(mode, "self") || !strcmp(mode, "both"))
		own = open_event(attr, 0, -1);
	child = start(attr->enable_on_exec);
	if (attr->enable_on_exec || !strcmp(mode, "child") || !strcmp(mode, "both"))
		other = open_event(attr, child.pid, -1);
	call(OWN_CALLS);
	run(&child);
	for (others = attr->inherit ? 9 : 0; others; others--) {
		child = start(false);
		run(&child);
	}
	if (own != -1)
		printf("own %" PRIu64 "\n", count_of(own));
	if (other != -1)
		printf("child %" PRIu64 "\n", count_of(other));
}

static void count_all(struct perf_event_attr *attr)
{
	struct child child = start(false);
	uint64_t sum = 0;
	int events[8];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), cpu;

	if (cpus > 8)
		errx(EXIT_FAILURE, "%ld CPUs", cpus);
	for (cpu = 0; cpu < cpus; cpu++)
		events[cpu] = open_event(attr, -1, cpu);
	call(OWN_CALLS);
	run(&child);
	for (cpu = 0; cpu < cpus; cpu++)
		sum += count_of(events[cpu]);
	printf("all %" PRIu64 "\n", sum);
}

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Loads a program that returns a constant. */
static int load_program(int result)
{
	struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = result },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_KPROBE,
		.insns = (uintptr_t)program,
		.insn_cnt = 2,
		.license = (uintptr_t)"GPL",
	};
	int fd = bpf(BPF_PROG_LOAD, &attr);

	if (fd == -1)
		err(EXIT_FAILURE, "BPF_PROG_LOAD");
	return fd;
}

/* Prints what the kernel knows of the probe of a program. */
static void tell_probe(int event)
{
	static const char *const types[] = {
		"raw tracepoint", "tracepoint", "kprobe", "kretprobe", "uprobe", "uretprobe",
	};
	char name[64] = "";
	union bpf_attr attr = { .task_fd_query = {
		.pid = getpid(), .fd = event, .buf = (uintptr_t)name, .buf_len = sizeof(name),
	} };

	if (bpf(BPF_TASK_FD_QUERY, &attr))
		err(EXIT_FAILURE, "BPF_TASK_FD_QUERY");
	printf("%s of %s+%#llx\n", types[attr.task_fd_query.fd_type], name,
	       *name == '/' ? attr.task_fd_query.probe_offset - file_offset((uintptr_t)called) :
	       attr.task_fd_query.probe_offset);
}

static void filter(struct perf_event_attr *attr, int result)
{
	int event = open_event(attr, 0, -1);

	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, load_program(result)))
		err(EXIT_FAILURE, "PERF_EVENT_IOC_SET_BPF");
	tell_probe(event);
	call(OWN_CALLS);
	printf("own %" PRIu64 "\n", count_of(event));
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr;

	expect_arguments(argc, argv, 2, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[1], "calls")) {
		call(CHILD_CALLS);
		return EXIT_SUCCESS;
	}
	/*
	 * The first event of a task switches the key perf_sched_events. QEMU 7.2 may
	 * keep running the old text on another CPU.
	 */
	pin(0);
	attr = parse(argv[2]);
	if (!strcmp(argv[1], "cpus"))
		count_all(&attr);
	else if (!strncmp(argv[1], "bpf", 3))
		filter(&attr, argv[1][3] - '0');
	else if (!strcmp(argv[1], "open"))
		printf("%s\n", try_open(&attr, 0, -1) == -1 ? strerrorname_np(errno) : "opened");
	else
		count_one(argv[1], &attr);
	return EXIT_SUCCESS;
}
