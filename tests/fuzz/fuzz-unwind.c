/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ORC tables and slices of stacks of any bytes. The input begins with how many entries the tables
 * have, whether frame pointers are followed instead, of what layout they are, and whether the slice
 * is of two stacks; the tables follow, then RBP and the slice.
 */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/orc/orc-table.h"

enum { MAX_FRAMES = 64, IP_BYTES = 4, ENTRY_BYTES = 6, TEXT_BYTES = 0x1000000 };

#define LINK UINT64_C(0xffffffff81000000)
#define STACK UINT64_C(0xffffc90000010000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct stack_slice *slice, const uint64_t *frames, size_t n, bool whole)
{
	if (n > MAX_FRAMES || (whole && !n))
		abort();
	if (n && frames[0] != slice->words[0])
		abort();
	for (size_t i = 0; i < n; i++)
		if (!(frames[i] >> 63) || frames[i] == UINT64_MAX)
			abort();
}

static bool find_other(void *arg, uint64_t gva, struct orc_entry *out)
{
	if (gva >= LINK && gva < LINK + TEXT_BYTES)
		abort();
	return orc_table_find(arg, gva, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* each number is a base */
	static const uint8_t bases[16] = {0, 1, 2, 3, 4, 5, 6, 3, 0, 1, 2, 3, 4, 5, 6, 3};
	struct orc_table table = {.ips_link = LINK, .bases = bases};
	struct orc_table of_module;
	struct orc_text text = {&table, LINK, LINK + TEXT_BYTES, 0, find_other, &of_module, false, NULL};
	struct stack_slice slice = {.sp = STACK};
	uint64_t frames[MAX_FRAMES], *words;
	uint8_t more;
	size_t n;
	bool whole;

	if (size < 2)
		return 0;
	table.n = data[0] % 64;
	text.frame_pointers = data[0] & 64;
	table.type_bits = 2 + (data[1] & 1);
	table.end_bit = data[1] & 2 ? 10 : 0;
	slice.top = data[1] & 4 ? STACK + data[1] * UINT64_C(8) : 0;
	more = data[1];
	data += 2;
	size -= 2;
	if (!table.n || size < table.n * (IP_BYTES + ENTRY_BYTES) + sizeof(slice.bp))
		return 0;
	table.ips = data;
	table.entries = data + table.n * IP_BYTES;
	/* the same bytes are a module's, too, behind the kernel's text */
	if (!orc_table_init_module(&table, table.ips, LINK + TEXT_BYTES, table.entries, table.n,
				   &of_module))
		of_module.n = 0;
	data += table.n * (IP_BYTES + ENTRY_BYTES);
	size -= table.n * (IP_BYTES + ENTRY_BYTES);
	memcpy(&slice.bp, data, sizeof(slice.bp));
	slice.n = size / sizeof(uint64_t) - 1;
	words = malloc(slice.n * sizeof(uint64_t) + 1);
	if (!words)
		return 0;
	memcpy(words, data + sizeof(slice.bp), slice.n * sizeof(uint64_t));
	slice.words = words;
	if (more & 8) {
		slice.rest = slice.n - slice.n / 2;
		slice.n /= 2;
		slice.rest_sp = STACK + (more & 16 ? 1 : -1) * (INT64_C(8) << (more >> 5));
	}
	whole = stack_unwind(&text, &slice, frames, MAX_FRAMES, &n);
	check(&slice, frames, n, whole);
	free(words);
	return 0;
}
