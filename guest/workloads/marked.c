// SPDX-License-Identifier: GPL-2.0-only
/*
 * A function for a uprobe, a constant in this file for it to fetch, and a
 * reference counter for it to increment.
 */
#include <elf.h>
#include <err.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "arguments.h"

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

/* Returns the segment that contains an address. */
static const Elf64_Phdr *segment(uintptr_t address)
{
	const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);
	unsigned long left = getauxval(AT_PHNUM);

	for (; left; left--, header++)
		if (header->p_type == PT_LOAD && address >= header->p_vaddr &&
		    address - header->p_vaddr < header->p_filesz)
			return header;
	errx(EXIT_FAILURE, "%#" PRIxPTR " is in no segment", address);
}

/* Returns the file offset of an address. The program runs where it is linked. */
static uintptr_t place(uintptr_t address)
{
	const Elf64_Phdr *header = segment(address);

	return address - header->p_vaddr + header->p_offset;
}

int main(int argc, char **argv)
{
	uintptr_t function = (uintptr_t)marked, constant = (uintptr_t)&mark;
	unsigned long long count;
	uint32_t half;

	expect_arguments(argc, argv, 1, usage);
	count = integer(argv[1]);
	/* A uprobe assumes that the whole file is mapped like the function. */
	if (constant - place(constant) != function - place(function))
		errx(EXIT_FAILURE, "function and constant are mapped at different distances");
	memcpy(&half, (const char *)function - place(function) + place(constant) / 2, sizeof(half));
	if (half == mark)
		errx(EXIT_FAILURE, "the value at half the offset of the constant is the same");
	printf("function at %#" PRIxPTR "\n", place(function));
	printf("constant at %#" PRIxPTR "\n", place(constant));
	printf("half way %#" PRIxPTR "\n", place(constant) / 2);
	printf("counter at %#" PRIxPTR "\n", place((uintptr_t)&references));
	printf("%u references\n", (unsigned int)references);
	while (count--)
		marked();
	return EXIT_SUCCESS;
}
