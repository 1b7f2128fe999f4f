// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function for a uprobe, a constant in this file for it to fetch, and a
 * reference counter for it to increment.
 */
#include <err.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "file-offset.h"

static const char usage[] =
	"Usage: marked COUNT\n"
	"\n"
	"Prints the file offsets of the function and the constant, half the offset of\n"
	"the constant, the file offset and the value of the reference counter, then\n"
	"calls the function COUNT times.\n";

/* Aligned to 8 bytes, so that half its offset is aligned, too. */
static const uint32_t mark __attribute__((aligned(8))) = 0x6b72616d;

/* In a section of its own, as in programs with SDT probes: in .bss it would not be in the file. */
static volatile uint16_t references __attribute__((section(".probes")));

/* The function to probe. */
static void __attribute__((noinline)) marked(void)
{
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	uintptr_t function = (uintptr_t)marked, constant = (uintptr_t)&mark;
	unsigned long long count;
	uint32_t half;

	expect_arguments(argc, argv, 1, usage);
	count = integer(argv[1]);
	/* A uprobe assumes that the whole file is mapped like the function. */
	if (constant - file_offset(constant) != function - file_offset(function))
		errx(EXIT_FAILURE, "function and constant are mapped at different distances");
	memcpy(&half, (const char *)function - file_offset(function) + file_offset(constant) / 2, sizeof(half));
	if (half == mark)
		errx(EXIT_FAILURE, "the value at half the offset of the constant is the same");
	printf("function at %#" PRIxPTR "\n", file_offset(function));
	printf("constant at %#" PRIxPTR "\n", file_offset(constant));
	printf("half way %#" PRIxPTR "\n", file_offset(constant) / 2);
	printf("counter at %#" PRIxPTR "\n", file_offset((uintptr_t)&references));
	printf("%u references\n", (unsigned int)references);
	while (count--)
		marked();
	return EXIT_SUCCESS;
}
