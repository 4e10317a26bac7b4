/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-kallsyms.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BASE 0xffffffff81000000

enum { TOKENS = 256, STRIDE = 256, PERCPU_SYMBOLS = 3, NAME_MAX_SIZE = 256 };

struct writer {
	enum fake_kallsyms_layout layout;
	uint64_t address;
	uint8_t *out;
	size_t at, room;
	const struct fake_kallsyms_symbol *symbols; /* NULL: those of fake_kallsyms() */
	uint32_t n;
	uint64_t base;
	uint32_t markers[(FAKE_KALLSYMS_MAX + STRIDE - 1) / STRIDE];
	uint16_t index[TOKENS];
};

static void put(struct writer *w, const void *bytes, size_t size)
{
	if (w->at + size <= w->room)
		memcpy(w->out + w->at, bytes, size);
	w->at += size;
}

static void put32(struct writer *w, uint32_t value)
{
	put(w, &value, sizeof(value));
}

static void label(struct writer *w)
{
	size_t align = w->layout == FAKE_KALLSYMS_7_0 ? 4 : 8;

	while (w->at % align)
		put(w, "", 1);
}

/* Two symbols share an address each time; the first few may be per-CPU ones. */
uint64_t fake_kallsyms_address(enum fake_kallsyms_layout layout, uint32_t i)
{
	if (layout <= FAKE_KALLSYMS_6_4 && i < PERCPU_SYMBOLS)
		return i * 64;
	return BASE + i / 2 * 64;
}

static uint64_t address_of(const struct writer *w, uint32_t i)
{
	return w->symbols ? w->symbols[i].address : fake_kallsyms_address(w->layout, i);
}

static int name_of(const struct writer *w, uint32_t i, char name[static NAME_MAX_SIZE])
{
	if (w->symbols)
		return snprintf(name, NAME_MAX_SIZE, "%s", w->symbols[i].name);
	if (i != FAKE_KALLSYMS_LONG)
		return snprintf(name, NAME_MAX_SIZE, "%csym_%u", i % 3 ? 'T' : 't', i);
	name[0] = i % 3 ? 'T' : 't';
	memset(name + 1, 'y', 200);
	return 201;
}

static void put_names(struct writer *w)
{
	size_t start = w->at;
	char name[NAME_MAX_SIZE];

	for (uint32_t i = 0; i < w->n; i++) {
		int n = name_of(w, i, name);

		if (i % STRIDE == 0)
			w->markers[i / STRIDE] = (uint32_t)(w->at - start);
		if (n > 127) {
			put(w, &(uint8_t){(uint8_t)((n & 0x7f) | 0x80)}, 1);
			put(w, &(uint8_t){(uint8_t)(n >> 7)}, 1);
		} else {
			put(w, &(uint8_t){(uint8_t)n}, 1);
		}
		put(w, name, (size_t)n);
	}
}

/* Printable characters stand for themselves, all other bytes for some longer text. */
static void put_tokens(struct writer *w)
{
	size_t start;

	label(w);
	start = w->at;
	for (int i = 0; i < TOKENS; i++) {
		char token[16];
		int n = isgraph(i) ? snprintf(token, sizeof(token), "%c", i)
				   : snprintf(token, sizeof(token), "tok%d_", i);

		w->index[i] = (uint16_t)(w->at - start);
		put(w, token, (size_t)n + 1);
	}
	label(w);
	put(w, w->index, sizeof(w->index));
}

static uint32_t offset(const struct writer *w, uint64_t table, uint32_t i)
{
	uint64_t address = address_of(w, i);

	if (w->layout == FAKE_KALLSYMS_7_0)
		return (uint32_t)(address - (table + i * 4));
	if (w->layout == FAKE_KALLSYMS_6_15)
		return (uint32_t)(address - w->base);
	return (uint32_t)(address < w->base ? address : w->base - 1 - address);
}

static void put_offsets(struct writer *w)
{
	uint64_t table;

	label(w);
	table = w->address + w->at;
	for (uint32_t i = 0; i < w->n; i++)
		put32(w, offset(w, table, i));
	label(w);
	if (w->layout != FAKE_KALLSYMS_7_0)
		put(w, &w->base, sizeof(w->base));
}

static void put_seqs(struct writer *w)
{
	label(w);
	for (uint32_t i = 0; i < w->n; i++)
		put(w, &(uint8_t[]){0, (uint8_t)(i >> 8), (uint8_t)i}, 3);
}

static size_t put_all(struct writer *w)
{
	bool offsets_first = w->layout <= FAKE_KALLSYMS_6_2;

	put(w, "before!!", 8);
	if (offsets_first)
		put_offsets(w);
	label(w);
	put32(w, w->n);
	label(w);
	put_names(w);
	label(w);
	put(w, w->markers, (w->n + STRIDE - 1) / STRIDE * sizeof(w->markers[0]));
	if (w->layout == FAKE_KALLSYMS_6_2)
		put_seqs(w);
	put_tokens(w);
	if (!offsets_first)
		put_offsets(w);
	if (w->layout >= FAKE_KALLSYMS_6_4)
		put_seqs(w);
	put(w, "after!!!", 8);
	return w->at <= w->room ? w->at : 0;
}

size_t fake_kallsyms(enum fake_kallsyms_layout layout, uint64_t address, uint8_t *out, size_t room)
{
	struct writer w = {.layout = layout,
			   .address = address,
			   .out = out,
			   .room = room,
			   .n = FAKE_KALLSYMS_COUNT,
			   .base = BASE};

	return put_all(&w);
}

size_t fake_kallsyms_of(enum fake_kallsyms_layout layout, uint64_t address,
			const struct fake_kallsyms_symbol *symbols, uint32_t n, uint8_t *out,
			size_t room)
{
	struct writer w = {.layout = layout,
			   .address = address,
			   .out = out,
			   .room = room,
			   .symbols = symbols,
			   .n = n};

	for (uint32_t i = 0; i < n && !w.base; i++)
		if (symbols[i].address >> 63)
			w.base = symbols[i].address;
	return n <= FAKE_KALLSYMS_MAX ? put_all(&w) : 0;
}
