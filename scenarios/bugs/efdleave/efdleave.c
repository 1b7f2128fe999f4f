// SPDX-License-Identifier: GPL-2.0-only
/*
 * Joins the wait queue of an eventfd and leaves it, which reads the eventfd,
 * as KVM and VFIO do when their user takes back an irqfd.
 *
 * /sys/kernel/debug/efdleave takes the number of the writer's eventfd. The
 * write fails with EAGAIN if there was nothing to read.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/wait.h>

/* A place in the wait queue of an eventfd. */
struct waiter {
	poll_table table;
	wait_queue_entry_t entry;
};

static struct dentry *control;

static int wake(wait_queue_entry_t *entry, unsigned int mode, int flags,
		void *key)
{
	return 0;
}

static void join(struct file *file, wait_queue_head_t *queue,
		 poll_table *table)
{
	struct waiter *waiter = container_of(table, struct waiter, table);

	add_wait_queue(queue, &waiter->entry);
}

static ssize_t efdleave_write(struct file *file, const char __user *text,
			      size_t size, loff_t *pos)
{
	struct eventfd_ctx *eventfd;
	struct waiter waiter;
	struct file *target;
	__u64 count;
	int fd, ret;

	ret = kstrtoint_from_user(text, size, 0, &fd);
	if (ret)
		return ret;
	target = eventfd_fget(fd);
	if (IS_ERR(target))
		return PTR_ERR(target);
	eventfd = eventfd_ctx_fileget(target);
	if (IS_ERR(eventfd)) {
		ret = PTR_ERR(eventfd);
		goto put_file;
	}
	init_waitqueue_func_entry(&waiter.entry, wake);
	init_poll_funcptr(&waiter.table, join);
	vfs_poll(target, &waiter.table);
	ret = eventfd_ctx_remove_wait_queue(eventfd, &waiter.entry, &count);
	eventfd_ctx_put(eventfd);
put_file:
	fput(target);
	return ret ? ret : size;
}

static const struct file_operations efdleave_fops = {
	.owner = THIS_MODULE,
	.write = efdleave_write,
};

static int __init efdleave_init(void)
{
	control = debugfs_create_file("efdleave", 0200, NULL, NULL,
				      &efdleave_fops);
	return PTR_ERR_OR_ZERO(control);
}

static void __exit efdleave_exit(void)
{
	debugfs_remove(control);
}

module_init(efdleave_init);
module_exit(efdleave_exit);

MODULE_DESCRIPTION("Reads an eventfd by leaving its wait queue");
MODULE_LICENSE("GPL");
