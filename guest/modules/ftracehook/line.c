// SPDX-License-Identifier: GPL-2.0-only
/*
 * The syntax of the control file: the words after the name of a new hook.
 *
 *	symbol=PLACE[,PLACE...]		names, globs, @SYMBOL+OFFSET, @ADDRESS
 *	flags=FLAG[,FLAG...]
 *	action=observe|redirect|recurse|direct, or return=VALUE, or argN=VALUE
 *	comm=NAME			only calls by tasks with this name
 *	filters=unset			which ftrace has not even initialized
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat.h"
#include "ftracehook.h"

static const struct {
	const char *name;
	unsigned long flag;
} flags[] = {
	{ "save_regs", FTRACE_OPS_FL_SAVE_REGS },
	{ "save_regs_if_supported", FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED },
	{ "recursion", HOOK_FL_RECURSION },
	{ "ipmodify", HOOK_FL_IPMODIFY },
	{ "rcu", FTRACE_OPS_FL_RCU },
	{ "permanent", FTRACE_OPS_FL_PERMANENT },
};

static const struct {
	const char *name;
	int number;
} errnos[] = {
	{ "EPERM", EPERM },
	{ "ENOENT", ENOENT },
	{ "EINTR", EINTR },
	{ "EIO", EIO },
	{ "EBADF", EBADF },
	{ "EAGAIN", EAGAIN },
	{ "ENOMEM", ENOMEM },
	{ "EACCES", EACCES },
	{ "EFAULT", EFAULT },
	{ "EBUSY", EBUSY },
	{ "EINVAL", EINVAL },
	{ "ENOSPC", ENOSPC },
};

static int parse_flags(char *text, struct hook_line *line)
{
	char *word;
	size_t i;

	while ((word = strsep(&text, ","))) {
		for (i = 0; i < ARRAY_SIZE(flags); i++) {
			if (!strcmp(flags[i].name, word))
				break;
		}
		if (i == ARRAY_SIZE(flags))
			return -EINVAL;
		line->flags |= flags[i].flag;
	}
	return 0;
}

static int parse_action(const char *text, struct hook_line *line)
{
	if (!strcmp(text, "observe"))
		line->action = HOOK_OBSERVE;
	else if (!strcmp(text, "redirect"))
		line->action = HOOK_REDIRECT;
	else if (!strcmp(text, "recurse"))
		line->action = HOOK_RECURSE;
	else if (!strcmp(text, "direct"))
		line->action = HOOK_DIRECT;
	else
		return -EINVAL;
	return 0;
}

/* A number, or a negative errno such as -EPERM. */
static int parse_value(const char *text, unsigned long *value)
{
	long number;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(errnos); i++) {
		if (*text == '-' && !strcmp(errnos[i].name, text + 1)) {
			*value = -(long)errnos[i].number;
			return 0;
		}
	}
	if (*text != '-')
		return kstrtoul(text, 0, value);
	if (kstrtol(text, 0, &number))
		return -EINVAL;
	*value = number;
	return 0;
}

static int parse_word(const char *key, char *value, struct hook_line *line)
{
	if (!strcmp(key, "symbol")) {
		line->symbols = value;
		return 0;
	}
	if (!strcmp(key, "flags"))
		return parse_flags(value, line);
	if (!strcmp(key, "action"))
		return parse_action(value, line);
	if (!strcmp(key, "filters")) {
		line->unset = true;
		return strcmp(value, "unset") ? -EINVAL : 0;
	}
	if (!strcmp(key, "comm"))
		return strscpy(line->comm, value, sizeof(line->comm)) < 0 ?
			-EINVAL : 0;
	if (!strcmp(key, "return")) {
		line->action = HOOK_RETURN;
		return parse_value(value, &line->value);
	}
	if (!strncmp(key, "arg", 3) && key[3] >= '0' && key[3] <= '7' && !key[4]) {
		line->action = HOOK_ARGUMENT;
		line->argument = key[3] - '0';
		return parse_value(value, &line->value);
	}
	return -EINVAL;
}

int hook_line_parse(char *text, struct hook_line *line)
{
	char *word, *value;
	int error;

	while ((word = strsep(&text, " \t"))) {
		if (!*word)
			continue;
		value = strchr(word, '=');
		if (!value || !value[1])
			return -EINVAL;
		*value++ = '\0';
		error = parse_word(word, value, line);
		if (error)
			return error;
	}
	/* A callback that changes the instruction pointer needs IPMODIFY. */
	if (line->action == HOOK_REDIRECT || line->action == HOOK_RETURN)
		line->flags |= HOOK_FL_IPMODIFY;
	return 0;
}

/*
 * Looks up symbols with kprobes that are never armed, since modules cannot call
 * kallsyms_lookup_name(). All are unregistered at once, since each unregistering
 * waits for RCU. A symbol that does not exist gets the address 0.
 */
void hook_symbol_addresses(const char *const *symbols, unsigned long *addresses,
			   size_t count)
{
	struct kprobe *probes[HOOK_SYMBOLS_MAX];
	int found = 0;
	size_t i;

	for (i = 0; i < count && i < HOOK_SYMBOLS_MAX; i++) {
		struct kprobe *probe = kzalloc(sizeof(*probe), GFP_KERNEL);

		addresses[i] = 0;
		if (!probe)
			continue;
		probe->symbol_name = symbols[i];
		probe->flags = KPROBE_FLAG_DISABLED;
		if (register_kprobe(probe)) {
			kfree(probe);
			continue;
		}
		addresses[i] = (unsigned long)probe->addr;
		probes[found++] = probe;
	}
	unregister_kprobes(probes, found);
	while (found)
		kfree(probes[--found]);
}

/* Parses SYMBOL, SYMBOL+OFFSET or a number. */
int hook_address_parse(char *text, unsigned long *address)
{
	unsigned long offset = 0;
	const char *symbol;
	char *plus;

	if (!kstrtoul(text, 0, address))
		return 0;
	plus = strchr(text, '+');
	if (plus) {
		*plus++ = '\0';
		if (kstrtoul(plus, 0, &offset))
			return -EINVAL;
	}
	symbol = text;
	hook_symbol_addresses(&symbol, address, 1);
	if (!*address)
		return -ENOENT;
	*address += offset;
	return 0;
}
