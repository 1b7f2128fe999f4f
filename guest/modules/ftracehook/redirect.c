// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wrappers with the prototypes of the functions that they replace. Each calls
 * the original, which the callback does not redirect again, and traces the
 * return value.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uio.h>

#include "ftracehook.h"

struct open_how;
struct kernel_clone_args;

struct target {
	const char *symbol;
	void *wrapper;
	unsigned long address;
	/* The hook that redirects it; no two hooks can redirect one function. */
	struct hook *hook;
};

enum { VFS_WRITE, VFS_READ, EVENTFD_WRITE, EVENTFD_READ, OPENAT2, CLONE };

static struct target targets[];

/* A call of a wrapper that has not returned yet. */
struct call {
	struct list_head list;
	const struct task_struct *task;
	const struct target *target;
	/* Whether its call of the original is still to come. */
	bool pending;
	/* Whether it holds a reference to the module. */
	bool held;
};

static LIST_HEAD(calls);
static DEFINE_RAW_SPINLOCK(calls_lock);

/*
 * The original may sleep for a long time. The module reference makes rmmod fail
 * until it returns. If the module is already being unloaded, there is no
 * reference to get, and its exit waits instead. Returns the original.
 */
static void *enter(struct call *call, int index)
{
	unsigned long irq;

	call->task = current;
	call->target = &targets[index];
	call->pending = true;
	raw_spin_lock_irqsave(&calls_lock, irq);
	list_add(&call->list, &calls);
	raw_spin_unlock_irqrestore(&calls_lock, irq);
	call->held = try_module_get(THIS_MODULE);
	return (void *)call->target->address;
}

static void leave(struct call *call)
{
	unsigned long irq;

	if (call->held)
		module_put(THIS_MODULE);
	raw_spin_lock_irqsave(&calls_lock, irq);
	list_del(&call->list);
	raw_spin_unlock_irqrestore(&calls_lock, irq);
}

static void trace(const struct call *call, const unsigned long *x, long ret,
		  const void *op)
{
	const struct hook *hook = READ_ONCE(call->target->hook);

	hook_trace_redirect(hook, call->target->address, x, ret, op);
}

static ssize_t do_write(int index, struct file *file, const char __user *from,
			size_t count, loff_t *position)
{
	const unsigned long x[] = { (unsigned long)file, (unsigned long)from,
				    count, (unsigned long)position };
	ssize_t (*original)(struct file *file, const char __user *from,
			    size_t count, loff_t *position);
	const void *op = file->f_op->write;
	struct call call;
	ssize_t ret;

	original = enter(&call, index);
	ret = original(file, from, count, position);
	trace(&call, x, ret, op);
	leave(&call);
	return ret;
}

static ssize_t wrap_vfs_write(struct file *file, const char __user *from,
			      size_t count, loff_t *position)
{
	return do_write(VFS_WRITE, file, from, count, position);
}

static ssize_t wrap_eventfd_write(struct file *file, const char __user *from,
				  size_t count, loff_t *position)
{
	return do_write(EVENTFD_WRITE, file, from, count, position);
}

static ssize_t wrap_vfs_read(struct file *file, char __user *to, size_t count,
			     loff_t *position)
{
	const unsigned long x[] = { (unsigned long)file, (unsigned long)to,
				    count, (unsigned long)position };
	ssize_t (*original)(struct file *file, char __user *to, size_t count,
			    loff_t *position);
	const void *op = file->f_op->read;
	struct call call;
	ssize_t ret;

	original = enter(&call, VFS_READ);
	ret = original(file, to, count, position);
	trace(&call, x, ret, op);
	leave(&call);
	return ret;
}

static ssize_t wrap_eventfd_read(struct kiocb *iocb, struct iov_iter *to)
{
	const unsigned long x[] = { (unsigned long)iocb, (unsigned long)to,
				    0, 0 };
	ssize_t (*original)(struct kiocb *iocb, struct iov_iter *to);
	const void *op = iocb->ki_filp->f_op->read_iter;
	struct call call;
	ssize_t ret;

	original = enter(&call, EVENTFD_READ);
	ret = original(iocb, to);
	trace(&call, x, ret, op);
	leave(&call);
	return ret;
}

static long wrap_do_sys_openat2(int dfd, const char __user *name,
				struct open_how *how)
{
	const unsigned long x[] = { dfd, (unsigned long)name,
				    (unsigned long)how, 0 };
	long (*original)(int dfd, const char __user *name, struct open_how *how);
	struct call call;
	long ret;

	original = enter(&call, OPENAT2);
	ret = original(dfd, name, how);
	/* 7.2 returns an int, which leaves the upper half undefined. */
	trace(&call, x, (int)ret, NULL);
	leave(&call);
	return ret;
}

static pid_t wrap_kernel_clone(struct kernel_clone_args *args)
{
	const unsigned long x[] = { (unsigned long)args, 0, 0, 0 };
	pid_t (*original)(struct kernel_clone_args *args);
	struct call call;
	pid_t ret;

	original = enter(&call, CLONE);
	ret = original(args);
	trace(&call, x, ret, NULL);
	leave(&call);
	return ret;
}

static struct target targets[] = {
	[VFS_WRITE] = { "vfs_write", wrap_vfs_write },
	[VFS_READ] = { "vfs_read", wrap_vfs_read },
	[EVENTFD_WRITE] = { "eventfd_write", wrap_eventfd_write },
	[EVENTFD_READ] = { "eventfd_read", wrap_eventfd_read },
	[OPENAT2] = { "do_sys_openat2", wrap_do_sys_openat2 },
	[CLONE] = { "kernel_clone", wrap_kernel_clone },
};

static bool contains(const struct target *target, unsigned long ip)
{
	return target->address && ip - target->address <= SITE_OFFSET_MAX;
}

/* Returns whether this kernel has the function and there is a wrapper for it. */
bool redirect_known(const char *symbol)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(targets); i++) {
		if (!strcmp(targets[i].symbol, symbol))
			return targets[i].address;
	}
	return false;
}

/*
 * Returns whether a call at "ip" is that of the original by its wrapper; called
 * from the callback. The return address does not show it: a kretprobe at the
 * function has replaced it by that of its trampoline.
 */
bool redirect_is_original(unsigned long ip)
{
	struct call *call;
	bool is = false;
	unsigned long irq;

	raw_spin_lock_irqsave(&calls_lock, irq);
	list_for_each_entry(call, &calls, list) {
		if (call->pending && call->task == current &&
		    contains(call->target, ip)) {
			call->pending = false;
			is = true;
			break;
		}
	}
	raw_spin_unlock_irqrestore(&calls_lock, irq);
	return is;
}

/* Returns the wrapper for a call at "ip", or 0; called from the callback. */
unsigned long redirect_to(struct hook *hook, unsigned long ip)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(targets); i++) {
		if (contains(&targets[i], ip)) {
			WRITE_ONCE(targets[i].hook, hook);
			return (unsigned long)targets[i].wrapper;
		}
	}
	return 0;
}

bool redirect_is_vfs_write(unsigned long ip)
{
	return contains(&targets[VFS_WRITE], ip);
}

void redirect_init(void)
{
	unsigned long addresses[ARRAY_SIZE(targets)];
	const char *symbols[ARRAY_SIZE(targets)];
	size_t i;

	BUILD_BUG_ON(ARRAY_SIZE(targets) > HOOK_SYMBOLS_MAX);
	for (i = 0; i < ARRAY_SIZE(targets); i++)
		symbols[i] = targets[i].symbol;
	hook_symbol_addresses(symbols, addresses, ARRAY_SIZE(targets));
	for (i = 0; i < ARRAY_SIZE(targets); i++)
		targets[i].address = addresses[i];
}

/* Waits for the last wrapper to return; nothing may be redirected any more. */
void redirect_exit(void)
{
	while (!list_empty(&calls))
		msleep(20);
	/* It may have been preempted just before its return. */
	synchronize_rcu_tasks();
}
