// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attaches a BPF program that prints one number of its context by
 * bpf_trace_printk(), which is the event bpf_trace:bpf_trace_printk, and waits
 * until it is killed.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"
#include "file-offset.h"

static const char usage[] =
	"Usage: bpfhook KIND NUMBER TARGET\n"
	"\n"
	"KIND          TARGET                     the numbers of its context\n"
	"fentry        a function of the kernel   its arguments, from 0\n"
	"fexit         a function of the kernel   its arguments, then what it returns\n"
	"kprobe.multi  a function of the kernel   the registers at its entry\n"
	"uprobe.multi  a number of calls of its   the registers at the entry of called()\n"
	"              own function called()\n"
	"raw           a tracepoint               its arguments\n"
	"btf           a tracepoint               its arguments\n"
	"tracepoint    an event, GROUP/NAME       its fields, in units of 8 bytes\n"
	"\n"
	"It prints `attached`, or the error of the kernel.\n";

/* Newer than the headers of some hosts. */
#define TRACE_UPROBE_MULTI 48

/* BPF_LINK_CREATE of several functions, or of several places in a program. */
struct link_multi {
	uint32_t program, target, attach_type, flags;
	union {
		struct {
			uint32_t flags, count;
			uint64_t names, addresses, cookies;
		} functions;
		struct {
			uint64_t path, offsets, reference_counters, cookies;
			uint32_t count, flags, pid;
		} places;
	};
};

static int bpf(int command, void *attr, size_t size)
{
	return syscall(SYS_bpf, command, attr, size);
}

/* The size of a type of this kind in BTF, without the 12 bytes that all have. */
static size_t btf_extra(uint32_t info)
{
	const uint32_t members = BTF_INFO_VLEN(info);

	switch (BTF_INFO_KIND(info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return 8 * members;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case BTF_KIND_ENUM64:
		return 12 * members;
	}
	return 0;
}

/* Returns the number of a type in the kernel's BTF. */
static uint32_t btf_id(uint32_t kind, const char *name)
{
	const char *path = "/sys/kernel/btf/vmlinux", *types, *end, *names;
	const struct btf_header *header;
	const struct btf_type *type;
	struct stat stat;
	uint32_t id;
	char *btf;
	ssize_t length = 0, done;
	int fd = open(path, O_RDONLY);

	if (fd == -1 || fstat(fd, &stat))
		err(EXIT_FAILURE, "%s", path);
	btf = malloc(stat.st_size);
	if (!btf)
		err(EXIT_FAILURE, "malloc");
	while (length < stat.st_size) {
		done = read(fd, btf + length, stat.st_size - length);
		if (done <= 0)
			err(EXIT_FAILURE, "%s", path);
		length += done;
	}
	close(fd);
	header = (void *)btf;
	types = btf + header->hdr_len + header->type_off;
	names = btf + header->hdr_len + header->str_off;
	end = types + header->type_len;
	for (id = 1; types < end; id++) {
		type = (const void *)types;
		if (BTF_INFO_KIND(type->info) == kind && !strcmp(names + type->name_off, name))
			return id;
		types += sizeof(*type) + btf_extra(type->info);
	}
	errx(EXIT_FAILURE, "no `%s` in %s", name, path);
}

/* The size of the longest text to print, rounded up to words. */
#define FORMAT_SIZE 24

/*
 * Loads a program that calls bpf_trace_printk("KIND %lld", a number of its context). Before 5.13, that function
 * prints nothing if its second argument is larger than the text.
 */
static int load_program(const char *kind, uint32_t type, uint32_t attach_type,
			uint32_t attach_btf_id, int number)
{
	int words[FORMAT_SIZE / sizeof(int)] = { 0 };
	const int length = snprintf((char *)words, sizeof(words), "%s %%lld", kind);
	struct bpf_insn program[32] = { {
		.code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_3, .src_reg = BPF_REG_1, .off = 8 * number,
	} };
	const struct bpf_insn call[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = -FORMAT_SIZE },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = length + 1 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_trace_printk },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	static char log[1 << 16];
	union bpf_attr attr = {
		.prog_type = type,
		.insns = (uintptr_t)program,
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log,
		.log_size = sizeof(log),
		.log_level = 1,
		.expected_attach_type = attach_type,
		.attach_btf_id = attach_btf_id,
	};
	int at = 1, fd;
	size_t word;

	for (word = 0; word < sizeof(words) / sizeof(*words); word++)
		program[at++] = (struct bpf_insn){
			.code = BPF_ST | BPF_MEM | BPF_W,
			.dst_reg = BPF_REG_10,
			.off = 4 * (int)word - FORMAT_SIZE,
			.imm = words[word],
		};
	memcpy(program + at, call, sizeof(call));
	attr.insn_cnt = at + sizeof(call) / sizeof(*call);
	fd = bpf(BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd == -1)
		err(EXIT_FAILURE, "%sBPF_PROG_LOAD", log);
	return fd;
}

/* Attaches to a tracepoint, or to the function that the program was loaded for. */
static int open_tracepoint(int program, const char *name)
{
	union bpf_attr attr = { .raw_tracepoint = {
		.name = (uintptr_t)name, .prog_fd = program,
	} };

	return bpf(BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
}

static int attach_traced(const char *kind, uint32_t attach_type, int number, const char *name)
{
	char type_name[128];
	uint32_t id;

	if (attach_type == BPF_TRACE_RAW_TP) {
		snprintf(type_name, sizeof(type_name), "btf_trace_%s", name);
		id = btf_id(BTF_KIND_TYPEDEF, type_name);
	} else {
		id = btf_id(BTF_KIND_FUNC, name);
	}
	return open_tracepoint(load_program(kind, BPF_PROG_TYPE_TRACING, attach_type, id, number), NULL);
}

static int attach_function(int number, const char *name)
{
	const uint64_t names[] = { (uintptr_t)name };
	struct link_multi attr = {
		.program = load_program("kprobe.multi", BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, 0, number),
		.attach_type = BPF_TRACE_KPROBE_MULTI,
		.functions = { .count = 1, .names = (uintptr_t)names },
	};

	return bpf(BPF_LINK_CREATE, &attr, sizeof(attr));
}

static void __attribute__((noinline)) called(uint64_t left)
{
	__asm__ volatile("" :: "r"(left) : "memory");
}

/* The argument of the calls counts down to 1. */
static int attach_own(int number, uint64_t calls)
{
	const uint64_t offsets[] = { file_offset((uintptr_t)called) };
	const char *path = "/proc/self/exe";
	struct link_multi attr = {
		.program = load_program("uprobe.multi", BPF_PROG_TYPE_KPROBE, TRACE_UPROBE_MULTI, 0, number),
		.attach_type = TRACE_UPROBE_MULTI,
		.places = { .path = (uintptr_t)path, .offsets = (uintptr_t)offsets, .count = 1 },
	};

	if (bpf(BPF_LINK_CREATE, &attr, sizeof(attr)) == -1)
		return -1;
	for (; calls; calls--)
		called(calls);
	return 0;
}

/* One event is enough for all CPUs: the program is attached to the tracepoint. */
static int attach_event(int number, const char *name)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .sample_period = 1,
	};
	int program = load_program("tracepoint", BPF_PROG_TYPE_TRACEPOINT, 0, 0, number), event;
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/%s/id", name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", (unsigned long long *)&attr.config) != 1)
		err(EXIT_FAILURE, "%s", path);
	fclose(file);
	event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	return event == -1 ? -1 : ioctl(event, PERF_EVENT_IOC_SET_BPF, program);
}

static int attach(const char *kind, int number, const char *target)
{
	if (!strcmp(kind, "fentry"))
		return attach_traced(kind, BPF_TRACE_FENTRY, number, target);
	if (!strcmp(kind, "fexit"))
		return attach_traced(kind, BPF_TRACE_FEXIT, number, target);
	if (!strcmp(kind, "btf"))
		return attach_traced(kind, BPF_TRACE_RAW_TP, number, target);
	if (!strcmp(kind, "raw"))
		return open_tracepoint(load_program(kind, BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0, number), target);
	if (!strcmp(kind, "tracepoint"))
		return attach_event(number, target);
	if (!strcmp(kind, "kprobe.multi"))
		return attach_function(number, target);
	if (!strcmp(kind, "uprobe.multi"))
		return attach_own(number, integer(target));
	errx(EXIT_FAILURE, "no kind called `%s`", kind);
}

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 3, usage);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (attach(argv[1], integer(argv[2]), argv[3]) == -1) {
		printf("%s\n", strerrorname_np(errno));
		return EXIT_SUCCESS;
	}
	printf("attached\n");
	pause();
	return EXIT_SUCCESS;
}
