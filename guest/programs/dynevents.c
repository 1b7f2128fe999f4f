// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life cycle of dynamic events as in the manual of libtracefs: created raw,
 * allocated, created, destroyed, by force while they are enabled, and all of a
 * type at once. Prints the result of each call on one line: `ok`, or the name of
 * its errno.
 *
 * Usage: dynevents FILE OFFSET, a place in a program for a uprobe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tracefs.h>

#define RETPROBE TRACEFS_DYNEVENT_KRETPROBE
#define KPROBE TRACEFS_DYNEVENT_KPROBE

static void say(const char *what, int ret)
{
	printf("%s: %s\n", what, ret ? strerrorname_np(errno) : "ok");
}

static void say_pointer(const char *what, const void *pointer)
{
	say(what, pointer ? 0 : -1);
}

/* Counts the events of some types, in the group that this program uses. */
static int count(unsigned int types)
{
	struct tracefs_dynevent **all = tracefs_dynevent_get_all(types, "life");
	int number = 0;

	while (all && all[number])
		number++;
	tracefs_dynevent_list_free(all);
	return number;
}

static void say_count(const char *when)
{
	printf("%s: %d kprobes, %d kretprobes, %d in all\n", when,
	       count(KPROBE), count(RETPROBE), count(0));
}

/* Prints the error of the last command, without the time and the command. */
static void say_error(void)
{
	char *error = tracefs_error_last(NULL);
	char *reason = error ? strstr(error, "error: ") : NULL;

	printf("  %.*s\n", reason ? (int)strcspn(reason, "\n") : 4,
	       reason ? reason : "none");
	free(error);
}

static void raw(void)
{
	say("raw kprobe", tracefs_kprobe_raw("life", "raw", "vfs_read", NULL));
	say("raw kretprobe", tracefs_kretprobe_raw("life", "rawret", "vfs_read",
						   "ret=$retval"));
	say_count("raw");
	say("raw kprobe without an address",
	    tracefs_kprobe_raw("life", "none", NULL, NULL));
	tracefs_error_clear(NULL);
	say("raw kprobe with a bad argument",
	    tracefs_kprobe_raw("life", "bad", "vfs_read", "x=%none"));
	say_error();
	say("destroy a raw kprobe",
	    tracefs_kprobe_destroy("life", "raw", "vfs_read", NULL, false));
	say("destroy it again",
	    tracefs_kprobe_destroy("life", "raw", "vfs_read", NULL, false));
}

static void allocated(void)
{
	struct tracefs_instance *instance = tracefs_instance_create("life");
	struct tracefs_dynevent *probe;
	char *prefix, *address, *format;

	say_pointer("alloc without an address",
		    tracefs_kprobe_alloc("life", "none", NULL, NULL));
	probe = tracefs_kprobe_alloc("life", "alloc", "vfs_write", "count=$arg3");
	say_pointer("alloc", probe);
	say_count("allocated");
	say("destroy what was not created", tracefs_dynevent_destroy(probe, false));
	say("create", tracefs_dynevent_create(probe));
	say_count("created");
	say("create it again", tracefs_dynevent_create(probe));

	if (tracefs_dynevent_info(probe, NULL, NULL, &prefix, &address,
				  &format) == KPROBE)
		printf("it is %s at %s: %s\n", prefix, address, format);

	say("enable", tracefs_event_enable(NULL, "life", "alloc"));
	say("enable in an instance", tracefs_event_enable(instance, "life", "alloc"));
	say("destroy while enabled", tracefs_dynevent_destroy(probe, false));
	say_count("busy");
	say("destroy by force", tracefs_dynevent_destroy(probe, true));
	say_count("destroyed");
	tracefs_dynevent_free(probe);
	tracefs_instance_destroy(instance);
	tracefs_instance_free(instance);
}

static void others(const char *file, unsigned long long offset)
{
	struct tracefs_dynevent *probe;

	probe = tracefs_uprobe_alloc("life", "user", file, offset, NULL);
	say("create a uprobe", tracefs_dynevent_create(probe));
	tracefs_dynevent_free(probe);
	probe = tracefs_uprobe_alloc("life", "nofile", "/does/not/exist", 16, NULL);
	say("create a uprobe of no file", tracefs_dynevent_create(probe));
	tracefs_dynevent_free(probe);

	probe = tracefs_eprobe_alloc("life", "event", "sched", "sched_switch",
				     "next=$next_pid");
	say_pointer("alloc an event probe", probe);
	if (probe)
		say("create an event probe", tracefs_dynevent_create(probe));
	tracefs_dynevent_free(probe);
	say_count("others");
}

static void destroy_all(void)
{
	say("raw kprobe", tracefs_kprobe_raw("life", "one", "vfs_read", NULL));
	say("raw kprobe", tracefs_kprobe_raw("life", "two", "vfs_write", NULL));
	say("enable", tracefs_event_enable(NULL, "life", "two"));
	say("destroy all kprobes", tracefs_dynevent_destroy_all(KPROBE, false));
	say_count("one is enabled");
	say("destroy all kprobes by force",
	    tracefs_dynevent_destroy_all(KPROBE, true));
	say_count("no kprobes");
	say("destroy all", tracefs_dynevent_destroy_all(0, true));
	say_count("nothing");
}

/* Tries the same without privileges. */
static void unprivileged(void)
{
	pid_t child = fork();

	if (!child) {
		if (setgid(65534) || setuid(65534))
			exit(EXIT_FAILURE);
		say("raw kprobe by nobody",
		    tracefs_kprobe_raw("life", "nobody", "vfs_read", NULL));
		say("destroy all by nobody", tracefs_dynevent_destroy_all(0, true));
		exit(EXIT_SUCCESS);
	}
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "Usage: %s FILE OFFSET\n", argv[0]);
		return EXIT_FAILURE;
	}
	/* Line-buffered, so that a child does not print buffered output again. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	raw();
	allocated();
	others(argv[1], strtoull(argv[2], NULL, 0));
	unprivileged();
	say_count("before the end");
	destroy_all();
	return EXIT_SUCCESS;
}
