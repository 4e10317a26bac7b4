/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vCPUs' threads do: wait for room in a ring, and write the hits of traps. */
#include <errno.h>
#include <string.h>
#include "patcher/coexist/watchdogs.h"
#include "patcher/engine/host-record.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/engine/trap-reader.h"

enum { STOP_POLL_MS = 5 };

enum wait_end {
	WAIT_ROOM,
	WAIT_STOPPED, /* somebody stops the guest: the vCPU is to leave its trap, and to try again
		       */
	WAIT_NO_ROOM,
};

/* Under the engine's lock. `leaves`: a stop of the guest ends the wait. */
static bool is_to_leave(struct ring_engine *x, bool leaves)
{
	return atomic_load(&x->stopping) || (leaves && x->guest->control->is_stopped(x->guest));
}

static enum wait_end end_of_wait(struct ring_engine *x, const struct ring *ring, bool leaves)
{
	if (ring_room(ring) == RING_ROOM)
		return WAIT_ROOM;
	return is_to_leave(x, leaves) ? WAIT_STOPPED : WAIT_NO_ROOM;
}

/* Under the engine's lock: until a pass is over, at most until all give up. */
static void await_pass(struct ring_engine *x, uint64_t now, bool leaves)
{
	const uint64_t poll = now + (uint64_t)STOP_POLL_MS * 1000000;
	const bool polls = leaves && poll < x->give_up_ns;
	const struct timespec until = ring_engine_deadline(polls ? poll : x->give_up_ns, 0);

	x->rung = true;
	pthread_cond_signal(&x->wake);
	pthread_cond_timedwait(&x->passed, &x->lock, &until);
}

/*
 * A host that cannot empty the rings must not hang the guest: there is one deadline for all vCPUs.
 * Behind it their records are lost, without any wait, until the thread makes room again.
 *
 * `wakes`: the thread sleeps, and is woken. That is no wait for room in a full ring.
 */
static enum wait_end wait_for_room(struct ring_engine *x, struct ring_engine_vcpu *vcpu,
				   const struct ring *ring, bool wakes, bool leaves)
{
	uint64_t start = clock_monotonic_ns(), now = start;
	enum wait_end end;
	bool waited = false;

	pthread_mutex_lock(&x->lock);
	x->waiting++;
	while (ring_room(ring) == RING_FULL && x->running && !is_to_leave(x, leaves)) {
		if (!x->give_up_ns)
			x->give_up_ns = now + watchdogs_allow_ns(x->kernel, watchdogs_patience_ns);
		if (now >= x->give_up_ns)
			break;
		atomic_fetch_add(&vcpu->waits, !waited && !wakes);
		waited = true;
		await_pass(x, now, leaves);
		now = clock_monotonic_ns();
	}
	end = end_of_wait(x, ring, leaves);
	x->waiting--;
	pthread_mutex_unlock(&x->lock);
	atomic_fetch_add(&vcpu->wait_ns, wakes ? 0 : now - start);
	return end;
}

/* Where to go on from a slow path, and whose ring is full. */
static bool find_slow(struct ring_engine *x, const struct guest_trap *trap,
		      struct direct_slow *slow, struct ring **ring)
{
	const struct trampoline_place *place = trampoline_set_at(&x->set, trap->regs.rip);
	const struct direct_slow *direct = place ? NULL : direct_slow_at(x, trap->regs.rip);

	if ((!place && !direct) || trap->vcpu >= x->nr_vcpus)
		return false;
	*slow = direct ? *direct : (struct direct_slow){place->retry, place->skip, -1};
	*ring = slow->group < 0
			? &x->rings[trap->vcpu]
			: &x->direct.rings[(unsigned int)slow->group * x->nr_vcpus + trap->vcpu];
	return true;
}

/* The slow path of a trampoline. A record that is skipped is counted here. */
static enum engine_trap on_slow_path(struct ring_engine *x, struct guest_trap *trap)
{
	struct ring_engine_vcpu *vcpu;
	struct direct_slow slow;
	struct ring *ring;
	bool wakes;

	if (!find_slow(x, trap, &slow, &ring))
		return ENGINE_TRAP_FOREIGN;
	vcpu = &x->vcpus[trap->vcpu];
	wakes = atomic_load(&x->asleep);
	atomic_fetch_add(&vcpu->doorbells, wakes);
	if (wait_for_room(x, vcpu, ring, wakes, true) != WAIT_NO_ROOM) {
		trap->regs.rip = slow.retry;
		return ENGINE_TRAP_OTHER;
	}
	atomic_fetch_add(&vcpu->lost, 1);
	atomic_fetch_add(&x->skipped[slow.group + 1], 1);
	trap->regs.rip = slow.skip;
	return ENGINE_TRAP_OTHER;
}

/* The table of slow paths may change while the vCPU waits there. */
static enum engine_trap on_bell(struct ring_engine *x, struct guest_trap *trap)
{
	const struct direct_slow *slow = direct_slow_at(x, trap->regs.rip);
	uint64_t next;

	if (!slow || slow->group != DIRECT_BELL)
		return ENGINE_TRAP_FOREIGN;
	next = slow->retry;
	x->config.bell(x->config.arg);
	trap->regs.rip = next;
	return ENGINE_TRAP_OTHER;
}

enum engine_trap ring_engine_on_trap(struct engine *engine, struct guest_trap *trap)
{
	struct ring_engine *x = ring_engine_of(engine);
	enum engine_trap taken = trap_reader_take(x->config.reader, engine, trap);

	if (taken == ENGINE_TRAP_FOREIGN)
		taken = on_bell(x, trap);
	return taken == ENGINE_TRAP_FOREIGN ? on_slow_path(x, trap) : taken;
}

/* The writer's half of ring/layout.h. This thread is the only writer of the vCPU's trap ring. */
static struct ring_record *reserve(struct ring_engine *x, struct ring_engine_vcpu *vcpu,
				   struct ring *ring, uint32_t size)
{
	struct ring_header *header = ring->header;
	uint64_t at = header->reserve;

	if (ring_room(ring) != RING_ROOM &&
	    (x->full == TRAMPOLINE_DROP ||
	     wait_for_room(x, vcpu, ring, atomic_load(&x->asleep), false) != WAIT_ROOM))
		return NULL;
	__atomic_store_n(&header->reserve, at + size, __ATOMIC_SEQ_CST);
	return (struct ring_record *)(void *)(ring->data + (at & (ring->config.data_bytes - 1)));
}

void ring_engine_submit(struct engine *engine, const struct probe_ref *ref, enum probe_point point,
			const struct probe_hit *hit)
{
	struct ring_engine *x = ring_engine_of(engine);
	struct ring_engine_vcpu *vcpu = &x->vcpus[hit->vcpu];
	struct ring *ring = trap_ring(x, hit->vcpu);
	struct ring_record *record = reserve(x, vcpu, ring, trap_record_size(hit));

	if (!record) {
		atomic_fetch_add(&vcpu->lost, hit->nr_items ? hit->nr_items : 1);
		atomic_fetch_add(&x->skipped[0], hit->nr_items ? hit->nr_items : 1);
		return;
	}
	record->tsc = x->guest->clock->tsc(x->guest);
	trap_record_fill(record, ref ? ref->id : TRAP_RECORD_NO_REF, hit);
	__atomic_store_n(&record->commit, ring_commit(point), __ATOMIC_SEQ_CST);
	if (atomic_load(&x->asleep))
		ring_engine_wake(x);
}

/* vCPUs claim and free slots meanwhile: one with this key, if its call is on no vCPU that is in a
 * trap. */
bool ring_engine_take_saved_array(struct engine *engine, uint64_t key, uint64_t *words,
				  uint64_t *skip)
{
	struct ring_engine *x = ring_engine_of(engine);
	uint64_t expected;

	for (unsigned int i = 0; i < RING_SAVED_SLOTS; i++) {
		struct ring_saved_array *slot = &x->saved_arrays[i];

		if (__atomic_load_n(&slot->key, __ATOMIC_ACQUIRE) != key - RECORD_KEY_BIAS)
			continue;
		*words = __atomic_load_n(&slot->words, __ATOMIC_RELAXED);
		*skip = __atomic_load_n(&slot->skip, __ATOMIC_RELAXED);
		expected = key - RECORD_KEY_BIAS;
		return __atomic_compare_exchange_n(&slot->key, &expected, 0, false,
						   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
	return false;
}
