// SPDX-License-Identifier: GPL-2.0
/* Counts the calls of a kernel function. */
#include <linux/atomic.h>
#include <linux/ftrace.h>
#include <linux/module.h>

static char *function = "eventfd_write";
module_param(function, charp, 0444);
MODULE_PARM_DESC(function, "the function whose calls are counted");

static atomic_long_t calls;

static int show_calls(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%ld\n", atomic_long_read(&calls));
}

static const struct kernel_param_ops calls_ops = { .get = show_calls };
module_param_cb(calls, &calls_ops, NULL, 0444);
MODULE_PARM_DESC(calls, "the number of calls so far");

static void notrace on_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			    struct ftrace_regs *fregs)
{
	atomic_long_inc(&calls);
}

static struct ftrace_ops ops = { .func = on_call };

static int __init watch_init(void)
{
	int err = ftrace_set_filter(&ops, function, strlen(function), 1);

	if (err)
		return err;
	err = register_ftrace_function(&ops);
	if (err)
		ftrace_free_filter(&ops);
	return err;
}

static void __exit watch_exit(void)
{
	unregister_ftrace_function(&ops);
	ftrace_free_filter(&ops);
}

module_init(watch_init);
module_exit(watch_exit);
MODULE_DESCRIPTION("Counts the calls of a kernel function");
MODULE_LICENSE("GPL");
