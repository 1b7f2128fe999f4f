// SPDX-License-Identifier: GPL-2.0-only
/*
 * A livepatch: reading an eventfd returns 1000 and leaves its counter alone,
 * and the file paths of the module statickeys is empty. That module may be
 * loaded before or after this one. A kernel without livepatches refuses it.
 */
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uio.h>

#ifdef CONFIG_LIVEPATCH

#define READ_VALUE 1000

static ssize_t livepatched_read(struct kiocb *iocb, struct iov_iter *to)
{
	const u64 value = READ_VALUE;

	if (iov_iter_count(to) < sizeof(value))
		return -EINVAL;
	if (copy_to_iter(&value, sizeof(value), to) != sizeof(value))
		return -EFAULT;
	return sizeof(value);
}

static void livepatched_show(struct seq_file *out)
{
}

static struct klp_func of_kernel[] = {
	{ .old_name = "eventfd_read", .new_func = livepatched_read },
	{ }
};

static struct klp_func of_module[] = {
	{ .old_name = "keys_show", .new_func = livepatched_show },
	{ }
};

static struct klp_object objects[] = {
	{ .funcs = of_kernel },
	{ .name = "statickeys", .funcs = of_module },
	{ }
};

static struct klp_patch patch = {
	.mod = THIS_MODULE,
	.objs = objects,
};

static int __init livepatches_init(void)
{
	return klp_enable_patch(&patch);
}

#else

static int __init livepatches_init(void)
{
	return -EOPNOTSUPP;
}

#endif

/* It can be unloaded once it has been disabled. */
static void __exit livepatches_exit(void)
{
}

module_init(livepatches_init);
module_exit(livepatches_exit);
MODULE_DESCRIPTION("Replaces a function of the kernel and one of a module");
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
