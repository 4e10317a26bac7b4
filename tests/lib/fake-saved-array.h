/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_SAVED_ARRAY_H
#define SONDE_TESTS_LIB_FAKE_SAVED_ARRAY_H

#include "tests/lib/fake-cpu.h"

enum {
	FAKE_SAVED_ARRAY_CPUS = 4,
	FAKE_SAVED_ARRAY_ENTRY = 5,
	FAKE_SAVED_ARRAY_RETURN = 6 /* ids */
};

/* A function that returns many objects, on some CPUs: the trampolines of its entry and its return.
 */
struct fake_saved_array {
	struct fake_rings rings;
	struct trampoline_kernel kernel;
	struct trampoline_spec spec[2];
	struct fake_function entry, leave;
	struct fake_cpu *cpu; /* CPU 0 */
	/* of CPU 0's last record: */
	_Alignas(8) uint8_t record[RING_MAX_RECORD];
	uint64_t read;
	unsigned int rung;
	enum { HOST_RETRY, HOST_SKIP, HOST_NOTHING } answer;
};

/* The calling thread becomes CPU 0. */
/* What the function returns: a number of words, those among them that were there before, whether it
 * has filled all. */
enum fake_returns { FAKE_RETURNS_NUMBER, FAKE_RETURNS_FILLED, FAKE_RETURNS_ALL };
void fake_saved_array_init(struct fake_saved_array *b, enum fake_returns returns,
			   enum trampoline_full full);
void fake_saved_array_deinit(struct fake_saved_array *b);

/* On CPU 0, by a task with its own stack: false if registers or flags are not what they were. */
bool fake_saved_array_call(struct fake_saved_array *b, const struct fake_function *f,
			   unsigned int task);
bool fake_saved_array_enter(struct fake_saved_array *b, unsigned int task, const uint64_t *array,
			    uint32_t count);
bool fake_saved_array_leave(struct fake_saved_array *b, unsigned int task, uint64_t result);
/* For fake_host_install(), its argument a struct fake_saved_array: gives b->answer. */
uint64_t fake_saved_array_on_out(void *arg, uint64_t rip);

/* Take one record of CPU 0; false if there is none. */
bool fake_saved_array_take(struct fake_saved_array *b);
const struct ring_record *fake_saved_array_record(const struct fake_saved_array *b);
uint64_t fake_saved_array_field(const struct fake_saved_array *b, const struct fake_function *f,
				enum record_field which);
/* The next record is that of the entry just called. */
bool fake_saved_array_entry_recorded(struct fake_saved_array *b);
/* The records of the entry just called, with these words that were filled behind a hole. */
bool fake_saved_array_filled_recorded(struct fake_saved_array *b, const uint64_t *words,
				      uint64_t n);
/* The records of the return just called: `words` in this order, and nothing else. */
bool fake_saved_array_items_recorded(struct fake_saved_array *b, uint64_t saved,
				     const uint64_t *words, uint64_t n);
/* How many slots are not free. */
unsigned int fake_saved_array_count(const struct fake_saved_array *b);
/* Random words, none of them 0. */
void fake_saved_array_fill(uint64_t *words, unsigned int n);

#endif
