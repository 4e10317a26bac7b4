/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/orc/orc-table.h"

#include <string.h>
#include "formats/base/u64-map.h"

enum {
	IP_SIZE = 4,
	ENTRY_SIZE = 6,
	BP_OFFSET_AT = 2,
	FLAGS_AT = 4,
	BASE_MASK = 15,
	BP_BASE_SHIFT = 4,
	TYPE_SHIFT = 8,
	FLAGS_BITS = 16,
};

/* ORC_REG_* of arch/x86/include/asm/orc_types.h, up to 7.1 and since 7.2. */
enum { NR_BASES = BASE_MASK + 1, OLD_SP = 5, NEW_SP = 3 };

static const uint8_t old_bases[NR_BASES] = {
	[0] = ORC_BASE_UNDEFINED,
	[1] = ORC_BASE_PREV_SP,
	[2] = ORC_BASE_OTHER,
	[3] = ORC_BASE_OTHER,
	[4] = ORC_BASE_BP,
	[OLD_SP] = ORC_BASE_SP,
	[6] = ORC_BASE_OTHER,
	[7] = ORC_BASE_OTHER,
	[8] = ORC_BASE_BP_INDIRECT,
	[9] = ORC_BASE_SP_INDIRECT,
	[10 ... 15] = ORC_BASE_OTHER,
};
static const uint8_t new_bases[NR_BASES] = {
	[0] = ORC_BASE_UNDEFINED,   [1] = ORC_BASE_OTHER,        [2] = ORC_BASE_OTHER,
	[NEW_SP] = ORC_BASE_SP,     [4] = ORC_BASE_BP,           [5] = ORC_BASE_OTHER,
	[6] = ORC_BASE_OTHER,       [7] = ORC_BASE_OTHER,        [8] = ORC_BASE_PREV_SP,
	[9] = ORC_BASE_SP_INDIRECT, [10] = ORC_BASE_BP_INDIRECT, [11 ... 15] = ORC_BASE_OTHER,
};

/* The field is in a word of its own or in the last two bytes: its bit counts from there. */
static uint8_t flags_bit(const struct btf_field *field)
{
	uint32_t bit = 8 * field->offset + field->bit_offset;

	return bit >= 8 * FLAGS_AT && bit < 8 * FLAGS_AT + FLAGS_BITS
		       ? (uint8_t)(bit - 8 * FLAGS_AT)
		       : 0;
}

static void read_layout(const struct btf_types *btf, struct orc_table *out)
{
	struct btf_field field;

	if (!btf || btf_field(btf, "orc_entry", "type", &field, NULL))
		return;
	out->type_bits = field.bit_size;
	if (!btf_field(btf, "orc_entry", "end", &field, NULL))
		out->end_bit = flags_bit(&field);
}

/* Up to 6.3 an entry without a base for RSP says nothing, or that the stack ends. */
static enum orc_kind kind_of(const struct orc_table *table, uint16_t flags)
{
	static const enum orc_kind old[] = {ORC_KIND_CALL, ORC_KIND_REGS, ORC_KIND_REGS_PARTIAL,
					    ORC_KIND_UNKNOWN};
	static const enum orc_kind new[] = {
		ORC_KIND_UNKNOWN,      ORC_KIND_END,     ORC_KIND_CALL,    ORC_KIND_REGS,
		ORC_KIND_REGS_PARTIAL, ORC_KIND_UNKNOWN, ORC_KIND_UNKNOWN, ORC_KIND_UNKNOWN};
	const unsigned int type = (flags >> TYPE_SHIFT) & ((1u << table->type_bits) - 1);

	if (table->type_bits == 3)
		return new[type];
	if (flags & BASE_MASK)
		return old[type];
	return table->end_bit && flags >> table->end_bit & 1 ? ORC_KIND_END : ORC_KIND_UNKNOWN;
}

/*
 * Functions begin with nothing but their return address on the stack: in each kernel most frames of
 * 8 bytes are addressed through RSP.
 */
static void find_bases(struct orc_table *table)
{
	size_t n[NR_BASES] = {0};

	for (size_t i = 0; i < table->n; i++) {
		const uint8_t *entry = table->entries + i * ENTRY_SIZE;
		int16_t sp_offset;
		uint16_t flags;

		memcpy(&sp_offset, entry, sizeof(sp_offset));
		memcpy(&flags, entry + FLAGS_AT, sizeof(flags));
		if (sp_offset == sizeof(uint64_t) && kind_of(table, flags) == ORC_KIND_CALL)
			n[flags & BASE_MASK]++;
	}
	if (n[OLD_SP] > n[NEW_SP])
		table->bases = old_bases;
	else if (n[NEW_SP] > n[OLD_SP])
		table->bases = new_bases;
}

void orc_table_init(const struct kernel_image *image, struct orc_table *out)
{
	uint64_t ips = symbols_address(image->symbols, "__start_orc_unwind_ip");
	uint64_t ips_end = symbols_address(image->symbols, "__stop_orc_unwind_ip");
	uint64_t entries = symbols_address(image->symbols, "__start_orc_unwind");
	size_t n;

	*out = (struct orc_table){0};
	if (!ips || !entries || ips_end <= ips || ips_end - ips > UINT32_MAX)
		return;
	n = (ips_end - ips) / IP_SIZE;
	out->ips = kernel_image_bytes(image, ips, n * IP_SIZE);
	out->entries = kernel_image_bytes(image, entries, n * ENTRY_SIZE);
	out->ips_link = ips;
	out->n = out->ips && out->entries ? n : 0;
	read_layout(image->btf, out);
	if (out->type_bits == 2 || out->type_bits == 3)
		find_bases(out);
}

bool orc_table_is_usable(const struct orc_table *table)
{
	return table->n && table->bases;
}

static uint64_t entry_address(const void *orc, size_t index)
{
	const struct orc_table *table = orc;
	int32_t offset;

	memcpy(&offset, table->ips + index * IP_SIZE, sizeof(offset));
	return table->ips_link + index * IP_SIZE + (uint64_t)(int64_t)offset;
}

static bool ascends(const struct orc_table *table)
{
	for (size_t i = 1; i < table->n; i++)
		if (entry_address(table, i) < entry_address(table, i - 1))
			return false;
	return true;
}

bool orc_table_init_module(const struct orc_table *kernel, const uint8_t *ips, uint64_t ips_gva,
			   const uint8_t *entries, size_t n, struct orc_table *out)
{
	if (!orc_table_is_usable(kernel))
		return false;
	*out = *kernel;
	out->ips = ips;
	out->ips_link = ips_gva;
	out->entries = entries;
	out->n = n;
	return ascends(out);
}

bool orc_table_find(const struct orc_table *table, uint64_t link, struct orc_entry *out)
{
	size_t above = search_above(table->n, link, entry_address, table);
	const uint8_t *entry;
	uint16_t flags;

	if (!above)
		return false;
	entry = table->entries + (above - 1) * ENTRY_SIZE;
	memcpy(&out->sp_offset, entry, sizeof(out->sp_offset));
	memcpy(&out->bp_offset, entry + BP_OFFSET_AT, sizeof(out->bp_offset));
	memcpy(&flags, entry + FLAGS_AT, sizeof(flags));
	out->sp_base = (enum orc_base)table->bases[flags & BASE_MASK];
	out->bp_base = (enum orc_base)table->bases[flags >> BP_BASE_SHIFT & BASE_MASK];
	out->kind = kind_of(table, flags);
	return true;
}
