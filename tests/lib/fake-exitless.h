/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_EXITLESS_H
#define SONDE_TESTS_LIB_FAKE_EXITLESS_H

#include <pthread.h>
#include "patcher/engine/ring-engine-internal.h"
#include "patcher/tracers/tracer.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"

/*
 * Exitless mode of the kmem tracer on a fake guest (fake-session.h), without a session around it.
 * Trampolines are not executed: fake_exitless_record() does what one would, from any thread that
 * plays a vCPU. What comes out at the other end is kept in a log.
 */
enum { FAKE_MAX_HITS = 1 << 16, FAKE_MAX_PLACES = 64, FAKE_RING_BYTES = 4096 };

struct fake_hit {
	const struct probe_ref *ref;
	enum probe_point point;
	unsigned int vcpu;
	uint64_t time_ns, key;
};

struct fake_exitless {
	struct fake_session fs;
	struct call_table *stash;
	struct live_counters counters;
	struct tracer_set tracers;
	struct decoder *decoder;
	struct trap_table traps;
	struct patch_plan plan;
	struct ring_engine_config config;
	struct ring_engine *x;
	uint64_t trap_gva[FAKE_MAX_PLACES]; /* of the slow path, by place; 0: none */
	uint8_t *ram;                       /* as it was before ring_engine_create() */

	pthread_mutex_t gate; /* who has it holds up the draining thread at the next hit */
	struct fake_hit *hits;
	_Atomic size_t nr_hits;
};

/* Everything but ring_engine_create(). Aborts if the machine fails it. */
void fake_exitless_init(struct fake_exitless *f, enum trampoline_full full);
void fake_exitless_deinit(struct fake_exitless *f);

/* ring_engine_create(); as it returns. */
int fake_exitless_create(struct fake_exitless *f, struct error *err);

/* Whether guest RAM is what it was, and there is no scratch memory. */
bool fake_exitless_is_gone(const struct fake_exitless *f);
/* Whether the plan's patches are traps. */
bool fake_exitless_plans_traps(const struct fake_exitless *f);

/* The place of a function's entry, by its image offset. */
uint32_t fake_exitless_place(const struct fake_exitless *f, uint64_t function);

struct ring_writer fake_exitless_writer(const struct fake_exitless *f, unsigned int vcpu);

/* A trampoline runs: a record whose fields are `value`. False: it was given up. */
bool fake_exitless_record(struct fake_exitless *f, unsigned int vcpu, uint32_t place,
			  uint64_t value);

/* Wait until that many hits came, 20 seconds at most. */
bool fake_exitless_wait(const struct fake_exitless *f, size_t hits);

/* Wait until the thread sleeps and no ring has room, which is when it would be rung for one more
 * record, likewise. */
bool fake_exitless_wait_idle(const struct fake_exitless *f);

#endif
