/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/orc.h"

#include <errno.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "introspect/kernel/kernel.h"

/* arch/x86/include/asm/orc_types.h */
enum {
	ORC_IP_SIZE = 4,
	ORC_ENTRY_SIZE = 6, /* s16 sp_offset, s16 bp_offset, u16 bit-fields */
	ORC_FLAGS_AT = 4,
	ORC_SP_REG_MASK = 15,
	ORC_TYPE_SHIFT = 8,
	ORC_REG_SP = 5,
};

void orc_table_init(const struct kernel_image *image, struct orc_table *out)
{
	uint64_t ips = symbols_address(image->symbols, "__start_orc_unwind_ip");
	uint64_t ips_end = symbols_address(image->symbols, "__stop_orc_unwind_ip");
	uint64_t entries = symbols_address(image->symbols, "__start_orc_unwind");
	struct btf_field type;
	size_t n;

	*out = (struct orc_table){0};
	if (!ips || !entries || ips_end <= ips || ips_end - ips > UINT32_MAX)
		return;
	n = (ips_end - ips) / ORC_IP_SIZE;
	out->ips = kernel_image_bytes(image, ips, n * ORC_IP_SIZE);
	out->entries = kernel_image_bytes(image, entries, n * ORC_ENTRY_SIZE);
	out->ips_link = ips;
	out->n = out->ips && out->entries ? n : 0;
	if (image->btf && !btf_field(image->btf, "orc_entry", "type", &type, NULL))
		out->type_bits = type.bit_size;
}

static uint64_t entry_address(const void *orc, size_t index)
{
	const struct orc_table *table = orc;
	int32_t offset;

	memcpy(&offset, table->ips + index * ORC_IP_SIZE, sizeof(offset));
	return table->ips_link + index * ORC_IP_SIZE + (uint64_t)(int64_t)offset;
}

/* The entry for `link`: the last one that does not start after it. */
static const uint8_t *find_entry(const struct orc_table *table, uint64_t link)
{
	size_t above = search_above(table->n, link, entry_address, table);

	return above ? table->entries + (above - 1) * ORC_ENTRY_SIZE : NULL;
}

/* orc_entry.type of a plain call frame: 0, and 2 since the field grew to three bits (6.4). */
static bool is_call_frame(const struct orc_table *table, uint16_t flags)
{
	unsigned int type = (flags >> ORC_TYPE_SHIFT) & ((1u << table->type_bits) - 1);

	return (table->type_bits == 2 && type == 0) || (table->type_bits == 3 && type == 2);
}

int orc_frame(const struct kernel *kernel, uint64_t ip_gva, uint64_t *size, struct error *err)
{
	const struct orc_table *table = &kernel->known.orc;
	const uint8_t *entry;
	int16_t sp_offset;
	uint16_t flags;

	if (!table->n)
		return error_set(err, ENOTSUP, "the kernel has no ORC tables");
	if (!kernel_in_image(kernel, ip_gva - 1))
		return error_set_at(err, ENOENT, ip_gva, "not in the kernel image");
	entry = find_entry(table, kernel_link(kernel, ip_gva - 1));
	if (!entry)
		return error_set_at(err, ENOENT, ip_gva, "no ORC entry");
	memcpy(&sp_offset, entry, sizeof(sp_offset));
	memcpy(&flags, entry + ORC_FLAGS_AT, sizeof(flags));
	if ((flags & ORC_SP_REG_MASK) != ORC_REG_SP || !is_call_frame(table, flags) ||
	    sp_offset < (int16_t)sizeof(uint64_t))
		return error_set_at(err, ENOTSUP, ip_gva, "the frame is not addressed through RSP");
	*size = (uint64_t)sp_offset;
	return 0;
}

int orc_caller(const struct kernel *kernel, uint64_t ip_gva, uint64_t sp, uint64_t *caller_ip,
	       uint64_t *caller_sp, struct error *err)
{
	uint64_t size = 0, cfa;
	int ret = orc_frame(kernel, ip_gva, &size, err);

	if (ret)
		return ret;
	cfa = sp + size;
	if (cfa < sp)
		return error_set_at(err, EFAULT, sp, "not a stack address");
	*caller_sp = cfa;
	return kernel_read(kernel, cfa - sizeof(uint64_t), caller_ip, sizeof(*caller_ip), err);
}
