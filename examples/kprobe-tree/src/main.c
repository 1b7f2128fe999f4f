// SPDX-License-Identifier: GPL-2.0
/* Counts the values that are written to eventfds, by powers of two, with a kprobe. */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/uaccess.h>

#include "histogram.h"

static int show(char *buffer, const struct kernel_param *param)
{
	return histogram_print(buffer);
}

static const struct kernel_param_ops sizes_ops = { .get = show };
module_param_cb(values, &sizes_ops, NULL, 0444);
MODULE_PARM_DESC(values, "the values so far, by powers of two");

/* ssize_t eventfd_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos) */
static int on_write(struct kprobe *probe, struct pt_regs *regs)
{
	u64 value;

	if (!copy_from_user_nofault(&value, (void __user *)regs_get_kernel_argument(regs, 1), sizeof(value)))
		histogram_add(value);
	return 0;
}

static struct kprobe probe = { .symbol_name = "eventfd_write", .pre_handler = on_write };

static int __init sizes_init(void)
{
	return register_kprobe(&probe);
}

static void __exit sizes_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(sizes_init);
module_exit(sizes_exit);
MODULE_DESCRIPTION("Counts the values that are written to eventfds");
MODULE_LICENSE("GPL");
