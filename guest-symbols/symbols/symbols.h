/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_SYMBOLS_SYMBOLS_H
#define SONDE_GUEST_SYMBOLS_SYMBOLS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/* Names and link-time addresses of a kernel. All names of an address are kept. */
struct symbol {
	uint64_t address;
	uint64_t size; /* to the next higher symbol address (or from an ELF symtab), 0 = unknown */
	const char *name; /* owned by the table */
	char type;        /* as in nm and kallsyms: t T d D b B r R a A ... */
};

struct symbol_table; /* sorted by address; names indexed */

/* Symbols in address order: symbols_at() for each index below the count. */
size_t symbols_count(const struct symbol_table *table);
const struct symbol *symbols_at(const struct symbol_table *table, size_t index);

/* First symbol of that name in address order, or NULL. */
const struct symbol *symbols_find(const struct symbol_table *table, const char *name);

/* Address of `name`, or 0. */
uint64_t symbols_address(const struct symbol_table *table, const char *name);

/* The symbol that covers `address` (greatest address <= it; of several names the best one to show:
 * global text before local before aliases such as __pfx_), or NULL. */
const struct symbol *symbols_covering(const struct symbol_table *table, uint64_t address);

/* From the kallsyms tables inside a vmlinux ELF without a symbol table. */
int symbols_from_kallsyms(const uint8_t *elf, size_t size, struct symbol_table **out,
			  struct error *err);
/*
 * Move kernel addresses down by `slide`, and leave all others alone (offsets of per-CPU variables).
 * Not while another thread uses the table. -EBADMSG, and no address is moved, if one of them would
 * leave the kernel's range.
 */
int symbols_rebase(struct symbol_table *table, uint64_t slide, struct error *err);

/* From an ELF .symtab (libelf). -ENOENT if it has none. */
int symbols_from_elf(const uint8_t *elf, size_t size, struct symbol_table **out, struct error *err);
/* From the text of a System.map. */
int symbols_from_system_map(const char *text, size_t size, struct symbol_table **out,
			    struct error *err);
void symbols_destroy(struct symbol_table *table);

#endif
