// SPDX-License-Identifier: GPL-2.0-only
/*
 * A place for a uprobe, and a constant for it to fetch from this file.
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
	"Says where in its file the function and the constant are, and half way to the\n"
	"constant from the file's begin, then calls the function COUNT times.\n";

/* Even, and 4 bytes on their own, so that half of its place is one, too. */
static const uint32_t mark __attribute__((aligned(8))) = 0x6b72616d;

/* Where the uprobe goes. */
static void __attribute__((noinline)) marked(void)
{
	__asm__ volatile("" ::: "memory");
}

/* The segment that has an address. */
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

/* An address's place in the file. The program is linked to where it runs. */
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
	/* A uprobe takes the file for mapped as the function is. */
	if (constant - place(constant) != function - place(function))
		errx(EXIT_FAILURE, "function and constant are mapped at distances of their own");
	memcpy(&half, (const char *)function - place(function) + place(constant) / 2, sizeof(half));
	if (half == mark)
		errx(EXIT_FAILURE, "half way to the constant is the same");
	printf("function at %#" PRIxPTR "\n", place(function));
	printf("constant at %#" PRIxPTR "\n", place(constant));
	printf("half way %#" PRIxPTR "\n", place(constant) / 2);
	while (count--)
		marked();
	return EXIT_SUCCESS;
}
