// SPDX-License-Identifier: GPL-2.0-only
/*
 * Says farewell when it goes.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "words.h"

static int __init farewell_init(void)
{
	return 0;
}

static void __exit farewell_exit(void)
{
	pr_info("%s\n", FAREWELL);
}

module_init(farewell_init);
module_exit(farewell_exit);

MODULE_DESCRIPTION("Says farewell");
MODULE_LICENSE("GPL");
