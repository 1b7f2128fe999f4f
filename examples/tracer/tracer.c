// SPDX-License-Identifier: GPL-2.0
/* Counts the calls of a kernel function while a command runs: tracer FUNCTION COMMAND [ARGUMENT...] */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing/"

static void write_to(const char *file, const char *text, int flags)
{
	int fd = open(file, O_WRONLY | flags);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err(1, "cannot write `%s` to %s", text, file);
	close(fd);
}

static long count(const char *function)
{
	char line[512], name[256];
	unsigned long hits, misses;
	long found = -1;
	FILE *profile = fopen(TRACEFS "kprobe_profile", "r");

	if (!profile)
		err(1, "cannot open kprobe_profile");
	while (fgets(line, sizeof(line), profile))
		if (sscanf(line, "%255s %lu %lu", name, &hits, &misses) == 3 && !strcmp(name, "counted"))
			found = (long)(hits + misses);
	fclose(profile);
	if (found < 0)
		errx(1, "no probe on %s", function);
	return found;
}

int main(int argc, char **argv)
{
	char probe[256];
	long calls;
	int status;
	pid_t pid;

	if (argc < 3)
		errx(2, "usage: tracer FUNCTION COMMAND [ARGUMENT...]");
	snprintf(probe, sizeof(probe), "p:tracer/counted %s\n", argv[1]);
	write_to(TRACEFS "kprobe_events", probe, O_APPEND);
	write_to(TRACEFS "events/tracer/counted/enable", "1", 0);
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		err(127, "%s", argv[2]);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		err(1, "cannot run %s", argv[2]);
	write_to(TRACEFS "events/tracer/counted/enable", "0", 0);
	calls = count(argv[1]);
	write_to(TRACEFS "kprobe_events", "-:tracer/counted\n", O_APPEND);
	printf("%s: %ld calls\n", argv[1], calls);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
