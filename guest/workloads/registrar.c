// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the interface of user events, one call per argument, and prints the
 * result of each.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "user-events.h"

#define TRACEFS "/sys/kernel/tracing/"
#define WORDS 4

static const char usage[] =
	"Usage: registrar CALL...\n"
	"\n"
	"A BIT is WORD.NUMBER or WORD+OFFSET.NUMBER, in one of four words of 8 bytes,\n"
	"each on its own page. [=N] passes N as the size of the request.\n"
	"\n"
	"  reg[=N]:BIT:SIZE:FLAGS:EVENT   register EVENT (`tick u32 count`)\n"
	"  unreg[=N]:BIT                  unregister the bit\n"
	"  del:NAME                       delete an event\n"
	"  gone:NAME                      delete an event when no one uses it any more\n"
	"  write:INDEX:HEX                write an event with these bytes\n"
	"  set:FILE:TEXT                  write TEXT to a file of tracefs\n"
	"  show:FILE                      print a file of tracefs\n"
	"  words                          print the words\n"
	"  await:BIT:VALUE                wait until the bit is 0 or 1\n"
	"  drop:WORD                      free the word's page, which becomes 0\n"
	"  protect:WORD                   make the word's page read-only\n"
	"  reopen                         open the file again, and close the old one\n"
	"  fork                           make the other calls in a child\n";

static char *pages;
static size_t page_size;
static int data;

static volatile uint64_t *word(unsigned long number)
{
	if (number >= WORDS)
		errx(EXIT_FAILURE, "there is no word %lu", number);
	return (volatile uint64_t *)(pages + number * page_size);
}

/* Splits off the part before the next colon. */
static char *part(char **rest)
{
	char *found = strsep(rest, ":");

	if (!found)
		errx(EXIT_FAILURE, "an argument is incomplete");
	return found;
}

/* Parses a BIT into its address and its number. */
static uint64_t bit(char *text, unsigned int *number)
{
	unsigned long index, offset = 0;

	if (sscanf(text, "%lu.%u", &index, number) != 2 &&
	    sscanf(text, "%lu+%lu.%u", &index, &offset, number) != 3)
		errx(EXIT_FAILURE, "`%s` is not a bit", text);
	return (uintptr_t)word(index) + offset;
}

static void print_result(const char *call, long result)
{
	if (result < 0)
		printf("%s: %s\n", call, strerror(errno));
	else
		printf("%s: %ld\n", call, result);
}

static long reg(char *rest, size_t size)
{
	struct user_reg request = {
		.size = size ? size : sizeof(request),
		.write_index = UINT32_MAX,
	};
	unsigned int number;

	request.enable_addr = bit(part(&rest), &number);
	request.enable_bit = number;
	request.enable_size = integer(part(&rest));
	request.flags = integer(part(&rest));
	request.name_args = (uintptr_t)rest;
	return ioctl(data, DIAG_IOCSREG, &request) ? -1 : (long)request.write_index;
}

static long unreg(char *rest, size_t size)
{
	struct user_unreg request = { .size = size ? size : sizeof(request) };
	unsigned int number;

	request.disable_addr = bit(part(&rest), &number);
	request.disable_bit = number;
	return ioctl(data, DIAG_IOCSUNREG, &request);
}

static long write_event(char *rest)
{
	unsigned char buffer[1024];
	uint32_t index = integer(part(&rest));
	size_t length = sizeof(index);

	memcpy(buffer, &index, sizeof(index));
	for (; rest && *rest; rest++) {
		if (*rest == ' ')
			continue;
		if (length == sizeof(buffer) || sscanf(rest++, "%2hhx", &buffer[length++]) != 1)
			errx(EXIT_FAILURE, "too many bytes, or not in hexadecimal");
	}
	return write(data, buffer, length);
}

static int open_file(const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), TRACEFS "%s", name);
	fd = open(path, flags);
	if (fd == -1)
		err(EXIT_FAILURE, "%s", path);
	return fd;
}

static long set(char *rest)
{
	int fd = open_file(part(&rest), O_WRONLY | O_APPEND);
	long result = write(fd, rest, strlen(rest)) < 0 ? -1 : 0;
	int saved = errno;

	close(fd);
	errno = saved;
	return result;
}

static void show(const char *file)
{
	int fd = open_file(file, O_RDONLY);
	char buffer[4096];
	ssize_t length;

	while ((length = read(fd, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, length, stdout);
	close(fd);
}

/* Deletes an event. Its users are known to the kernel for a while after they exit. */
static long delete_unused(const char *name)
{
	while (ioctl(data, DIAG_IOCSDEL, name)) {
		if (errno != EBUSY)
			return -1;
		usleep(1000);
	}
	return 0;
}

/* Waits for the kernel, which sets bits of pages that it must fault in later. */
static void await(char *rest)
{
	unsigned int number, value;
	volatile uint64_t *place = (void *)(uintptr_t)bit(part(&rest), &number);

	value = integer(rest);
	while ((*place >> number & 1) != value)
		usleep(1000);
}

static void fork_child(void)
{
	int status;

	fflush(stdout);
	switch (fork()) {
	case -1:
		err(EXIT_FAILURE, "fork");
	case 0:
		return;
	}
	wait(&status);
	exit(WEXITSTATUS(status));
}

static void call(char *argument)
{
	char *rest = argument, *verb = part(&rest), *size = strchr(verb, '=');
	int i;

	if (size)
		*size++ = '\0';
	if (!strcmp(verb, "reg")) {
		print_result(verb, reg(rest, size ? integer(size) : 0));
	} else if (!strcmp(verb, "unreg")) {
		print_result(verb, unreg(rest, size ? integer(size) : 0));
	} else if (!strcmp(verb, "del")) {
		print_result(verb, ioctl(data, DIAG_IOCSDEL, rest));
	} else if (!strcmp(verb, "gone")) {
		print_result(verb, delete_unused(rest));
	} else if (!strcmp(verb, "write")) {
		print_result(verb, write_event(rest));
	} else if (!strcmp(verb, "set")) {
		print_result(verb, set(rest));
	} else if (!strcmp(verb, "show")) {
		show(rest);
	} else if (!strcmp(verb, "words")) {
		for (i = 0; i < WORDS; i++)
			printf("%s%" PRIx64, i ? " " : "words: ", *word(i));
		printf("\n");
	} else if (!strcmp(verb, "await")) {
		await(rest);
	} else if (!strcmp(verb, "drop")) {
		print_result(verb,
			     madvise((void *)word(integer(rest)), page_size, MADV_DONTNEED));
	} else if (!strcmp(verb, "protect")) {
		print_result(verb, mprotect((void *)word(integer(rest)), page_size, PROT_READ));
	} else if (!strcmp(verb, "reopen")) {
		close(data);
		data = open_file("user_events_data", O_RDWR);
	} else if (!strcmp(verb, "fork")) {
		fork_child();
	} else {
		errx(EXIT_FAILURE, "`%s` is not a call", verb);
	}
}

int main(int argc, char **argv)
{
	int i;

	if (argc < 2 || !strcmp(argv[1], "--help"))
		expect_arguments(argc, argv, 1, usage);
	page_size = sysconf(_SC_PAGESIZE);
	pages = mmap(NULL, WORDS * page_size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	data = open_file("user_events_data", O_RDWR);
	for (i = 1; i < argc; i++)
		call(argv[i]);
	return EXIT_SUCCESS;
}
