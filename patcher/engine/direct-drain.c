/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the direct lane's rings to the streams. */
#include <string.h>
#include "patcher/engine/ring-internal.h"

static bool matches(const struct gate_rest *filter, unsigned int vcpu, const void *bytes)
{
	const struct event event = {.vcpu = vcpu, .bytes = bytes};

	return event_predicate_matches_rest(filter->predicate, &filter->known, &event);
}

/* Move those that the filter takes to the front; returns how many. */
static size_t choose(const struct direct_drained *d, const struct gate_rest *filter,
		     uint8_t *events, size_t stride, int64_t *ns, size_t n)
{
	size_t chosen = 0;

	for (size_t i = 0; i < n; i++) {
		if (!matches(filter, d->vcpu, events + i * stride))
			continue;
		memmove(events + chosen * stride, events + i * stride, stride);
		ns[chosen++] = ns[i];
	}
	return chosen;
}

void direct_count(struct direct_drained *d, uint32_t slot, size_t n)
{
	if (!(d->begun & UINT32_C(1) << slot))
		d->records[slot] = 0;
	d->begun |= UINT32_C(1) << slot;
	d->records[slot] += n;
}

static void read_events(struct direct_drained *d, const struct direct_slot *slot,
			const struct direct_run *records, uint8_t *events)
{
	direct_read(&slot->plan, records, events);
	if (slot->want.fields & DIRECT_STACK)
		direct_read_stacks(d->x, slot, records, events);
}

static void put_events(struct direct_drained *d, const struct direct_run *records)
{
	const struct direct_slot *slot = &d->x->direct.slots[records->id];
	const struct direct_want *want = &slot->want;
	_Alignas(uint64_t) uint8_t room[DIRECT_EVENTS_BYTES];
	uint8_t *events = slot->plan.is_bare ? (void *)records->ip : room;
	struct event_run run = {records->n, records->ns, events, slot->plan.stride};

	if (!slot->plan.is_bare)
		read_events(d, slot, records, events);
	if (want->filter)
		run.n = choose(d, want->filter, events, run.stride, records->ns, run.n);
	if (!run.n)
		return;
	direct_count(d, records->id, run.n);
	want->output->put_run(&d->events, want->sinks[d->vcpu], want->class, &run);
}

/* Events with long strings may be too many for one go. */
void direct_put_run(struct direct_drained *d, const struct direct_run *records)
{
	const size_t most = d->x->direct.slots[records->id].plan.most;
	struct direct_run part = *records;
	size_t left = records->n;

	for (; left > most; left -= most) {
		part.n = most;
		put_events(d, &part);
		part.first += most * part.size;
		part.ns += most;
		part.ip += most;
	}
	part.n = left;
	put_events(d, &part);
}

static void put_batch(void *arg, struct direct_batch *batch)
{
	for (size_t i = 0; i < batch->nr_runs; i++) {
		const struct direct_run *records = &batch->runs[i];

		if (records->id == (uint32_t)DIRECT_MIXED)
			direct_put_mixed(arg, records);
		else
			direct_put_run(arg, records);
	}
}

/* Returns how many records there were. */
static uint64_t end(struct direct_drained *d)
{
	uint64_t sum = 0;

	for (uint32_t left = d->begun; left; left &= left - 1) {
		uint32_t id = (uint32_t)__builtin_ctz(left);
		const struct direct_want *want = &d->x->direct.slots[id].want;

		want->output->end(&d->events);
		atomic_fetch_add(want->records, d->records[id]);
		sum += d->records[id];
	}
	return sum;
}

static uint64_t drain_ring(struct ring_engine *x, unsigned int i, const struct ring_clock *clock)
{
	struct direct_drained d;

	/* the rest is written before it is read */
	d.x = x;
	d.vcpu = i % x->nr_vcpus;
	d.begun = 0;
	d.events = (struct event_batch){.lock = &x->direct.lock};
	ring_consume_direct(&x->direct.rings[i], clock, &x->cpus[d.vcpu].clock, put_batch, &d);
	return end(&d);
}

static uint64_t group_losses(const struct ring_engine *x, unsigned int group)
{
	const struct ring *rings = &x->direct.rings[(size_t)group * x->nr_vcpus];
	uint64_t lost = atomic_load(&x->skipped[group + 1]);

	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		lost += ring_losses(&rings[i].counts);
	return lost;
}

/* Whether another slot of this group, before this one, has the same counter. */
static bool is_counted(const struct direct_lane *lane, unsigned int id)
{
	const struct direct_slot *slot = &lane->slots[id];

	for (unsigned int i = 0; i < id; i++)
		if (lane->slots[i].state > DIRECT_NEW && lane->slots[i].group == slot->group &&
		    lane->slots[i].want.lost == slot->want.lost)
			return true;
	return false;
}

/* What the groups have lost since the last time, for their slots: also for those that are about to
 * be closed. */
static void note_losses(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;

	for (unsigned int g = 0; g < lane->nr_rings / x->nr_vcpus; g++) {
		uint64_t now = group_losses(x, g), more = now - lane->losses[g];

		lane->losses[g] = now;
		for (unsigned int id = 0; more && id < DIRECT_MAX; id++) {
			const struct direct_slot *slot = &lane->slots[id];

			if (slot->state > DIRECT_NEW && slot->group == g && slot->want.lost &&
			    !is_counted(lane, id))
				atomic_fetch_add(slot->want.lost, more);
		}
	}
}

static bool is_emptied(const struct ring_engine *x, const struct direct_slot *slot)
{
	const struct direct_lane *lane = &x->direct;
	unsigned int first = slot->group * x->nr_vcpus;

	for (unsigned int i = first; i < first + x->nr_vcpus; i++)
		if (!ring_has_passed(&lane->rings[i], lane->marks[i]))
			return false;
	return true;
}

static void close_drained(struct ring_engine *x)
{
	struct direct_lane *lane = &x->direct;

	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state == DIRECT_DRAINING && is_emptied(x, &lane->slots[id]))
			direct_close_slot(x, id);
}

/* No margin: no other ring's records have to come first. */
uint64_t direct_pass(struct ring_engine *x, const struct ring_clock *clock)
{
	const uint64_t late_ns = clock->stall_ns ? ring_engine_late_ns(x) : 0;
	const struct ring_clock now = {clock->tsc, 0, clock->now_ns, clock->stall_ns, late_ns};
	uint64_t records = 0;

	pthread_mutex_lock(&x->direct.lock);
	for (unsigned int i = 0; i < x->direct.nr_rings; i++)
		records += drain_ring(x, i, &now);
	if (!x->ending)
		note_losses(x);
	close_drained(x);
	pthread_mutex_unlock(&x->direct.lock);
	return records;
}

void direct_show_stamps(struct ring_engine *x)
{
	uint64_t tsc;

	pthread_mutex_lock(&x->direct.lock);
	for (unsigned int i = 0; i < x->direct.nr_rings; i++)
		if (ring_newest_stamp(&x->direct.rings[i], &tsc))
			x->guest->clock->tsc_seen(x->guest, tsc);
	pthread_mutex_unlock(&x->direct.lock);
}

void direct_find_stuck(struct ring_engine *x, struct ring_stuck *sum)
{
	pthread_mutex_lock(&x->direct.lock);
	ring_find_stuck(x->direct.rings, x->direct.nr_rings, sum);
	pthread_mutex_unlock(&x->direct.lock);
}

bool direct_arm(struct ring_engine *x)
{
	bool armed = true;

	pthread_mutex_lock(&x->direct.lock);
	for (unsigned int i = 0; armed && i < x->direct.nr_rings; i++)
		armed = ring_arm(&x->direct.rings[i]);
	pthread_mutex_unlock(&x->direct.lock);
	return armed;
}

void direct_close_rings(struct ring_engine *x)
{
	for (unsigned int i = 0; i < x->direct.nr_rings; i++)
		ring_close(&x->direct.rings[i]);
}

bool direct_is_drained(const struct ring_engine *x)
{
	bool drained = true;

	for (unsigned int i = 0; i < x->direct.nr_rings; i++)
		drained &= ring_is_drained(&x->direct.rings[i]);
	return drained;
}

bool direct_is_waiting(struct ring_engine *x)
{
	bool waiting = false;

	/* another thread may be adding rings */
	pthread_mutex_lock(&x->direct.lock);
	for (unsigned int i = 0; i < x->direct.nr_rings; i++)
		waiting |= ring_is_waiting(&x->direct.rings[i]);
	pthread_mutex_unlock(&x->direct.lock);
	return waiting;
}
