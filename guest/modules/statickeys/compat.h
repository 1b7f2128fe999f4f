/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels 5.10 to 7.3, told apart by what their
 * headers have.
 */
#ifndef STATICKEYS_COMPAT_H
#define STATICKEYS_COMPAT_H

#include <linux/uaccess.h>

/* An entry of the exception table: a fault at "from" goes on at "to". */
#ifdef _ASM_EXTABLE_UACCESS
#define EXTABLE(from, to) _ASM_EXTABLE_UACCESS(from, to)
#else
#define EXTABLE(from, to) _ASM_EXTABLE(from, to)
#endif

#endif
