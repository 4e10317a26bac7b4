/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the direct lane's rings to the streams. */
#include <string.h>
#include "formats/event/graph.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/ring/direct.h"
#include "patcher/text/site.h"

enum { RUN_MAX = 64 };

/* With what a dynamic probe fetches: behind the struct function_event. */
struct run_event {
	union {
		struct syscall_event event;
		uint8_t bytes[EVENT_MAX_SIZE];
	};
};

/* Records of one ring, in one pass. */
struct batch {
	struct ring_engine *x;
	unsigned int vcpu;
	struct tsc_quick_clock clock;
	uint32_t begun; /* slots that have some */
	uint64_t records[DIRECT_MAX];
	struct event_batch events;
	/* The last ones, not put yet: of one slot. */
	uint32_t slot;
	size_t n;
	int64_t ns[RUN_MAX];
	struct run_event run[RUN_MAX];
};

static void put_run(struct batch *b)
{
	const struct direct_want *want = &b->x->direct.slots[b->slot].want;
	const struct event_run run = {b->n, b->ns, (const uint8_t *)b->run, sizeof(b->run[0])};

	if (!b->n)
		return;
	if (!(b->begun & UINT32_C(1) << b->slot))
		b->records[b->slot] = 0;
	b->begun |= UINT32_C(1) << b->slot;
	b->records[b->slot] += b->n;
	want->output->put_run(&b->events, want->sinks[b->vcpu], want->class, &run);
	b->n = 0;
}

/* Returns how many records there were. */
static uint64_t end(struct batch *b)
{
	uint64_t sum = 0;

	put_run(b);
	for (uint32_t left = b->begun; left; left &= left - 1) {
		uint32_t id = (uint32_t)__builtin_ctz(left);
		const struct direct_want *want = &b->x->direct.slots[id].want;

		want->output->end(&b->events);
		atomic_fetch_add(want->records, b->records[id]);
		sum += b->records[id];
	}
	return sum;
}

static inline uint64_t text_address(uint32_t low)
{
	return (uint64_t)(int64_t)(int32_t)low;
}

/* What lies behind the header. */
static void read_fields(const struct direct_record *record, const struct direct_slot *slot,
			struct syscall_event *out)
{
	const uint8_t *bytes = (const uint8_t *)record;
	struct graph_event *event = &out->call;
	struct function_event *call = &event->call;
	uint32_t parent;

	if (slot->want.fields & DIRECT_PARENT) {
		memcpy(&parent, bytes + slot->layout.parent, sizeof(parent));
		call->parent_ip = text_address(parent);
	}
	if (slot->want.fields & DIRECT_PID)
		memcpy(&call->pid, bytes + slot->layout.pid, sizeof(call->pid));
	if (slot->want.fields & DIRECT_COMM)
		memcpy(call->comm, bytes + slot->layout.comm, sizeof(call->comm));
	if (slot->want.fields & DIRECT_FRAME) {
		memcpy(&event->frame, bytes + slot->layout.frame, sizeof(event->frame));
		event->frame += DIRECT_FRAME_BIAS;
	}
	if (slot->want.fields & DIRECT_RESULT)
		memcpy(&event->result, bytes + slot->layout.result, sizeof(event->result));
	if (slot->want.fields & DIRECT_SYSCALL)
		memcpy(out->args, bytes + slot->layout.syscall, sizeof(out->args));
	if (slot->want.fetch)
		memcpy(call + 1, bytes + slot->layout.values, slot->want.fetch->bytes);
}

static bool is_filtered(const struct gate_rest *filter, unsigned int vcpu, const void *bytes)
{
	const struct event event = {.vcpu = vcpu, .bytes = bytes};

	return !event_predicate_matches_rest(filter->predicate, &filter->known, &event);
}

static void put(void *arg, uint32_t id, uint64_t tsc, const struct direct_record *record)
{
	struct batch *b = arg;
	const struct direct_slot *slot = &b->x->direct.slots[id];
	struct syscall_event *event;

	if (id != b->slot || b->n == RUN_MAX)
		put_run(b);
	b->slot = id;
	event = &b->run[b->n].event;
	event->call.call.ip = text_address(record->ip) - SITE_SIZE;
	if (slot->want.fields)
		read_fields(record, slot, event);
	if (slot->want.filter && is_filtered(slot->want.filter, b->vcpu, event))
		return;
	b->ns[b->n++] = (int64_t)tsc_quick_ns(&b->clock, tsc);
}

static uint64_t drain_ring(struct ring_engine *x, unsigned int i, const struct ring_clock *clock)
{
	struct batch batch;

	/* the rest is written before it is read */
	batch.x = x;
	batch.vcpu = i % x->nr_vcpus;
	batch.begun = batch.slot = 0;
	batch.n = 0;
	batch.events = (struct event_batch){0};
	batch.clock = x->vcpus[batch.vcpu].used_clock;
	ring_consume_direct(&x->direct.rings[i], clock, put, &batch);
	return end(&batch);
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
	const uint64_t late_ns = clock->stall_ns ? RING_LATE_POLLS * x->poll_ns : 0;
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

/* Each group has a deadline of its own. */
bool direct_show_life(struct ring_engine *x)
{
	bool life = true;

	pthread_mutex_lock(&x->direct.lock);
	for (unsigned int i = 0; i < x->direct.nr_rings; i += x->nr_vcpus)
		life &= ring_show_life(&x->direct.rings[i], x->nr_vcpus);
	pthread_mutex_unlock(&x->direct.lock);
	return life;
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
