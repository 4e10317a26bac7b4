/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Of which tasks the guest writes records, and who is said to decide that. */
#include <stdlib.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, SLOT = 3, POLL_NS = 20000000 };

static struct fake_session fs;

static void create(bool exitless)
{
	const struct trace_options options = {.exitless = exitless, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
}

static void begin(bool exitless, const char *first, const char *second)
{
	const char *const specs[] = {first, second, NULL};
	struct error err = {0};

	create(exitless);
	ok(!trace_session_start(fs.session, specs, &err), "start with %s: %s", first, err.text);
}

static int set(const char *first, const char *second, struct error *err)
{
	const char *const specs[] = {first, second};

	return trace_session_set_instances(fs.session, specs, (size_t) !!first + !!second, err);
}

static uint64_t count(enum counter_id id)
{
	return fake_session_count(&fs, id);
}

static const struct trace_instance_status *instance(const char *name)
{
	return fake_session_instance(&fs, name);
}

static struct ring_engine *rings(void)
{
	return ring_engine_of(fs.session->ring_engine);
}

/* What trampolines ask before they write: whether calls of a task are wanted. */
static bool passes(uint32_t pid)
{
	const struct ring_engine *x = rings();
	const uint8_t *pids = x->scratch.hva + (x->set.room.pids - x->mapping.gva);

	return !x->set.room.pids || pids[pid % PID_GATE_BUCKETS];
}

/* A record of a task: the entry of a call, or, without a probe, its return. One thread at a time
 * emits hits. */
static void put(const struct probe_ref *ref, uint32_t pid)
{
	const struct probe_hit hit = {.key = fake_stack_top(0) - 64,
				      .args = {0, fake_cache()},
				      .pid = pid,
				      .result = ref ? 0 : fake_object()};

	ring_engine_stop_thread(rings());
	fake_session_emit(&fs, ref, ref ? POINT_ENTRY : POINT_RETURN, &hit);
	if (ring_engine_start_thread(rings(), NULL))
		abort();
}

static void test_changes(void)
{
	struct error err = {0};

	begin(true, "a=kmem:cache,pid=5", "b=kmem:pages,pid=7");
	ok(passes(5) && passes(7) && !passes(6), "only the tasks of both instances pass");
	ok(passes(5 + PID_GATE_BUCKETS), "and those that share their buckets");
	is_str(instance("a")->guest_conditions, "pid=5", "the guest decides that");
	is_str(instance("a")->host_conditions, "", "and the host nothing");
	put(fake_session_ref(&fs, FAKE_CACHE_ALLOC), 5);
	ok(call_table_is_open(fs.session->calls), "a call of one of them begins");
	ok(!set("b=kmem:cache,pid=7+8 if ptr > 5", NULL, &err), "its instance goes: %s", err.text);
	ok(!passes(5) && passes(7) && passes(8), "other tasks pass at once");
	ok(!call_table_is_open(fs.session->calls) && count(COUNTER_IN_FLIGHT) == 1,
	   "its return is not waited for");
	is_str(instance("b")->guest_conditions, "pid=7+8", "the pids are the guest's");
	is_str(instance("b")->host_conditions, "ptr > 5", "all else is the host's");
	put(fake_session_ref(&fs, FAKE_CACHE_ALLOC), 5);
	ok(!call_table_is_open(fs.session->calls),
	   "one that has passed just before is passed over");
	put(fake_session_ref(&fs, FAKE_CACHE_ALLOC), 8);
	put(NULL, 8);
	is_u64(fake_session_recorded(&fs), 1, "calls of the others are recorded");
	ok(!set("b=kmem:cache", NULL, &err) && passes(5) && passes(1), "without pids all pass: %s",
	   err.text);
	is_str(instance("b")->guest_conditions, "", "and the guest decides nothing");
	ok(!set(NULL, NULL, &err) && !passes(5), "without instances none does");
	fake_session_end(&fs);
	begin(true, "kmem:cache", NULL);
	ok(!rings()->set.room.pids, "a trace that begins without pids has no such gate");
	fake_session_end(&fs);
	begin(false, "kmem:cache,pid=5", NULL);
	is_str(instance("kmem")->host_conditions, "pid=5", "traps leave them to the host");
	fake_session_end(&fs);
}

/* --- who decides ------------------------------------------------------------------------------ */

static void check_decides(const char *name, bool guest, const char *label)
{
	is_str(instance(name)->guest_conditions, guest ? "pid=5" : "", label);
	is_str(instance(name)->host_conditions, guest ? "" : "pid=5", label);
}

/* Where one instance wants all tasks, all pass. */
static void test_beside_all(void)
{
	begin(true, "a=kmem:cache,pid=5", "b=kmem:pages");
	ok(passes(5) && passes(6), "beside an instance without pids all tasks pass");
	check_decides("a", false, "the host decides then");
	ok(!set("a=kmem:cache,pid=5", NULL, NULL) && !passes(6), "that instance goes");
	check_decides("a", true, "the guest decides");
	ok(!set("a=kmem:cache,pid=5", "c=kmem:cache", NULL) && passes(6), "another one comes");
	check_decides("a", false, "the host decides again");
	fake_session_end(&fs);
}

static void test_off(void)
{
	begin(true, "a=kmem:cache,pid=5", NULL);
	ok(!trace_session_stop(fs.session, NULL) && !set("b=kmem:pages,pid=5", NULL, NULL),
	   "an instance is set while tracing is off");
	check_decides("b", false, "the guest decides nothing");
	fake_session_destroy(&fs);
}

static void test_plan(bool exitless, const char *second)
{
	const char *const specs[] = {"a=kmem:cache,pid=5", second, NULL};
	const bool guest = exitless && !second;
	const struct patch_plan *plan;

	create(exitless);
	ok(!trace_session_plan(fs.session, specs, &plan, NULL), "a plan of %s%s%s", specs[0],
	   second ? " and " : "", second ? second : "");
	check_decides("a", guest, "it says who would decide");
	ok(!trace_session_start(fs.session, NULL, NULL), "a start");
	check_decides("a", guest, "that one does");
	fake_session_end(&fs);
}

/* --- arrays of bulk calls --------------------------------------------------------------------- */

/* The entry of a bulk call, whose trampoline has saved its array. Whether that is still there when
 * the entry was emitted. */
static bool keeps_array(uint32_t pid)
{
	struct ring_saved_array *slot = &rings()->saved_arrays[SLOT];

	slot->key = fake_stack_top(0) - 64 - RECORD_KEY_BIAS;
	put(fake_session_ref(&fs, FAKE_ALLOC_BULK), pid);
	return slot->key;
}

static void test_arrays(void)
{
	begin(true, "kmem:cache,pid=5", NULL);
	ok(keeps_array(5), "a call's array is saved until it returns");
	ok(!set("kmem:pages,pid=5", NULL, NULL) && !rings()->saved_arrays[SLOT].key,
	   "or its function goes");
	fake_session_end(&fs);
}

/* A trap has seen the call; its return is not seen, as rings have come. */
static void test_array_of_trap(void)
{
	const char *const specs[] = {"kmem:cache,pid=5", NULL};
	const struct probe_hit hit = {.key = fake_stack_top(0) - 64, .pid = 6};
	struct call_table *arrays;
	struct call_table_push_result pushed;

	create(true);
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0x1000);
	ok(!trace_session_start(fs.session, specs, NULL) && !fs.session->has_pid_gate,
	   "a guest that is not ready for rings has traps");
	check_decides("kmem", true, "the guest will decide");
	arrays = fs.session->reader.arrays;
	fake_session_emit(&fs, fake_session_ref(&fs, FAKE_ALLOC_BULK), POINT_ENTRY, &hit);
	ok(call_table_push(arrays, hit.key, &pushed) && call_table_is_open(fs.session->calls),
	   "they see a call of another task");
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0);
	fs.fg.clock += POLL_NS;
	ok(fake_session_tick(&fs) && fs.session->has_pid_gate, "rings come");
	ok(!call_table_is_open(fs.session->calls) && !call_table_is_open(arrays),
	   "the call is forgotten, with its array");
	fake_session_end(&fs);
}

int main(void)
{
	test_changes();
	test_beside_all();
	test_off();
	test_plan(true, NULL);
	test_plan(false, NULL);
	test_plan(true, "b=kmem:pages");
	test_arrays();
	test_array_of_trap();
	return tap_done();
}
