/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the ordered lane's probes capture changes while tracing is on, on a fake guest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	JMP = 0xe9,
	PATIENCE_MS = 20000,
	VCPU = 1,
	PID = 4711,
	COMM = 0x72656b726f77, /* "worker" */
};

static struct fake_session fs;

static void begin(const char *first, const char *second)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};
	const char *const specs[] = {first, second, NULL};
	struct error err = {0};

	fake_session_create(&fs);
	fake_session_list_return_sites(&fs);
	fake_session_list_reserved(&fs);
	fake_session_keep_text(&fs);
	trace_session_set_options(fs.session, &options);
	ok(!trace_session_start(fs.session, specs, &err), "start: %s", err.text);
}

static void end(void)
{
	ok(!trace_session_failure(fs.session), "nothing has failed");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "after a stop the text is what it was");
	fake_session_destroy(&fs);
}

static int set(const char *first, const char *second, struct error *err)
{
	const char *const specs[] = {first, second};

	return trace_session_set_instances(fs.session, specs, (size_t) !!first + !!second, err);
}

static struct ring_engine *rings(void)
{
	return ring_engine_of(fs.session->ring_engine);
}

static size_t number_of(uint64_t function)
{
	return patch_set_find(&fs.session->plan.entries, fake_gva(function));
}

static uint64_t target(uint64_t function)
{
	int32_t distance;

	memcpy(&distance, fake_text(&fs.fg, function) + 1, sizeof(distance));
	return fake_gva(function) + 5 + (uint64_t)(int64_t)distance;
}

/* Whether the text leads to the code that was made at the start. */
static bool leads_to_first(uint64_t function)
{
	return target(function) == rings()->set.places[number_of(function)].gva;
}

static void put_field(struct ring_record *record, const struct record_layout *layout,
		      enum record_field field, uint64_t value)
{
	if (layout->offset[field])
		memcpy((uint8_t *)record + layout->offset[field], &value, sizeof(value));
}

/* A record of a place, by code of a view, which is not complete yet. */
static struct ring_record *reserve(size_t number, size_t view)
{
	const struct trampoline_set *set = &rings()->set;
	const struct record_layout *layout =
		&set->places[trampoline_set_number(set, view, number)].layout;
	struct ring_writer writer = ring_writer(rings()->rings[VCPU].header, rings()->ring_bytes);
	struct ring_record *record = fake_session_reserve(&fs, &writer, layout->size);

	record->tsc = fs.fg.guest.clock->tsc(&fs.fg.guest);
	put_field(record, layout, FIELD_KEY, fake_stack_top(VCPU) - 64);
	put_field(record, layout, FIELD_CALL_SITE, fake_session_call_site());
	put_field(record, layout, FIELD_ARG0, fake_object());
	put_field(record, layout, FIELD_RESULT, fake_object());
	put_field(record, layout, FIELD_SLAB_CACHE, fake_cache());
	put_field(record, layout, FIELD_PID, PID);
	put_field(record, layout, FIELD_COMM, COMM);
	return record;
}

static void commit(struct ring_record *record, size_t number, size_t view)
{
	const uint32_t id = (uint32_t)trampoline_set_number(&rings()->set, view, number);

	__atomic_store_n(&record->commit, ring_commit(id), __ATOMIC_RELEASE);
}

static void put(size_t number, size_t view)
{
	commit(reserve(number, view), number, view);
}

static void put_free(size_t view)
{
	put(number_of(FAKE_KFREE), view);
}

static void put_call(size_t view)
{
	put(number_of(FAKE_KMALLOC), view);
}

/* The return of that. */
static void put_return(size_t view)
{
	for (size_t i = 0; i < fs.session->plan.returns.n; i++)
		if (patch_plan_ref_at(&fs.session->plan, fs.session->plan.returns.v[i].gva) ==
		    fake_session_ref(&fs, FAKE_KMALLOC)->id) {
			put(rings()->set.n - fs.session->plan.returns.n + i, view);
			return;
		}
	abort();
}

/* How many events an instance has. Each that has fields of a task has this one's. */
static size_t events_of(const char *name)
{
	struct trace_reader *reader = fake_session_open_trace(&fs);
	struct event event;
	bool good = true;
	size_t n = 0;

	while (trace_reader_next(reader, &event, NULL) == 1) {
		const struct event_field *pid = event_field_find(event.class, "pid");
		const struct event_field *comm = event_field_find(event.class, "comm");
		char text[EVENT_STRING_MAX + 1] = "";

		if (strcmp(event.instance->name, name))
			continue;
		n++;
		good &= !pid || event_field_value(pid, event.bytes) == PID;
		if (comm)
			event_field_text(comm, event.bytes, text);
		good &= !comm || !strcmp(text, "worker");
	}
	trace_reader_close(reader);
	ok(good, "no event of %s has another task", name);
	return n;
}

/* All that was written is emitted. */
static void drain(void)
{
	const struct ring *ring = &rings()->rings[VCPU];
	const uint64_t end = __atomic_load_n(&ring->header->reserve, __ATOMIC_ACQUIRE);
	bool passed = false;

	for (int i = 0; i < PATIENCE_MS && !passed; i++) {
		ring_engine_wake(rings());
		clock_wait_ms(1);
		ring_engine_stop_thread(rings());
		passed = ring_has_passed(ring, end);
		if (ring_engine_start_thread(rings(), NULL))
			abort();
	}
}

static void test_wider(void)
{
	struct error err = {0};

	begin("old=kmem:kmalloc", NULL);
	put_free(0);
	put_call(0); /* which is open meanwhile */
	ok(!set("old=kmem:kmalloc", "new=kmem:kmalloc,pid,comm", &err),
	   "an instance comes that wants to know the task: %s", err.text);
	is_u64(trace_session_switches(fs.session).times, 1, "that takes one stop");
	ok(*fake_text(&fs.fg, FAKE_KFREE) == JMP && !leads_to_first(FAKE_KFREE),
	   "the text leads to other code");
	put_free(0); /* by a task that was in the former code */
	put_free(1);
	put_return(1);
	put_call(1);
	put_return(1);
	drain();
	is_u64(events_of("old"), 5, "the former instance misses nothing");
	is_u64(events_of("new"), 2, "the new one has what was recorded with a task as a whole");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "nothing is lost");
	is_u64(fake_session_count(&fs, COUNTER_UNPAIRED_RETURNS), 0, "all calls are pairs");
	ok(!set("old=kmem:kmalloc", NULL, &err) && leads_to_first(FAKE_KFREE),
	   "when it goes, the text leads to the code of before: %s", err.text);
	is_u64(trace_session_switches(fs.session).times, 2, "in one stop");
	put_free(1);
	put_free(0);
	drain();
	is_u64(events_of("old"), 7, "the former instance goes on");
	is_u64(events_of("new"), 2, "and the other one has no more");
	ok(!set("old=kmem:kmalloc", "x=kmem:pid=4711", &err) && !leads_to_first(FAKE_KFREE),
	   "one that is for a task comes: %s", err.text);
	put_free(rings()->direct.view_index);
	drain();
	is_u64(events_of("x"), 1, "and has that task's");
	ok(!set("old=kmem:kmalloc", "x=kmem:pid,comm", &err), "its spec changes: %s", err.text);
	is_u64(rings()->direct.view_index, 1, "what was captured once is so by the same numbers");
	put_free(1);
	drain();
	is_u64(fake_session_count(&fs, COUNTER_RING_DAMAGED), 0, "no record is damaged");
	end();
}

/* Code that records functions, too. */
static void test_direct(void)
{
	const struct direct_lane *lane;
	bool both = false;

	begin("f=function:kfree", NULL);
	ok(!set("f=function:kfree", "k=kmem:kmalloc,comm", NULL), "kmem comes with names");
	lane = &rings()->direct;
	for (size_t i = 0; i < lane->nr_pieces; i++)
		both |= lane->pieces[i]->state == DIRECT_LIVE && lane->pieces[i]->use.mask &&
			lane->pieces[i]->use.view_index &&
			lane->pieces[i]->use.place == (int)number_of(FAKE_KFREE);
	ok(both, "one piece of code records for both");
	ok(!set("f=function:kmem_cache_free", "k=kmem:kmalloc,comm", NULL) &&
		   !leads_to_first(FAKE_KFREE),
	   "it goes on without the function");
	ok(!set("f=function:kfree", "k=kmem:kmalloc", NULL) && !leads_to_first(FAKE_KFREE),
	   "and with the function, but no names");
	ok(!set("k=kmem:kmalloc", NULL, NULL) && leads_to_first(FAKE_KFREE),
	   "with neither, the code is that of the start");
	ok(!set("k=kmem:kmalloc,comm", NULL, NULL) && !set("k=kmem:pages,comm", NULL, NULL),
	   "its functions go, which only kmem has recorded");
	ok(*fake_text(&fs.fg, FAKE_KFREE) != JMP && !leads_to_first(FAKE_ALLOC_PAGES),
	   "they are not patched any more, and those that come lead to code of the same view");
	end();
}

/* What the former instances ask for is captured until the change has taken effect. */
static void test_narrower(void)
{
	struct ring_record *open;
	size_t number, wide;

	begin("x=kmem:kmalloc", NULL);
	ok(!set("x=kmem:kmalloc,pid=4711", NULL, NULL), "an instance is for one task from now on");
	number = number_of(FAKE_KFREE);
	wide = rings()->direct.view_index;
	open = reserve(number, wide);
	ok(!set("x=kmem:kmalloc", NULL, NULL) && rings()->direct.view_index == wide,
	   "it is for all tasks again: until that takes effect, tasks are captured");
	commit(open, number, wide);
	put_free(wide);
	drain();
	is_u64(events_of("x"), 2, "nothing of it is missing");
	ok(fake_session_tick(&fs) && !rings()->direct.view_index,
	   "when it has, the next tick leads the text to what is asked for");
	is_u64(trace_session_switches(fs.session).times, 2, "in a stop of its own");
	ok(fake_session_tick(&fs) && trace_session_switches(fs.session).times == 2,
	   "which is not done again");
	end();
}

/* Where an instance counts, its counts are those of the place. */
static void test_counts(void)
{
	struct direct_lane *lane;
	bool good = true;
	size_t n = 0;

	begin("p=profile:kfree,kmem_cache_free", "k=kmem");
	ok(!set("p=profile:kfree,kmem_cache_free", "k=kmem:comm", NULL), "names come to counts");
	lane = &rings()->direct;
	/* what no vCPU executes any more is dropped by the thread that drains */
	pthread_mutex_lock(&lane->change);
	for (size_t i = 0; i < lane->nr_pieces; i++) {
		const struct direct_use *use = &lane->pieces[i]->use;
		const struct direct_want *want;

		if (lane->pieces[i]->state != DIRECT_LIVE || !use->mask || use->place < 0)
			continue;
		want = &lane->slots[__builtin_ctz(use->mask)].want;
		if (want->action == COUNT_STOP)
			continue;
		n++;
		good &= use->view_index &&
			direct_count_spec(rings(), want, use).offset ==
				profile_offset(want->profile,
					       direct_patch(rings(), (size_t)use->place)->gva);
	}
	pthread_mutex_unlock(&lane->change);
	ok(n == 2 && good, "code of both functions counts where they do");
	end();
}

/* Code that records nothing for the direct lane does not depend on what that reads. */
static void test_guarded(void)
{
	uint64_t sites;

	begin("k=kmem:kmalloc,comm", NULL);
	ok(!set("k=kmem:kmalloc,pid,comm", NULL, NULL), "kmem with tasks");
	sites = fake_session_count(&fs, COUNTER_SWITCHED_SITES);
	ok(!set("k=kmem:kmalloc,pid,comm", "probe:p:s kfree a=+0(%di):u64", NULL),
	   "a probe reads memory at one of its functions");
	is_u64(fake_session_count(&fs, COUNTER_SWITCHED_SITES) - sites, 1,
	       "that place alone gets other code");
	end();
}

static void test_refused(void)
{
	struct error err = {0};

	begin("old=kmem:kmalloc", NULL);
	ok(set("old=kmem:kmalloc", "new=kmem:cgroup", &err) == -ENOENT &&
		   !strncmp(err.text, "tasks cannot be recorded: BTF", 29),
	   "what BTF does not lead to is refused: %s", err.text);
	ok(leads_to_first(FAKE_KFREE) && !rings()->direct.view_index, "all is as before");
	put(number_of(FAKE_KFREE), 0);
	drain();
	is_u64(events_of("old"), 1, "and goes on");
	end();
}

/* A record that code of no view writes. */
static void test_forged(void)
{
	begin("kmem:kmalloc", NULL);
	rings()->set.places[rings()->set.n + number_of(FAKE_KFREE)].layout =
		rings()->set.places[number_of(FAKE_KFREE)].layout;
	put_free(1);
	drain();
	is_u64(events_of("kmem"), 0, "a record of a view that there is not is no event");
	is_u64(fake_session_count(&fs, COUNTER_RING_DAMAGED), 1, "but damage");
	end();
}

int main(void)
{
	test_wider();
	test_direct();
	test_narrower();
	test_counts();
	test_guarded();
	test_refused();
	test_forged();
	return tap_done();
}
