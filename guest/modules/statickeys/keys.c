// SPDX-License-Identifier: GPL-2.0-only
/*
 * Static keys of every kind, each tested in separate functions, so that a site
 * can be found by the name of its function.
 *
 * The instructions at the sites, as in the table in include/linux/jump_label.h:
 *
 *	initial value	branch		disabled	enabled
 *	true		likely		B		NOP
 *	true		unlikely	NOP		B
 *	false		likely		B		NOP
 *	false		unlikely	NOP		B
 */
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <trace/events/module.h>

#include "statickeys.h"

/* How long a deferred key stays enabled after its last decrement. */
#define DEFERRED_JIFFIES (HZ / 10)

/* Not static, so that the symbols have these names. */
DEFINE_STATIC_KEY_TRUE(statickeys_true);
DEFINE_STATIC_KEY_FALSE(statickeys_false);
DEFINE_STATIC_KEY_FALSE(statickeys_counted);
DEFINE_STATIC_KEY_FALSE(statickeys_init);
DEFINE_STATIC_KEY_DEFERRED_FALSE(statickeys_deferred, DEFERRED_JIFFIES);

/* The branches of the __init site before and after its key was enabled. */
static bool init_saw[2];

static noinline bool true_likely(void)
{
	return static_branch_likely(&statickeys_true);
}

static noinline bool true_unlikely(void)
{
	return static_branch_unlikely(&statickeys_true);
}

static noinline bool false_likely(void)
{
	return static_branch_likely(&statickeys_false);
}

static noinline bool false_unlikely(void)
{
	return static_branch_unlikely(&statickeys_false);
}

/* Two sites of one key in one function. */
static noinline int false_twice(void)
{
	int taken = 0;

	if (static_branch_unlikely(&statickeys_false))
		taken++;
	barrier();
	if (static_branch_likely(&statickeys_false))
		taken++;
	return taken == 2 ? 1 : taken ? -1 : 0;
}

static noinline bool counted(void)
{
	return static_branch_unlikely(&statickeys_counted);
}

static noinline bool deferred(void)
{
	return static_branch_unlikely(&statickeys_deferred.key);
}

static noinline bool init_later(void)
{
	return static_branch_unlikely(&statickeys_init);
}

/* Its memory, including the site, is freed after init. */
static noinline bool __init init_now(void)
{
	return static_branch_unlikely(&statickeys_init);
}

/* A key of the kernel with a site in this module. */
static noinline bool tracepoint(void)
{
	trace_module_get(THIS_MODULE, _THIS_IP_);
	return trace_module_get_enabled();
}

/* Prints 1 for each site whose branch is taken, else 0. */
void keys_show(struct seq_file *out)
{
	seq_printf(out, "true_likely %d\n", true_likely());
	seq_printf(out, "true_unlikely %d\n", true_unlikely());
	seq_printf(out, "false_likely %d\n", false_likely());
	seq_printf(out, "false_unlikely %d\n", false_unlikely());
	seq_printf(out, "false_twice %d\n", false_twice());
	seq_printf(out, "counted %d\n", counted());
	seq_printf(out, "deferred %d\n", deferred());
	seq_printf(out, "init_later %d\n", init_later());
	seq_printf(out, "tracepoint %d\n", tracepoint());
}

void keys_show_init(struct seq_file *out)
{
	seq_printf(out, "%d %d\n", init_saw[0], init_saw[1]);
}

static int true_command(const char *verb)
{
	if (!strcmp(verb, "enable"))
		static_branch_enable(&statickeys_true);
	else if (!strcmp(verb, "disable"))
		static_branch_disable(&statickeys_true);
	else
		return -EINVAL;
	return 0;
}

static int false_command(const char *verb)
{
	if (!strcmp(verb, "enable"))
		static_branch_enable(&statickeys_false);
	else if (!strcmp(verb, "disable"))
		static_branch_disable(&statickeys_false);
	else
		return -EINVAL;
	return 0;
}

static int counted_command(const char *verb)
{
	if (!strcmp(verb, "inc"))
		static_branch_inc(&statickeys_counted);
	else if (!strcmp(verb, "dec"))
		static_branch_dec(&statickeys_counted);
	else
		return -EINVAL;
	return 0;
}

static int deferred_command(const char *verb)
{
	if (!strcmp(verb, "inc"))
		static_branch_deferred_inc(&statickeys_deferred);
	else if (!strcmp(verb, "dec"))
		static_branch_slow_dec_deferred(&statickeys_deferred);
	else if (!strcmp(verb, "flush"))
		static_key_deferred_flush(&statickeys_deferred);
	else
		return -EINVAL;
	return 0;
}

static const struct {
	const char *name;
	int (*command)(const char *verb);
} keys[] = {
	{ "true", true_command },
	{ "false", false_command },
	{ "counted", counted_command },
	{ "deferred", deferred_command },
};

int keys_command(const char *key, const char *verb)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!strcmp(keys[i].name, key))
			return keys[i].command(verb);
	}
	return -ENOENT;
}

void __init keys_init(void)
{
	init_saw[0] = init_now();
	static_branch_enable(&statickeys_init);
	init_saw[1] = init_now();
}

void keys_exit(void)
{
	static_key_deferred_flush(&statickeys_deferred);
}
