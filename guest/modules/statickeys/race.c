// SPDX-License-Identifier: GPL-2.0-only
/*
 * Patches a function over and over while every CPU runs it, and counts the calls
 * and which branch each took, to detect calls that took none.
 */
#include <linux/cpu.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "compat.h"
#include "statickeys.h"

#define THREADS_MAX 64

struct counters {
	unsigned long calls;
	unsigned long off;
	unsigned long on;
};

DEFINE_STATIC_KEY_FALSE(statickeys_race);
static DEFINE_PER_CPU(struct counters, counters);
/* Hits of the kprobe or the hook. */
static DEFINE_PER_CPU(unsigned long, patch_hits);
static struct task_struct *threads[THREADS_MAX];
static struct counters sum;
static unsigned long hits;
static unsigned int done;

static noinline void race_keyed(struct counters *mine)
{
	if (static_branch_unlikely(&statickeys_race))
		mine->on++;
	else
		mine->off++;
}

/*
 * Has no key, because an emulator with several threads may keep running the
 * branch that it translated before the last round of the key (QEMU 7.2, rarely).
 */
static noinline void race_target(struct counters *mine)
{
	mine->off++;
}

static void (*target)(struct counters *mine);

static noinline void race_nobody(void)
{
	barrier();
}

static int runner(void *unused)
{
	struct counters *mine = this_cpu_ptr(&counters);
	int i;

	while (!kthread_should_stop()) {
		for (i = 0; i < 100; i++) {
			WRITE_ONCE(mine->calls, mine->calls + 1);
			target(mine);
		}
		cond_resched();
	}
	return 0;
}

static int race_hit(struct kprobe *probe, struct pt_regs *regs)
{
	this_cpu_inc(patch_hits);
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "race_target",
	.pre_handler = race_hit,
};

static int toggle_key(bool on)
{
	if (on)
		static_branch_enable(&statickeys_race);
	else
		static_branch_disable(&statickeys_race);
	return 0;
}

static int toggle_probe(bool on)
{
	return on ? enable_kprobe(&probe) : disable_kprobe(&probe);
}

static void race_callback(unsigned long ip, unsigned long parent_ip,
			  struct ftrace_ops *ops, struct race_regs *regs)
{
	this_cpu_inc(patch_hits);
}

static struct ftrace_ops hook = {
	.func = race_callback,
	.flags = RACE_FL_RECURSION,
};

/* Returns the address that ftrace patches: after the first instruction, and a BTI before it. */
static unsigned long site_of(void *function)
{
	return (unsigned long)function + (IS_ENABLED(CONFIG_ARM64_BTI_KERNEL) ? 8 : 4);
}

/*
 * Moves the hook between the function and one that is never called. An empty
 * filter would mean every function, and unregistering would have to wait until
 * each task sleeps.
 */
static int toggle_hook(bool on)
{
	return ftrace_set_filter_ip(&hook, site_of(on ? (void *)race_target :
						   (void *)race_nobody), 0, 1);
}

static int register_probe(void)
{
	probe.flags = KPROBE_FLAG_DISABLED;
	probe.addr = NULL;
	return register_kprobe(&probe);
}

static void unregister_probe(void)
{
	unregister_kprobe(&probe);
}

static int register_hook(void)
{
	int error = toggle_hook(false);

	return error ? error : register_ftrace_function(&hook);
}

static void unregister_hook(void)
{
	unregister_ftrace_function(&hook);
	ftrace_set_filter(&hook, NULL, 0, 1);
}

static int register_nothing(void)
{
	return 0;
}

static void unregister_nothing(void)
{
}

static const struct {
	const char *name;
	void (*target)(struct counters *mine);
	int (*prepare)(void);
	int (*toggle)(bool on);
	void (*clean_up)(void);
} races[] = {
	{ "key", race_keyed, register_nothing, toggle_key, unregister_nothing },
	{ "probe", race_target, register_probe, toggle_probe, unregister_probe },
	{ "hook", race_target, register_hook, toggle_hook, unregister_hook },
};

static void stop(void)
{
	int cpu;

	for (cpu = 0; cpu < THREADS_MAX; cpu++) {
		if (!threads[cpu])
			continue;
		kthread_stop(threads[cpu]);
		put_task_struct(threads[cpu]);
		threads[cpu] = NULL;
	}
}

static int start(void)
{
	struct task_struct *thread;
	int cpu;

	for_each_online_cpu(cpu) {
		if (cpu >= THREADS_MAX)
			break;
		memset(per_cpu_ptr(&counters, cpu), 0, sizeof(struct counters));
		per_cpu(patch_hits, cpu) = 0;
		thread = kthread_create(runner, NULL, "statickeys/%d", cpu);
		if (IS_ERR(thread)) {
			stop();
			return PTR_ERR(thread);
		}
		kthread_bind(thread, cpu);
		get_task_struct(thread);
		threads[cpu] = thread;
		set_user_nice(thread, 10);
		wake_up_process(thread);
	}
	return 0;
}

/*
 * Waits until every CPU has called the function once more. Returns -ESRCH if
 * the thread of one has died: of an oops, in the function that is patched.
 */
static int wait_for_all(void)
{
	unsigned long before;
	int cpu;

	for (cpu = 0; cpu < THREADS_MAX; cpu++) {
		if (!threads[cpu])
			continue;
		before = READ_ONCE(per_cpu(counters, cpu).calls);
		while (READ_ONCE(per_cpu(counters, cpu).calls) == before) {
			if (READ_ONCE(threads[cpu]->exit_state))
				return -ESRCH;
			schedule_timeout_uninterruptible(1);
		}
	}
	return 0;
}

static int rounds_of(int (*toggle)(bool on), unsigned int rounds)
{
	int error = 0;

	for (done = 0; done < rounds && !error; done++) {
		error = toggle(true);
		/* Often enough for each CPU to see the patched state. */
		if (!error && done % 100 == 0)
			error = wait_for_all();
		if (!error)
			error = toggle(false);
	}
	return error;
}

static void add_up(void)
{
	int cpu;

	memset(&sum, 0, sizeof(sum));
	hits = 0;
	for_each_possible_cpu(cpu) {
		sum.calls += per_cpu(counters, cpu).calls;
		sum.on += per_cpu(counters, cpu).on;
		sum.off += per_cpu(counters, cpu).off;
		hits += per_cpu(patch_hits, cpu);
	}
}

int race_run(const char *what, unsigned int rounds)
{
	int error;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(races); i++) {
		if (!strcmp(races[i].name, what))
			break;
	}
	if (i == ARRAY_SIZE(races))
		return -EINVAL;
	error = races[i].prepare();
	if (error)
		return error;
	target = races[i].target;
	error = start();
	if (!error) {
		error = rounds_of(races[i].toggle, rounds);
		stop();
	}
	races[i].clean_up();
	add_up();
	return error;
}

void race_show(struct seq_file *out)
{
	seq_printf(out, "rounds %u\n", done);
	seq_printf(out, "lost %ld\n", (long)(sum.calls - sum.on - sum.off));
	seq_printf(out, "on %s\n", sum.on ? "seen" : "never");
	seq_printf(out, "off %s\n", sum.off ? "seen" : "never");
	seq_printf(out, "hits %s\n", hits ? "seen" : "never");
}
