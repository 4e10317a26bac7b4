/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "guest-symbols/file/kernel-file.h"

enum reloc_kind {
	RELOC_32,
	RELOC_INVERSE_32, /* per-CPU references relative to RIP, up to Linux 6.14 */
	RELOC_64,
};

/*
 * The table is little-endian 32-bit words: link-time addresses, to be sign-extended, in groups that
 * each begin with a 0. It is read from its end: 32-bit ones, then (if there are three groups)
 * inverse 32-bit ones, then 64-bit ones. Older and newer kernels differ only in the number of
 * groups, which is known since the table begins where the ELF ends.
 */
struct reloc_table {
	const uint8_t *words;
	size_t nr_words;
	size_t nr_groups;
};

static uint32_t word_at(const struct reloc_table *table, size_t i)
{
	uint32_t word;

	memcpy(&word, table->words + i * sizeof(word), sizeof(word));
	return word;
}

static int table_open(const struct kernel_file *file, struct reloc_table *table, struct error *err)
{
	if (!file->relocs)
		return error_set(err, ENOTSUP, "kernel has no relocation table");
	*table = (struct reloc_table){
		.words = file->relocs,
		.nr_words = file->relocs_size / sizeof(uint32_t),
	};
	for (size_t i = 0; i < table->nr_words; i++)
		table->nr_groups += !word_at(table, i);
	if (file->relocs_size % sizeof(uint32_t) || !table->nr_words || word_at(table, 0) ||
	    table->nr_groups < 2 || table->nr_groups > 3)
		return error_set(err, EBADMSG, "kernel's relocation table is malformed");
	return 0;
}

/* What is to be relocated: image at `loaded`, linked to run at `base`. */
struct target {
	uint8_t *loaded;
	size_t size;
	uint64_t base;
	uint64_t slide;
};

/* Widths are constants here, as a boot has half a million of these. */
static void add_32(uint8_t *at, uint32_t slide)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	value += slide;
	memcpy(at, &value, sizeof(value));
}

static void add_64(uint8_t *at, uint64_t slide)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	value += slide;
	memcpy(at, &value, sizeof(value));
}

static bool relocate(const struct target *target, enum reloc_kind kind, uint64_t address)
{
	size_t width = kind == RELOC_64 ? sizeof(uint64_t) : sizeof(uint32_t);
	uint64_t offset = address - target->base;
	uint32_t slide = (uint32_t)target->slide;

	if (address < target->base || target->size < width || offset > target->size - width)
		return false;
	if (kind == RELOC_64)
		add_64(target->loaded + offset, target->slide);
	else
		add_32(target->loaded + offset, kind == RELOC_32 ? slide : -slide);
	return true;
}

int kernel_file_relocate(const struct kernel_file *file, uint8_t *loaded, size_t size,
			 uint64_t link_base, uint64_t slide, struct error *err)
{
	struct target target = {.loaded = loaded, .size = size, .base = link_base, .slide = slide};
	enum reloc_kind kind = RELOC_32;
	struct reloc_table table = {0};
	int ret;

	if (!slide)
		return 0;
	ret = table_open(file, &table, err);
	if (ret)
		return ret;
	for (size_t i = table.nr_words; i-- > 0;) {
		uint32_t word = word_at(&table, i);
		uint64_t address = (uint64_t)(int64_t)(int32_t)word;

		if (!word)
			kind = kind == RELOC_32 && table.nr_groups == 3 ? RELOC_INVERSE_32
									: RELOC_64;
		else if (!relocate(&target, kind, address))
			return error_set_at(err, EBADMSG, address,
					    "kernel's relocation table points outside the kernel");
	}
	return 0;
}
