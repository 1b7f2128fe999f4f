/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ftracehook

#if !defined(FTRACEHOOK_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FTRACEHOOK_TRACE_H

#include <linux/tracepoint.h>

#include "ftracehook.h"

/* Entry of a hooked function; x0 to x7 are as its caller left them. */
TRACE_EVENT(hit,
	TP_PROTO(const char *hook, unsigned long ip, unsigned long parent_ip,
		 const unsigned long *x, bool regs),
	TP_ARGS(hook, ip, parent_ip, x, regs),
	TP_STRUCT__entry(
		__array(char, hook, HOOK_NAME_SIZE)
		__field(unsigned long, ip)
		__field(unsigned long, parent_ip)
		__field(unsigned long, x0)
		__field(unsigned long, x1)
		__field(unsigned long, x2)
		__field(unsigned long, x3)
		__field(unsigned long, x4)
		__field(unsigned long, x5)
		__field(unsigned long, x6)
		__field(unsigned long, x7)
		__field(unsigned int, regs)
	),
	TP_fast_assign(
		memcpy(__entry->hook, hook, HOOK_NAME_SIZE);
		__entry->ip = ip;
		__entry->parent_ip = parent_ip;
		__entry->x0 = x[0];
		__entry->x1 = x[1];
		__entry->x2 = x[2];
		__entry->x3 = x[3];
		__entry->x4 = x[4];
		__entry->x5 = x[5];
		__entry->x6 = x[6];
		__entry->x7 = x[7];
		__entry->regs = regs;
	),
	TP_printk("%s: %ps <- %ps (%lx, %lx, %lx, %lx, %lx, %lx, %lx, %lx) regs=%u",
		  __entry->hook, (void *)__entry->ip, (void *)__entry->parent_ip,
		  __entry->x0, __entry->x1, __entry->x2, __entry->x3,
		  __entry->x4, __entry->x5, __entry->x6, __entry->x7,
		  __entry->regs)
);

/*
 * A wrapper has called the original function. For an operation on a file, op is
 * the file's own operation, such as f_op->write for a write.
 */
TRACE_EVENT(redirect,
	TP_PROTO(const char *hook, unsigned long ip, const unsigned long *x,
		 long ret, const void *op),
	TP_ARGS(hook, ip, x, ret, op),
	TP_STRUCT__entry(
		__array(char, hook, HOOK_NAME_SIZE)
		__field(unsigned long, ip)
		__field(unsigned long, x0)
		__field(unsigned long, x1)
		__field(unsigned long, x2)
		__field(unsigned long, x3)
		__field(long, ret)
		__field(unsigned long, op)
	),
	TP_fast_assign(
		memcpy(__entry->hook, hook, HOOK_NAME_SIZE);
		__entry->ip = ip;
		__entry->x0 = x[0];
		__entry->x1 = x[1];
		__entry->x2 = x[2];
		__entry->x3 = x[3];
		__entry->ret = ret;
		__entry->op = (unsigned long)op;
	),
	TP_printk("%s: %ps(%lx, %lx, %lx, %lx) = %ld op=%ps",
		  __entry->hook, (void *)__entry->ip, __entry->x0, __entry->x1,
		  __entry->x2, __entry->x3, __entry->ret, (void *)__entry->op)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
