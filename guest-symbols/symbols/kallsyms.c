/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "guest-symbols/file/elf-view.h"
#include "guest-symbols/symbols/symbol-table.h"

/* --- finding the tables ---------------------------------------------------------------------- */

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
 * Each table begins at a multiple of 8, in the newest kernels of 4. In address order:
 *
 *   up to 6.3: [offsets, relative_base,] num_syms, names, markers, [seqs_of_names,] token_table,
 *              token_index
 *   from 6.4:  num_syms, names, markers, token_table, token_index, offsets, [relative_base,]
 *              seqs_of_names
 *
 * So token_index, which has the most distinctive shape, is searched first, and the others around
 * it.
 */
enum {
	ALIGN = 4,
	MAX_PADDING = 8,
	INDEX_SIZE = KALLSYMS_TOKENS * sizeof(uint16_t),
	MAX_TOKEN = 512, /* longest expansion of a token, as KSYM_NAME_LEN */
	MAX_COMPRESSED = 2 + 512,
	MARKER_STRIDE = 256, /* symbols for each marker */
	MAX_SYMBOLS = 1 << 22,
	MAX_TRIES = 8, /* well-formed token tables that are tried */
	MAX_SEQS = 3 * MAX_SYMBOLS,
};

#define LOWEST_KERNEL_ADDRESS 0xffffffff80000000

/* One PT_LOAD segment's file contents. */
struct segment {
	const uint8_t *bytes;
	size_t size;
	uint64_t address;
};

static uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static size_t align_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

static bool is_token_index(const uint8_t *p)
{
	if (get16(p))
		return false;
	for (size_t i = 1; i < KALLSYMS_TOKENS; i++) {
		unsigned int before = get16(p + 2 * i - 2), here = get16(p + 2 * i);

		if (here < before + 2 || here > before + MAX_TOKEN)
			return false;
	}
	return true;
}

/* Whether the 256 strings that the index at `index` describes begin at `table`. */
static bool is_token_table(const uint8_t *table, const uint8_t *index, struct kallsyms_tables *out)
{
	for (size_t i = 0; i < KALLSYMS_TOKENS; i++) {
		const uint8_t *token = table + get16(index + 2 * i);
		size_t room = i + 1 < KALLSYMS_TOKENS
				      ? (size_t)(table + get16(index + 2 * i + 2) - token)
				      : (size_t)(index - token);
		size_t length = strnlen((const char *)token, room);
		bool last = i + 1 == KALLSYMS_TOKENS;

		if (!length || length >= room || (!last && length + 1 != room))
			return false;
		out->token_index[i] = get16(index + 2 * i);
		out->token_length[i] = (uint16_t)length;
	}
	return true;
}

/* The token table ends where the index begins, but for padding; the last token's length is unknown.
 */
static bool find_token_table(const struct segment *segment, size_t index,
			     struct kallsyms_tables *out)
{
	size_t before_last = get16(segment->bytes + index + INDEX_SIZE - 2);
	size_t shortest = align_up(before_last + 2, ALIGN);

	for (size_t size = shortest; size <= shortest + MAX_TOKEN && size <= index; size += ALIGN) {
		const uint8_t *table = segment->bytes + index - size;

		if (!is_token_table(table, segment->bytes + index, out))
			continue;
		out->token_table = table;
		return true;
	}
	return false;
}

/* Number of words from `at` on that can be markers: 0, then growing by the size of 256 names. */
static size_t marker_run(const struct segment *segment, size_t at, size_t end)
{
	uint32_t before = 0;
	size_t n = 1;

	if (end - at < 2 * sizeof(uint32_t) || get32(segment->bytes + at))
		return 0;
	for (at += sizeof(uint32_t); end - at >= sizeof(uint32_t); at += sizeof(uint32_t), n++) {
		uint32_t here = get32(segment->bytes + at);

		if (here < before || here - before < 2 * MARKER_STRIDE ||
		    here - before > MAX_COMPRESSED * MARKER_STRIDE)
			break;
		before = here;
	}
	return n;
}

/* Length prefix of the next compressed name at *p, which it steps over: one byte or, since Linux
 * 6.1, a two-byte ULEB128. *p must be inside `names`. */
static size_t name_length(const uint8_t **p)
{
	size_t length = *(*p)++;

	if (length & 0x80)
		length = (length & 0x7f) | (size_t) * (*p)++ << 7;
	return length;
}

/* Whether `nr` names fill [names, end) up to padding and pass each marker where it says. */
static bool names_match(const uint8_t *names, const uint8_t *end, const uint8_t *markers,
			uint32_t nr)
{
	const uint8_t *p = names;

	for (uint32_t i = 0; i < nr; i++) {
		size_t length;

		if (i % MARKER_STRIDE == 0 &&
		    get32(markers + i / MARKER_STRIDE * sizeof(uint32_t)) != (size_t)(p - names))
			return false;
		if (end - p < 3)
			return false;
		length = name_length(&p);
		if (!length || length > (size_t)(end - p))
			return false;
		p += length;
	}
	return end - p < MAX_PADDING;
}

/* The word before the names, or the one before that if there is padding in between. */
static uint32_t number_before(const uint8_t *names)
{
	uint32_t nr = get32(names - sizeof(nr));

	return nr ? nr : get32(names - 2 * sizeof(nr));
}

/* Given where the markers are, find where the names begin; the number of symbols precedes them. */
static bool find_names(const struct segment *segment, size_t markers, size_t nr_markers,
		       struct kallsyms_tables *out)
{
	size_t last = get32(segment->bytes + markers + (nr_markers - 1) * sizeof(uint32_t));
	size_t furthest = last + MAX_COMPRESSED * MARKER_STRIDE;

	for (size_t size = align_up(last + 2, ALIGN);
	     size <= furthest && size + MAX_PADDING <= markers; size += ALIGN) {
		const uint8_t *names = segment->bytes + markers - size;
		uint32_t nr = number_before(names);

		if (nr > MAX_SYMBOLS || (nr + MARKER_STRIDE - 1) / MARKER_STRIDE != nr_markers ||
		    !names_match(names, names + size, segment->bytes + markers, nr))
			continue;
		out->nr_symbols = nr;
		out->names = names;
		out->names_size = size;
		return true;
	}
	return false;
}

/* Markers lie right before the token table, or before seqs_of_names that precede it. */
static bool find_markers_and_names(const struct segment *segment, size_t token_table,
				   struct kallsyms_tables *out)
{
	size_t lowest = token_table > MAX_SEQS ? token_table - MAX_SEQS : 0;

	for (size_t at = token_table; at >= lowest + ALIGN;) {
		size_t n;

		at -= ALIGN;
		n = marker_run(segment, at, token_table);
		/* The word behind the markers may pass for one more. */
		if ((n >= 2 && find_names(segment, at, n, out)) ||
		    (n >= 3 && find_names(segment, at, n - 1, out)))
			return true;
	}
	return false;
}

/* Link-time address of symbol i, i < nr_symbols. */
static uint64_t address_of(const struct kallsyms_tables *tables, uint32_t i)
{
	uint32_t raw = get32(tables->offsets + i * sizeof(uint32_t));
	int64_t offset = (int32_t)raw;

	switch (tables->encoding) {
	case KALLSYMS_BASE_UNSIGNED:
		return tables->base + raw;
	case KALLSYMS_BASE_PERCPU:
		return offset >= 0 ? (uint64_t)offset : tables->base - 1 - (uint64_t)offset;
	case KALLSYMS_SELF_RELATIVE:
		break;
	}
	return tables->offsets_address + i * sizeof(uint32_t) + (uint64_t)offset;
}

static bool is_sorted(const struct kallsyms_tables *tables)
{
	uint64_t before = 0;

	for (uint32_t i = 0; i < tables->nr_symbols; i++) {
		uint64_t here = address_of(tables, i);

		if (here < before)
			return false;
		before = here;
	}
	return before >= LOWEST_KERNEL_ADDRESS;
}

/* The table of offsets at `at`: only the right reading of it gives addresses in ascending order. */
static bool try_offsets(const struct segment *segment, size_t at, struct kallsyms_tables *out)
{
	size_t size = align_up((size_t)out->nr_symbols * sizeof(uint32_t), sizeof(uint64_t));
	bool has_base = segment->size - at >= size + sizeof(uint64_t);

	if (at > segment->size || segment->size - at < size)
		return false;
	out->offsets = segment->bytes + at;
	out->offsets_address = segment->address + at;
	out->base = has_base ? get64(out->offsets + size) : 0;
	if (out->base < LOWEST_KERNEL_ADDRESS) {
		out->encoding = KALLSYMS_SELF_RELATIVE;
		return is_sorted(out);
	}
	out->encoding = KALLSYMS_BASE_PERCPU;
	if (is_sorted(out))
		return true;
	out->encoding = KALLSYMS_BASE_UNSIGNED;
	return is_sorted(out);
}

static bool find_offsets(const struct segment *segment, size_t index, struct kallsyms_tables *out)
{
	/* Kernels that have the offsets first align to 8. */
	size_t num_syms = (size_t)(out->names - segment->bytes) - sizeof(uint64_t);
	size_t older = align_up((size_t)out->nr_symbols * sizeof(uint32_t), sizeof(uint64_t)) +
		       sizeof(uint64_t);

	return try_offsets(segment, index + INDEX_SIZE, out) ||
	       (older <= num_syms && try_offsets(segment, num_syms - older, out));
}

static bool probe_at(const struct segment *segment, size_t index, struct kallsyms_tables *out,
		     unsigned int *tries)
{
	if (!is_token_index(segment->bytes + index) || !find_token_table(segment, index, out))
		return false;
	--*tries;
	return find_markers_and_names(segment, (size_t)(out->token_table - segment->bytes), out) &&
	       find_offsets(segment, index, out);
}

static bool probe_segment(const struct segment *segment, struct kallsyms_tables *out,
			  unsigned int *tries)
{
	for (size_t at = 0; *tries && segment->size - at >= INDEX_SIZE; at += ALIGN) {
		uint32_t word = get32(segment->bytes + at);

		/* Reject nearly everything on the first two entries: 0 and something small. */
		if (!(word & 0xffff) && word && word <= MAX_TOKEN << 16 &&
		    probe_at(segment, at, out, tries))
			return true;
	}
	return false;
}

/*
 * Find the tables that scripts/kallsyms.c of Linux 5.10 to 7.x writes, by their structure alone: no
 * symbol, section or version is consulted. False if there are none (or only damaged ones).
 */
static bool probe(const struct elf_view *view, struct kallsyms_tables *out)
{
	unsigned int tries = MAX_TRIES;

	for (unsigned int i = 0; i < view->nr_segments; i++) {
		Elf64_Phdr phdr = elf_view_segment(view, i);
		struct segment segment = {
			.bytes = elf_view_range(view, phdr.p_vaddr, phdr.p_filesz),
			.size = phdr.p_filesz,
			.address = phdr.p_vaddr,
		};

		if (phdr.p_type == PT_LOAD && segment.bytes && segment.size >= INDEX_SIZE &&
		    probe_segment(&segment, out, &tries))
			return true;
	}
	return false;
}

/* --- expanding the names --------------------------------------------------------------------- */

/* A distribution kernel has some 5 MiB of names. */
enum { MAX_NAMES_SIZE = 256 << 20 };

/* Bytes that all names take when expanded, terminators instead of the type letters included. */
static uint64_t expanded_size(const struct kallsyms_tables *tables)
{
	const uint8_t *p = tables->names;
	uint64_t size = 0;

	for (uint32_t i = 0; i < tables->nr_symbols; i++)
		for (size_t left = name_length(&p); left; left--)
			size += tables->token_length[*p++];
	return size;
}

static size_t expanded_length(const struct kallsyms_tables *tables, const uint8_t *p, size_t length)
{
	size_t sum = 0;

	while (length--)
		sum += tables->token_length[*p++];
	return sum;
}

/* Write the tokens' characters, except the very first one, which is the symbol's type. */
static void expand(const struct kallsyms_tables *tables, const uint8_t *p, size_t length, char *to)
{
	size_t skip = 1;

	for (; length; length--, p++, skip = 0) {
		size_t n = tables->token_length[*p] - skip;

		memcpy(to, tables->token_table + tables->token_index[*p] + skip, n);
		to += n;
	}
}

static int decode(const struct kallsyms_tables *tables, struct symbol_builder *builder,
		  struct error *err)
{
	const uint8_t *p = tables->names;

	for (uint32_t i = 0; i < tables->nr_symbols; i++) {
		size_t length = name_length(&p);
		char type = (char)tables->token_table[tables->token_index[*p]];
		size_t expanded = expanded_length(tables, p, length) - 1;
		char *name = symbol_builder_add(builder, address_of(tables, i), 0, type, expanded);

		if (!name)
			return error_set(err, EBADMSG, "kallsyms names are inconsistent");
		expand(tables, p, length, name);
		p += length;
	}
	return 0;
}

int symbols_from_kallsyms(const uint8_t *elf, size_t size, struct symbol_table **out,
			  struct error *err)
{
	struct kallsyms_tables tables;
	struct symbol_builder builder;
	struct elf_view view;
	uint64_t names;
	int ret = elf_view_init(&view, elf, size, err);

	if (ret)
		return ret;
	if (!probe(&view, &tables))
		return error_set(
			err, ENOENT,
			"no kallsyms tables found in the kernel (CONFIG_KALLSYMS): use its "
			"vmlinux with symbols, or give them with --system-map FILE");
	names = expanded_size(&tables);
	if (names > MAX_NAMES_SIZE)
		return error_set(err, E2BIG, "kallsyms names take %llu bytes when expanded",
				 (unsigned long long)names);
	ret = symbol_builder_init(&builder, tables.nr_symbols, names, err);
	if (ret)
		return ret;
	ret = decode(&tables, &builder, err);
	if (ret) {
		symbol_builder_deinit(&builder);
		return ret;
	}
	return symbol_builder_finish(&builder, out, err);
}
