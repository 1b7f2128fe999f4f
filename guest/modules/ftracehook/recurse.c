// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function that a callback calls and that is traced itself, so that a hook
 * on it meets itself.
 */
#include "ftracehook.h"

noinline void ftracehook_recursed(void)
{
	/* So that no compiler thinks the call does nothing. */
	barrier();
}
