/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FILE_OFFSET_H
#define FILE_OFFSET_H

#include <elf.h>
#include <err.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>

/* Returns the segment of this program that contains an address. */
static inline const Elf64_Phdr *segment(uintptr_t address)
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
static inline uintptr_t file_offset(uintptr_t address)
{
	const Elf64_Phdr *header = segment(address);

	return address - header->p_vaddr + header->p_offset;
}

#endif
