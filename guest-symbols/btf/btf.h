/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_BTF_BTF_H
#define SONDE_GUEST_SYMBOLS_BTF_BTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/* Type information of a kernel or module, .BTF (Documentation/bpf/btf.rst): parsed, validated,
 * indexed. */
struct btf_types;

/* `bytes` is copied. */
int btf_parse(const uint8_t *bytes, size_t size, struct btf_types **out, struct error *err);
/* One more owner of types that have no base: each calls btf_destroy(), one at a time. Returns
 * `btf`. */
struct btf_types *btf_share(struct btf_types *btf);
void btf_destroy(struct btf_types *btf);

/*
 * Those of a module (split BTF): ids and strings go on where those of `base` end, which has no base
 * itself, is borrowed, and outlives them. All that follows takes types of both; functions are the
 * module's own. Takes less than BTF_MEMORY times `size` bytes of memory, and a KiB.
 */
enum { BTF_MEMORY = 4 };
int btf_parse_split(const struct btf_types *base, const uint8_t *bytes, size_t size,
		    struct btf_types **out, struct error *err);

/* Without those of the base. */
size_t btf_count(const struct btf_types *btf);
/* The first type id, and the first place of a string, of a module's. */
uint32_t btf_end_id(const struct btf_types *btf);
uint32_t btf_end_string(const struct btf_types *btf);

/* How many functions of its own it has, and how many of these are not `known`. */
struct btf_functions {
	uint32_t n, unknown;
};
typedef bool btf_known_fn(const void *arg, const char *name);
struct btf_functions btf_count_functions(const struct btf_types *btf, btf_known_fn *known,
					 const void *arg);

struct btf_field {
	uint32_t offset;              /* bytes from the start of the outer struct */
	uint32_t size;                /* bytes */
	uint8_t bit_offset, bit_size; /* bit_size 0 = not a bit-field */
};

/*
 * Field of a struct or union by name, also inside anonymous members; `member` may be a dotted path
 * ("list.next"). -ENOENT with the name in *err if there is no such struct or member.
 */
int btf_field(const struct btf_types *btf, const char *structure, const char *member,
	      struct btf_field *out, struct error *err);

/* sizeof(struct), or 0 if unknown. */
uint32_t btf_struct_size(const struct btf_types *btf, const char *structure);

/* Value of an enumerator of any enum, 0 and true in *found. */
int64_t btf_enumerator(const struct btf_types *btf, const char *name, bool *found);

enum { BTF_MAX_PARAMS = 12 };
struct btf_prototype {
	unsigned int nr_params;
	bool is_variadic;     /* others may follow these */
	char return_type[64]; /* C-like: "void *", "struct page *", "long unsigned int" */
	uint32_t return_type_id;
	struct {
		char name[32];
		char type[64];
		uint32_t size;    /* bytes, 0 = unknown */
		uint32_t type_id; /* for btf_value(), btf_follow(), btf_member() */
	} params[BTF_MAX_PARAMS];
};

/* Prototype of a function. -ENOENT if BTF has none (static functions may be left out). */
int btf_prototype(const struct btf_types *btf, const char *function, struct btf_prototype *out,
		  struct error *err);

/*
 * The struct or union that a function returns a pointer to: sizeof, and its name as C has it
 * ("struct dentry") in `name`. 0 and "": it returns something else, BTF does not have the function,
 * or the name does not fit.
 */
uint32_t btf_returned_struct(const struct btf_types *btf, const char *function, char *name,
			     size_t size);

/* What a value of a type is, without typedefs and qualifiers. */
enum btf_value_kind {
	BTF_VALUE_UNSIGNED, /* bool, character and enum, too */
	BTF_VALUE_SIGNED,
	BTF_VALUE_POINTER,
	BTF_VALUE_TEXT,  /* an array of characters */
	BTF_VALUE_OTHER, /* a struct, another array, a function, void */
};

struct btf_value {
	enum btf_value_kind kind;
	uint32_t size; /* bytes, 0 = unknown */
};

struct btf_value btf_value(const struct btf_types *btf, uint32_t type);

/*
 * A member, by name or dotted path, of the struct or union that a type points to. -EINVAL: it
 * points to none. -ENOENT: there is no such member, with its column in the path, and the nearest
 * name, in *err.
 */
int btf_follow(const struct btf_types *btf, uint32_t pointer, const char *member,
	       struct btf_field *out, uint32_t *type, struct error *err);
/* The same of a type that is a struct or union itself. -EINVAL: it is none. */
int btf_member(const struct btf_types *btf, uint32_t structure, const char *member,
	       struct btf_field *out, uint32_t *type, struct error *err);
bool btf_is_struct(const struct btf_types *btf, uint32_t type);
/* Whether all that it consists of lies at multiples of its size: what does not is passed in memory
 * (System V ABI, AMD64). */
bool btf_is_aligned(const struct btf_types *btf, uint32_t type);
bool btf_points_to_struct(const struct btf_types *btf, uint32_t type);

#endif
