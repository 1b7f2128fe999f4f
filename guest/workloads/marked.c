// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function for a uprobe, a constant in this file for it to fetch, a reference
 * counter for it to increment, an SDT note that names both, and a variable to
 * watch.
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
	"Prints the addresses of the function and of the variable, the file offsets of\n"
	"the function and the constant, half the offset of the constant, the file offset\n"
	"and the value of the reference counter, then calls the function COUNT times. Its\n"
	"argument, which it stores in the variable, counts down to 1.\n";

/* Aligned to 8 bytes, so that half its offset is aligned, too. */
static const uint32_t mark __attribute__((aligned(8))) = 0x6b72616d;

/* In a section of its own, as in programs with SDT probes: in .bss it would not be in the file. */
static volatile uint16_t references __attribute__((section(".probes")));

/* The variable to watch. */
static volatile uint64_t last;

/*
 * What DTRACE_PROBE1(lab, marked, VALUE) of <sys/sdt.h> leaves with the reference
 * counter as its semaphore: a NOP, and a note with its address, the base for
 * relocation, the address of the counter, and the name and arguments.
 */
#define SDT_PROBE(value, semaphore)					\
	__asm__ volatile("990:	nop\n"					\
		"	.pushsection .note.stapsdt, \"\", \"note\"\n"	\
		"	.balign	4\n"					\
		"	.4byte	992f - 991f, 994f - 993f, 3\n"		\
		"991:	.asciz	\"stapsdt\"\n"				\
		"992:	.balign	4\n"					\
		"993:	.8byte	990b, _.stapsdt.base, %c1\n"		\
		"	.asciz	\"lab\"\n"				\
		"	.asciz	\"marked\"\n"				\
		"	.asciz	\"8@%0\"\n"				\
		"994:	.balign	4\n"					\
		"	.popsection\n"					\
		"	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
		"	.weak	_.stapsdt.base\n"			\
		"	.hidden	_.stapsdt.base\n"			\
		"_.stapsdt.base:	.space	1\n"			\
		"	.popsection\n"					\
		:: "r"(value), "S"(semaphore) : "memory")

/* The function to probe. */
static void __attribute__((noinline)) marked(uint64_t left)
{
	last = left;
	SDT_PROBE(left, &references);
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
	printf("function from %#" PRIxPTR "\n", function);
	printf("variable from %#" PRIxPTR "\n", (uintptr_t)&last);
	printf("function at %#" PRIxPTR "\n", file_offset(function));
	printf("constant at %#" PRIxPTR "\n", file_offset(constant));
	printf("half way %#" PRIxPTR "\n", file_offset(constant) / 2);
	printf("counter at %#" PRIxPTR "\n", file_offset((uintptr_t)&references));
	printf("%u references\n", (unsigned int)references);
	for (; count; count--)
		marked(count);
	return EXIT_SUCCESS;
}
