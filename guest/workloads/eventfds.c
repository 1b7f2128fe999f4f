// SPDX-License-Identifier: GPL-2.0-only
/*
 * Uses eventfds in all the ways that eventfd(2) describes, and prints the results
 * and the counts.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arguments.h"
#include "state.h"
#include "ways.h"

static const char usage[] =
	"Usage: eventfds create|count|semaphore|poll|blocked|interrupted|completed\n"
	"\n"
	"create       creates them with all flags, and with impossible ones\n"
	"count        reads and writes at the limits of the count\n"
	"semaphore    reads one of a semaphore at a time\n"
	"poll         polls at the limits of the count\n"
	"blocked      blocks readers and writers until there is a number, or room for it\n"
	"interrupted  interrupts blocked readers and writers\n"
	"completed    lets the kernel write, when asynchronous I/O is complete\n";

/* The largest count that a write can reach. */
#define FULL (UINT64_MAX - 1)

static int create(unsigned int count, int flags)
{
	int efd = eventfd(count, flags);

	if (efd == -1)
		err(EXIT_FAILURE, "eventfd");
	return efd;
}

static const char *outcome(ssize_t result)
{
	return result == -1 ? strerrorname_np(errno) : "done";
}

static ssize_t add(int efd, uint64_t value)
{
	return write(efd, &value, sizeof(value));
}

static void try_add(int efd, uint64_t value)
{
	printf("write %#" PRIx64 ": %s\n", value, outcome(add(efd, value)));
}

static void try_read(int efd)
{
	uint64_t value;

	if (read(efd, &value, sizeof(value)) == sizeof(value))
		printf("read %#" PRIx64 "\n", value);
	else
		printf("read: %s\n", strerrorname_np(errno));
}

/* Prints a line of fdinfo. */
static void tell(int efd, const char *key)
{
	char path[64], line[128];
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", efd);
	info = fopen(path, "r");
	while (info && fgets(line, sizeof(line), info)) {
		if (!strncmp(line, key, strlen(key))) {
			char *value = line + strlen(key);

			printf("%s %s", key, value + strspn(value, " \t"));
			fclose(info);
			return;
		}
	}
	printf("no %s\n", key);
	if (info)
		fclose(info);
}

static int create_all(void)
{
	const struct rlimit few = { 4, 4 };
	int efd = create(7, 0);

	tell(efd, "eventfd-count:");
	printf("flags %#x, %#x\n", fcntl(efd, F_GETFD), fcntl(efd, F_GETFL) & O_NONBLOCK);
	close(efd);
	efd = create(0xffffffff, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	tell(efd, "eventfd-count:");
	printf("flags %#x, %#x\n", fcntl(efd, F_GETFD), fcntl(efd, F_GETFL) & O_NONBLOCK);
	printf("unknown flag: %s\n", outcome(eventfd(0, 2)));
	if (setrlimit(RLIMIT_NOFILE, &few))
		err(EXIT_FAILURE, "setrlimit");
	printf("fifth: %s\n", outcome(eventfd(0, 0)));
	return EXIT_SUCCESS;
}

static int count(void)
{
	int efd = create(0, EFD_NONBLOCK);
	uint64_t value = 5;

	try_read(efd);
	try_add(efd, UINT64_MAX);
	try_add(efd, FULL);
	try_add(efd, 0);
	try_add(efd, 1);
	tell(efd, "eventfd-count:");
	try_read(efd);
	printf("write 7 bytes: %s\n", outcome(write(efd, &value, 7)));
	printf("write from nowhere: %s\n", outcome(syscall(SYS_write, efd, NULL, 8)));
	try_add(efd, 5);
	printf("read 7 bytes: %s\n", outcome(read(efd, &value, 7)));
	tell(efd, "eventfd-count:");
	/* What cannot be copied is lost. */
	printf("read to nowhere: %s\n", outcome(syscall(SYS_read, efd, NULL, 8)));
	tell(efd, "eventfd-count:");
	return EXIT_SUCCESS;
}

static int semaphore(void)
{
	int efd = create(2, EFD_SEMAPHORE | EFD_NONBLOCK);

	tell(efd, "eventfd-count:");
	try_read(efd);
	try_add(efd, 0x10);
	try_read(efd);
	tell(efd, "eventfd-count:");
	while (add(efd, 0) == 8 && read(efd, &(uint64_t){ 0 }, 8) == 8)
		;
	tell(efd, "eventfd-count:");
	try_read(efd);
	return EXIT_SUCCESS;
}

static void tell_poll(int efd)
{
	struct pollfd polled = { .fd = efd, .events = POLLIN | POLLOUT };

	if (poll(&polled, 1, 0) == -1)
		err(EXIT_FAILURE, "poll");
	printf("poll:%s%s%s\n", polled.revents & POLLIN ? " in" : "",
	       polled.revents & POLLOUT ? " out" : "", polled.revents & POLLERR ? " error" : "");
}

static int poll_all(void)
{
	int efd = create(0, EFD_NONBLOCK);

	tell_poll(efd);
	try_add(efd, 1);
	tell_poll(efd);
	try_add(efd, FULL - 2);
	tell_poll(efd);
	try_add(efd, 1);
	tell_poll(efd);
	try_read(efd);
	tell_poll(efd);
	return EXIT_SUCCESS;
}

struct call {
	int efd;
	/* The value to write; 0 reads. */
	uint64_t value;
	volatile pid_t tid;
	ssize_t result;
	int error;
};

static void *make_call(void *argument)
{
	struct call *call = argument;

	call->tid = gettid();
	call->result = call->value ? add(call->efd, call->value) :
		read(call->efd, &call->value, sizeof(call->value));
	call->error = errno;
	return NULL;
}

/* Starts a thread for the call, and waits until it sleeps. */
static pthread_t start(struct call *call)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, make_call, call))
		errx(EXIT_FAILURE, "no thread");
	while (!call->tid || state_of(call->tid) != 'S')
		sched_yield();
	return thread;
}

static void tell_end(pthread_t thread, const char *what, const struct call *call)
{
	pthread_join(thread, NULL);
	errno = call->error;
	printf("%s: %s, %#" PRIx64 "\n", what, outcome(call->result), call->value);
}

static int blocked(void)
{
	struct call first = { .efd = create(0, 0) }, second = first, third = first;
	uint64_t value;
	struct iovec iov = { .iov_base = &value, .iov_len = sizeof(value) };
	pthread_t thread;

	printf("read without waiting: %s\n", outcome(preadv2(first.efd, &iov, 1, -1, RWF_NOWAIT)));
	thread = start(&first);
	try_add(first.efd, 5);
	tell_end(thread, "reader", &first);
	try_add(second.efd, FULL);
	second.value = 3;
	thread = start(&second);
	try_read(second.efd);
	tell_end(thread, "writer", &second);
	try_read(second.efd);
	/* Too small a room is not enough. */
	try_add(third.efd, FULL);
	third.value = FULL;
	thread = start(&third);
	try_read(third.efd);
	tell_end(thread, "writer", &third);
	tell(third.efd, "eventfd-count:");
	return EXIT_SUCCESS;
}

static void nothing(int signal)
{
	(void)signal;
}

static int interrupted(void)
{
	/* Without SA_RESTART. */
	const struct sigaction action = { .sa_handler = nothing };
	struct call reader = { .efd = create(0, 0) };
	struct call writer = { .efd = create(0, 0), .value = 1 };
	pthread_t thread;

	if (sigaction(SIGUSR1, &action, NULL))
		err(EXIT_FAILURE, "sigaction");
	thread = start(&reader);
	pthread_kill(thread, SIGUSR1);
	tell_end(thread, "reader", &reader);
	tell(reader.efd, "eventfd-count:");
	try_add(writer.efd, FULL);
	thread = start(&writer);
	pthread_kill(thread, SIGUSR1);
	tell_end(thread, "writer", &writer);
	tell(writer.efd, "eventfd-count:");
	return EXIT_SUCCESS;
}

/* Reads a byte asynchronously; the kernel adds 1 to the eventfd when that is done. */
static void read_byte(aio_context_t context, int resfd)
{
	char byte;
	struct iocb read = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = open("/proc/self/exe", O_RDONLY),
		.aio_buf = (uintptr_t)&byte,
		.aio_nbytes = 1,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = resfd,
	};
	struct iocb *list = &read;
	struct io_event event;

	if (syscall(SYS_io_submit, context, 1, &list) == 1 &&
	    syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1)
		printf("complete: %lld\n", (long long)event.res);
	else
		printf("not submitted: %s\n", strerrorname_np(errno));
	close(read.aio_fildes);
}

static int completed(void)
{
	int efd = create(0, EFD_NONBLOCK);
	struct call reader = { .efd = create(0, 0) };
	aio_context_t context = 0;
	pthread_t thread;

	if (syscall(SYS_io_setup, 4, &context))
		err(EXIT_FAILURE, "io_setup");
	read_byte(context, efd);
	read_byte(context, efd);
	try_read(efd);
	read_byte(context, STDOUT_FILENO);
	read_byte(context, -1);
	thread = start(&reader);
	read_byte(context, reader.efd);
	tell_end(thread, "reader", &reader);
	/* Only the kernel exceeds what a write can reach, and only by one. */
	try_add(efd, FULL);
	read_byte(context, efd);
	tell_poll(efd);
	read_byte(context, efd);
	try_read(efd);
	tell_poll(efd);
	return EXIT_SUCCESS;
}

static const struct way ways[] = {
	{ "create", create_all },
	{ "count", count },
	{ "semaphore", semaphore },
	{ "poll", poll_all },
	{ "blocked", blocked },
	{ "interrupted", interrupted },
	{ "completed", completed },
};

int main(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, usage);
	return go(ways, sizeof(ways) / sizeof(*ways), argv[1]);
}
