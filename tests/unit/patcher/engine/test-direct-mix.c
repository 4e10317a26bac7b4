/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records of several slots in turn: each sink gets the events of its slots, in their order, with
 * all of their fields, whichever of them go together. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "patcher/engine/ring-internal.h"
#include "tests/lib/tap.h"

enum { SINKS = 3, SLOTS = 7, ROUNDS = 3000, RECORD_BYTES = 512, SEED = 20081128, FIRST_ID = 3 };

/* What a sink has got, by number of the record. */
struct event_sink {
	size_t n;
	uint32_t slots; /* its own */
};

static struct ring_engine *x;
static struct event_sink sinks[SINKS];
static struct event_sink *vcpu_sinks[SINKS]; /* each as the sinks of vCPU 0 */
static _Alignas(8) uint8_t memory[DIRECT_BATCH][RECORD_BYTES];
static struct direct_batch batch;
static bool good;
static unsigned int nr_mixes, nr_runs;

static unsigned int draw(unsigned int n)
{
	return (unsigned int)rand() % n;
}

/* --- what the sinks are given ----------------------------------------------------------------- */

static bool has(const void *event, size_t at, const uint8_t *record, size_t from, size_t bytes)
{
	return !memcmp((const uint8_t *)event + at, record + from, bytes);
}

#define HAS(field, type, member)                                               \
	(!(slot->want.fields & (field)) ||                                     \
	 has(event, offsetof(struct type, member), record, l->type##_##member, \
	     sizeof(((struct type *)0)->member)))

/* Where the record has them. */
struct places {
	uint16_t function_event_pid, function_event_tgid, function_event_comm,
		function_event_cgroup, graph_event_result, syscall_event_args;
};

static bool has_words(const struct direct_slot *slot, const uint8_t *record, const void *event)
{
	const struct direct_layout *layout = &slot->layout;
	const struct places places = {layout->pid,    layout->tgid,   layout->comm,
				      layout->cgroup, layout->result, layout->syscall};
	const struct places *l = &places;

	return HAS(DIRECT_PID, function_event, pid) && HAS(DIRECT_TGID, function_event, tgid) &&
	       HAS(DIRECT_COMM, function_event, comm) &&
	       HAS(DIRECT_CGROUP, function_event, cgroup) &&
	       HAS(DIRECT_RESULT, graph_event, result) && HAS(DIRECT_SYSCALL, syscall_event, args);
}

static bool has_addresses(const struct direct_slot *slot, size_t i, const uint8_t *record,
			  const void *event)
{
	const struct graph_event *graph = event;
	int32_t parent;
	uint64_t frame;

	memcpy(&parent, record + slot->layout.parent, sizeof(parent));
	memcpy(&frame, record + slot->layout.frame, sizeof(frame));
	return (slot->want.point == POINT_RETURN || graph->call.ip == batch.ip[i]) &&
	       (!(slot->want.fields & DIRECT_PARENT) ||
		graph->call.parent_ip == (uint64_t)(int64_t)parent) &&
	       (!(slot->want.fields & DIRECT_FRAME) ||
		graph->frame == frame + (uint64_t)DIRECT_FRAME_BIAS);
}

/* The sink's next record. */
static size_t next_record(struct event_sink *sink)
{
	while (sink->n < batch.n && !(sink->slots >> batch.ids[sink->n] & 1))
		sink->n++;
	return sink->n++;
}

static void see(struct event_sink *sink, unsigned int class, int64_t ns, const void *event)
{
	const size_t i = next_record(sink);
	const struct direct_slot *slot;

	good &= i < batch.n;
	if (i >= batch.n)
		return;
	slot = &x->direct.slots[batch.ids[i]];
	good &= class == slot->want.class && ns == batch.ns[i] &&
		has_words(slot, batch.at[i], event) && has_addresses(slot, i, batch.at[i], event);
}

static void put_run(struct event_batch *events, struct event_sink *sink, unsigned int class,
		    const struct event_run *run)
{
	(void)events;
	nr_runs++;
	for (size_t i = 0; i < run->n; i++)
		see(sink, class, run->ns[i], run->bytes + i * run->stride);
}

static void put_mix(struct event_batch *events, struct event_sink *sink,
		    const struct event_mix *mix)
{
	(void)events;
	nr_mixes++;
	for (size_t i = 0; i < mix->n; i++)
		see(sink, mix->classes[i], event_mix_ns(mix, i), mix->bytes + i * mix->stride);
}

static const struct event_output output = {.put_run = put_run, .put_mix = put_mix};
static const struct event_output runs_only = {.put_run = put_run};

/* --- slots and records ------------------------------------------------------------------------ */

static uint32_t draw_fields(void)
{
	static const uint32_t fields[] = {DIRECT_PARENT, DIRECT_PID,    DIRECT_TGID,
					  DIRECT_COMM,   DIRECT_CGROUP, DIRECT_FRAME,
					  DIRECT_RESULT, DIRECT_SYSCALL};
	uint32_t sum = 0;

	/* arguments of system calls are in events with a frame */
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (draw(2))
			sum |= fields[i];
	return sum & DIRECT_SYSCALL ? sum | DIRECT_FRAME : sum;
}

static void make_slot(uint32_t id, unsigned int sink, const struct event_output *to)
{
	struct direct_slot *slot = &x->direct.slots[id];

	*slot = (struct direct_slot){.state = DIRECT_LIVE,
				     .want = {.point = draw(2) ? POINT_ENTRY : POINT_RETURN,
					      .class = draw(6),
					      .fields = draw_fields(),
					      .output = to,
					      .sinks = &vcpu_sinks[sink]}};
	slot->layout = direct_layout(slot->want.fields);
	direct_plan_make(&slot->plan, &slot->want, &slot->layout);
	x->direct.shapes[id] = (struct ring_shape){.size = slot->layout.size};
	sinks[sink].slots |= UINT32_C(1) << id;
}

/* *mask: the slots that have some. */
static void make_records(unsigned int nr_slots, uint32_t *mask)
{
	*mask = 0;
	batch.n = 2 + draw(DIRECT_BATCH - 1);
	for (size_t i = 0; i < batch.n; i++) {
		batch.ids[i] = (uint8_t)(FIRST_ID + draw(nr_slots));
		batch.at[i] = memory[i];
		batch.ns[i] = (int64_t)(1000 + 10 * i);
		batch.ip[i] = 0xffffffff81000000 + draw(1 << 20);
		for (size_t k = 0; k < RECORD_BYTES; k++)
			memory[i][k] = (uint8_t)rand();
		*mask |= UINT32_C(1) << batch.ids[i];
	}
}

static bool are_complete(void)
{
	for (unsigned int i = 0; i < SINKS; i++)
		if (next_record(&sinks[i]) < batch.n)
			return false;
	return true;
}

static bool are_counted(const struct direct_drained *d)
{
	uint64_t counted = 0;

	for (uint32_t left = d->begun; left; left &= left - 1)
		counted += d->records[__builtin_ctz(left)];
	return counted == batch.n;
}

static void begin(void)
{
	for (unsigned int i = 0; i < SINKS; i++) {
		sinks[i] = (struct event_sink){0};
		vcpu_sinks[i] = &sinks[i];
	}
	nr_mixes = nr_runs = 0;
}

/* Records of slots that were made. */
static void put(unsigned int nr_slots)
{
	struct direct_drained d = {.x = x};
	struct direct_run run = {.id = (uint32_t)DIRECT_MIXED,
				 .first = memory[0],
				 .ns = batch.ns,
				 .ip = batch.ip,
				 .ids = batch.ids,
				 .at = batch.at};

	make_records(nr_slots, &run.mask);
	run.n = batch.n;
	direct_put_mixed(&d, &run);
	good &= are_complete() && are_counted(&d);
}

static void test_any(void)
{
	unsigned int together = 0, alone = 0;

	good = true;
	for (unsigned int round = 0; good && round < ROUNDS; round++) {
		const unsigned int n = 1 + draw(SLOTS), other = draw(2 * SINKS);

		begin();
		for (unsigned int i = 0; i < n; i++) {
			const unsigned int sink = draw(SINKS);

			make_slot(FIRST_ID + i, sink, sink == other ? &runs_only : &output);
		}
		put(n);
		together += nr_mixes;
		alone += nr_runs;
	}
	ok(good, "each sink gets its events, in order and with their fields");
	ok(together && alone, "%u times at once, %u times one by one", together, alone);
}

static void test_together(void)
{
	good = true;
	begin();
	for (unsigned int i = 0; i < 4; i++)
		make_slot(FIRST_ID + i, 1, &output);
	put(4);
	ok(good && nr_mixes == 1 && !nr_runs, "the events of an instance go at once");
	begin();
	for (unsigned int i = 0; i < 4; i++)
		make_slot(FIRST_ID + i, i % 2, &output);
	put(4);
	ok(good && nr_mixes == 2 && !nr_runs, "so do those of each of two");
	begin();
	for (unsigned int i = 0; i < 5; i++)
		make_slot(FIRST_ID + i, 1, &output);
	put(5);
	ok(good && !nr_mixes && nr_runs == batch.n, "those of more slots go one by one");
	begin();
	make_slot(FIRST_ID, 0, &runs_only);
	make_slot(FIRST_ID + 1, 0, &runs_only);
	put(2);
	ok(good && !nr_mixes && nr_runs == batch.n, "as do those of a histogram's call chains");
}

int main(void)
{
	srand(SEED);
	x = calloc(1, sizeof(*x));
	if (!x)
		return 1;
	test_together();
	test_any();
	free(x);
	return tap_done();
}
