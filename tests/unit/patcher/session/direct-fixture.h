/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_PATCHER_SESSION_DIRECT_FIXTURE_H
#define SONDE_TESTS_UNIT_PATCHER_SESSION_DIRECT_FIXTURE_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/event/function.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

/* A session with a direct lane on a fake guest, its streams, and records as shared code writes
 * them. */
enum {
	RING_BYTES = 64 << 10,
	PATIENCE_MS = 20000,
	CALL = 0xe8,
	JMP = 0xe9,
};

static struct fake_session fs;
static uint8_t *ram; /* as it was before a trace */

/* --- streams --------------------------------------------------------------------------------- */

struct event_sink {
	char name[TRACE_INSTANCE_NAME_MAX + 1];
	unsigned int vcpu;
	bool open, late;
	struct event_batch *batch; /* that it belongs to */
	struct event_sink *next;
	unsigned int class; /* of the last event */
	uint64_t events, ip, parent;
	int64_t ns;
};

static struct event_sink sinks[64][FAKE_VCPUS];
static int nr_streams;
static atomic_bool misused;

static inline int open_stream(struct trace_session *s, const struct trace_instance *instance,
			      struct event_sink **out, struct error *err)
{
	int number = nr_streams++ % 64;

	(void)s;
	(void)err;
	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		sinks[number][i] =
			(struct event_sink){.vcpu = i, .open = true, .late = instance->late};
		snprintf(sinks[number][i].name, sizeof(sinks[number][i].name), "%s",
			 instance->name);
		out[i] = &sinks[number][i];
	}
	return number;
}

static inline void close_stream(struct trace_session *s, int number)
{
	(void)s;
	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		misused |= !sinks[number][i].open || sinks[number][i].batch;
		sinks[number][i].open = false;
	}
}

static inline int put_event(struct event_batch *batch, struct event_sink *sink, unsigned int class,
			    int64_t ns, const void *bytes)
{
	const struct function_event *event = bytes;

	if (!sink->batch) {
		sink->batch = batch;
		sink->next = batch->first;
		batch->first = sink;
	}
	misused |= !sink->open || sink->batch != batch || ns < sink->ns;
	sink->ns = ns;
	sink->class = class;
	sink->ip = event->ip;
	sink->parent = event->parent_ip;
	sink->events++;
	return 0;
}

static inline void put_run(struct event_batch *batch, struct event_sink *sink, unsigned int class,
			   const struct event_run *run)
{
	for (size_t i = 0; i < run->n; i++)
		put_event(batch, sink, class, run->ns[i], run->bytes + i * run->stride);
}

static inline void put_mix(struct event_batch *batch, struct event_sink *sink,
			   const struct event_mix *mix)
{
	for (size_t i = 0; i < mix->n; i++)
		put_event(batch, sink, mix->classes[i], event_mix_ns(mix, i),
			  mix->bytes + i * mix->stride);
}

static inline void end_events(struct event_batch *batch)
{
	for (; batch->first; batch->first = batch->first->next)
		batch->first->batch = NULL;
}

static const struct stream_ops streams = {.open = open_stream,
					  .close = close_stream,
					  .output = {put_event, put_run, put_mix, end_events}};

/* The newest stream of an instance. */
static inline const struct event_sink *sink(const char *name, unsigned int vcpu)
{
	for (int i = nr_streams; i-- > 0;)
		if (!strcmp(sinks[i % 64][vcpu].name, name))
			return &sinks[i % 64][vcpu];
	abort();
}

static inline void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
	fs.session->stream_ops = &streams;
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
}

static inline int start(const char *first, const char *second, struct error *err)
{
	const char *const specs[] = {first, second, NULL};

	return trace_session_start(fs.session, specs, err);
}

static inline bool is_untouched(void)
{
	return !memcmp(ram, fs.fg.base.ram, FAKE_RAM) && fs.fg.nr_regions == 1;
}

static inline void end(void)
{
	ok(!trace_session_failure(fs.session) && !misused, "nothing has failed while tracing");
	ok(!trace_session_stop(fs.session, NULL) && is_untouched(),
	   "after a stop guest memory is what it was");
	fake_session_destroy(&fs);
}

static inline uint8_t opcode(uint64_t function)
{
	return *fake_text(&fs.fg, function);
}

static inline uint64_t target(uint64_t function)
{
	int32_t distance;

	memcpy(&distance, fake_text(&fs.fg, function) + 1, sizeof(distance));
	return fake_gva(function) + 5 + (uint64_t)(int64_t)distance;
}

static inline struct ring_engine *rings(void)
{
	return ring_engine_of(fs.session->ring_engine);
}

static const struct trace_instance_status *instance(const char *name)
{
	return fake_session_instance(&fs, name);
}

/* The slot of the instance of this name. */
static inline unsigned int slot_of(const char *name)
{
	const struct instance_list *list = &fs.session->instances;
	const struct session_instance *owner = NULL;
	struct direct_lane *lane = &rings()->direct;
	unsigned int found = DIRECT_MAX;

	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->v[i]->spec.name, name))
			owner = list->v[i];
	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX && found == DIRECT_MAX; id++)
		if (lane->slots[id].state == DIRECT_LIVE && lane->slots[id].want.owner == owner)
			found = id;
	pthread_mutex_unlock(&lane->lock);
	if (found == DIRECT_MAX)
		abort();
	return found;
}

/* As shared code does for one instance. NULL: its ring has had no room for long. */
static inline struct direct_record *begin_record(unsigned int slot, unsigned int vcpu)
{
	const struct direct_lane *lane = &rings()->direct;
	unsigned int ring = lane->slots[slot].group * FAKE_VCPUS + vcpu;
	struct ring_writer writer = ring_writer(lane->rings[ring].header, lane->ring_bytes);
	uint32_t size = lane->slots[slot].layout.size;
	struct direct_record *record;

	for (int i = 0; i < PATIENCE_MS; i++) {
		record = (struct direct_record *)ring_writer_reserve(&writer, size);
		if (record)
			break;
		clock_wait_ms(1);
	}
	return record;
}

static inline void end_record(struct direct_record *record, unsigned int slot, uint64_t function)
{
	record->tsc = fs.fg.guest.clock->tsc(&fs.fg.guest);
	record->ip = (uint32_t)(fake_gva(function) + 5);
	__atomic_store_n(&record->commit, ring_commit(slot), __ATOMIC_RELEASE);
}

static inline bool put_record(unsigned int slot, unsigned int vcpu, uint64_t function)
{
	struct direct_record *record = begin_record(slot, vcpu);

	if (record)
		end_record(record, slot, function);
	return record;
}

static inline bool await_records(const char *name, uint64_t n)
{
	for (int i = 0; i < PATIENCE_MS && instance(name)->records < n; i++)
		clock_wait_ms(1);
	return instance(name)->records == n;
}

static inline enum direct_state state_of(unsigned int slot)
{
	struct direct_lane *lane = &rings()->direct;
	enum direct_state state;

	pthread_mutex_lock(&lane->lock);
	state = lane->slots[slot].state;
	pthread_mutex_unlock(&lane->lock);
	return state;
}

/* While the guest runs. */
static inline void set_halted(unsigned int vcpu, bool halted)
{
	pthread_mutex_lock(&fs.fg.gate);
	fs.fg.vcpus[vcpu].sregs.halted = halted;
	pthread_mutex_unlock(&fs.fg.gate);
}

static inline bool await_free_slots(void)
{
	unsigned int used = 1;

	for (int i = 0; used && i < PATIENCE_MS; i++, clock_wait_ms(1)) {
		used = 0;
		for (unsigned int id = 0; id < DIRECT_MAX; id++)
			used += state_of(id) > DIRECT_LIVE;
	}
	return !used;
}

/* Call it first in main(). */
static inline void allocate_ram(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		abort();
}

#endif
