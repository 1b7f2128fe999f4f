// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads and changes tracing without end, for what only goes wrong if somebody
 * else does so at the same time. Nothing that others trace is affected.
 */
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"

static const char usage[] =
	"Usage: churn PREFIX\n"
	"\n"
	"Reads the files of the events whose group begins with PREFIX or is `synthetic',\n"
	"and the files that list what is traced. Then records the events of the scheduler\n"
	"in an instance of its own, whose buffers it changes. Begins again until it is\n"
	"killed, and leaves its instance; prints `begun' after the first time.\n";

#define TRACEFS "/sys/kernel/tracing"

/* How much longer than a round takes, others have the CPU for themselves. */
#define PAUSE 4

static const char *const lists[] = {
	"dynamic_events", "kprobe_events", "uprobe_events", "kprobe_profile",
	"uprobe_profile", "synthetic_events", "set_event", "set_ftrace_filter",
	"enabled_functions", "error_log", "saved_cmdlines", "printk_formats",
};

/* Any file may be missing, or go at any time. */
static void look(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_NONBLOCK);

	if (fd == -1)
		return;
	while (read(fd, text, sizeof(text)) > 0)
		;
	close(fd);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd == -1)
		return;
	if (write(fd, text, strlen(text)) == -1)
		warn("%s", path);
	close(fd);
}

/* Reads the files below a directory, of its entries only those with the prefix or of that name. */
static void walk(const char *path, const char *prefix, const char *name)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	char below[512];

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (*entry->d_name == '.')
			continue;
		if (strncmp(entry->d_name, prefix, strlen(prefix)) && strcmp(entry->d_name, name))
			continue;
		snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		if (entry->d_type == DT_DIR)
			walk(below, "", "");
		else
			look(below);
	}
	closedir(directory);
}

static void record(const char *instance, unsigned int round)
{
	static const struct { const char *file, *texts[2]; } changes[] = {
		{ "buffer_size_kb", { "64", "16" } },
		{ "trace_clock", { "global", "local" } },
		{ "events/sched/enable", { "1", "1" } },
		{ "snapshot", { "1", "0" } },
		{ "events/sched/enable", { "0", "0" } },
	};
	char file[128];
	size_t i;

	for (i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		snprintf(file, sizeof(file), "%s/%s", instance, changes[i].file);
		put(file, changes[i].texts[round % 2]);
	}
	snprintf(file, sizeof(file), "%s/trace", instance);
	look(file);
}

/* Microseconds since an arbitrary moment. */
static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	unsigned int round;
	long long started;
	char instance[64];
	size_t i;

	expect_arguments(argc, argv, 1, usage);
	if (chdir(TRACEFS))
		err(EXIT_FAILURE, TRACEFS);
	snprintf(instance, sizeof(instance), "instances/churn-%d", getpid());
	if (mkdir(instance, 0755))
		err(EXIT_FAILURE, "%s", instance);
	for (round = 0;; round++) {
		started = now();
		walk("events", argv[1], "synthetic");
		for (i = 0; i < sizeof(lists) / sizeof(*lists); i++)
			look(lists[i]);
		record(instance, round);
		if (!round) {
			puts("begun");
			fflush(stdout);
		}
		usleep(PAUSE * (now() - started));
	}
}
