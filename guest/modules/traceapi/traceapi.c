// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls the functions that tracing offers to the rest of the kernel.
 *
 * Each line that is written to debugfs' traceapi/control is the name of a call,
 * see the table below, some of them followed by an argument. The write returns
 * the errno of the call. traceapi/exported has the number of records that each
 * export got.
 */

#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/trace.h>
#include <linux/trace_events.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#define LINE_MAX 64

static struct dentry *directory;

/* Not static, so that the compiler does not take them for constants. */
const char *traceapi_text = "puts a text\n";
const char *traceapi_line = "puts a line";
const char *traceapi_format = "printk %d %s\n";

static __printf(1, 2) void vprintk_of(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ftrace_vprintk(format, args);
	va_end(args);
}

static __printf(1, 2) void vbprintk_of(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ftrace_vprintk("vbprintk %d %s\n", args);
	va_end(args);
}

static int call_bputs(const char *argument)
{
	trace_printk("bputs a constant\n");
	return 0;
}

static int call_puts(const char *argument)
{
	trace_puts(traceapi_text);
	return 0;
}

static int call_bprintk(const char *argument)
{
	trace_printk("bprintk %d %s\n", 1, "one");
	return 0;
}

/* Characters that printk_formats escapes. */
static int call_quoted(const char *argument)
{
	trace_printk("\t\"quoted\" %d\n", 6);
	return 0;
}

static int call_printk(const char *argument)
{
	trace_printk(traceapi_format, 2, "two");
	return 0;
}

static int call_vbprintk(const char *argument)
{
	vbprintk_of("%d %s", 3, "three");
	return 0;
}

static int call_vprintk(const char *argument)
{
	vprintk_of("vprintk %d %s\n", 4, "four");
	return 0;
}

/* Without a newline, which is added. */
static int call_line(const char *argument)
{
	trace_puts(traceapi_line);
	return 0;
}

static int call_stack(const char *argument)
{
	trace_dump_stack(0);
	return 0;
}

static int call_on(const char *argument)
{
	tracing_on();
	return tracing_is_on() ? 0 : -EINVAL;
}

static int call_off(const char *argument)
{
	tracing_off();
	return tracing_is_on() ? -EINVAL : 0;
}

static int call_snapshot(const char *argument)
{
	tracing_snapshot();
	return 0;
}

static int call_snapshot_alloc(const char *argument)
{
	tracing_snapshot_alloc();
	return 0;
}

static void print_elsewhere(void *argument)
{
	trace_printk("not %s\n", (const char *)argument);
}

/*
 * Records the argument on this CPU, and something else on the others. What
 * follows must do so at once, since a reader of the buffer may take it.
 */
static void print_everywhere(const char *argument)
{
	smp_call_function(print_elsewhere, (void *)argument, 1);
	trace_printk("%s\n", argument);
}

static int call_dump(const char *argument)
{
	preempt_disable();
	print_everywhere(argument);
	ftrace_dump(DUMP_ALL);
	preempt_enable();
	return 0;
}

static int call_dump_cpu(const char *argument)
{
	preempt_disable();
	print_everywhere(argument);
	ftrace_dump(DUMP_ORIG);
	preempt_enable();
	return 0;
}

/* A function for a command of set_ftrace_filter. */
static noinline void traceapi_target(void)
{
	barrier();
}

static int call_target(const char *argument)
{
	preempt_disable();
	print_everywhere(argument);
	traceapi_target();
	preempt_enable();
	return 0;
}

/* An instance that is created if there is none of its name. */
static struct trace_array *held;

static int call_get(const char *argument)
{
	if (held)
		return -EBUSY;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
	held = trace_array_get_by_name(argument);
#else
	held = trace_array_get_by_name(argument, NULL);
#endif
	return held ? 0 : -ENOMEM;
}

static int call_init_array(const char *argument)
{
	return trace_array_init_printk(held);
}

/* Into the top-level buffer without an instance, which is refused. */
static int call_array_printk(const char *argument)
{
	int length = trace_array_printk(held, _THIS_IP_, "array %s\n", argument);

	return length < 0 ? length : 0;
}

static int call_array_event(const char *argument)
{
	return trace_array_set_clr_event(held, "sched", argument, true);
}

static int call_put(const char *argument)
{
	if (!held)
		return -ENOENT;
	trace_array_put(held);
	held = NULL;
	return 0;
}

static int call_destroy(const char *argument)
{
	struct trace_array *array = held;

	if (array)
		trace_array_put(array);
	held = NULL;
	return trace_array_destroy(array);
}

static struct counted {
	const char *name;
	struct trace_export export;
	atomic_t records;
} exports[] = {
	{ .name = "function", .export.flags = TRACE_EXPORT_FUNCTION },
	{ .name = "event", .export.flags = TRACE_EXPORT_EVENT },
	{ .name = "marker", .export.flags = TRACE_EXPORT_MARKER },
};

static notrace void count_record(struct trace_export *export, const void *record,
				 unsigned int size)
{
	atomic_inc(&container_of(export, struct counted, export)->records);
}

static struct counted *find_export(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(exports); i++)
		if (!strcmp(exports[i].name, name))
			return &exports[i];
	return NULL;
}

static int call_export(const char *argument)
{
	struct counted *counted = find_export(argument);

	if (!counted)
		return -ENOENT;
	counted->export.write = count_record;
	return register_ftrace_export(&counted->export);
}

static int call_unexport(const char *argument)
{
	struct counted *counted = find_export(argument);

	return counted ? unregister_ftrace_export(&counted->export) : -ENOENT;
}

static int exported_show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(exports); i++)
		seq_printf(file, "%s %d\n", exports[i].name, atomic_read(&exports[i].records));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(exported);

static const struct {
	const char *name;
	int (*make)(const char *argument);
} calls[] = {
	{ "bputs", call_bputs },
	{ "puts", call_puts },
	{ "bprintk", call_bprintk },
	{ "quoted", call_quoted },
	{ "printk", call_printk },
	{ "vbprintk", call_vbprintk },
	{ "vprintk", call_vprintk },
	{ "line", call_line },
	{ "stack", call_stack },
	{ "on", call_on },
	{ "off", call_off },
	{ "snapshot", call_snapshot },
	{ "snapshot_alloc", call_snapshot_alloc },
	{ "dump", call_dump },
	{ "dump_cpu", call_dump_cpu },
	{ "target", call_target },
	{ "get", call_get },
	{ "init_array", call_init_array },
	{ "array_printk", call_array_printk },
	{ "array_event", call_array_event },
	{ "put", call_put },
	{ "destroy", call_destroy },
	{ "export", call_export },
	{ "unexport", call_unexport },
};

static ssize_t control_write(struct file *file, const char __user *buffer, size_t count,
			     loff_t *position)
{
	char line[LINE_MAX + 1];
	char *argument, *name;
	int error, i;

	if (count > LINE_MAX)
		return -E2BIG;
	if (copy_from_user(line, buffer, count))
		return -EFAULT;
	line[count] = '\0';
	argument = strim(line);
	name = strsep(&argument, " ");
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		if (strcmp(calls[i].name, name))
			continue;
		error = calls[i].make(argument ? argument : "");
		return error ? error : count;
	}
	return -EOPNOTSUPP;
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = control_write,
};

static int __init traceapi_init(void)
{
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("control", 0200, directory, NULL, &control_operations);
	debugfs_create_file("exported", 0400, directory, NULL, &exported_fops);
	return 0;
}

static void __exit traceapi_exit(void)
{
	debugfs_remove_recursive(directory);
}

module_init(traceapi_init);
module_exit(traceapi_exit);

MODULE_DESCRIPTION("Calls of the kernel's own interface to tracing");
MODULE_LICENSE("GPL");
