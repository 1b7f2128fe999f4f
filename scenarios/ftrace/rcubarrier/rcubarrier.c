// SPDX-License-Identifier: GPL-2.0-only
/*
 * A write to the parameter `wait` waits until all pending RCU callbacks have
 * run, which free the tasks that have exited. The writer needs no child, unlike
 * one that loads a module. The parameter do_rcu_barrier of rcutree does the
 * same, but 6.1 does not have it.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>

static int wait_set(const char *val, const struct kernel_param *kp)
{
	/* A task that was reaped may not have left its CPU for the last time. */
	synchronize_rcu_tasks();
	rcu_barrier();
	return 0;
}

static const struct kernel_param_ops wait_ops = {
	.set = wait_set,
};

module_param_cb(wait, &wait_ops, NULL, 0200);
MODULE_PARM_DESC(wait, "write anything to wait for pending RCU callbacks");

MODULE_DESCRIPTION("Waits for pending RCU callbacks");
MODULE_LICENSE("GPL");
