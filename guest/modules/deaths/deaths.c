// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel bugs on demand, to test that they are detected.
 *
 * The parameter "now" names a bug to trigger at load; writing a name to debugfs'
 * deaths/now triggers one in the writing task. With "cpu=1", the one at load is
 * triggered on that CPU. With "leave=1" the module leaves a probe behind when it
 * is unloaded. With "returns=N" its init returns N if all else succeeds.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/trace_events.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

/* The maximum length of the name of a death, including the NUL. */
#define NAME_MAX_LENGTH 16

static char *now;
module_param(now, charp, 0444);
MODULE_PARM_DESC(now, "the bug to trigger at load: panic, null, bug, warn, deadlock, spin, sleep, stack, memory, hang, stall, inversion, free, shift, race, patch");

static int cpu = -1;
module_param(cpu, int, 0444);
MODULE_PARM_DESC(cpu, "the CPU on which to trigger it at load");

static bool leave;
module_param(leave, bool, 0444);
MODULE_PARM_DESC(leave, "leave a probe event, kprobes/deaths_left, behind");

static int returns;
module_param(returns, int, 0444);
MODULE_PARM_DESC(returns, "what init returns; positive numbers are an error, but the module is loaded");

static struct dentry *directory;

static noinline void deaths_panic(void)
{
	panic("a death was asked for");
}

static noinline void deaths_null(void)
{
	int *nowhere = NULL;

	/* If the compiler knew the value, it would emit a trap. */
	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
}

static noinline void deaths_bug(void)
{
	BUG();
}

static noinline void deaths_warn(void)
{
	WARN(1, "a warning was asked for\n");
}

/* Takes a lock twice with interrupts off, which locks up this CPU. */
static noinline void deaths_deadlock(void)
{
	static DEFINE_RAW_SPINLOCK(lock);
	unsigned long flags;

	raw_spin_lock_irqsave(&lock, flags);
	raw_spin_lock(&lock);
}

/* Never leaves its CPU, which still takes interrupts. */
static noinline void deaths_spin(void)
{
	preempt_disable();
	for (;;)
		cpu_relax();
}

static noinline void deaths_sleep(void)
{
	preempt_disable();
	msleep(20);
	/* The scheduler has reset the preemption count with its report. */
}

/* Writes "length" bytes, beyond the end of the buffer. */
static noinline void overrun(char *buffer, size_t length)
{
	OPTIMIZER_HIDE_VAR(length);
	memset(buffer, 0x55, length);
}

static noinline void deaths_stack(void)
{
	char buffer[16];

	overrun(buffer, 2 * sizeof(buffer));
}

/* Takes all memory, until the OOM killer selects this task. */
static noinline void deaths_memory(void)
{
	struct page *page, *next;
	LIST_HEAD(hoard);

	while (!fatal_signal_pending(current)) {
		page = alloc_page(GFP_KERNEL);
		if (!page)
			break;
		list_add(&page->lru, &hoard);
	}
	list_for_each_entry_safe(page, next, &hoard, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
}

/* Waits forever, and cannot be killed. */
static noinline void deaths_hang(void)
{
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule();
	}
}

/* Keeps the CPU inside a read-side critical section, so no grace period ends. */
static noinline void deaths_stall(void)
{
	unsigned long end = jiffies + 8 * HZ;

	rcu_read_lock();
	while (time_before(jiffies, end))
		cpu_relax();
	rcu_read_unlock();
}

/* Takes two locks in one order, then in the other. */
static noinline void deaths_inversion(void)
{
	static DEFINE_MUTEX(first);
	static DEFINE_MUTEX(second);

	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static noinline void deaths_free(void)
{
	int *gone = kmalloc(sizeof(*gone), GFP_KERNEL);

	/* The compiler must not know that this is the freed memory. */
	kfree(gone);
	OPTIMIZER_HIDE_VAR(gone);
	if (gone)
		READ_ONCE(*gone);
}

/* Shifts a word by more bits than it has. */
static noinline void deaths_shift(void)
{
	static unsigned int word = 1;
	unsigned int bits = 40;

	OPTIMIZER_HIDE_VAR(bits);
	WRITE_ONCE(word, READ_ONCE(word) << bits);
}

/* Its second instruction is the one that ftrace patches. */
static noinline void deaths_patched(void)
{
	barrier();
}

/* Overwrites a patch site, so that ftrace finds an unexpected instruction. */
static noinline void deaths_patch(void)
{
	const u32 yield = 0xd503203f;
	unsigned long site = (unsigned long)deaths_patched + 4;
	struct page *page = vmalloc_to_page((void *)site);
	void *alias;

	/* The module's own mapping of its text is read-only. */
	alias = vmap(&page, 1, VM_MAP, PAGE_KERNEL);
	if (!alias)
		return;
	memcpy(alias + offset_in_page(site), &yield, sizeof(yield));
	vunmap(alias);
}

static unsigned long raced;

static int racer(void *unused)
{
	while (!kthread_should_stop()) {
		raced++;
		cond_resched();
	}
	return 0;
}

/* Increments a counter in two tasks at once, without a lock. */
static noinline void deaths_race(void)
{
	unsigned long end = jiffies + 2 * HZ;
	struct task_struct *other;

	other = kthread_run(racer, NULL, "deaths_racer");
	if (IS_ERR(other))
		return;
	while (time_before(jiffies, end)) {
		raced++;
		cond_resched();
	}
	kthread_stop(other);
}

static const struct {
	const char *name;
	void (*happen)(void);
} deaths[] = {
	{ "panic", deaths_panic },
	{ "null", deaths_null },
	{ "bug", deaths_bug },
	{ "warn", deaths_warn },
	{ "deadlock", deaths_deadlock },
	{ "spin", deaths_spin },
	{ "sleep", deaths_sleep },
	{ "stack", deaths_stack },
	{ "memory", deaths_memory },
	{ "hang", deaths_hang },
	{ "stall", deaths_stall },
	{ "inversion", deaths_inversion },
	{ "free", deaths_free },
	{ "shift", deaths_shift },
	{ "race", deaths_race },
	{ "patch", deaths_patch },
};

static int happen(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(deaths); i++) {
		if (!strcmp(deaths[i].name, name)) {
			deaths[i].happen();
			return 0;
		}
	}
	return -EINVAL;
}

static ssize_t now_write(struct file *file, const char __user *from,
			 size_t count, loff_t *position)
{
	char name[NAME_MAX_LENGTH] = "";
	int error;

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, count))
		return -EFAULT;
	error = happen(strim(name));
	return error ? error : count;
}

static const struct file_operations now_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = now_write,
};

/* Defines a probe event that is never removed. */
static int leave_probe(void)
{
	struct dynevent_cmd cmd;
	char buffer[128];
	int error;

	kprobe_event_cmd_init(&cmd, buffer, sizeof(buffer));
	error = kprobe_event_gen_cmd_start(&cmd, "deaths_left", "vfs_write");
	if (error)
		return error;
	return kprobe_event_gen_cmd_end(&cmd);
}

static int __init deaths_init(void)
{
	int error = 0;

	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("now", 0200, directory, NULL, &now_operations);
	if (leave)
		error = leave_probe();
	if (!error && cpu >= 0)
		error = set_cpus_allowed_ptr(current, cpumask_of(cpu));
	if (!error && now)
		error = happen(now);
	if (!error)
		error = returns;
	if (error < 0)
		debugfs_remove_recursive(directory);
	return error;
}

static void __exit deaths_exit(void)
{
	debugfs_remove_recursive(directory);
}

module_init(deaths_init);
module_exit(deaths_exit);

MODULE_DESCRIPTION("Kernel deaths on demand");
MODULE_LICENSE("GPL");
