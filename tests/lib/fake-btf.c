/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-btf.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Documentation/bpf/btf.rst */
enum {
	BTF_MAGIC = 0xeb9f,
	HEADER_SIZE = 24,
	KIND_INT = 1,
	KIND_PTR = 2,
	KIND_STRUCT = 4,
	KIND_ENUM = 6,
	KIND_FWD = 7,
	KIND_TYPEDEF = 8,
	KIND_CONST = 10,
	KIND_FUNC = 12,
	KIND_FUNC_PROTO = 13,
	KIND_SHIFT = 24,
	STRINGS_MAX = 8192,
	INTEGERS = 4,
	MAX_PARAMS = 12,
	WORD = 48,
};
#define BTF_KIND_FLAG (1u << 31) /* member offsets carry the bit-field size */

struct writer {
	uint8_t *out;
	size_t at, room;
	char strings[STRINGS_MAX];
	size_t strings_size;
	uint32_t strings_first; /* of a module: where the kernel's end */
	uint32_t next_id;
	const struct fake_struct *structs; /* that prototypes may name; the first one's id */
	uint32_t first_struct;
};

static void put(struct writer *w, uint32_t value)
{
	if (w->at + sizeof(value) <= w->room)
		memcpy(w->out + w->at, &value, sizeof(value));
	w->at += sizeof(value);
}

static uint32_t string(struct writer *w, const char *text)
{
	size_t at = w->strings_size, n = strlen(text) + 1;

	if (at + n > STRINGS_MAX)
		return 0;
	memcpy(w->strings + at, text, n);
	w->strings_size += n;
	return w->strings_first + (uint32_t)at;
}

/* Types 1 to 4 are the integers of 1, 2, 4 and 8 bytes. */
static void put_integers(struct writer *w)
{
	static const char *const names[] = {"u8", "u16", "u32", "u64"};

	for (uint32_t i = 0; i < INTEGERS; i++) {
		put(w, string(w, names[i]));
		put(w, KIND_INT << KIND_SHIFT);
		put(w, 1u << i);
		put(w, 8u << i);
	}
}

static uint32_t integer_type(uint32_t size)
{
	return 1 + (uint32_t)__builtin_ctz(size);
}

static void put_struct(struct writer *w, const struct fake_struct *s, uint32_t id)
{
	uint32_t n = 0;

	while (s->members[n].name)
		n++;
	put(w, string(w, s->name));
	put(w, BTF_KIND_FLAG | KIND_STRUCT << KIND_SHIFT | n);
	put(w, s->size);
	for (uint32_t i = 0; i < n; i++) {
		const struct fake_member *m = &s->members[i];

		put(w, string(w, m->name));
		put(w, m->size ? integer_type(m->size) : id + 1);
		put(w, (uint32_t)m->bit_size << 24 | (m->offset * 8 + m->bit_offset));
	}
}

static void put_enum(struct writer *w, const struct fake_enumerator *enumerators)
{
	uint32_t n = 0;

	while (enumerators[n].name)
		n++;
	put(w, string(w, "fake"));
	put(w, KIND_ENUM << KIND_SHIFT | n);
	put(w, sizeof(uint32_t));
	for (uint32_t i = 0; i < n; i++) {
		put(w, string(w, enumerators[i].name));
		put(w, enumerators[i].value);
	}
}

/* A type of three words; returns its id. */
static uint32_t put_type(struct writer *w, const char *name, uint32_t kind, uint32_t type)
{
	put(w, *name ? string(w, name) : 0);
	put(w, kind << KIND_SHIFT);
	put(w, type);
	return w->next_id++;
}

static bool take_word(const char **text, const char *word)
{
	size_t n = strlen(word);

	*text += strspn(*text, " ");
	if (strncmp(*text, word, n) || isalnum((unsigned char)(*text)[n]) || (*text)[n] == '_')
		return false;
	*text += n;
	return true;
}

static void read_word(const char **text, char word[WORD])
{
	int used = 0;

	if (sscanf(*text, " %47[A-Za-z0-9_]%n", word, &used) != 1)
		abort();
	*text += used;
}

static uint32_t put_struct_name(struct writer *w, const char *name)
{
	for (uint32_t i = 0; w->structs && w->structs[i].name; i++)
		if (!strcmp(w->structs[i].name, name))
			return w->first_struct + i;
	return put_type(w, name, KIND_FWD, 0);
}

/* The type in front of `*text`, which is stepped over: its id, 0 for void. */
static uint32_t put_named_type(struct writer *w, const char **text)
{
	bool is_const = take_word(text, "const"), is_struct = take_word(text, "struct");
	bool is_unsigned = take_word(text, "unsigned");
	uint32_t id = 0;
	char word[WORD];

	read_word(text, word);
	if (is_struct)
		id = put_struct_name(w, word);
	else if (is_unsigned && !strcmp(word, "long"))
		id = put_type(w, "long unsigned int", KIND_TYPEDEF, INTEGERS);
	else if (is_unsigned)
		id = put_type(w, "unsigned int", KIND_TYPEDEF, 3);
	else if (strcmp(word, "void") != 0)
		id = put_type(w, word, KIND_TYPEDEF, INTEGERS);
	if (is_const)
		id = put_type(w, "", KIND_CONST, id);
	for (*text += strspn(*text, " "); **text == '*'; ++*text)
		id = put_type(w, "", KIND_PTR, id);
	return id;
}

static void put_function(struct writer *w, const char *text)
{
	char name[WORD], names[MAX_PARAMS][WORD];
	uint32_t types[MAX_PARAMS], n = 0, result = put_named_type(w, &text);

	read_word(&text, name);
	if (*text++ != '(')
		abort();
	for (; n < MAX_PARAMS && *text != ')'; n++, text += *text == ',') {
		types[n] = put_named_type(w, &text);
		read_word(&text, names[n]);
	}
	put(w, 0);
	put(w, KIND_FUNC_PROTO << KIND_SHIFT | n);
	put(w, result);
	for (uint32_t i = 0; i < n; i++) {
		put(w, string(w, names[i]));
		put(w, types[i]);
	}
	w->next_id++;
	put_type(w, name, KIND_FUNC, w->next_id - 1);
}

/* The strings, and the header in front; returns the size, or 0. */
static size_t finish(struct writer *w)
{
	const size_t types_size = w->at - HEADER_SIZE, end = w->at + w->strings_size;

	if (end > w->room)
		return 0;
	memcpy(w->out + w->at, w->strings, w->strings_size);
	w->at = 0;
	put(w, BTF_MAGIC | 1u << 16); /* version 1, no flags */
	put(w, HEADER_SIZE);
	put(w, 0);
	put(w, (uint32_t)types_size);
	put(w, (uint32_t)types_size);
	put(w, (uint32_t)w->strings_size);
	return end;
}

static void put_structs(struct writer *w, const struct fake_struct *structs)
{
	for (; structs->name; structs++, w->next_id++)
		put_struct(w, structs, w->next_id);
}

size_t fake_btf_functions(const struct fake_struct *structs,
			  const struct fake_enumerator *enumerators, const char *const *prototypes,
			  uint8_t *out, size_t room)
{
	struct writer w = {.out = out,
			   .at = HEADER_SIZE,
			   .room = room,
			   .strings_size = 1,
			   .next_id = 1 + INTEGERS};

	put_integers(&w);
	put_structs(&w, structs);
	put_enum(&w, enumerators);
	w.next_id++;
	for (; prototypes && *prototypes; prototypes++)
		put_function(&w, *prototypes);
	return finish(&w);
}

size_t fake_btf_split(const struct btf_types *base, const struct fake_struct *structs,
		      const char *const *prototypes, uint8_t *out, size_t room)
{
	struct writer w = {.out = out,
			   .at = HEADER_SIZE,
			   .room = room,
			   .strings_first = btf_end_string(base),
			   .next_id = btf_end_id(base),
			   .structs = structs,
			   .first_struct = btf_end_id(base)};

	put_structs(&w, structs);
	for (; *prototypes; prototypes++)
		put_function(&w, *prototypes);
	return finish(&w);
}

size_t fake_btf(const struct fake_struct *structs, const struct fake_enumerator *enumerators,
		uint8_t *out, size_t room)
{
	return fake_btf_functions(structs, enumerators, NULL, out, room);
}

struct btf_types *fake_btf_of(const char *const *prototypes)
{
	enum { ROOM = 16384 };
	const struct fake_struct no_structs[] = {{.name = NULL}};
	const struct fake_enumerator no_enumerators[] = {{.name = NULL}};
	uint8_t bytes[ROOM];
	size_t size = fake_btf_functions(no_structs, no_enumerators, prototypes, bytes, ROOM);
	struct btf_types *btf;

	if (btf_parse(bytes, size, &btf, NULL))
		abort();
	return btf;
}
