/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FILE_ELF_VIEW_H
#define SONDE_GUEST_SYMBOLS_FILE_ELF_VIEW_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * Bounded access to an x86-64 ELF file in memory (System V gABI, chapters 4 and 5). Only the file
 * header is validated at first; every accessor checks what it reads. The bytes are borrowed.
 */
struct elf_view {
	const uint8_t *bytes;
	size_t size;
	uint64_t segments_offset, sections_offset; /* in the file */
	unsigned int nr_segments, nr_sections;
	unsigned int names_section;
};

/* -ENOEXEC if it is no x86-64 ELF executable, -EBADMSG if a header table leaves the file. */
int elf_view_init(struct elf_view *view, const void *bytes, size_t size, struct error *err);

/* Header number i; i must be below nr_segments. */
Elf64_Phdr elf_view_segment(const struct elf_view *view, unsigned int i);

/* Section by name whose contents lie wholly in the file; false if there is none. */
bool elf_view_find_section(const struct elf_view *view, const char *name, Elf64_Shdr *out);

/* File offset just after the last byte that any header says belongs to the ELF, at most `size`. */
size_t elf_view_end(const struct elf_view *view);

/* The file's bytes for a range of link-time addresses that lies wholly in one segment's file
 * contents; NULL if it does not. */
const uint8_t *elf_view_range(const struct elf_view *view, uint64_t address, size_t size);

#endif
