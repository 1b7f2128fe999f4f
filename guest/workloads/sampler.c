// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records an event with perf_event_open(2) while it writes numbers to an eventfd,
 * and prints the event's count and samples.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arguments.h"

#define TRACEFS "/sys/kernel/tracing/"

static const char usage[] =
	"Usage: sampler [OPTION...] EVENT NUMBER...\n"
	"\n"
	"EVENT is a directory of tracefs (events/sched/sched_switch), or a probe that\n"
	"perf creates: kprobe:SYMBOL+OFFSET, kretprobe:SYMBOL, uprobe:FILE+OFFSET or\n"
	"uretprobe:FILE+OFFSET. The FILE `self` stands for the function that is called\n"
	"with each NUMBER.\n"
	"\n"
	"  -f FILTER  only events that match FILTER; of several, the last\n"
	"  -v FIELD   print this field of each sample\n"
	"  -n         count only: no samples\n"
	"  -c         samples of user callchains, too\n"
	"  -u UID     open the event as this user\n";

#define FILTERS_MAX 8

struct options {
	const char *filters[FILTERS_MAX], *field;
	int filter_count, samples, callchains;
	uid_t user;
};

/* The function for uprobes, which returns its argument plus one. */
static uint64_t __attribute__((noinline)) passed(uint64_t number)
{
	__asm__ volatile("" : "+r"(number));
	return number + 1;
}

/* Reads a file that holds one number. */
static unsigned long number_in(const char *path)
{
	unsigned long value;
	FILE *file = fopen(path, "r");

	if (!file || fscanf(file, "%li", &value) != 1)
		err(EXIT_FAILURE, "%s", path);
	fclose(file);
	return value;
}

/* Returns where a field is in the samples of an event. */
static void find_field(const char *event, const char *name, unsigned int *offset,
		       unsigned int *size)
{
	size_t length = strlen(name);
	char path[256], line[512], *end;
	FILE *file;

	snprintf(path, sizeof(path), TRACEFS "%s/format", event);
	file = fopen(path, "r");
	if (!file)
		err(EXIT_FAILURE, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		/* "	field:u64 NAME;	offset:16;	size:8;	signed:0;" */
		end = strchr(line, ';');
		if (!end || (size_t)(end - line) <= length ||
		    strncmp(end - length, name, length) || end[-(ssize_t)length - 1] != ' ')
			continue;
		if (sscanf(end, "; offset:%u; size:%u;", offset, size) == 2) {
			fclose(file);
			return;
		}
	}
	errx(EXIT_FAILURE, "`%s` has no field `%s`", event, name);
}

/* Returns the file offset of an address. The program runs where it is linked. */
static uint64_t file_offset(uintptr_t address)
{
	const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);
	unsigned long left = getauxval(AT_PHNUM);

	for (; left; left--, header++)
		if (header->p_type == PT_LOAD && address >= header->p_vaddr &&
		    address - header->p_vaddr < header->p_filesz)
			return address - header->p_vaddr + header->p_offset;
	errx(EXIT_FAILURE, "%#" PRIxPTR " is in no segment", address);
}

/* Describes a probe that perf creates, "KIND:PLACE". */
static void describe_probe(struct perf_event_attr *attr, char *event)
{
	char *place = strchr(event, ':') + 1, *offset = strrchr(place, '+'), path[64];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%cprobe/type", event[0]);
	attr->type = number_in(path);
	/* Bit 0: at the return. */
	attr->config = !strncmp(event + 1, "ret", 3);
	if (offset) {
		*offset = '\0';
		attr->probe_offset = integer(offset + 1);
	}
	if (!strcmp(place, "self")) {
		place = "/proc/self/exe";
		attr->probe_offset = file_offset((uintptr_t)passed);
	}
	/* Shares its place with uprobe_path. */
	attr->kprobe_func = (uintptr_t)place;
}

/* Sets each of the filters. Exits if the kernel refused one, after all of them. */
static void set_filters(int fd, const struct options *options)
{
	int i, failed = 0;

	for (i = 0; i < options->filter_count; i++) {
		if (!ioctl(fd, PERF_EVENT_IOC_SET_FILTER, options->filters[i]))
			continue;
		printf("filter: %s\n", strerror(errno));
		failed = 1;
	}
	if (failed)
		exit(EXIT_SUCCESS);
}

/* Opens the event for this process, disabled. */
static int open_event(const struct options *options, char *event)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.disabled = 1,
		.sample_type = PERF_SAMPLE_RAW,
		.exclude_callchain_user = !options->callchains,
		.exclude_kernel = options->user != 0,
	};
	char path[256];
	int fd;

	if (options->samples)
		attr.sample_period = 1;
	else
		attr.sample_type = 0;
	if (strchr(event, ':')) {
		describe_probe(&attr, event);
	} else {
		snprintf(path, sizeof(path), TRACEFS "%s/id", event);
		attr.config = number_in(path);
	}
	if (options->user && setresuid(options->user, options->user, options->user))
		err(EXIT_FAILURE, "setresuid");
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd == -1) {
		printf("open: %s\n", strerror(errno));
		exit(EXIT_SUCCESS);
	}
	return fd;
}

/* Prints the number of samples in the ring buffer, and a field of each. */
static void print_samples(const struct perf_event_mmap_page *page, size_t size,
			  unsigned int offset, unsigned int length)
{
	const char *data = (const char *)page + size;
	uint64_t place, value, samples = 0;
	char values[1024] = "";
	size_t used = 0;

	for (place = 0; place < page->data_head;) {
		const struct perf_event_header *header = (const void *)(data + place);

		if (header->type == PERF_RECORD_SAMPLE) {
			samples++;
			value = 0;
			/* The raw data follows its 32-bit size. */
			memcpy(&value, (const char *)(header + 1) + sizeof(uint32_t) + offset,
			       length);
			if (length && used < sizeof(values))
				used += snprintf(values + used, sizeof(values) - used,
						 " %" PRIu64, value);
		}
		place += header->size;
	}
	printf("sampled %" PRIu64 "%s%s\n", samples, length ? ":" : "", values);
}

static int parse(int argc, char **argv, struct options *options)
{
	int option;

	while ((option = getopt(argc, argv, "+f:v:ncu:")) != -1) {
		switch (option) {
		case 'f':
			if (options->filter_count == FILTERS_MAX)
				errx(EXIT_FAILURE, "too many filters");
			options->filters[options->filter_count++] = optarg;
			break;
		case 'v':
			options->field = optarg;
			break;
		case 'n':
			options->samples = 0;
			break;
		case 'c':
			options->callchains = 1;
			break;
		case 'u':
			options->user = integer(optarg);
			break;
		default:
			exit(EXIT_FAILURE);
		}
	}
	return optind;
}

int main(int argc, char **argv)
{
	struct options options = { .samples = 1 };
	struct perf_event_mmap_page *page = NULL;
	unsigned int offset = 0, length = 0;
	size_t size = sysconf(_SC_PAGESIZE);
	uint64_t count, number;
	int fd, efd, i;

	if (argc < 3)
		expect_arguments(argc, argv, 2, usage);
	i = parse(argc, argv, &options);
	if (i >= argc)
		errx(EXIT_FAILURE, "no event given");
	if (options.field)
		find_field(argv[i], options.field, &offset, &length);
	efd = eventfd(0, EFD_NONBLOCK);
	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	fd = open_event(&options, argv[i]);
	set_filters(fd, &options);
	if (options.samples) {
		page = mmap(NULL, 9 * size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (page == MAP_FAILED)
			err(EXIT_FAILURE, "mmap");
	}
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		err(EXIT_FAILURE, "enable");
	for (i++; i < argc; i++) {
		number = integer(argv[i]);
		if (passed(number) != number + 1 ||
		    write(efd, &number, sizeof(number)) != sizeof(number))
			err(EXIT_FAILURE, "write");
	}
	if (ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) ||
	    read(fd, &count, sizeof(count)) != sizeof(count))
		err(EXIT_FAILURE, "count");
	printf("counted %" PRIu64 "\n", count);
	if (page)
		print_samples(page, size, offset, length);
	return EXIT_SUCCESS;
}
