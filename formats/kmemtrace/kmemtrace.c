/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/kmemtrace/kmemtrace.h"

#include <endian.h>
#include <string.h>
#include "formats/base/cursor.h"

static uint8_t *put64(uint8_t *out, uint64_t value)
{
	value = htole64(value);
	memcpy(out, &value, sizeof(value));
	return out + sizeof(value);
}

void kmemtrace_encode(const struct kmem_record *record, uint8_t out[KMEMTRACE_RECORD_SIZE])
{
	uint16_t size = htole16(KMEMTRACE_RECORD_SIZE);
	uint32_t node = htole32((uint32_t)record->node);

	out[0] = record->event_id;
	out[1] = record->type_id;
	memcpy(out + 2, &size, sizeof(size));
	memcpy(out + 4, &node, sizeof(node));
	out = put64(out + 8, record->call_site);
	out = put64(out, record->ptr);
	out = put64(out, record->bytes_req);
	out = put64(out, record->bytes_alloc);
	out = put64(out, record->gfp_flags);
	put64(out, (uint64_t)record->timestamp);
}

bool kmemtrace_detect_order(const uint8_t header[KMEMTRACE_HEADER_SIZE], bool *swap)
{
	uint16_t little = kmemtrace_size(header, false);
	uint16_t big = kmemtrace_size(header, true);

	*swap = big >= KMEMTRACE_RECORD_SIZE && (little < KMEMTRACE_RECORD_SIZE || big < little);
	return *swap || little >= KMEMTRACE_RECORD_SIZE;
}

uint16_t kmemtrace_size(const uint8_t header[KMEMTRACE_HEADER_SIZE], bool swap)
{
	return (uint16_t)(swap ? header[2] << 8 | header[3] : header[3] << 8 | header[2]);
}

void kmemtrace_decode(const uint8_t in[KMEMTRACE_RECORD_SIZE], bool swap,
		      struct kmem_record *record)
{
	struct cursor c = cursor_make(in, KMEMTRACE_RECORD_SIZE);

	c.swap = swap;
	*record = (struct kmem_record){0};
	record->event_id = cursor_u8(&c);
	record->type_id = cursor_u8(&c);
	cursor_skip(&c, sizeof(uint16_t));
	record->node = (int32_t)cursor_u32(&c);
	record->call_site = cursor_u64(&c);
	record->ptr = cursor_u64(&c);
	record->bytes_req = cursor_u64(&c);
	record->bytes_alloc = cursor_u64(&c);
	record->gfp_flags = cursor_u64(&c);
	record->timestamp = (int64_t)cursor_u64(&c);
}
