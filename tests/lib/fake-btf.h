/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_BTF_H
#define SONDE_TESTS_LIB_FAKE_BTF_H

#include <stddef.h>
#include <stdint.h>
#include "guest-symbols/btf/btf.h"

/* A small .BTF made from tables, for tests that need struct offsets without a kernel. */
struct fake_member {
	const char *name;             /* NULL ends a list */
	uint32_t offset, size;        /* bytes; 1, 2, 4 or 8, or 0: the struct behind its own */
	uint8_t bit_offset, bit_size; /* bit_size 0 = not a bit-field */
};

enum { FAKE_MEMBERS_MAX = 13 };
struct fake_struct {
	const char *name; /* NULL ends a list */
	uint32_t size;
	struct fake_member members[FAKE_MEMBERS_MAX + 1];
};

struct fake_enumerator {
	const char *name; /* NULL ends a list */
	uint32_t value;
};

/* Writes at most `room` bytes and returns how many, 0 if they do not fit. */
size_t fake_btf(const struct fake_struct *structs, const struct fake_enumerator *enumerators,
		uint8_t *out, size_t room);

/*
 * The same with functions. Each prototype is spelled as in C, with a name for every parameter:
 * "void *kmalloc(size_t size, gfp_t flags)". Aborts where it cannot be read. `prototypes` ends
 * with NULL.
 */
size_t fake_btf_functions(const struct fake_struct *structs,
			  const struct fake_enumerator *enumerators, const char *const *prototypes,
			  uint8_t *out, size_t room);

/*
 * Likewise a module's types: these structures, and these functions, behind a kernel's that were
 * made by one of the above. "struct NAME" in a prototype is the one of these structures, if it is
 * one.
 */
size_t fake_btf_split(const struct btf_types *base, const struct fake_struct *structs,
		      const char *const *prototypes, uint8_t *out, size_t room);

/* A kernel's types that are only these functions, for btf_destroy(). Aborts if they cannot be made.
 */
struct btf_types *fake_btf_of(const char *const *prototypes);

#endif
