// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps a ring buffer into memory, and reads markers from there.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: mapped INSTANCE\n"
	"\n"
	"Maps the ring buffer of CPU 0 of a tracing instance, which must be empty and\n"
	"off, and checks what the kernel says there about markers that it writes.\n";

/* As in linux/trace_mmap.h, which a cross compiler's headers may lack. */
struct meta {
	uint32_t meta_page_size;
	uint32_t meta_struct_len;
	uint32_t subbuf_size;
	uint32_t nr_subbufs;
	struct {
		uint64_t lost_events;
		uint32_t id;
		uint32_t read;
	} reader;
	uint64_t flags;
	uint64_t entries;
	uint64_t overrun;
	uint64_t read;
	uint64_t reserved1;
	uint64_t reserved2;
};

#define GET_READER _IO('R', 0x20)

/* The head of a sub-buffer: a timestamp, and how much of it is written. */
#define HEAD 16

static int open_file(const char *instance, const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/instances/%s/%s", instance, name);
	fd = open(path, flags);
	if (fd == -1)
		err(EXIT_FAILURE, "%s", path);
	return fd;
}

static void write_to(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) == -1)
		err(EXIT_FAILURE, "write");
}

/* Prints the result of a mapping that must fail. */
static void refused(const char *what, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *map = mmap(NULL, length, prot, flags, fd, offset);

	printf("%s: %s\n", what, map == MAP_FAILED ? strerrorname_np(errno) : "mapped");
}

/* Whether the sub-buffer of the reader has this text. */
static int reader_has(const struct meta *meta, const char *text)
{
	const char *data = (const char *)meta + meta->meta_page_size +
			   (size_t)meta->reader.id * meta->subbuf_size;

	return memmem(data + HEAD, meta->subbuf_size - HEAD, text, strlen(text)) != NULL;
}

static void tell(const volatile struct meta *meta, const char *when)
{
	printf("%s: entries %" PRIu64 " overrun %" PRIu64 " read %" PRIu64 "\n", when, meta->entries,
	       meta->overrun, meta->read);
}

static void get_reader(int fd)
{
	if (ioctl(fd, GET_READER) == -1)
		err(EXIT_FAILURE, "TRACE_MMAP_IOCTL_GET_READER");
}

/* A child has the mapping, too, until it exits. */
static void fork_mapped(void)
{
	pid_t pid = fork();

	if (pid == -1)
		err(EXIT_FAILURE, "fork");
	if (!pid)
		_exit(EXIT_SUCCESS);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	const char *instance;
	char filler[3001];
	struct meta *meta;
	int raw, marker, on;
	cpu_set_t set;
	size_t whole;
	int i;

	expect_arguments(argc, argv, 1, usage);
	instance = argv[1];
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(EXIT_FAILURE, "cannot run on CPU 0");
	raw = open_file(instance, "per_cpu/cpu0/trace_pipe_raw", O_RDONLY | O_NONBLOCK);
	marker = open_file(instance, "trace_marker", O_WRONLY);
	on = open_file(instance, "tracing_on", O_WRONLY);

	meta = mmap(NULL, page, PROT_READ, MAP_SHARED, raw, 0);
	if (meta == MAP_FAILED)
		err(EXIT_FAILURE, "cannot map the first page");
	whole = meta->meta_page_size + (size_t)meta->nr_subbufs * meta->subbuf_size;
	printf("%u sub-buffers of %u bytes\n", meta->nr_subbufs, meta->subbuf_size);
	munmap(meta, page);

	meta = mmap(NULL, whole, PROT_READ, MAP_SHARED, raw, 0);
	if (meta == MAP_FAILED)
		err(EXIT_FAILURE, "cannot map all of it");
	refused("writable", whole, PROT_READ | PROT_WRITE, MAP_SHARED, raw, 0);
	refused("private", whole, PROT_READ, MAP_PRIVATE, raw, 0);
	refused("too long", whole + page, PROT_READ, MAP_SHARED, raw, 0);
	refused("behind", page, PROT_READ, MAP_SHARED, raw, whole);
	printf("split: %s\n", munmap(meta, page) ? strerrorname_np(errno) : "unmapped");

	write_to(on, "1");
	get_reader(raw);
	tell(meta, "empty");
	write_to(marker, "one marker\n");
	write_to(marker, "another marker\n");
	get_reader(raw);
	tell(meta, "two");
	printf("the reader has %s and %s\n", reader_has(meta, "one marker") ? "the first" : "none",
	       reader_has(meta, "another marker") ? "the second" : "none");
	fork_mapped();
	/* Each fills a sub-buffer, and the oldest ones are overwritten. */
	memset(filler, 'x', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = '\0';
	for (i = 0; i < 20; i++)
		write_to(marker, filler);
	get_reader(raw);
	tell(meta, "overwritten");
	printf("lost %" PRIu64 "\n", meta->reader.lost_events);
	get_reader(raw);
	tell(meta, "next");
	printf("lost %" PRIu64 "\n", meta->reader.lost_events);
	if (munmap(meta, whole))
		err(EXIT_FAILURE, "munmap");
	return EXIT_SUCCESS;
}
