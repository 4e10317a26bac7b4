// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/lib/fake-btf.h"

#include <string.h>

/* Documentation/bpf/btf.rst */
enum {
	BTF_MAGIC = 0xeb9f,
	HEADER_SIZE = 24,
	KIND_INT = 1,
	KIND_STRUCT = 4,
	KIND_ENUM = 6,
	KIND_SHIFT = 24,
	STRINGS_MAX = 4096,
	INTEGERS = 4,
};
#define BTF_KIND_FLAG (1u << 31) /* member offsets carry the bit-field size */

struct writer {
	uint8_t *out;
	size_t at, room;
	char strings[STRINGS_MAX];
	size_t strings_size;
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
	return (uint32_t)at;
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

size_t fake_btf(const struct fake_struct *structs, const struct fake_enumerator *enumerators,
		uint8_t *out, size_t room)
{
	struct writer w = {.out = out, .at = HEADER_SIZE, .room = room, .strings_size = 1};
	size_t types_size, end;

	put_integers(&w);
	for (uint32_t id = 1 + INTEGERS; structs->name; structs++, id++)
		put_struct(&w, structs, id);
	put_enum(&w, enumerators);
	types_size = w.at - HEADER_SIZE;
	end = w.at + w.strings_size;
	if (end > room)
		return 0;
	memcpy(out + w.at, w.strings, w.strings_size);
	w.at = 0;
	put(&w, BTF_MAGIC | 1u << 16); /* version 1, no flags */
	put(&w, HEADER_SIZE);
	put(&w, 0);
	put(&w, (uint32_t)types_size);
	put(&w, (uint32_t)types_size);
	put(&w, (uint32_t)w.strings_size);
	return end;
}
