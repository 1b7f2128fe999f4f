// SPDX-License-Identifier: GPL-2.0-only
/*
 * One hook: an ftrace_ops, its filter, and its callback, which may run
 * anywhere and therefore allocates nothing, prints nothing and never sleeps.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat.h"
#include "ftracehook.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* The files that hooks on vfs_write saw. Not static: a debugger reads them. */
int show_count;
struct file *show_files[SHOW_FILES_MAX];

static atomic64_t late_hits = ATOMIC64_INIT(0);

static unsigned int linger_us;
module_param(linger_us, uint, 0444);
MODULE_PARM_DESC(linger_us, "how long a callback takes, in microseconds, so that one is more likely to run when its hook is unregistered");

static void see_file(unsigned long ip, unsigned long argument)
{
	struct file *file = (struct file *)argument;
	int count = READ_ONCE(show_count);

	if (!redirect_is_vfs_write(ip) || !file->f_op->write)
		return;
	/* A CPU that loses the race for a slot drops its file. */
	if (count < SHOW_FILES_MAX &&
	    cmpxchg(&show_count, count, count + 1) == count)
		WRITE_ONCE(show_files[count], file);
}

static void act(struct hook *hook, unsigned long ip, struct hook_regs *regs)
{
	const struct hook_line *line = &hook->line;
	unsigned long wrapper;

	switch (line->action) {
	case HOOK_OBSERVE:
		break;
	case HOOK_REDIRECT:
		wrapper = redirect_to(hook, ip);
		if (wrapper)
			hook_redirect(regs, wrapper);
		else
			this_cpu_inc(hook->counters->misses);
		break;
	case HOOK_RETURN:
		hook_return(regs, line->value);
		break;
	case HOOK_ARGUMENT:
		hook_set_argument(regs, line->argument, line->value);
		break;
	case HOOK_RECURSE:
		ftracehook_recursed();
		break;
	case HOOK_DIRECT:
		break;
	}
}

/* Counts and traces a call, unless the hook ignores the task. */
bool hook_see(struct hook *hook, unsigned long ip, unsigned long parent_ip,
	      const unsigned long *x, bool regs)
{
	if (*hook->line.comm && strcmp(hook->line.comm, current->comm))
		return false;
	this_cpu_inc(hook->counters->hits);
	see_file(ip, x[0]);
	trace_hit(hook->name, ip, parent_ip, x, regs);
	return true;
}

/* The end of a call. Unregistering also waits for one that had begun before. */
void hook_leave(struct hook *hook)
{
	if (linger_us)
		udelay(linger_us);
	if (READ_ONCE(hook->dead))
		atomic64_inc(&late_hits);
}

static void hit(struct hook *hook, unsigned long ip, unsigned long parent_ip,
		struct hook_regs *regs)
{
	unsigned long x[HOOK_ARGUMENTS];
	int i;

	/* A wrapper's call of the original must not be redirected. */
	if (hook->line.action == HOOK_REDIRECT && redirect_is_original(ip))
		return;
	for (i = 0; i < HOOK_ARGUMENTS; i++)
		x[i] = hook_argument(regs, i);
	if (hook_see(hook, ip, parent_ip, x, hook_has_pt_regs(regs)))
		act(hook, ip, regs);
}

static void hook_callback(unsigned long ip, unsigned long parent_ip,
			  struct ftrace_ops *ops, struct hook_regs *regs)
{
	struct hook *hook = container_of(ops, struct hook, ops);
	bool protected = ops->flags & HOOK_FL_RECURSION;
	int bit = 0;

	if (!regs || !rcu_is_watching()) {
		this_cpu_inc(hook->counters->misses);
		return;
	}
	if (!protected)
		bit = hook_trylock(ip, parent_ip);
	if (bit < 0) {
		this_cpu_inc(hook->counters->misses);
		return;
	}
	hit(hook, ip, parent_ip, regs);
	hook_leave(hook);
	if (!protected)
		hook_unlock(bit);
}

/* Removes the sign from the start of "place"; returns whether it was there. */
static bool take_sign(char **place, char sign)
{
	bool has = **place == sign;

	*place += has;
	return has;
}

static int filter_name(struct hook *hook, const char *name, bool not,
		       bool remove, bool reset)
{
	char *text;
	int error;

	if (hook->line.action == HOOK_REDIRECT && !redirect_known(name))
		return -EINVAL;
	/* A copy, because ftrace writes to it. */
	text = kasprintf(GFP_KERNEL, "%s%s", remove ? "!" : "", name);
	if (!text)
		return -ENOMEM;
	if (not)
		error = ftrace_set_notrace(&hook->ops, text, strlen(text), reset);
	else
		error = ftrace_set_filter(&hook->ops, text, strlen(text), reset);
	kfree(text);
	return error;
}

/*
 * Changes a filter by a comma-separated list of places: PLACE or +PLACE adds one,
 * -PLACE removes one. If the first has no sign, the filter is cleared before.
 */
int hook_filter(struct hook *hook, char *places, bool not)
{
	bool add, remove, reset = true;
	unsigned long address;
	char *place;
	int error;

	while ((place = strsep(&places, ","))) {
		add = take_sign(&place, '+');
		remove = !add && take_sign(&place, '-');
		reset = reset && !add && !remove;
		if (!*place)
			return -EINVAL;
		if (*place != '@') {
			error = filter_name(hook, place, not, remove, reset);
		} else if (not) {
			error = -EINVAL;
		} else {
			error = hook_address_parse(place + 1, &address);
			if (!error)
				error = ftrace_set_filter_ip(&hook->ops, address,
							     remove, reset);
		}
		if (error)
			return error;
		reset = false;
	}
	return 0;
}

/* Clears both filters. An IPMODIFY ftrace_ops has no notrace filter. */
int hook_reset(struct hook *hook)
{
	int error = ftrace_set_filter(&hook->ops, NULL, 0, 1);

	if (!error && !(hook->ops.flags & FTRACE_OPS_FL_IPMODIFY))
		error = ftrace_set_notrace(&hook->ops, NULL, 0, 1);
	return error;
}

int hook_register(struct hook *hook)
{
	int error;

	if (hook->registered)
		return -EALREADY;
	WRITE_ONCE(hook->dead, false);
	if (hook->line.action == HOOK_DIRECT)
		error = hook_direct_register(hook);
	else
		error = register_ftrace_function(&hook->ops);
	hook->registered = !error;
	return error;
}

int hook_unregister(struct hook *hook)
{
	int error;

	if (!hook->registered)
		return -EALREADY;
	if (hook->line.action == HOOK_DIRECT)
		error = hook_direct_unregister(hook);
	else
		error = unregister_ftrace_function(&hook->ops);
	if (error)
		return error;
	hook->registered = false;
	WRITE_ONCE(hook->dead, true);
	return 0;
}

/* Returns a new hook that is not registered, or an ERR_PTR(). */
struct hook *hook_create(const char *name, const char *text)
{
	struct hook *hook = kzalloc(sizeof(*hook), GFP_KERNEL);
	char *parsed = kstrdup(text, GFP_KERNEL);
	int error = -ENOMEM;

	if (!hook || !parsed)
		goto fail;
	strscpy(hook->name, name, sizeof(hook->name));
	hook->text = kstrdup(text, GFP_KERNEL);
	hook->counters = alloc_percpu(struct hook_counters);
	if (!hook->text || !hook->counters)
		goto fail;
	error = hook_line_parse(parsed, &hook->line);
	if (error)
		goto fail;
	hook->ops.flags = hook->line.flags;
	if (hook->line.action == HOOK_DIRECT)
		error = hook_direct_prepare(hook, hook->line.symbols);
	else
		hook->ops.func = hook_callback;
	if (error)
		goto fail;
	/*
	 * Initialize the filter hashes. Without them an IPMODIFY ftrace_ops
	 * causes a NULL dereference in register_ftrace_function() on kernels
	 * with direct calls (seen in 6.12.107 to 7.3.4).
	 */
	if (!hook->line.unset)
		error = hook_reset(hook);
	if (!error && hook->line.symbols)
		error = hook_filter(hook, hook->line.symbols, false);
	if (error)
		goto fail;
	hook->line.symbols = NULL;
	kfree(parsed);
	return hook;
fail:
	kfree(parsed);
	if (hook)
		hook_free(hook);
	return ERR_PTR(error);
}

/* Frees a hook, which must not be registered. */
void hook_free(struct hook *hook)
{
	/* Frees the filters; 5.10 does not have ftrace_free_filter(). */
	hook_reset(hook);
	free_percpu(hook->counters);
	kfree(hook->text);
	kfree(hook);
}

struct hook_counters hook_count(const struct hook *hook)
{
	struct hook_counters sum = {};
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct hook_counters *one = per_cpu_ptr(hook->counters, cpu);

		sum.hits += READ_ONCE(one->hits);
		sum.misses += READ_ONCE(one->misses);
	}
	return sum;
}

u64 hook_late_hits(void)
{
	return atomic64_read(&late_hits);
}

void hook_trace_redirect(const struct hook *hook, unsigned long ip,
			 const unsigned long *x, long ret, const void *op)
{
	trace_redirect(hook->name, ip, x, ret, op);
}
