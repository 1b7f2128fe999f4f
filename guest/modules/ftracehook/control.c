// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attach ftrace hooks at run time. Each line written to the control file is one
 * command, and the write returns ftrace's errno.
 *
 * debugfs' ftracehook/control:
 *	+NAME symbol=vfs_write flags=ipmodify,recursion action=observe
 *	-NAME
 *	NAME filter|notrace [+|-]PLACE[,...]
 *	NAME reset|disable|enable
 * ftracehook/hits has one line per hook, `NAME HITS MISSES`, and ftracehook/late
 * the number of hits after unregistering had returned.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "ftracehook.h"

/* A write must be shorter than this, in bytes. */
#define WRITE_MAX 4096

/* The maximum number of hooks, including removed ones. */
#define HOOKS_MAX 4096

/* Protects the lists and the hooks in them. */
static DEFINE_MUTEX(hooks_mutex);
static LIST_HEAD(hooks);
/* Removed hooks: a callback that runs too late must still find its hook. */
static LIST_HEAD(gone);
static int count;

static struct dentry *directory;

static struct hook *find(const char *name)
{
	struct hook *hook;

	list_for_each_entry(hook, &hooks, list) {
		if (!strcmp(hook->name, name))
			return hook;
	}
	return NULL;
}

static int add(const char *name, const char *text)
{
	struct hook *hook;
	int error;

	if (!*name || strlen(name) >= HOOK_NAME_SIZE)
		return -EINVAL;
	if (find(name))
		return -EEXIST;
	if (count == HOOKS_MAX)
		return -ENOSPC;
	hook = hook_create(name, text);
	if (IS_ERR(hook))
		return PTR_ERR(hook);
	error = hook_register(hook);
	if (error) {
		hook_free(hook);
		return error;
	}
	list_add_tail(&hook->list, &hooks);
	count++;
	return 0;
}

static int drop(struct hook *hook)
{
	int error = hook->registered ? hook_unregister(hook) : 0;

	if (!error)
		list_move_tail(&hook->list, &gone);
	return error;
}

static int change(struct hook *hook, char *rest)
{
	const char *verb = strsep(&rest, " \t");

	if (!strcmp(verb, "disable") && !rest)
		return hook_unregister(hook);
	if (!strcmp(verb, "enable") && !rest)
		return hook_register(hook);
	/* The functions of a direct call are fixed. */
	if (hook->line.action == HOOK_DIRECT)
		return -EINVAL;
	if (!strcmp(verb, "filter") && rest)
		return hook_filter(hook, strim(rest), false);
	if (!strcmp(verb, "notrace") && rest)
		return hook_filter(hook, strim(rest), true);
	if (!strcmp(verb, "reset") && !rest)
		return hook_reset(hook);
	return -EINVAL;
}

static int command(char *line)
{
	const char *name = strsep(&line, " \t");
	struct hook *hook;

	if (*name == '+')
		return add(name + 1, line ? line : "");
	hook = find(*name == '-' ? name + 1 : name);
	if (!hook)
		return -ENOENT;
	if (*name == '-')
		return line ? -EINVAL : drop(hook);
	return line ? change(hook, strim(line)) : -EINVAL;
}

static ssize_t control_write(struct file *file, const char __user *from,
			     size_t length, loff_t *position)
{
	char *text, *rest, *line;
	int error = 0;

	if (length >= WRITE_MAX)
		return -E2BIG;
	text = memdup_user_nul(from, length);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = text;
	mutex_lock(&hooks_mutex);
	while (!error && (line = strsep(&rest, "\n"))) {
		line = strim(line);
		if (*line)
			error = command(line);
	}
	mutex_unlock(&hooks_mutex);
	kfree(text);
	return error ? error : length;
}

static int control_show(struct seq_file *out, void *unused)
{
	struct hook *hook;

	mutex_lock(&hooks_mutex);
	list_for_each_entry(hook, &hooks, list)
		seq_printf(out, "%c%s %s\n", hook->registered ? '+' : '-',
			   hook->name, hook->text);
	mutex_unlock(&hooks_mutex);
	return 0;
}

static int control_open(struct inode *inode, struct file *file)
{
	return single_open(file, control_show, NULL);
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = control_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
	.write = control_write,
};

static int hits_show(struct seq_file *out, void *unused)
{
	struct hook_counters sum;
	struct hook *hook;

	mutex_lock(&hooks_mutex);
	list_for_each_entry(hook, &hooks, list) {
		sum = hook_count(hook);
		seq_printf(out, "%s %llu %llu\n", hook->name, sum.hits,
			   sum.misses);
	}
	mutex_unlock(&hooks_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hits);

static int late_show(struct seq_file *out, void *unused)
{
	seq_printf(out, "%llu\n", hook_late_hits());
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(late);

static int __init ftracehook_init(void)
{
	redirect_init();
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("control", 0600, directory, NULL,
			    &control_operations);
	debugfs_create_file("hits", 0400, directory, NULL, &hits_fops);
	debugfs_create_file("late", 0400, directory, NULL, &late_fops);
	return 0;
}

static void __exit ftracehook_exit(void)
{
	struct hook *hook, *next;

	/* Waits for readers and writers; there are no new ones after it. */
	debugfs_remove_recursive(directory);
	list_for_each_entry_safe(hook, next, &hooks, list) {
		if (drop(hook))
			pr_err("%s cannot be unregistered\n", hook->name);
	}
	redirect_exit();
	list_for_each_entry_safe(hook, next, &gone, list) {
		list_del(&hook->list);
		hook_free(hook);
	}
}

module_init(ftracehook_init);
module_exit(ftracehook_exit);

MODULE_DESCRIPTION("Attaches ftrace hooks at run time");
MODULE_LICENSE("GPL");
