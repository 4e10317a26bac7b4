/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/btf/btf.h"
#include "tests/lib/tap.h"

/*
 * Type section written by hand: {name, info, size or type, ...}. Names are offsets into `strings`.
 * S(x) gives such an offset.
 */
static const char strings[] =
	"\0int\0inner\0outer\0a\0b\0bits\0list\0fn\0gfp_t\0s\0flags\0ENUM\0BIG\0"
	"loop\0tag\0unsigned long\0long\0long int";

static uint32_t S(const char *name)
{
	for (const char *p = strings + 1; p < strings + sizeof(strings); p += strlen(p) + 1)
		if (!strcmp(p, name))
			return (uint32_t)(p - strings);
	return 0;
}

enum { INT = 1, PTR, ARRAY, STRUCT, UNION, ENUM, TYPEDEF = 8, CONST = 10, FUNC = 12, PROTO = 13 };
enum {
	DATASEC = 15,
	FLOAT = 16,
	DECL_TAG = 17,
	TYPE_TAG = 18,
	ENUM64 = 19,
	HEADER = 24,
	ROOM = 2048
};
#define INFO(kind, vlen) ((uint32_t)(kind) << 24 | (vlen))
#define FLAG 0x80000000u

static size_t make(uint8_t *out, const uint32_t *types, size_t size)
{
	uint32_t header[] = {0x1eb9f, HEADER, 0, (uint32_t)size, (uint32_t)size, sizeof(strings)};

	memcpy(out, header, sizeof(header));
	memcpy(out + HEADER, types, size);
	memcpy(out + HEADER + size, strings, sizeof(strings));
	return HEADER + size + sizeof(strings);
}

static size_t make_good(uint8_t *out)
{
	/* clang-format off */
	const uint32_t types[] = {
		/* 1 */ S("int"), INFO(INT, 0), 4, 32,
		/* 2 */ S("inner"), INFO(STRUCT, 2), 16, S("a"), 1, 0, S("b"), 1, 64,
		/* 3: anonymous union { int list; struct inner inner; } */
		0, INFO(UNION, 2), 16, S("list"), 1, 0, S("inner"), 2, 0,
		/* 4: [3] of struct inner */ 0, INFO(ARRAY, 0), 0, 2, 1, 3,
		/* 5 */ S("outer"), FLAG | INFO(STRUCT, 4), 88,
			S("a"), 1, 0, 0, 3, 64, S("bits"), 1, 3 << 24 | (192 + 35), S("flags"), 4, 256,
		/* 6 */ 0, INFO(CONST, 0), 5, /* 7 */ 0, INFO(PTR, 0), 6, /* 8 */ 0, INFO(PTR, 0), 7,
		/* 9 */ S("gfp_t"), INFO(TYPEDEF, 0), 1,
		/* 10 */ 0, INFO(PROTO, 3), 8, S("s"), 7, S("flags"), 9, 0, 0,
		/* 11 */ S("fn"), INFO(FUNC, 1), 10,
		/* 12 */ 0, FLAG | INFO(ENUM, 1), 4, S("ENUM"), 0xfffffffe,
		/* 13 */ 0, INFO(ENUM64, 1), 8, S("BIG"), 5, 1,
		/* 14 */ S("tag"), INFO(DATASEC, 1), 0, 1, 0, 4,
		/* 15 */ S("tag"), INFO(FLOAT, 0), 8, /* 16 */ S("tag"), INFO(DECL_TAG, 0), 5, 0,
		/* 17 */ S("tag"), INFO(TYPE_TAG, 0), 1,
	};
	/* clang-format on */

	return make(out, types, sizeof(types));
}

static void is_field(const struct btf_types *btf, const char *path, struct btf_field want)
{
	struct btf_field field = {0};
	struct error err = {0};

	ok(!btf_field(btf, "outer", path, &field, &err), "outer.%s is found (%s)", path, err.text);
	is_u64(field.offset, want.offset, "it has its offset");
	is_u64(field.size, want.size, "it has its size");
	is_u64(field.bit_offset, want.bit_offset, "it has its bit offset");
	is_u64(field.bit_size, want.bit_size, "it has its bit size");
}

static void test_good(void)
{
	struct btf_types *btf = NULL;
	struct btf_prototype p;
	struct error err = {0};
	uint8_t bytes[ROOM];
	bool found;

	ok(!btf_parse(bytes, make_good(bytes), &btf, &err),
	   "a section with all kinds of types parses (%s)", err.text);
	is_u64(btf_count(btf), 17, "all types are counted");
	is_u64(btf_struct_size(btf, "inner"), 16, "a struct has its size");
	is_u64(btf_struct_size(btf, "fn"), 0, "a function has no size");
	is_field(btf, "a", (struct btf_field){0, 4, 0, 0});
	is_field(btf, "list", (struct btf_field){8, 4, 0, 0});
	is_field(btf, "inner.b", (struct btf_field){16, 4, 0, 0});
	is_field(btf, "bits", (struct btf_field){28, 4, 3, 3});
	is_field(btf, "flags", (struct btf_field){32, 48, 0, 0});
	is_u64(-btf_field(btf, "outer", "inner.nope", &(struct btf_field){0}, &err), ENOENT,
	       "a member that does not exist is not found");
	is_str(err.text, "BTF has no member inner.nope in struct outer", "the error names it");
	is_u64(-btf_field(btf, "nope", "a", &(struct btf_field){0}, &err), ENOENT,
	       "nor is a struct that does not exist");
	ok(btf_enumerator(btf, "ENUM", &found) == -2 && found, "a signed enumerator has its value");
	ok(btf_enumerator(btf, "BIG", &found) == 0x100000005 && found,
	   "a 64-bit enumerator has its value");
	btf_enumerator(btf, "inner", &found);
	ok(!found, "a struct is no enumerator");
	ok(!btf_prototype(btf, "fn", &p, &err), "a prototype is found (%s)", err.text);
	ok(p.nr_params == 2 && p.is_variadic, "it has all parameters, which others may follow");
	is_u64(p.params[0].size, 8, "a pointer has 8 bytes");
	is_u64(p.params[1].size, 4, "a typedef has the bytes of its type");
	is_str(p.return_type, "const struct outer **", "its return type is spelled");
	is_str(p.params[0].type, "const struct outer *", "the type of parameter 1 is spelled");
	is_str(p.params[1].type, "gfp_t", "the type of parameter 2 is spelled");
	is_str(p.params[1].name, "flags", "parameter 2 has its name");
	is_u64(-btf_prototype(btf, "outer", &p, &err), ENOENT, "a struct is no function");
	btf_destroy(btf);
}

static void is_returned(const struct btf_types *btf, const char *function, uint32_t bytes,
			const char *name)
{
	char got[16] = "?";

	ok(btf_returned_struct(btf, function, got, sizeof(got)) == bytes && !strcmp(got, name),
	   "%s() returns %u bytes of '%s'", function, bytes, name);
}

static void test_returned(void)
{
	/* clang-format off */
	const uint32_t types[] = {
		/* 1 */ S("inner"), INFO(STRUCT, 0), 192, /* 2 */ 0, INFO(CONST, 0), 1,
		/* 3 */ 0, INFO(PTR, 0), 2, /* 4 */ S("gfp_t"), INFO(TYPEDEF, 0), 3,
		/* 5 */ 0, INFO(PROTO, 0), 4, /* 6 */ S("fn"), INFO(FUNC, 1), 5,
		/* 7: of pointers */ 0, INFO(PTR, 0), 3, 0, INFO(PROTO, 0), 7, S("list"), INFO(FUNC, 1), 8,
		/* 10: no pointer */ 0, INFO(PROTO, 0), 1, S("a"), INFO(FUNC, 1), 10,
		/* 12: no name */ 0, INFO(STRUCT, 0), 8, 0, INFO(PTR, 0), 12, 0, INFO(PROTO, 0), 13,
		S("b"), INFO(FUNC, 1), 14,
		/* 16: a long name */ S("unsigned long"), INFO(STRUCT, 0), 8, 0, INFO(PTR, 0), 16,
		0, INFO(PROTO, 0), 17, S("s"), INFO(FUNC, 1), 18,
	};
	/* clang-format on */
	struct btf_types *btf = NULL;
	uint8_t bytes[ROOM];

	if (btf_parse(bytes, make(bytes, types, sizeof(types)), &btf, NULL))
		abort();
	is_returned(btf, "fn", 192, "struct inner");
	is_returned(btf, "list", 0, "");
	is_returned(btf, "a", 0, "");
	is_returned(btf, "b", 0, "");
	is_returned(btf, "s", 0, "");
	is_returned(btf, "flags", 0, "");
	btf_destroy(btf);
}

static void test_clang(void)
{
	/* clang-format off */
	const uint32_t types[] = {
		/* 1 */ S("unsigned long"), INFO(INT, 0), 8, 64, /* 2 */ S("long"), INFO(INT, 0), 8, 64,
		/* 3 */ S("long int"), INFO(INT, 0), 8, 64, /* 4 */ 0, INFO(PTR, 0), 2,
		/* 5 */ 0, INFO(PROTO, 2), 1, S("a"), 4, S("b"), 3, /* 6 */ S("fn"), INFO(FUNC, 1), 5,
	};
	/* clang-format on */
	struct btf_types *btf = NULL;
	struct btf_prototype p;
	uint8_t bytes[ROOM];

	ok(!btf_parse(bytes, make(bytes, types, sizeof(types)), &btf, NULL) &&
		   !btf_prototype(btf, "fn", &p, NULL),
	   "clang has other names for integers");
	is_str(p.return_type, "long unsigned int", "they are spelled as gcc does");
	is_str(p.params[0].type, "long int *", "behind pointers, too");
	is_str(p.params[1].type, "long int", "gcc's stay as they are");
	btf_destroy(btf);
}

/* Every walk from type to type must end. */
static void test_cycles(void)
{
	/* clang-format off */
	const uint32_t types[] = {
		/* 1 */ S("loop"), INFO(STRUCT, 2), 8, 0, 1, 0, 0, 1, 0,
		/* 2 */ 0, INFO(TYPEDEF, 0), 2, /* 3 */ 0, INFO(ARRAY, 0), 0, 3, 1, 1,
		/* 4 */ S("outer"), INFO(STRUCT, 2), 8, S("a"), 2, 0, S("b"), 3, 0,
		/* 5 */ 0, INFO(PROTO, 2), 2, S("a"), 6, S("b"), 99, /* 6 */ 0, INFO(PTR, 0), 6,
		/* 7 */ S("fn"), INFO(FUNC, 0), 5,
	};
	/* clang-format on */
	struct btf_types *btf = NULL;
	struct btf_field field;
	struct btf_prototype p;
	uint8_t bytes[ROOM];

	ok(!btf_parse(bytes, make(bytes, types, sizeof(types)), &btf, NULL),
	   "types that form circles parse");
	is_u64(-btf_field(btf, "loop", "a", &field, NULL), ENOENT,
	       "a struct that contains itself has no such member");
	ok(!btf_field(btf, "outer", "a", &field, NULL), "a typedef of itself is a member");
	is_u64(field.size, 0, "it has no size");
	ok(!btf_field(btf, "outer", "b", &field, NULL), "an array of itself is a member");
	is_u64(field.size, 0, "it has no size either");
	ok(!btf_prototype(btf, "fn", &p, NULL),
	   "a function that takes a pointer to itself has a prototype");
	ok(!strncmp(p.params[0].type, "? *****", 7), "that pointer is spelled with an end: %s",
	   p.params[0].type);
	is_str(p.params[1].type, "void", "a type that does not exist is spelled void");
	btf_destroy(btf);
}

/* --- of a module ----------------------------------------------------------------------------- */

/* Behind the 17 types and the strings of make_good(), whose names are found there. */
static size_t make_split(uint8_t *out)
{
	static const char own[] = "\0brd_device\0brd_read\0brd\0sector";
	const uint32_t at = sizeof(strings), name = at + 1, function = at + 12, param = at + 21,
		       sector = at + 25;
	/* clang-format off */
	const uint32_t types[] = {
		/* 18 */ name, INFO(STRUCT, 3), 96, S("inner"), 2, 0, sector, 9, 128, S("outer"), 7, 192,
		/* 19 */ 0, INFO(PTR, 0), 18,
		/* 20 */ 0, INFO(PROTO, 2), 1, param, 19, sector, 9,
		/* 21 */ function, INFO(FUNC, 0), 20,
	};
	/* clang-format on */
	const uint32_t header[] = {0x1eb9f, HEADER, 0, sizeof(types), sizeof(types), sizeof(own)};

	memcpy(out, header, sizeof(header));
	memcpy(out + HEADER, types, sizeof(types));
	memcpy(out + HEADER + sizeof(types), own, sizeof(own));
	return HEADER + sizeof(types) + sizeof(own);
}

static void check_split(const struct btf_types *split)
{
	struct btf_prototype p;
	struct btf_field field;
	struct error err = {0};
	uint32_t type;
	bool found;

	is_u64(btf_count(split), 4, "a module's types are counted");
	ok(!btf_prototype(split, "brd_read", &p, &err), "its function is found (%s)", err.text);
	is_str(p.params[0].type, "struct brd_device *", "a parameter has a type of the module");
	is_str(p.params[0].name, "brd", "and a name");
	is_str(p.params[1].type, "gfp_t", "another one has a type of the kernel");
	ok(!btf_follow(split, p.params[0].type_id, "inner.b", &field, &type, &err) &&
		   field.offset == 8 && type == 1,
	   "members of its struct lead to types of the kernel");
	ok(!btf_follow(split, p.params[0].type_id, "outer", &field, &type, &err) &&
		   !btf_follow(split, type, "flags", &field, &type, &err) && field.offset == 32,
	   "also behind a pointer");
	is_u64(-btf_follow(split, p.params[0].type_id, "sectr", &field, &type, &err), ENOENT,
	       "a member that it does not have is not found");
	is_str(err.text, "struct brd_device has no member 'sectr': did you mean 'sector'?",
	       "the error has the nearest name");
	is_u64(btf_struct_size(split, "inner"), 16, "structs of the kernel have a size there");
	ok(btf_enumerator(split, "ENUM", &found) == -2 && found, "its enumerators a value");
	is_u64(-btf_prototype(split, "fn", &p, NULL), ENOENT,
	       "the kernel's functions are not the module's");
}

static void test_split(void)
{
	struct btf_types *base = NULL, *split = NULL;
	uint8_t bytes[ROOM];
	size_t size, accepted = 0;
	struct error err = {0};

	if (btf_parse(bytes, make_good(bytes), &base, NULL))
		abort();
	is_u64(btf_end_id(base), 18, "a module's ids begin behind the kernel's");
	is_u64(btf_end_string(base), sizeof(strings), "and its strings");
	size = make_split(bytes);
	ok(!btf_parse_split(base, bytes, size, &split, &err), "a module's types parse (%s)",
	   err.text);
	check_split(split);
	btf_destroy(split);
	for (size_t cut = 0; cut < size; cut++)
		accepted += !btf_parse_split(base, bytes, cut, &split, NULL);
	is_u64(accepted, 0, "cut off at any byte they are refused");
	memset(bytes + 12, 0, 12);
	ok(!btf_parse_split(base, bytes, HEADER, &split, &err) && !btf_count(split),
	   "a module may have neither types nor strings of its own");
	btf_destroy(split);
	btf_destroy(base);
}

/* Anonymous members of which each has two more, 32 deep. */
static void test_nearest(void)
{
	/* clang-format off */
	const uint32_t types[] = {
		/* 1 */ S("loop"), INFO(STRUCT, 2), 8, 0, 1, 0, 0, 1, 0, /* 2 */ 0, INFO(PTR, 0), 1,
	};
	/* clang-format on */
	struct btf_types *btf = NULL;
	struct error err = {0};
	struct btf_field field;
	uint8_t bytes[ROOM];
	uint32_t type;

	if (btf_parse(bytes, make(bytes, types, sizeof(types)), &btf, NULL))
		abort();
	is_u64(-btf_follow(btf, 2, "a", &field, &type, &err), ENOENT,
	       "the search for a near name ends in a struct that contains itself");
	is_str(err.text, "struct loop has no member 'a'", "it finds none");
	btf_destroy(btf);
}

static void test_damaged(void)
{
	const uint32_t unknown[] = {0, INFO(31, 0), 0};
	struct btf_types *btf = NULL;
	struct error err = {0};
	uint8_t bytes[ROOM];
	size_t size = make_good(bytes), accepted = 0;

	for (size_t cut = 0; cut < size; cut++)
		accepted += !btf_parse(bytes, cut, &btf, NULL);
	is_u64(accepted, 0, "a section cut off at any byte is refused");
	bytes[2] = 2;
	is_u64(-btf_parse(bytes, size, &btf, &err), ENOTSUP, "another version is refused");
	size = make(bytes, unknown, sizeof(unknown));
	is_u64(-btf_parse(bytes, size, &btf, &err), EBADMSG, "an unknown kind is refused");
	is_str(err.text, "BTF type 1 has unknown kind 31", "the error names type and kind");
}

int main(void)
{
	test_good();
	test_returned();
	test_clang();
	test_cycles();
	test_split();
	test_nearest();
	test_damaged();
	return tap_done();
}
