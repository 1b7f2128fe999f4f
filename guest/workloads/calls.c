// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes the system calls that its stdin lists, and compares the result of each
 * with the expected one. For files that must stay open between two calls, whose
 * calls block, or that have operations besides read(2) and write(2).
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "calls.h"
#include "pin.h"

static const char usage[] =
	"Usage: calls [--killed]\n"
	"\n"
	"Reads calls from stdin, one per line, and makes them in this order. A call\n"
	"must succeed, or have the result after ` = `: a number or the name of an\n"
	"errno. Paths are relative to tracefs. With --killed, a signal must end it.\n"
	"\n"
	"open FILE PATH [FLAG]...  as FILE, read-only without wronly or rdwr; flags\n"
	"                          are also append, nonblock and trunc\n"
	"close FILE\n"
	"read FILE SIZE            copies what it reads to stdout\n"
	"skip FILE SIZE            reads, and copies nothing\n"
	"write FILE TEXT           \\n is a newline, \\xHH a byte\n"
	"fill FILE SIZE            writes as many times `x'\n"
	"seek FILE OFFSET          from its start\n"
	"splice FILE SIZE [copy]   to a pipe, and with `copy' on to stdout\n"
	"ioctl FILE REQUEST\n"
	"map FILE SIZE, unmap      shared, from the start of the file\n"
	"poll FILE                 waits for input; the result is 1 for input, 2 for an\n"
	"                          error, 3 for both\n"
	"ready FILE                the same without waiting; 0 if there is neither\n"
	"count PATH TEXT           reads the file at once; the result is the number of\n"
	"                          lines with TEXT, where $pid and $tid are replaced\n"
	"echo PATH TEXT            opens the file, writes the text and a newline, and closes\n"
	"                          it, as a shell does with `>'; `append' with `>>'\n"
	"mkdir PATH, rmdir PATH, unlink PATH\n"
	"cpu NUMBER                runs on this CPU from now on\n"
	"thread CALL               makes the call in a thread, and goes on when it\n"
	"                          sleeps\n"
	"join [SECONDS]            waits for the end of that call, at most as long on the\n"
	"                          reference machine: ETIMEDOUT\n"
	"meet CALL                 makes the call on CPU 1 at the moment at which the next\n"
	"                          line's call is made on CPU 0, and waits for both\n";

#define TRACEFS "/sys/kernel/tracing"

#define LINE_MAX_BYTES 4096

/* A line of stdin: a call, its arguments, and its expected result, if any. */
struct line {
	int number;
	char text[LINE_MAX_BYTES];
	char *call;
	char *arguments;
	char *expected;
};

static long call_join(char *arguments);

static const struct call {
	const char *name;
	long (*make)(char *arguments);
} calls[] = {
	{ "open", call_open },	   { "close", call_close },   { "read", call_read },
	{ "skip", call_skip },	   { "write", call_write },   { "fill", call_fill },
	{ "seek", call_seek },	   { "splice", call_splice }, { "ioctl", call_ioctl },
	{ "poll", call_poll },	   { "ready", call_ready },   { "mkdir", call_mkdir },
	{ "rmdir", call_rmdir },   { "unlink", call_unlink }, { "cpu", call_cpu },
	{ "count", call_count },   { "map", call_map },	      { "unmap", call_unmap },
	{ "join", call_join },	   { "echo", call_echo },     { "append", call_append },
};

/* Splits a line; its result is the last word, if that is preceded by `=`. */
static void parse(struct line *line, char *text)
{
	char *equals;

	line->expected = NULL;
	for (equals = strstr(text, " = "); equals; equals = strstr(equals + 1, " = ")) {
		if (equals[3 + strcspn(equals + 3, " ")])
			continue;
		*equals = '\0';
		line->expected = equals + 3;
	}
	line->arguments = text;
	line->call = word(&line->arguments);
}

/* Makes a call, and exits unless its result is the expected one. */
static void make(struct line *line)
{
	char found[32];
	size_t i;
	long result;

	for (i = 0; strcmp(calls[i].name, line->call); i++)
		if (i + 1 == sizeof(calls) / sizeof(*calls))
			errx(EXIT_FAILURE, "line %d: `%s` is not a call", line->number, line->call);
	result = calls[i].make(line->arguments);
	if (result == -1)
		snprintf(found, sizeof(found), "%s", strerrorname_np(errno));
	else
		snprintf(found, sizeof(found), "%ld", result);
	fflush(stdout);
	if (line->expected ? strcmp(found, line->expected) : result == -1)
		errx(EXIT_FAILURE, "line %d: the result of %s is %s, expected %s", line->number,
		     line->call, found, line->expected ?: "success");
}

/* The call beside the others, and the number of the current line. */
static struct line beside;
static pthread_t besides;
static atomic_int beside_tid;
static int number;

static void *make_beside(void *argument)
{
	atomic_store(&beside_tid, gettid());
	make(argument);
	return NULL;
}

/* How many of two threads have come to where they meet. */
static atomic_int met;

/* Goes to a CPU and waits for the other thread there, without sleeping. */
static void meet(int cpu)
{
	pin(cpu);
	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < 2)
		;
}

static void *make_met(void *argument)
{
	meet(1);
	make(argument);
	return NULL;
}

/* Returns whether the thread sleeps, by its state in /proc. */
static bool sleeps(void)
{
	char path[64];
	FILE *stat;
	char state;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&beside_tid));
	stat = fopen(path, "r");
	/* The second field is this program's name, which has no blank. */
	if (!stat || fscanf(stat, "%*d %*s %c", &state) != 1)
		errx(EXIT_FAILURE, "line %d: the call did not sleep", number);
	fclose(stat);
	return state == 'S';
}

static void start_thread(const char *call, void *(*make_call)(void *line))
{
	strcpy(beside.text, call);
	parse(&beside, beside.text);
	beside.number = number;
	errno = pthread_create(&besides, NULL, make_call, &beside);
	if (errno)
		err(EXIT_FAILURE, "pthread_create");
}

static void await_sleep(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (!atomic_load(&beside_tid) || !sleeps())
		nanosleep(&pause, NULL);
}

static long call_join(char *arguments)
{
	const char *scale = getenv("FTRACE_LAB_TIME_SCALE");
	const char *seconds = word(&arguments);
	struct timespec until;
	double limit;

	atomic_store(&beside_tid, 0);
	if (!*seconds) {
		errno = pthread_join(besides, NULL);
		return errno ? -1 : 0;
	}
	limit = integer(seconds) * (scale ? atof(scale) : 1);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)limit + 1;
	errno = pthread_timedjoin_np(besides, NULL, &until);
	return errno ? -1 : 0;
}

/* Returns in a child, whose parent exits successfully if the child is killed. */
static void expect_kill(void)
{
	pid_t pid = fork();
	int status;

	if (pid == -1)
		err(EXIT_FAILURE, "fork");
	if (!pid)
		return;
	if (waitpid(pid, &status, 0) == -1)
		err(EXIT_FAILURE, "waitpid");
	if (!WIFSIGNALED(status))
		errx(EXIT_FAILURE, "not killed, but status %#x", status);
	exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	static struct line line;
	bool meets = false;

	if (argc > 1 && !strcmp(argv[1], "--killed")) {
		argv++;
		argc--;
		expect_kill();
	}
	expect_arguments(argc, argv, 0, usage);
	if (chdir(TRACEFS))
		err(EXIT_FAILURE, TRACEFS);
	while (fgets(line.text, sizeof(line.text), stdin)) {
		line.number = ++number;
		line.text[strcspn(line.text, "\n")] = '\0';
		if (!*line.text || *line.text == '#')
			continue;
		if (!strncmp(line.text, "thread ", 7)) {
			start_thread(line.text + 7, make_beside);
			await_sleep();
			continue;
		}
		if (!strncmp(line.text, "meet ", 5)) {
			start_thread(line.text + 5, make_met);
			meets = true;
			continue;
		}
		parse(&line, line.text);
		if (meets)
			meet(0);
		make(&line);
		if (meets && pthread_join(besides, NULL))
			errx(EXIT_FAILURE, "line %d: no thread to wait for", line.number);
		meets = false;
		atomic_store(&met, 0);
	}
	return EXIT_SUCCESS;
}
