// SPDX-License-Identifier: GPL-2.0-only
/*
 * Direct calls: ftrace patches in a call of a trampoline of this module, without a
 * callback in between. A function has at most one.
 */
#include <linux/errno.h>
#include <linux/ftrace.h>
#include <linux/string.h>

#include "compat.h"
#include "ftracehook.h"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS

/* The maximum number of hooks with direct calls that are registered. */
#define DIRECT_MAX 16

/* Where the trampoline saves x0 to x9 and the link register. */
#define SAVED_CALLER 9
#define SAVED_SITE 10

static struct hook *registered[DIRECT_MAX];

void hook_direct_trampoline(void);
asmlinkage void hook_direct_called(const unsigned long *saved);

/*
 * At a patch site x9 is the caller's return address, and the link register points
 * behind the site. "hint 34" is "bti c".
 */
asm(".pushsection .text, \"ax\", @progbits\n"
    "	.type	hook_direct_trampoline, @function\n"
    "	.globl	hook_direct_trampoline\n"
    "hook_direct_trampoline:\n"
    "	hint	34\n"
    "	sub	sp, sp, #96\n"
    "	stp	x0, x1, [sp]\n"
    "	stp	x2, x3, [sp, #16]\n"
    "	stp	x4, x5, [sp, #32]\n"
    "	stp	x6, x7, [sp, #48]\n"
    "	stp	x8, x9, [sp, #64]\n"
    "	str	x30, [sp, #80]\n"
    "	mov	x0, sp\n"
    "	bl	hook_direct_called\n"
    "	ldp	x0, x1, [sp]\n"
    "	ldp	x2, x3, [sp, #16]\n"
    "	ldp	x4, x5, [sp, #32]\n"
    "	ldp	x6, x7, [sp, #48]\n"
    "	ldp	x8, x30, [sp, #64]\n"
    "	ldr	x9, [sp, #80]\n"
    "	add	sp, sp, #96\n"
    "	ret	x9\n"
    "	.size	hook_direct_trampoline, .-hook_direct_trampoline\n"
    ".popsection\n");

static bool is_at(const struct hook *hook, unsigned long ip)
{
	size_t i;

	for (i = 0; i < HOOK_SYMBOLS_MAX; i++) {
		if (hook->direct[i] && ip - hook->direct[i] <= SITE_OFFSET_MAX)
			return true;
	}
	return false;
}

void hook_direct_called(const unsigned long *saved)
{
	unsigned long ip = saved[SAVED_SITE] - MCOUNT_INSN_SIZE;
	int bit = hook_trylock(ip, saved[SAVED_CALLER]);
	size_t i;

	if (bit < 0)
		return;
	for (i = 0; i < DIRECT_MAX; i++) {
		struct hook *hook = READ_ONCE(registered[i]);

		if (!hook || !is_at(hook, ip))
			continue;
		hook_see(hook, ip, saved[SAVED_CALLER], saved, false);
		hook_leave(hook);
	}
	hook_unlock(bit);
}

/* Looks up the functions, which the trampoline must tell apart. */
int hook_direct_prepare(struct hook *hook, const char *symbols)
{
	char text[HOOK_SYMBOLS_MAX * HOOK_NAME_SIZE], *rest = text;
	const char *names[HOOK_SYMBOLS_MAX];
	size_t count = 0, i;

	if (!symbols || strscpy(text, symbols, sizeof(text)) < 0)
		return -EINVAL;
	while (rest && count < HOOK_SYMBOLS_MAX)
		names[count++] = strsep(&rest, ",");
	if (rest)
		return -EINVAL;
	hook_symbol_addresses(names, hook->direct, count);
	for (i = 0; i < count; i++) {
		if (!hook->direct[i])
			return -EINVAL;
	}
	return 0;
}

int hook_direct_register(struct hook *hook)
{
	int error;
	size_t i;

	for (i = 0; i < DIRECT_MAX && registered[i]; i++)
		;
	if (i == DIRECT_MAX)
		return -ENOSPC;
	WRITE_ONCE(registered[i], hook);
	error = register_ftrace_direct(&hook->ops, (unsigned long)hook_direct_trampoline);
	if (error)
		WRITE_ONCE(registered[i], NULL);
	return error;
}

/* It has returned when the trampoline does not run for this hook any more. */
int hook_direct_unregister(struct hook *hook)
{
	int error = unregister_ftrace_direct(&hook->ops, (unsigned long)hook_direct_trampoline, false);
	size_t i;

	for (i = 0; i < DIRECT_MAX && !error; i++) {
		if (registered[i] == hook)
			WRITE_ONCE(registered[i], NULL);
	}
	return error;
}

#else

int hook_direct_prepare(struct hook *hook, const char *symbols)
{
	return -EOPNOTSUPP;
}

int hook_direct_register(struct hook *hook)
{
	return -EOPNOTSUPP;
}

int hook_direct_unregister(struct hook *hook)
{
	return -EOPNOTSUPP;
}

#endif
