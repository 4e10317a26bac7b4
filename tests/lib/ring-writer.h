/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_RING_WRITER_H
#define SONDE_TESTS_LIB_RING_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include "patcher/ring/layout.h"

/* The guest's side of one ring, as its trampolines do it. One thread per ring. */
struct ring_writer {
	struct ring_header *header;
	uint8_t *data;
	uint32_t data_bytes;
};

/* What distinguishes one record from another. */
struct ring_sample {
	uint32_t id;
	uint32_t size; /* bytes of the whole record */
	uint32_t items;
};

struct ring_writer ring_writer(void *memory, uint32_t data_bytes);

/* NULL: the limit is reached, nothing is reserved. */
struct ring_record *ring_writer_reserve(struct ring_writer *writer, uint32_t size);

/* The reservation alone, as done by one that passed the check before: an NMI may come behind it. */
struct ring_record *ring_writer_reserve_unchecked(struct ring_writer *writer, uint32_t size);

void ring_writer_commit(struct ring_record *record, struct ring_sample sample);

/* A whole record whose every field holds `value`. False: the limit is reached. */
bool ring_writer_put(struct ring_writer *writer, struct ring_sample sample, uint64_t tsc,
		     uint64_t value);

/* Every field and item of a record of `size` bytes. */
void ring_writer_fill(struct ring_record *record, uint32_t size, uint64_t value);
bool ring_writer_is_filled(const struct ring_record *record, uint32_t size, uint64_t value);

#endif
