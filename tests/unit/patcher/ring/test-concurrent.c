/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A writer on a thread of its own, in both ways of meeting a full ring. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "tests/lib/tap.h"
#include "tests/unit/patcher/ring/ring-fixture.h"

enum { CONCURRENT = 300000 };

struct producer {
	struct fixture f;
	bool block;
	bool done;
};

/* Nests now and then, as an NMI does: reserved outside, complete inside first. */
static void *produce(void *arg)
{
	struct producer *p = arg;
	struct ring_writer *writer = &p->f.writer;
	unsigned int seed = 7;

	for (uint64_t i = 1; i <= CONCURRENT; i++) {
		struct ring_sample sample = rand_r(&seed) % 8 ? small : big;
		struct ring_record *outer = ring_writer_reserve(writer, sample.size);

		while (!outer && p->block) {
			sched_yield();
			if (ring_room(&p->f.ring) == RING_ROOM)
				outer = ring_writer_reserve(writer, sample.size);
		}
		if (!outer) {
			__atomic_fetch_add(&writer->header->lost, 1, __ATOMIC_RELAXED);
			if (rand_r(&seed) % 64 == 0)
				sched_yield();
			continue;
		}
		outer->tsc = i;
		if (rand_r(&seed) % 4 == 0 && i < CONCURRENT &&
		    ring_writer_put(writer, small, i + 1, i + 1)) {
			ring_writer_fill(outer, sample.size, i++);
		} else {
			ring_writer_fill(outer, sample.size, i);
		}
		ring_writer_commit(outer, sample);
	}
	__atomic_store_n(&p->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Returns how many records did not come in their order or were not whole. */
static uint64_t drain(struct fixture *f, uint64_t *last)
{
	uint64_t wrong = 0;

	ring_consume(&f->ring, &f->clock);
	while (ring_first(&f->ring)) {
		uint64_t value = pop(f);

		wrong += value <= *last || value == UINT64_MAX;
		*last = value;
	}
	return wrong;
}

static void test_concurrent(bool block)
{
	struct producer p = {.block = block};
	uint64_t last = 0, wrong = 0;
	bool done = false;
	pthread_t thread;

	setup(&p.f);
	p.f.clock.stall_ns = UINT64_MAX;
	if (pthread_create(&thread, NULL, produce, &p))
		abort();
	while (!done) {
		done = __atomic_load_n(&p.done, __ATOMIC_ACQUIRE);
		wrong += drain(&p.f, &last);
		sched_yield();
	}
	pthread_join(thread, NULL);
	is_u64(wrong, 0,
	       block ? "blocking writer: records are in order and whole"
		     : "dropping writer: records are in order and whole");
	is_u64(p.f.ring.counts.records + p.f.ring.counts.lost, CONCURRENT,
	       "every record was taken or counted as lost");
	ok(block ? !p.f.ring.counts.lost : p.f.ring.counts.records, "%lu records taken, %lu lost",
	   p.f.ring.counts.records, p.f.ring.counts.lost);
	is_u64(p.f.ring.counts.malformed + p.f.ring.counts.stalled + p.f.ring.counts.clamped, 0,
	       "no record is taken for damage");
	teardown(&p.f);
}

int main(void)
{
	test_concurrent(true);
	test_concurrent(false);
	return tap_done();
}
