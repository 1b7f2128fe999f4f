/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FTRACEHOOK_H
#define FTRACEHOOK_H

#include <linux/fs.h>
#include <linux/ftrace.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/types.h>

/* The size of a hook's name, including the NUL. */
#define HOOK_NAME_SIZE 32

/* Arguments that are passed in registers: x0 to x7. */
#define HOOK_ARGUMENTS 8

/* The maximum number of files in show_files. */
#define SHOW_FILES_MAX 10

/* The maximum number of symbols in one lookup. */
#define HOOK_SYMBOLS_MAX 8

/* The maximum offset of a patch site in its function. */
#define SITE_OFFSET_MAX 16

enum hook_action {
	HOOK_OBSERVE,
	HOOK_REDIRECT,
	HOOK_RETURN,
	HOOK_ARGUMENT,
	HOOK_RECURSE,
	HOOK_DIRECT,
};

struct hook_counters {
	u64 hits;
	/* Calls that the callback could not handle. */
	u64 misses;
};

/*
 * The parsed line after `+NAME`. "symbols" points into the text that was
 * parsed, or is NULL if the line names none.
 */
struct hook_line {
	char *symbols;
	unsigned long flags;
	enum hook_action action;
	/* Whether its filters are left as they are before anybody sets them. */
	bool unset;
	/* HOOK_RETURN and HOOK_ARGUMENT: the value, and the argument's number. */
	unsigned long value;
	int argument;
	/* The name of the only tasks to handle, or empty for all. */
	char comm[TASK_COMM_LEN];
};

/* One ftrace_ops. It is kept until the module exits, to detect late hits. */
struct hook {
	struct list_head list;
	char name[HOOK_NAME_SIZE];
	/* The text that created it, as shown by the control file. */
	char *text;
	struct ftrace_ops ops;
	struct hook_line line;
	/* HOOK_DIRECT: the functions, or 0. */
	unsigned long direct[HOOK_SYMBOLS_MAX];
	bool registered;
	/* Set after unregistering has returned: any later hit is a bug. */
	bool dead;
	struct hook_counters __percpu *counters;
};

/* line.c */
int hook_line_parse(char *text, struct hook_line *line);
int hook_address_parse(char *text, unsigned long *address);
void hook_symbol_addresses(const char *const *symbols, unsigned long *addresses,
			   size_t count);

/* hook.c */
extern int show_count;
extern struct file *show_files[SHOW_FILES_MAX];
struct hook *hook_create(const char *name, const char *text);
void hook_free(struct hook *hook);
int hook_register(struct hook *hook);
int hook_unregister(struct hook *hook);
int hook_filter(struct hook *hook, char *places, bool not);
int hook_reset(struct hook *hook);
bool hook_see(struct hook *hook, unsigned long ip, unsigned long parent_ip,
	      const unsigned long *x, bool regs);
void hook_leave(struct hook *hook);
struct hook_counters hook_count(const struct hook *hook);
u64 hook_late_hits(void);
void hook_trace_redirect(const struct hook *hook, unsigned long ip,
			 const unsigned long *x, long ret, const void *op);

/* direct.c */
int hook_direct_prepare(struct hook *hook, const char *symbols);
int hook_direct_register(struct hook *hook);
int hook_direct_unregister(struct hook *hook);

/* redirect.c */
bool redirect_known(const char *symbol);
bool redirect_is_original(unsigned long ip);
unsigned long redirect_to(struct hook *hook, unsigned long ip);
bool redirect_is_vfs_write(unsigned long ip);
void redirect_init(void);
void redirect_exit(void);

/* recurse.c */
void ftracehook_recursed(void);

#endif
