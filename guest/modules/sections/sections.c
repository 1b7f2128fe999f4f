// SPDX-License-Identifier: GPL-2.0-only
/*
 * Critical sections of a given length, for the latency tracers irqsoff,
 * preemptoff and preemptirqsoff.
 *
 * Writing a number of microseconds to a file in debugfs' sections/ runs a
 * section: "irqs" with interrupts off, "preemption" with preemption off, "both"
 * with interrupts off in its first half and preemption off in its second.
 */

#include <linux/debugfs.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#include <linux/timekeeping.h>

/* Short enough for all watchdogs. */
#define LONGEST_US USEC_PER_SEC

static struct dentry *directory;

/* Polls the clock: a udelay() that waits for events is slow in an emulator. */
static noinline void sections_wait(u64 us)
{
	u64 end = ktime_get_mono_fast_ns() + us * NSEC_PER_USEC;

	while (ktime_get_mono_fast_ns() < end)
		cpu_relax();
}

static noinline void sections_irqs(u64 us)
{
	local_irq_disable();
	sections_wait(us);
	local_irq_enable();
}

static noinline void sections_preemption(u64 us)
{
	preempt_disable();
	sections_wait(us);
	preempt_enable();
}

static noinline void sections_both(u64 us)
{
	local_irq_disable();
	sections_wait(us / 2);
	preempt_disable();
	local_irq_enable();
	sections_wait(us / 2);
	preempt_enable();
}

static int stay(void (*section)(u64 us), u64 us)
{
	if (us > LONGEST_US)
		return -EINVAL;
	section(us);
	return 0;
}

static int irqs_set(void *data, u64 us)
{
	return stay(sections_irqs, us);
}
DEFINE_DEBUGFS_ATTRIBUTE(irqs_operations, NULL, irqs_set, "%llu\n");

static int preemption_set(void *data, u64 us)
{
	return stay(sections_preemption, us);
}
DEFINE_DEBUGFS_ATTRIBUTE(preemption_operations, NULL, preemption_set, "%llu\n");

static int both_set(void *data, u64 us)
{
	return stay(sections_both, us);
}
DEFINE_DEBUGFS_ATTRIBUTE(both_operations, NULL, both_set, "%llu\n");

static int __init sections_init(void)
{
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file_unsafe("irqs", 0200, directory, NULL, &irqs_operations);
	debugfs_create_file_unsafe("preemption", 0200, directory, NULL, &preemption_operations);
	debugfs_create_file_unsafe("both", 0200, directory, NULL, &both_operations);
	return 0;
}

static void __exit sections_exit(void)
{
	debugfs_remove_recursive(directory);
}

module_init(sections_init);
module_exit(sections_exit);

MODULE_DESCRIPTION("Critical sections of a given length");
MODULE_LICENSE("GPL");
