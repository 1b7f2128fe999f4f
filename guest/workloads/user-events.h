/* SPDX-License-Identifier: GPL-2.0-only */
/* As in linux/user_events.h, which a cross compiler's headers may lack. */
#ifndef USER_EVENTS_H
#define USER_EVENTS_H

#include <stdint.h>
#include <sys/ioctl.h>

struct user_reg {
	uint32_t size;
	uint8_t enable_bit;
	uint8_t enable_size;
	uint16_t flags;
	uint64_t enable_addr;
	uint64_t name_args;
	uint32_t write_index;
} __attribute__((packed));

struct user_unreg {
	uint32_t size;
	uint8_t disable_bit;
	uint8_t reserved;
	uint16_t reserved2;
	uint64_t disable_addr;
} __attribute__((packed));

#define DIAG_IOCSREG _IOWR('*', 0, struct user_reg *)
#define DIAG_IOCSDEL _IOW('*', 1, char *)
#define DIAG_IOCSUNREG _IOW('*', 2, struct user_unreg *)

#endif
