/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vCPUs' threads do in exitless mode: wait for room in a ring, and write what traps saw. */
#include <errno.h>
#include <string.h>
#include "patcher/engine/ring-engine-internal.h"
#include "patcher/engine/host-record.h"

/* A host that cannot empty the rings must not hang the guest. */
static const uint64_t wait_max_ns = 5000000000;

static enum ring_room wait_for_room(struct ring_engine *x, struct ring_engine_vcpu *vcpu,
				    const struct ring *ring)
{
	uint64_t start = clock_monotonic_ns();
	struct timespec deadline = ring_engine_deadline(start, wait_max_ns);
	enum ring_room room;
	int ret = 0;

	pthread_mutex_lock(&x->lock);
	x->waiting++;
	for (;;) {
		room = ring_room(ring);
		if (room != RING_FULL || ret == ETIMEDOUT || !x->running ||
		    atomic_load(&x->stopping))
			break;
		x->rung = true;
		pthread_cond_signal(&x->wake);
		ret = pthread_cond_timedwait(&x->passed, &x->lock, &deadline);
	}
	x->waiting--;
	pthread_mutex_unlock(&x->lock);
	atomic_fetch_add(&vcpu->blocked_ns, clock_monotonic_ns() - start);
	return room;
}

/* A record that is not written is counted by whoever would have written it. */
bool ring_engine_on_trap(struct ring_engine *x, struct guest_trap *trap)
{
	const struct trampoline_place *place = trampoline_set_at(&x->set, trap->regs.rip);
	struct ring_engine_vcpu *vcpu;
	bool idle;

	if (!place || trap->vcpu >= x->nr_vcpus)
		return false;
	vcpu = &x->vcpus[trap->vcpu];
	idle = atomic_load(&x->asleep);
	atomic_fetch_add(idle ? &x->doorbells : &vcpu->blocked, 1);
	if (wait_for_room(x, vcpu, &x->rings[trap->vcpu]) == RING_ROOM ||
	    atomic_load(&x->stopping)) {
		trap->regs.rip = place->retry;
		return true;
	}
	atomic_fetch_add(&vcpu->lost, 1);
	trap->regs.rip = place->skip;
	return true;
}

/* The writer's half of ring-layout.h; this thread is the only writer of the vCPU's trap ring. */
static struct ring_record *reserve(struct ring_engine *x, struct ring_engine_vcpu *vcpu,
				   struct ring *ring, uint32_t size)
{
	struct ring_header *header = ring->header;
	uint64_t at = header->reserve;

	if (ring_room(ring) != RING_ROOM &&
	    (x->config.full == TRAMPOLINE_DROP || wait_for_room(x, vcpu, ring) != RING_ROOM))
		return NULL;
	__atomic_store_n(&header->reserve, at + size, __ATOMIC_SEQ_CST);
	return (struct ring_record *)(void *)(ring->data + (at & (ring->config.data_bytes - 1)));
}

bool ring_engine_put(struct ring_engine *x, const struct probe_ref *ref, enum probe_point point,
		     const struct probe_hit *hit)
{
	struct ring_engine_vcpu *vcpu = &x->vcpus[hit->vcpu];
	struct ring *ring = trap_ring(x, hit->vcpu);
	struct ring_record *record = reserve(x, vcpu, ring, trap_record_size(hit));

	if (!record) {
		atomic_fetch_add(&vcpu->lost, hit->nr_items ? hit->nr_items : 1);
		return false;
	}
	record->tsc = x->guest->clock->tsc(x->guest);
	trap_record_fill(record, ref ? ref->id : TRAP_RECORD_NO_REF, hit);
	__atomic_store_n(&record->commit, ring_commit(point), __ATOMIC_SEQ_CST);
	if (atomic_load(&x->asleep))
		ring_engine_ring(x);
	return true;
}

/* Other vCPUs claim and free slots meanwhile, but not one with this key: the call is on this one.
 */
bool ring_engine_take_saved_array(struct ring_engine *x, uint64_t key, uint64_t *words,
				  uint64_t *skip)
{
	for (unsigned int i = 0; i < RING_SAVED_SLOTS; i++) {
		struct ring_saved_array *slot = &x->saved_arrays[i];

		if (__atomic_load_n(&slot->key, __ATOMIC_ACQUIRE) != key - RECORD_KEY_BIAS)
			continue;
		*words = __atomic_load_n(&slot->words, __ATOMIC_RELAXED);
		*skip = __atomic_load_n(&slot->skip, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->key, 0, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}
