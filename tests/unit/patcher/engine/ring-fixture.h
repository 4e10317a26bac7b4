/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_PATCHER_ENGINE_RING_FIXTURE_H
#define SONDE_TESTS_UNIT_PATCHER_ENGINE_RING_FIXTURE_H

#include <stdlib.h>
#include "tests/lib/fake-exitless.h"
#include "tests/lib/tap.h"

/* A ring engine that drains what tests write, and their place to write: kfree(). */
enum { MANY = 2000, BIAS = RECORD_KEY_BIAS, PATIENCE_MS = 20000 };

static struct fake_exitless f;
static uint32_t kfree;

static inline void install(void)
{
	if (fake_exitless_install(&f, NULL))
		abort();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
}

static inline void leave(void)
{
	ok(fake_exitless_leave(&f, PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "the engine leaves nothing in the guest");
}

static inline void end(void)
{
	fake_exitless_deinit(&f);
}

static inline uint64_t count_of(unsigned int vcpu, enum counter_id id)
{
	return fake_exitless_count(&f, vcpu, id);
}

/* The thread tells its counts when a pass ends, which is after what it emits in the pass. */
static inline void is_count(unsigned int vcpu, enum counter_id id, uint64_t expected,
			    const char *label)
{
	for (int i = 0; i < PATIENCE_MS && count_of(vcpu, id) != expected; i++)
		clock_wait_ms(1);
	is_u64(count_of(vcpu, id), expected, label);
}

#endif
