// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers batches of kprobes and kretprobes at run time. Each line written to
 * the control file is one command, and the write returns the kernel's errno.
 *
 * debugfs' kprobelab/control:
 *	+NAME [post|disabled|return|skip|data=BYTES|maxactive=N]... SYMBOL[+OFFSET]...
 *	-NAME
 *	NAME disable|enable
 * kprobelab/hits has one line per batch: `NAME PRE POST ENTRIES RETURNS MISSED`. The
 * entry handler of a return probe with `skip` ignores every second call, and one
 * with `data` checks in the return handler what the entry handler left there.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/version.h>

/* A write must be shorter than this, in bytes. */
#define WRITE_MAX 1024

/* The maximum number of probes in a batch. */
#define PROBES_MAX 8

struct batch;

struct probe {
	/* A kprobe uses only the member kp of this. */
	struct kretprobe rp;
	struct batch *batch;
};

struct batch {
	struct list_head list;
	char *name;
	/* The text that the names of the symbols are in. */
	char *text;
	int count;
	bool post;
	bool disabled;
	bool returns;
	bool skip;
	unsigned int data;
	int maxactive;
	struct probe probes[PROBES_MAX];
	struct kprobe *kprobes[PROBES_MAX];
	struct kretprobe *kretprobes[PROBES_MAX];
	atomic_t pre;
	atomic_t posts;
	atomic_t entries;
	atomic_t back;
};

static DEFINE_MUTEX(batches_mutex);
static LIST_HEAD(batches);
static struct dentry *directory;

static struct batch *batch_of(struct kprobe *kprobe)
{
	return container_of(kprobe, struct probe, rp.kp)->batch;
}

static int pre(struct kprobe *probe, struct pt_regs *regs)
{
	atomic_inc(&batch_of(probe)->pre);
	return 0;
}

static void post(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
	atomic_inc(&batch_of(probe)->posts);
}

static struct kretprobe *probe_of(struct kretprobe_instance *instance)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	return get_kretprobe(instance);
#else
	return instance->rp;
#endif
}

static int entry(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct batch *batch = batch_of(&probe_of(instance)->kp);
	int number = atomic_inc_return(&batch->entries);

	if (batch->skip && number % 2 == 0)
		return 1;
	if (batch->data)
		memset(instance->data, 0x5a, batch->data);
	return 0;
}

static int back(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct batch *batch = batch_of(&probe_of(instance)->kp);

	if (!batch->data || !memchr_inv(instance->data, 0x5a, batch->data))
		atomic_inc(&batch->back);
	return 0;
}

static int add_symbol(struct batch *batch, char *word)
{
	struct probe *probe = &batch->probes[batch->count];
	char *offset = strchr(word, '+');
	int error;

	if (batch->count == PROBES_MAX)
		return -E2BIG;
	if (offset) {
		*offset++ = '\0';
		error = kstrtouint(offset, 0, &probe->rp.kp.offset);
		if (error)
			return error;
	}
	probe->batch = batch;
	probe->rp.kp.symbol_name = word;
	batch->kprobes[batch->count] = &probe->rp.kp;
	batch->kretprobes[batch->count] = &probe->rp;
	batch->count++;
	return 0;
}

static int parse_word(struct batch *batch, char *word)
{
	if (!strcmp(word, "post"))
		batch->post = true;
	else if (!strcmp(word, "disabled"))
		batch->disabled = true;
	else if (!strcmp(word, "return"))
		batch->returns = true;
	else if (!strcmp(word, "skip"))
		batch->skip = true;
	else if (!strncmp(word, "data=", 5))
		return kstrtouint(word + 5, 0, &batch->data);
	else if (!strncmp(word, "maxactive=", 10))
		return kstrtoint(word + 10, 0, &batch->maxactive);
	else
		return add_symbol(batch, word);
	return 0;
}

static void set_up(struct batch *batch)
{
	struct kretprobe *probe;
	int i;

	for (i = 0; i < batch->count; i++) {
		probe = &batch->probes[i].rp;
		if (batch->disabled)
			probe->kp.flags = KPROBE_FLAG_DISABLED;
		if (batch->returns) {
			probe->handler = back;
			probe->entry_handler = entry;
			probe->data_size = batch->data;
			probe->maxactive = batch->maxactive;
			continue;
		}
		probe->kp.pre_handler = pre;
		if (batch->post)
			probe->kp.post_handler = post;
	}
}

static void free_batch(struct batch *batch)
{
	list_del(&batch->list);
	kfree(batch->text);
	kfree(batch);
}

static int add(const char *name, char *rest)
{
	struct batch *batch = kzalloc(sizeof(*batch), GFP_KERNEL);
	char *text = kasprintf(GFP_KERNEL, "%s %s", name, rest ? rest : "");
	int error = 0;
	char *word;

	if (!batch || !text) {
		kfree(batch);
		kfree(text);
		return -ENOMEM;
	}
	batch->text = text;
	batch->name = strsep(&text, " ");
	list_add_tail(&batch->list, &batches);
	while (!error && (word = strsep(&text, " ")))
		if (*word)
			error = parse_word(batch, word);
	if (!error) {
		set_up(batch);
		error = batch->returns ?
			register_kretprobes(batch->kretprobes, batch->count) :
			register_kprobes(batch->kprobes, batch->count);
	}
	if (error)
		free_batch(batch);
	return error;
}

static void drop(struct batch *batch)
{
	if (batch->returns)
		unregister_kretprobes(batch->kretprobes, batch->count);
	else
		unregister_kprobes(batch->kprobes, batch->count);
	free_batch(batch);
}

static int change(struct batch *batch, const char *verb)
{
	int i, error = 0;

	for (i = 0; !error && i < batch->count; i++) {
		if (!strcmp(verb, "disable"))
			error = disable_kprobe(&batch->probes[i].rp.kp);
		else if (!strcmp(verb, "enable"))
			error = enable_kprobe(&batch->probes[i].rp.kp);
		else
			error = -EINVAL;
	}
	return error;
}

static int command(char *line)
{
	const char *name = strsep(&line, " ");
	struct batch *batch;

	if (*name == '+')
		return add(name + 1, line);
	list_for_each_entry(batch, &batches, list) {
		if (strcmp(batch->name, name + (*name == '-')))
			continue;
		if (*name != '-')
			return line ? change(batch, line) : -EINVAL;
		drop(batch);
		return 0;
	}
	return -ENOENT;
}

static ssize_t control_write(struct file *file, const char __user *from,
			     size_t length, loff_t *position)
{
	char *text;
	int error;

	if (length >= WRITE_MAX)
		return -E2BIG;
	text = memdup_user_nul(from, length);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&batches_mutex);
	error = command(strim(text));
	mutex_unlock(&batches_mutex);
	kfree(text);
	return error ? error : length;
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = control_write,
};

static int hits_show(struct seq_file *out, void *unused)
{
	struct batch *batch;
	unsigned long missed;
	int i;

	mutex_lock(&batches_mutex);
	list_for_each_entry(batch, &batches, list) {
		missed = 0;
		for (i = 0; i < batch->count; i++)
			missed += batch->probes[i].rp.nmissed +
				  batch->probes[i].rp.kp.nmissed;
		seq_printf(out, "%s %d %d %d %d %lu\n", batch->name,
			   atomic_read(&batch->pre), atomic_read(&batch->posts),
			   atomic_read(&batch->entries),
			   atomic_read(&batch->back), missed);
	}
	mutex_unlock(&batches_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hits);

static int __init kprobelab_init(void)
{
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("control", 0200, directory, NULL,
			    &control_operations);
	debugfs_create_file("hits", 0400, directory, NULL, &hits_fops);
	return 0;
}

static void __exit kprobelab_exit(void)
{
	struct batch *batch, *next;

	debugfs_remove_recursive(directory);
	list_for_each_entry_safe(batch, next, &batches, list)
		drop(batch);
}

module_init(kprobelab_init);
module_exit(kprobelab_exit);

MODULE_DESCRIPTION("Registers batches of kprobes at run time");
MODULE_LICENSE("GPL");
