// SPDX-License-Identifier: GPL-2.0-only
/*
 * Powers the machine off, and does nothing else. As the /init of an initramfs
 * it gives the minimum time of a boot, as a baseline for measurements.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>

static const char usage[] =
	"Usage: poweroff\n"
	"\n"
	"Powers the machine off at once, without syncing.\n";

int main(int argc, char **argv)
{
	if (argc > 1) {
		int help = !strcmp(argv[1], "--help");

		fputs(usage, help ? stdout : stderr);
		return help ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	reboot(RB_POWER_OFF);
	err(EXIT_FAILURE, "reboot");
}
