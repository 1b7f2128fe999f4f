// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hooks vfs_write() with SAVE_REGS and IPMODIFY, and keeps the first files that
 * are written to, whoever writes: the file of each, for a debugger, and its
 * write function, which /sys/module/first_files/parameters/writes lists.
 *
 * Where the kernel cannot save registers the hook is refused, and the init
 * returns 2, as an init does that takes any nonzero number for a failure.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/ftrace.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/version.h>

#define HOOKED "vfs_write"
#define HOOK_REFUSED 2

/* Not static, so that a debugger finds them by name. */
struct file *show_files[10];
const void *show_writes[ARRAY_SIZE(show_files)];

static atomic_t seen = ATOMIC_INIT(0);
static bool hooked;

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0)
#define FIRST_ARGUMENT(registers) regs_get_kernel_argument(registers, 0)
typedef struct pt_regs registers_t;
#elif LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define FIRST_ARGUMENT(registers) regs_get_kernel_argument(ftrace_get_regs(registers), 0)
typedef struct ftrace_regs registers_t;
#else
#define FIRST_ARGUMENT(registers) ftrace_regs_get_argument(registers, 0)
typedef struct ftrace_regs registers_t;
#endif

static void notrace keep_file(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *ops, registers_t *registers)
{
	int slot = atomic_inc_return(&seen) - 1;
	struct file *file;

	if (slot < 0 || slot >= ARRAY_SIZE(show_files))
		return;
	file = (struct file *)FIRST_ARGUMENT(registers);
	show_writes[slot] = file->f_op->write;
	WRITE_ONCE(show_files[slot], file);
}

static struct ftrace_ops hook = {
	.func = keep_file,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY,
};

static int list_writes(char *page, const struct kernel_param *parameter)
{
	int i, length = 0;

	for (i = 0; i < ARRAY_SIZE(show_files); i++) {
		if (READ_ONCE(show_files[i]))
			length += scnprintf(page + length, PAGE_SIZE - length, "%ps\n", show_writes[i]);
	}
	return length;
}

static const struct kernel_param_ops writes_ops = { .get = list_writes };
module_param_cb(writes, &writes_ops, NULL, 0444);
MODULE_PARM_DESC(writes, "the write functions of the files, in the order of their writes");

static int __init first_files_init(void)
{
	int error;

	error = ftrace_set_filter(&hook, (unsigned char *)HOOKED, strlen(HOOKED), 0);
	if (!error)
		error = register_ftrace_function(&hook);
	if (error) {
		pr_warn("cannot hook " HOOKED ": %d\n", error);
		return HOOK_REFUSED;
	}
	hooked = true;
	return 0;
}

static void __exit first_files_exit(void)
{
	if (hooked)
		unregister_ftrace_function(&hook);
}

module_init(first_files_init);
module_exit(first_files_exit);

MODULE_DESCRIPTION("Keeps the first files that are written to");
MODULE_LICENSE("GPL");
