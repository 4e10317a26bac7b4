/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_SYMBOLS_KALLSYMS_PROBE_H
#define SONDE_GUEST_SYMBOLS_SYMBOLS_KALLSYMS_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "guest-symbols/file/elf-view.h"

/* How kallsyms_offsets encodes an address (kernel/kallsyms.c, kallsyms_sym_address()). */
enum kallsyms_encoding {
	KALLSYMS_BASE_UNSIGNED, /* base + offset */
	KALLSYMS_BASE_PERCPU,   /* offset >= 0: absolute; else base - 1 - offset */
	KALLSYMS_SELF_RELATIVE, /* address of the table entry + offset */
};

enum { KALLSYMS_TOKENS = 256 };

/* The tables, found and validated: every name and every token lies inside its table. */
struct kallsyms_tables {
	uint32_t nr_symbols;
	const uint8_t *names;
	size_t names_size;
	const uint8_t *token_table;
	uint16_t token_index[KALLSYMS_TOKENS];
	uint16_t token_length[KALLSYMS_TOKENS];
	const uint8_t *offsets;   /* little-endian u32 each */
	uint64_t offsets_address; /* link-time address of the table */
	uint64_t base;
	enum kallsyms_encoding encoding;
};

/*
 * Find the tables that scripts/kallsyms.c of Linux 5.10 to 7.x writes, by their structure alone: no
 * symbol, section or version is consulted. False if there are none (or only damaged ones).
 */
bool kallsyms_probe(const struct elf_view *view, struct kallsyms_tables *out);

/* Link-time address of symbol i, i < nr_symbols. */
uint64_t kallsyms_address(const struct kallsyms_tables *tables, uint32_t i);

/* Length prefix of the next compressed name at *p, which it steps over. One byte or, since
 * Linux 6.1, a two-byte ULEB128. *p must be inside `names`. */
size_t kallsyms_name_length(const uint8_t **p);

#endif
