/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_ITEMS_H
#define SONDE_TESTS_LIB_FAKE_ITEMS_H

#include "tests/lib/fake-cpu.h"

/*
 * A function about many objects on a fake CPU, its memory, and a reader that checks each record of
 * its trampoline: the fields that every record has, and which items it holds.
 */
enum fake_items_how {
	FAKE_ARRAY,
	FAKE_INT_ARRAY, /* its count has 32 bits, and what lies above is anything */
	FAKE_BATCH,     /* a byte that counts, and words behind it */
	FAKE_SHEAF,     /* count and words lie in front of what the argument points to */
	FAKE_LIST,
	FAKE_HOWS,
};

enum { FAKE_ITEMS_MAX = CAPTURE_ITEMS_PER_CALL + 5, FAKE_ITEMS_ID = 0x12345678 };

struct fake_items {
	enum fake_items_how how;
	bool page_orders;
	struct fake_rings rings;
	struct fake_cpu *cpu;
	struct trampoline_kernel kernel;
	struct trampoline_spec spec;
	struct fake_function function;
	uint64_t *block;    /* array, batch or sheaf */
	uint8_t *pages;     /* items of lists, and of page_orders: two struct pages each */
	uint64_t head[2];   /* a struct list_head */
	uint64_t *expected; /* in records */
	uint64_t count;     /* of them */
	/* what the reader has found of the last call */
	uint64_t consumed, records, found, missed, last_tsc;
	uint32_t other_size; /* bytes of records with other ids, */
	uint64_t others;     /* and how many there were */
	bool wrong;
};

/* CPU 0 of one. */
struct fake_items *fake_items_create(enum fake_items_how how, bool page_orders,
				     enum trampoline_full full);
void fake_items_destroy(struct fake_items *f);

/* The memory of a call about `count` items; the next call says there are `said`. */
void fake_items_prepare(struct fake_items *f, uint64_t count, uint64_t said);
/* After fake_items_prepare(): its list comes back to its first node, or ends with NULL. */
void fake_items_close_list(struct fake_items *f, bool cyclic);
void fake_items_call(struct fake_items *f, uint64_t extra_flags);

/* Read all that is reserved, zero it and make room. */
void fake_items_drain(struct fake_items *f);
/* Registers, flags and ring are as they should be, and the ring held what it should. */
bool fake_items_good(const struct fake_items *f);

#endif
