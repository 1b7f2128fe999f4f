// SPDX-License-Identifier: GPL-2.0-only
/*
 * Static keys and instructions to patch, for tests that watch the patching.
 *
 * debugfs' statickeys/control takes one command per write:
 *	KEY enable|disable		true, false
 *	KEY inc|dec|flush		counted, deferred (which flushes)
 *	probe|unprobe SYMBOL[+OFFSET]	a counting kprobe; returns its errno
 *	race key|probe|hook ROUNDS	patches code while every CPU runs it
 * statickeys/paths shows which branch each site takes, statickeys/init the
 * branches of the __init site, statickeys/insns the results of the instructions
 * to probe, statickeys/calls the return address of a function that calls itself,
 * and statickeys/race the result of the last race.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "statickeys.h"

/* A command must be shorter than this, in bytes. */
#define COMMAND_MAX 128

static DEFINE_MUTEX(control_mutex);
static struct dentry *directory;

static int race(char *rest)
{
	const char *what = strsep(&rest, " ");
	unsigned int rounds;

	if (!rest || kstrtouint(rest, 0, &rounds))
		return -EINVAL;
	return race_run(what, rounds);
}

static int command(char *line)
{
	const char *first = strsep(&line, " ");

	if (!line)
		return -EINVAL;
	if (!strcmp(first, "probe") || !strcmp(first, "unprobe"))
		return insns_probe(line, *first == 'p');
	if (!strcmp(first, "race"))
		return race(line);
	return keys_command(first, line);
}

static ssize_t control_write(struct file *file, const char __user *from,
			     size_t length, loff_t *position)
{
	char text[COMMAND_MAX];
	int error;

	if (length >= sizeof(text))
		return -E2BIG;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	text[length] = '\0';
	mutex_lock(&control_mutex);
	error = command(strim(text));
	mutex_unlock(&control_mutex);
	return error ? error : length;
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = control_write,
};

static int paths_show(struct seq_file *out, void *unused)
{
	keys_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(paths);

static int init_show(struct seq_file *out, void *unused)
{
	keys_show_init(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(init);

static int insns_file_show(struct seq_file *out, void *unused)
{
	insns_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(insns_file);

static int calls_file_show(struct seq_file *out, void *unused)
{
	calls_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(calls_file);

static int race_file_show(struct seq_file *out, void *unused)
{
	race_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(race_file);

static int __init statickeys_module_init(void)
{
	keys_init();
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("control", 0200, directory, NULL,
			    &control_operations);
	debugfs_create_file("paths", 0400, directory, NULL, &paths_fops);
	debugfs_create_file("init", 0400, directory, NULL, &init_fops);
	debugfs_create_file("insns", 0400, directory, NULL, &insns_file_fops);
	debugfs_create_file("calls", 0400, directory, NULL, &calls_file_fops);
	debugfs_create_file("race", 0400, directory, NULL, &race_file_fops);
	return 0;
}

static void __exit statickeys_module_exit(void)
{
	debugfs_remove_recursive(directory);
	insns_exit();
	keys_exit();
}

module_init(statickeys_module_init);
module_exit(statickeys_module_exit);

MODULE_DESCRIPTION("Static keys and instructions to patch");
MODULE_LICENSE("GPL");
