// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attaches functions to the kernel's tracepoint task_rename, with priorities, and
 * notes modules with tracepoints as they come and go.
 *
 * debugfs' tracepoints/control takes `+LETTER PRIORITY` and `-LETTER`, with letters
 * from a to d. tracepoints/calls has the letters of the functions in the order of
 * their calls by tasks named by the parameter `comm`. tracepoints/modules has
 * one line per event, `coming NAME` or `going NAME`.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>

static char *comm = "";
module_param(comm, charp, 0400);
MODULE_PARM_DESC(comm, "name of the tasks whose calls are noted");

static struct tracepoint *tracepoint;
static struct dentry *directory;

/* Protects both texts. */
static DEFINE_SPINLOCK(notes_lock);
static char calls[256];
static char modules[1024];

/* Each function's data is its letter. */
static const char letters[] = "abcd";
static bool registered[sizeof(letters) - 1];

static void note(char *notes, size_t size, const char *text)
{
	unsigned long flags;
	size_t length;

	spin_lock_irqsave(&notes_lock, flags);
	length = strlen(notes);
	if (length + strlen(text) < size)
		strscpy(notes + length, text, size - length);
	spin_unlock_irqrestore(&notes_lock, flags);
}

/* With CFI, its type must be that of the probes of task_rename. */
static void call(void *data, struct task_struct *task, const char *name)
{
	const char text[] = { *(const char *)data, '\0' };

	if (!strcmp(current->comm, comm))
		note(calls, sizeof(calls), text);
}

static int tracepoint_module_event(struct notifier_block *block,
				   unsigned long event, void *data)
{
	struct tp_module *of = data;
	char text[MODULE_NAME_LEN + 16];

	scnprintf(text, sizeof(text), "%s %s\n",
		  event == MODULE_STATE_COMING ? "coming" : "going", of->mod->name);
	note(modules, sizeof(modules), text);
	return NOTIFY_OK;
}

static struct notifier_block notifier = {
	.notifier_call = tracepoint_module_event,
};

/* The kernel warns about functions that are not registered. */
static int detach(const char *letter)
{
	int error = -ENOENT;

	if (registered[letter - letters])
		error = tracepoint_probe_unregister(tracepoint, call, (void *)letter);
	if (!error)
		registered[letter - letters] = false;
	return error;
}

static int command(const char *text)
{
	const char *letter = text[0] ? strchr(letters, text[1]) : NULL;
	int priority, error;

	if (!letter || !*letter)
		return -EINVAL;
	if (*text == '-' && !text[2])
		return detach(letter);
	if (*text != '+' || text[2] != ' ' || kstrtoint(text + 3, 0, &priority))
		return -EINVAL;
	/* tracepoint_probe_register_prio() warns if it exists. */
	error = tracepoint_probe_register_prio_may_exist(tracepoint, call,
							 (void *)letter, priority);
	if (!error)
		registered[letter - letters] = true;
	return error;
}

static ssize_t control_write(struct file *file, const char __user *from,
			     size_t length, loff_t *position)
{
	char text[32];
	int error;

	if (length >= sizeof(text))
		return -E2BIG;
	if (copy_from_user(text, from, length))
		return -EFAULT;
	text[length] = '\0';
	error = command(strim(text));
	return error ? error : length;
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = control_write,
};

static int calls_show(struct seq_file *out, void *unused)
{
	seq_printf(out, "%s\n", calls);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(calls);

static int modules_show(struct seq_file *out, void *unused)
{
	seq_puts(out, modules);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(modules);

static void find(struct tracepoint *found, void *unused)
{
	if (!strcmp(found->name, "task_rename"))
		tracepoint = found;
}

static int __init tracepoints_init(void)
{
	int error;

	for_each_kernel_tracepoint(find, NULL);
	if (!tracepoint)
		return -ENOENT;
	error = register_tracepoint_module_notifier(&notifier);
	if (error)
		return error;
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("control", 0200, directory, NULL, &control_operations);
	debugfs_create_file("calls", 0400, directory, NULL, &calls_fops);
	debugfs_create_file("modules", 0400, directory, NULL, &modules_fops);
	return 0;
}

static void __exit tracepoints_exit(void)
{
	const char *letter;

	debugfs_remove_recursive(directory);
	unregister_tracepoint_module_notifier(&notifier);
	for (letter = letters; *letter; letter++)
		detach(letter);
	tracepoint_synchronize_unregister();
}

module_init(tracepoints_init);
module_exit(tracepoints_exit);

MODULE_DESCRIPTION("Attaches functions to a tracepoint at run time");
MODULE_LICENSE("GPL");
