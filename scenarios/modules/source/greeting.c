// SPDX-License-Identifier: GPL-2.0-only
/*
 * Logs a greeting to `whom`, `times` times.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "words.h"

static char *whom = "kernel";
module_param(whom, charp, 0444);
MODULE_PARM_DESC(whom, "who is greeted");

static unsigned int times = 1;
module_param(times, uint, 0444);
MODULE_PARM_DESC(times, "how often, at most 9");

static int __init greeting_init(void)
{
	unsigned int i;

	if (times > 9)
		return -ERANGE;
	for (i = 0; i < times; i++)
		pr_info("%s, %s\n", GREETING, whom);
	return 0;
}

static void __exit greeting_exit(void)
{
	pr_info("gone\n");
}

module_init(greeting_init);
module_exit(greeting_exit);

MODULE_DESCRIPTION("Greets");
MODULE_LICENSE("GPL");
