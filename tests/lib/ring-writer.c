/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/ring-writer.h"

struct ring_writer ring_writer(void *memory, uint32_t data_bytes)
{
	return (struct ring_writer){
		.header = memory,
		.data = (uint8_t *)memory + RING_HEADER_BYTES,
		.data_bytes = data_bytes,
	};
}

/* Without a lock prefix, as in the guest: the host never writes the position. */
static uint64_t xadd(uint64_t *where, uint64_t value)
{
	__asm__ volatile("xaddq %0, %1" : "+r"(value), "+m"(*where) : : "memory", "cc");
	return value;
}

struct ring_record *ring_writer_reserve_unchecked(struct ring_writer *writer, uint32_t size)
{
	uint64_t position = xadd(&writer->header->reserve, size);

	return (struct ring_record *)(void *)(writer->data + (position & (writer->data_bytes - 1)));
}

struct ring_record *ring_writer_reserve(struct ring_writer *writer, uint32_t size)
{
	struct ring_header *header = writer->header;
	uint64_t limit = __atomic_load_n(&header->limit, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&header->reserve, __ATOMIC_RELAXED) >= limit)
		return NULL;
	return ring_writer_reserve_unchecked(writer, size);
}

void ring_writer_commit(struct ring_record *record, struct ring_sample sample)
{
	if (sample.items)
		record->items = sample.items;
	__atomic_store_n(&record->commit, ring_commit(sample.id), __ATOMIC_RELEASE);
}

static uint32_t nr_fields(uint32_t size)
{
	return (uint32_t)((size - sizeof(struct ring_record)) / sizeof(uint64_t));
}

void ring_writer_fill(struct ring_record *record, uint32_t size, uint64_t value)
{
	for (uint32_t i = 0; i < nr_fields(size); i++)
		record->fields[i] = value;
}

bool ring_writer_is_filled(const struct ring_record *record, uint32_t size, uint64_t value)
{
	for (uint32_t i = 0; i < nr_fields(size); i++)
		if (record->fields[i] != value)
			return false;
	return true;
}

bool ring_writer_put(struct ring_writer *writer, struct ring_sample sample, uint64_t tsc,
		     uint64_t value)
{
	struct ring_record *record = ring_writer_reserve(writer, sample.size);

	if (!record)
		return false;
	record->tsc = tsc;
	ring_writer_fill(record, sample.size, value);
	ring_writer_commit(record, sample);
	return true;
}
