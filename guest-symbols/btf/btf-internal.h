/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_BTF_BTF_INTERNAL_H
#define SONDE_GUEST_SYMBOLS_BTF_BTF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "guest-symbols/btf/btf.h"
#include "guest-symbols/symbols/name-index.h"

/* Encoding: Documentation/bpf/btf.rst, "BTF Type and String Encoding". */
enum btf_kind {
	BTF_KIND_VOID = 0, /* type id 0, not encoded */
	BTF_KIND_INT = 1,
	BTF_KIND_PTR = 2,
	BTF_KIND_ARRAY = 3,
	BTF_KIND_STRUCT = 4,
	BTF_KIND_UNION = 5,
	BTF_KIND_ENUM = 6,
	BTF_KIND_FWD = 7,
	BTF_KIND_TYPEDEF = 8,
	BTF_KIND_VOLATILE = 9,
	BTF_KIND_CONST = 10,
	BTF_KIND_RESTRICT = 11,
	BTF_KIND_FUNC = 12,
	BTF_KIND_FUNC_PROTO = 13,
	BTF_KIND_VAR = 14,
	BTF_KIND_DATASEC = 15,
	BTF_KIND_FLOAT = 16,
	BTF_KIND_DECL_TAG = 17,
	BTF_KIND_TYPE_TAG = 18,
	BTF_KIND_ENUM64 = 19,
	BTF_KIND_COUNT,
};

enum {
	BTF_MAX_DEPTH = 32, /* of any walk from type to type; C code stays far below */
	BTF_POINTER_SIZE = 8,
};

struct btf_types {
	unsigned int owners;
	const struct btf_types *base; /* whose ids and strings come first; NULL: none */
	uint8_t *bytes;               /* the copy of the section */
	const uint8_t *types;
	const char *strings; /* ends with NUL */
	uint32_t strings_first, strings_size;
	uint32_t *offsets;       /* of type id `first` and those behind it, from `types` */
	uint32_t first, count;   /* its own type ids: from `first` on, below `count` */
	struct name_index index; /* its own structs, unions and functions by name */
};

/* One type, header decoded. Its vlen items of the kind's item size follow, inside the section. */
struct btf_type {
	const char *name;
	enum btf_kind kind;
	uint32_t vlen;
	bool kind_flag;
	uint32_t size_or_type;
	const uint8_t *items;
};

/* False for id 0 (void) and ids that do not exist. */
bool btf_type(const struct btf_types *btf, uint32_t id, struct btf_type *out);

/* The string at an offset, "" if it is outside. */
const char *btf_string(const struct btf_types *btf, uint32_t offset);

/* Word i of an item, item_words 32-bit words each. */
uint32_t btf_item(const struct btf_type *type, uint32_t item, uint32_t item_words, uint32_t i);

/* First type of that name that is of kind a or b, of its own ones, or else of the base; 0 if there
 * is none. */
uint32_t btf_find(const struct btf_types *btf, const char *name, enum btf_kind a, enum btf_kind b);
/* Likewise its own function. */
uint32_t btf_find_function(const struct btf_types *btf, const char *name);

#endif
