/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_SYMBOLS_SYMBOLS_H
#define SONDE_GUEST_SYMBOLS_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * Names and link-time addresses of a kernel. All names of an address are kept. A static function
 * that clang's LTO has made visible to other files has its name in the source
 * (symbol_clean_name()). Other suffixes stay, as what has them is not the whole function, or takes
 * other parameters: fn.isra.0, fn.constprop.0, fn.part.0, fn.cold.
 */
struct symbol {
	uint64_t address;
	uint64_t size; /* to the next higher symbol address (or from an ELF symtab), 0 = unknown */
	const char *name; /* owned by the table */
	char type;        /* as in nm and kallsyms: t T d D b B r R a A ... */
};

/* Whether it is a function, and no other name for one or for what lies in front of it: "__pfx_fn"
 * is its padding (6.3), "__cfi_fn" what checks indirect calls. */
bool symbol_is_function(const struct symbol *symbol);

struct symbol_table; /* sorted by address; names indexed */

/* Symbols in address order: symbols_at() for each index below the count. */
size_t symbols_count(const struct symbol_table *table);
const struct symbol *symbols_at(const struct symbol_table *table, size_t index);

/*
 * Take the suffix out that clang's LTO adds to the names of static functions and variables, in
 * place: "fn.llvm.1234" becomes "fn", and "fn.llvm.1234.cold" "fn.cold" (Linux, kernel/kallsyms.c,
 * cleanup_symbol_name(); LLVM, ModuleSummaryIndex::getGlobalNameForLocal()).
 */
void symbol_clean_name(char *name);

/* First symbol of that name, which need not be clean, in address order, or NULL. */
const struct symbol *symbols_find(const struct symbol_table *table, const char *name);

/* Whether a symbol of that name is at that address. */
bool symbols_have(const struct symbol_table *table, const char *name, uint64_t address);

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
