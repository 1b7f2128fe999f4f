// SPDX-License-Identifier: GPL-2.0-only
/*
 * The init of an initramfs for kernels that cannot mount a userland themselves,
 * since 9p is a module or, before 5.15, since they have no block layer: loads the
 * modules in /boot in the order of their names, mounts the root filesystem of the
 * kernel command line read-only, and becomes its init.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char usage[] =
	"Usage: userland-init\n"
	"\n"
	"Mounts `root=` of type `rootfstype=` with the options `rootflags=` of the\n"
	"kernel command line, and executes its `init=`. Must be PID 1.\n";

static char command_line[1 << 16];

/* Returns the last value of a parameter, as the kernel would use it. */
static const char *parameter(const char *name)
{
	static char copy[sizeof(command_line)];
	char *word, *rest = NULL, *value = NULL;
	size_t length = strlen(name);

	strcpy(copy, command_line);
	for (word = strtok_r(copy, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
		if (!strncmp(word, name, length) && word[length] == '=')
			value = word + length + 1;
	if (!value)
		errx(EXIT_FAILURE, "no `%s=` on the kernel command line", name);
	value = strdup(value);
	if (!value)
		err(EXIT_FAILURE, "strdup");
	return value;
}

static void read_command_line(void)
{
	ssize_t size;
	int fd;

	if ((mkdir("/proc", 0755) && errno != EEXIST) || mount("proc", "/proc", "proc", 0, NULL))
		err(EXIT_FAILURE, "mount /proc");
	fd = open("/proc/cmdline", O_RDONLY);
	size = read(fd, command_line, sizeof(command_line) - 1);
	if (size < 0)
		err(EXIT_FAILURE, "/proc/cmdline");
	close(fd);
	umount("/proc");
}

static int is_module(const struct dirent *entry)
{
	return strstr(entry->d_name, ".ko") != NULL;
}

static void load_modules(void)
{
	struct dirent **modules;
	int count = scandir("/boot", &modules, is_module, alphasort);
	int i, fd;

	if (count < 0)
		err(EXIT_FAILURE, "/boot");
	for (i = 0; i < count; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "/boot/%s", modules[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
			err(EXIT_FAILURE, "load %s", path);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	const char *init;

	if (argc > 1 && getpid() != 1) {
		int help = !strcmp(argv[1], "--help");

		fputs(usage, help ? stdout : stderr);
		return help ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	load_modules();
	read_command_line();
	if (mkdir("/root", 0755) && errno != EEXIST)
		err(EXIT_FAILURE, "/root");
	if (mount(parameter("root"), "/root", parameter("rootfstype"), MS_RDONLY, parameter("rootflags")))
		err(EXIT_FAILURE, "mount `%s`", parameter("root"));
	if (mount("devtmpfs", "/root/dev", "devtmpfs", 0, NULL))
		err(EXIT_FAILURE, "mount /dev");
	if (chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		err(EXIT_FAILURE, "change the root");
	init = parameter("init");
	execl(init, init, (char *)NULL);
	err(EXIT_FAILURE, "%s", init);
}
