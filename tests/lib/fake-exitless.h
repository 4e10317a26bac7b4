/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_EXITLESS_H
#define SONDE_TESTS_LIB_FAKE_EXITLESS_H

#include <pthread.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/engine/trap-reader.h"
#include "patcher/tracers/tracer.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"

/*
 * The ring engine on a fake guest (fake-session.h) with the kmem tracer's probes, without a session
 * around it. Trampolines are not executed: fake_exitless_record() does what one would, from any
 * thread that plays a vCPU. The hits that the engine emits are kept in a log.
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
	struct call_table *calls;
	struct live_counters counters;
	struct tracer_set tracers;
	struct decoder *decoder;
	struct trap_table traps;
	struct patch_plan plan;
	struct oneshots oneshots;
	struct trap_reader reader;
	struct first_error failure;
	struct engine_config config;
	struct engine *engine;
	struct ring_engine *x;              /* the same */
	uint64_t trap_gva[FAKE_MAX_PLACES]; /* of the slow path, by place; 0: none */
	uint8_t *ram;                       /* as it was before the engine was installed */

	pthread_mutex_t gate; /* while a test holds it, the engine's thread waits at the next hit */
	struct fake_hit *hits;
	_Atomic size_t nr_hits;
};

/* All but the engine; `full` is what it will do. Aborts if the machine fails it. */
void fake_exitless_init(struct fake_exitless *f, enum trampoline_full full);
void fake_exitless_deinit(struct fake_exitless *f);

/* Create the engine, if there is none yet. */
void fake_exitless_create(struct fake_exitless *f);
/* Create and install it, with the guest stopped; returns what install() does. */
int fake_exitless_install(struct fake_exitless *f, struct error *err);
/* Finish it, once the guest has left, waiting for `ms` at most. False: not yet, or with an error.
 */
bool fake_exitless_finish(struct fake_exitless *f, unsigned int ms);
/* Withdraw it, and finish it likewise. */
bool fake_exitless_leave(struct fake_exitless *f, unsigned int ms);

/* Whether guest RAM is what it was, and there is no scratch memory. */
bool fake_exitless_is_gone(const struct fake_exitless *f);
/* Whether all of the plan's patches are traps. */
bool fake_exitless_plans_traps(const struct fake_exitless *f);

/* The place of a function's entry, by its image offset. */
uint32_t fake_exitless_place(const struct fake_exitless *f, uint64_t function);

struct ring_writer fake_exitless_writer(const struct fake_exitless *f, unsigned int vcpu);

/* A trampoline runs: a record whose fields are `value`. False: the record was given up. */
bool fake_exitless_record(struct fake_exitless *f, unsigned int vcpu, uint32_t place,
			  uint64_t value);

/* What the engine has counted of a vCPU. */
uint64_t fake_exitless_count(const struct fake_exitless *f, unsigned int vcpu, enum counter_id id);

/* Wait for that many hits, 20 seconds at most. */
bool fake_exitless_wait(const struct fake_exitless *f, size_t hits);

/* Wait until the thread sleeps and no ring has room, likewise: then the next record rings. */
bool fake_exitless_wait_idle(const struct fake_exitless *f);

#endif
