// SPDX-License-Identifier: GPL-2.0
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/sysfs.h>

#include "histogram.h"

static atomic_t buckets[65];

void histogram_add(u64 value)
{
	atomic_inc(&buckets[fls64(value)]);
}

int histogram_print(char *buffer)
{
	int bucket, length = 0;

	for (bucket = 0; bucket <= 64; bucket++) {
		int count = atomic_read(&buckets[bucket]);

		if (count)
			length += sysfs_emit_at(buffer, length, "2^%d: %d\n", bucket, count);
	}
	return length;
}
