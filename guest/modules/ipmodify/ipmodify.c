// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes functions by IPMODIFY, as a livepatch does, and leaves them as they are.
 *
 *	echo vfs_read > /sys/module/ipmodify/parameters/function
 *
 * takes one more.
 */
#include <linux/ftrace.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>

/* 5.11 added linux/trace_recursion.h, together with struct ftrace_regs. */
#ifdef trace_recursion_set
#define callback_regs ftrace_regs
#else
#define callback_regs pt_regs
#endif

static void notrace ignore(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			   struct callback_regs *regs)
{
}

static struct ftrace_ops ops = {
	.func = ignore,
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
	.flags = FTRACE_OPS_FL_IPMODIFY,
#else
	.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_SAVE_REGS,
#endif
};

static bool is_registered;
static DEFINE_MUTEX(taking);

static int take(const char *value, const struct kernel_param *param)
{
	char name[KSYM_NAME_LEN];
	int err;

	if (strscpy(name, value, sizeof(name)) < 0)
		return -E2BIG;
	strim(name);
	mutex_lock(&taking);
	err = ftrace_set_filter(&ops, name, strlen(name), 0);
	/* Before it has a filter, it would take all functions. */
	if (!err && !is_registered) {
		err = register_ftrace_function(&ops);
		is_registered = !err;
	}
	mutex_unlock(&taking);
	return err;
}

static const struct kernel_param_ops function_ops = { .set = take };
module_param_cb(function, &function_ops, NULL, 0200);
MODULE_PARM_DESC(function, "a function to take in addition to the others");

static int __init ipmodify_init(void)
{
	return 0;
}

static void __exit ipmodify_exit(void)
{
	if (is_registered)
		unregister_ftrace_function(&ops);
	/* Frees the filter; 5.10 does not export ftrace_free_filter(). */
	ftrace_set_filter(&ops, NULL, 0, 1);
}

module_init(ipmodify_init);
module_exit(ipmodify_exit);
MODULE_DESCRIPTION("Takes functions by IPMODIFY, as a livepatch does");
MODULE_LICENSE("GPL");
