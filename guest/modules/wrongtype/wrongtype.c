// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers callbacks whose type is not the one that they are called by. The
 * registers of a call are the same for both, so it does no harm, unless CFI
 * compares the types.
 *
 *	insmod wrongtype.ko hook=eventfd_write
 *	insmod wrongtype.ko kprobe=eventfd_write
 */
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>

static char *hook;
module_param(hook, charp, 0444);
MODULE_PARM_DESC(hook, "the function to hook by ftrace");

static char *kprobe;
module_param(kprobe, charp, 0444);
MODULE_PARM_DESC(kprobe, "the function to put a kprobe on");

static int calls;
module_param(calls, int, 0444);
MODULE_PARM_DESC(calls, "the number of calls of the callbacks");

static notrace int callback(void)
{
	calls++;
	return 0;
}
NOKPROBE_SYMBOL(callback);

/* By way of a pointer without a type, so that the compiler does not warn. */
static struct ftrace_ops ops = {
	.func = (void *)callback,
};

static struct kprobe probe = {
	.pre_handler = (void *)callback,
};

static int __init wrongtype_init(void)
{
	int error;

	if (kprobe) {
		probe.symbol_name = kprobe;
		return register_kprobe(&probe);
	}
	if (!hook)
		return -EINVAL;
	error = ftrace_set_filter(&ops, hook, strlen(hook), 0);
	return error ? error : register_ftrace_function(&ops);
}

static void __exit wrongtype_exit(void)
{
	if (kprobe)
		unregister_kprobe(&probe);
	else
		unregister_ftrace_function(&ops);
}

module_init(wrongtype_init);
module_exit(wrongtype_exit);
MODULE_DESCRIPTION("Registers callbacks of another type than their callers expect");
MODULE_LICENSE("GPL");
