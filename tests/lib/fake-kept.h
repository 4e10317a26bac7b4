/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_KEPT_H
#define SONDE_TESTS_LIB_FAKE_KEPT_H

#include "tests/lib/fake-cpu.h"

enum { FAKE_KEPT_CPUS = 4, FAKE_KEPT_ENTRY = 5, FAKE_KEPT_RETURN = 6 /* probes */ };

/* A function that returns many objects, on some CPUs: the trampolines of its entry and its return.
 */
struct fake_kept {
	struct fake_rings rings;
	struct trampoline_kernel kernel;
	struct trampoline_spec spec[2];
	struct fake_function entry, leave;
	struct fake_cpu *cpu; /* CPU 0 */
	/* of CPU 0's last record: */
	struct ring_commit commit;
	uint8_t record[RING_MAX_RECORD];
	uint64_t read;
	unsigned int rung;
	enum { HOST_RETRY, HOST_SKIP, HOST_NOTHING } answer;
};

/* The calling thread becomes CPU 0. */
void fake_kept_init(struct fake_kept *b, bool skip_filled, enum trampoline_full full);
void fake_kept_deinit(struct fake_kept *b);

/* On CPU 0, by a task with its own stack: false if registers or flags are not what they were. */
bool fake_kept_call(struct fake_kept *b, const struct fake_function *f, unsigned int task);
bool fake_kept_enter(struct fake_kept *b, unsigned int task, const uint64_t *array, uint32_t count);
bool fake_kept_leave(struct fake_kept *b, unsigned int task, uint64_t result);
/* For fake_host_install(), its argument a struct fake_kept: gives b->answer. */
uint64_t fake_kept_on_out(void *arg, uint64_t rip);

/* Take one record of CPU 0; false if there is none. */
bool fake_kept_take(struct fake_kept *b);
uint64_t fake_kept_field(const struct fake_kept *b, const struct fake_function *f,
			 enum record_field which);
/* The next record is that of the entry just called. */
bool fake_kept_entry_recorded(struct fake_kept *b);
/* The records of the return just called: `words` in this order, and nothing else. */
bool fake_kept_items_recorded(struct fake_kept *b, uint64_t kept, const uint64_t *words,
			      uint64_t n);
/* How many slots are not free. */
unsigned int fake_kept_count(const struct fake_kept *b);
/* Random words, none of them 0. */
void fake_kept_fill(uint64_t *words, unsigned int n);

#endif
