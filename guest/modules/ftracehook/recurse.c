// SPDX-License-Identifier: GPL-2.0-only
/*
 * A traced function that the callback calls, so that a hook on it calls itself
 * recursively.
 */
#include "ftracehook.h"

noinline void ftracehook_recursed(void)
{
	/* Keeps the compiler from removing calls of an empty function. */
	barrier();
}
