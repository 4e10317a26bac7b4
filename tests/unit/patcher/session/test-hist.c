/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances that sum events up, on a fake guest: where they do, and what is kept of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/function.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-counts.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, CALL = 0xe8, JMP = 0xe9 };

static struct fake_session fs;
static uint8_t *ram;

static void create(void)
{
	fake_counts_create(&fs, RING_BYTES);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
}

static int try_add(const char *spec, struct error *err)
{
	return trace_session_add_instance(fs.session, spec, err);
}

static bool start(const char *spec)
{
	return fake_counts_start(&fs, spec);
}

static void end(void)
{
	fake_session_end_as(&fs, ram);
}

static uint8_t opcode(uint64_t at)
{
	return *fake_text(&fs.fg, at);
}

static struct hist *first(void)
{
	struct trace_hist list[TRACE_MAX_PROFILES];

	return trace_session_hists(fs.session, list) ? list[0].hist : NULL;
}

/* As code in the guest would, on vCPU 0. */
static void put(uint64_t key, uint64_t hits)
{
	struct hist_place *place = fake_hist_place(&fs);

	place->hits += hits;
	place->words[0] = key;
	place->state = HIST_READY;
}

static bool counted(uint64_t key, uint64_t hits)
{
	struct hist_sums sums;
	bool good = first() && !hist_read(first(), &sums, NULL);

	if (!good)
		return false;
	good = hits ? sums.n == 1 && sums.v[0].key[0] == key && sums.v[0].hits == hits : !sums.n;
	hist_sums_deinit(&sums);
	return good;
}

static void test_counts(void)
{
	struct trace_hist list[TRACE_MAX_PROFILES];
	struct trace_profile profiles[TRACE_MAX_PROFILES];

	create();
	ok(start("h=function:kfree,hist:keys=ip"), "a histogram of calls");
	ok(opcode(FAKE_KFREE) == CALL, "the function's site is a call");
	ok(counted(0, 0), "nothing is counted yet");
	put(5, 3);
	ok(counted(5, 3), "what the guest counts is read");
	ok(!hist_clear(first(), NULL) && counted(0, 0), "and cleared");
	put(5, 1);
	ok(!trace_session_remove_instance(fs.session, "h", NULL) &&
		   trace_session_hists(fs.session, list) == 1 && list[0].ended && counted(5, 1),
	   "it stays when the instance is gone");
	ok(!trace_session_profiles(fs.session, profiles), "it is no profile");
	end();
}

static void test_stop(void)
{
	create();
	ok(start("function:kfree,hist:keys=parent_ip"), "another one");
	put(7, 2);
	ok(!trace_session_stop(fs.session, NULL) && counted(7, 2),
	   "it stays when the memory is gone");
	ok(start("function:kfree,hist:keys=parent_ip"), "another start");
	put(7, 1);
	ok(counted(7, 3), "goes on");
	end();
}

static void test_with_probes(void)
{
	create();
	ok(start("kmem:cache") && !try_add("function:kmem_cache_alloc,hist:keys=ip", NULL),
	   "beside the kmem tracer");
	ok(opcode(FAKE_CACHE_ALLOC) == JMP, "the site leads to a trampoline made for both");
	put(9, 1);
	ok(counted(9, 1), "it counts");
	ok(!trace_session_remove_instance(fs.session, "kmem", NULL) &&
		   opcode(FAKE_CACHE_ALLOC) == CALL && counted(9, 1),
	   "it goes on without the other one");
	end();
}

/* --- made by the host ------------------------------------------------------------------------- */

enum { PATIENCE_MS = 20000 };

/* The live slots of the histogram, by number. */
static const struct direct_slot *slot_of(unsigned int number)
{
	const struct direct_lane *lane = &ring_engine_of(fs.session->ring_engine)->direct;

	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane->slots[id].state == DIRECT_LIVE && !number--)
			return &lane->slots[id];
	return NULL;
}

/* Returns of what a system call ends in; of one that never returns there are none. */
static void test_returns(void)
{
	enum { ALLOC_SLOT = FAKE_CACHE_ALLOC + 15 }; /* test-graph.c */
	static const struct fake_symbol calls[] = {{"__x64_sys_tail", FAKE_TAIL},
						   {"__x64_sys_exit", FAKE_KFREE},
						   {"do_syscall_64", FAKE_CALLER},
						   {NULL, 0}};
	const struct trace_instance_status *status;
	const struct direct_slot *slot;
	struct error err = {0};

	create();
	fake_session_list_return_sites(&fs);
	if (fake_guest_add_symbols(&fs.fg, calls))
		abort();
	ok(start("function:__kmalloc") &&
		   !try_add("h=syscalls:return,hist:keys=ret if ret < 0", &err),
	   "a histogram of returns of system calls: %s", err.text);
	ok(opcode(ALLOC_SLOT) == JMP && opcode(FAKE_TAIL) != CALL &&
		   opcode(FAKE_CACHE_ALLOC) != CALL,
	   "the slot of what one tail-calls is a jump, and entries stay as they are");
	status = fake_session_instance(&fs, "h");
	ok(status->nr_refused == 1 && strstr(status->refused[0].reason, "no return of it"),
	   "one that never returns is refused: %s", status->refused[0].reason);
	slot = slot_of(1);
	ok(slot && slot->want.point == POINT_RETURN && slot->want.hist &&
		   slot->want.fields & DIRECT_PID,
	   "the code that counts them can find the task's stack");
	end();
}

/* What guest and host decide of the last instance's condition. */
static void last_conditions(char *guest, char *host, size_t size)
{
	const struct session_instance *last = fs.session->instances.v[fs.session->instances.n - 1];

	last->ops->conditions(last->tracer, &last->spec, DECIDED_BY_GUEST, guest, size);
	last->ops->conditions(last->tracer, &last->spec, DECIDED_BY_HOST, host, size);
}

struct made_event {
	struct function_event call;
	uint64_t words[4 + EVENT_STACK_WORDS]; /* what is fetched, and the chain */
};

/* As the engine's thread does with events that it has made of records. */
static void emit(const struct direct_slot *slot, unsigned int vcpu, const struct made_event *events,
		 size_t n)
{
	const struct direct_want *want = &slot->want;
	const int64_t ns[4] = {0};
	const struct event_run run = {n, ns, (const void *)events, sizeof(*events)};

	want->output->put_run(NULL, want->sinks[vcpu], want->class, &run);
	want->output->end(NULL);
}

static struct hist_sums sums_of_first(void)
{
	struct hist_sums sums;

	if (!first() || hist_read(first(), &sums, NULL))
		abort();
	return sums;
}

static void test_chains(void)
{
	const uint64_t text = 0xffffffff81000000;
	struct made_event events[3] = {{.call = {.pid = 7}, .words = {text + 1, text + 2, 0, 9}},
				       {.call = {.pid = 7}, .words = {text + 1, text + 2, 0, 8}},
				       {.call = {.pid = 7}, .words = {text + 1, EVENT_STACK_CUT}}};
	const struct direct_slot *slot;
	struct hist_sums sums;

	create();
	ok(start("h=function:kfree,hist:keys=common_stacktrace,vcpu:vals=pid"),
	   "a histogram of call chains");
	slot = slot_of(0);
	ok(opcode(FAKE_KFREE) == CALL && slot && !slot_of(1) && !slot->want.hist &&
		   slot->want.fields == (DIRECT_STACK | DIRECT_PID) && !slot->want.fetch &&
		   slot->plan.stack == sizeof(struct function_event),
	   "its calls are records with what chains are made of");
	emit(slot, 1, events, 3);
	emit(slot, 0, events, 1);
	sums = sums_of_first();
	ok(sums.n == 3 && sums.size == 2048 &&
		   sums.v[0].hits + sums.v[1].hits + sums.v[2].hits == 4,
	   "the host adds them up by chains, and the vCPU");
	ok(sums.v[1].key[0] == text + 1 && sums.v[1].key[1] == text + 2 && !sums.v[1].key[3] &&
		   sums.v[1].key[HIST_FRAMES] == 1 && sums.v[1].hits == 2 &&
		   sums.v[1].sums[0] == 14,
	   "what is behind the end of a chain is no part of it");
	ok(sums.v[2].key[1] == EVENT_STACK_CUT && sums.v[2].hits == 1,
	   "one that is cut is another");
	hist_sums_deinit(&sums);
	ok(!hist_clear(first(), NULL), "it is cleared");
	for (size_t i = 0; i < EVENT_STACK_FRAMES; i++)
		events[0].words[i] = events[1].words[i] = text + i;
	events[1].words[HIST_FRAMES] = text;
	emit(slot, 0, events, 2);
	sums = sums_of_first();
	ok(sums.n == 1 && sums.v[0].hits == 2 &&
		   sums.v[0].key[HIST_FRAMES - 1] == text + HIST_FRAMES - 1,
	   "chains are one that differ behind 16 frames, as in the kernel");
	hist_sums_deinit(&sums);
	end();
}

/* A record without a stack that could be unwound. */
static void test_record(void)
{
	const struct direct_lane *lane;
	const struct direct_slot *slot;
	struct direct_record *record;
	struct ring_writer writer;
	struct hist_sums sums = {0};

	create();
	ok(start("h=function:kfree,hist:keys=stacktrace"), "another one");
	slot = slot_of(0);
	lane = &ring_engine_of(fs.session->ring_engine)->direct;
	writer = ring_writer(lane->rings[slot->group * FAKE_VCPUS].header, lane->ring_bytes);
	record = (struct direct_record *)fake_session_reserve(&fs, &writer, slot->layout.size);
	record->tsc = fs.fg.guest.clock->tsc(&fs.fg.guest);
	__atomic_store_n(&record->commit, ring_commit((uint32_t)(slot - lane->slots)),
			 __ATOMIC_RELEASE);
	for (int i = 0; i < PATIENCE_MS && !sums.n; i++) {
		hist_sums_deinit(&sums);
		clock_wait_ms(1);
		sums = sums_of_first();
	}
	ok(sums.n == 1 && sums.v[0].hits == 1 && sums.v[0].key[0] == EVENT_STACK_CUT,
	   "a record gets to the histogram; its chain is cut");
	hist_sums_deinit(&sums);
	ok(!trace_session_remove_instance(fs.session, "h", NULL), "the instance goes");
	sums = sums_of_first();
	ok(sums.n == 1, "and what it has counted stays");
	hist_sums_deinit(&sums);
	end();
}

static void test_fetched(void)
{
	struct made_event event = {.words = {0, (uint32_t)-3, 0x1234, 1, 5, 6}};
	const struct direct_slot *slot;
	struct hist_sums sums;

	create();
	ok(start("probe:p:x kfree a=%di:s32 b=%si:u8 m=+0(%di),hist:keys=b,stacktrace:vals=a "
		 "if m == 1"),
	   "a probe's values");
	slot = slot_of(0);
	ok(slot && slot->want.fetch && slot->want.fetch->bytes == 32 &&
		   slot->plan.stack == sizeof(struct function_event) + 32,
	   "its registers are recorded, too");
	ok(slot->want.filter, "the host decides conditions on memory");
	emit(slot, 0, &event, 1);
	sums = sums_of_first();
	ok(sums.n == 1 && sums.v[0].key[0] == 0x34 && sums.v[0].key[1] == 5 &&
		   sums.v[0].key[2] == 6 && sums.v[0].sums[0] == (uint64_t)-3,
	   "and added up by their types");
	hist_sums_deinit(&sums);
	end();
}

static void test_allocations(void)
{
	struct made_event event = {.words = {100, 5, 6}};
	const struct direct_slot *slot;
	struct hist_sums sums;
	unsigned int n = 0;

	create();
	ok(start("kmem:kmalloc,hist:keys=stacktrace:vals=bytes_req"), "allocations by call chain");
	for (; (slot = slot_of(n)); n++) {
		const struct fetch_program *fetch = slot->want.fetch;

		if (!fetch || fetch->nr_args != 1 || fetch->args[0].ops[0].kind != FETCH_REGISTER ||
		    slot->want.class != n || !slot->want.gate)
			break;
		emit(slot, 0, &event, 1);
	}
	sums = sums_of_first();
	ok(n && !slot && sums.n == 1 && sums.v[0].hits == n && sums.v[0].sums[0] == 100 * n,
	   "what is asked for is recorded from its register, for each of %u parts", n);
	hist_sums_deinit(&sums);
	end();
}

/* The number of those that the host has counted of events with this name of the task. */
static uint64_t counted_of(const struct direct_slot *slot, struct made_event *event,
			   const char *comm)
{
	struct hist_sums sums;
	uint64_t hits;

	snprintf(event->call.comm, sizeof(event->call.comm), "%s", comm);
	emit(slot, 0, event, 1);
	sums = sums_of_first();
	hits = sums.n ? sums.v[0].hits : 0;
	hist_sums_deinit(&sums);
	return hits;
}

/* What the guest cannot decide of allocations, the host does where it makes the histogram. */
static void test_allocations_if(void)
{
	struct made_event event = {.words = {0, 100, 5}};
	const struct direct_slot *slot;
	char text[100] = "", rest[100] = "";
	struct error err = {0};
	uint64_t first_hits;

	create();
	ok(start("h=kmem:kmalloc,hist:keys=stacktrace:vals=bytes_req if bytes_req > 8 && "
		 "(comm == \"sh\" || node == 9)"),
	   "allocations by call chain, of tasks with a name");
	slot = slot_of(0);
	ok(slot && slot->want.gate && slot->want.fields & DIRECT_COMM && !slot->want.filter,
	   "the task's name is recorded");
	event.words[0] = 100;
	first_hits = counted_of(slot, &event, "bash");
	ok(!first_hits && counted_of(slot, &event, "sh") == 1 &&
		   counted_of(slot, &event, "shell") == 1 && counted_of(slot, &event, "sh") == 2,
	   "the host counts those of the condition");
	last_conditions(text, rest, sizeof(text));
	is_str(text, "bytes_req > 8", "the guest decides a part of it");
	is_str(rest, "(comm == \"sh\" || node == 9)", "the host the rest");
	ok(try_add("p=kmem:kmalloc,hist:keys=stacktrace if ptr > 4 || comm == \"a\"", &err) ==
			   -ENOTSUP &&
		   strstr(err.text, "'ptr' of"),
	   "what a call returns is refused: %s", err.text);
	ok(try_add("p=kmem:kmalloc,hist:keys=call_site if comm == \"a\"", &err) == -ENOTSUP &&
		   strstr(err.text, "with the key 'stacktrace' the host does, and decides"),
	   "so is what the guest cannot decide, if it makes the histogram: %s", err.text);
	end();
}

/* Instructions in the middle of a function. */
static void test_inside(void)
{
	const uint64_t text = 0xffffffff81000000;
	const struct made_event event = {.call = {.ip = text}, .words = {0, 3, 0, text, text + 1}};
	const struct direct_slot *slot;
	struct hist_sums sums;
	struct error err = {0};

	create();
	fake_session_list_reserved(&fs);
	ok(start("function:kfree") &&
		   !try_add("h=probe:p kmem_cache_alloc+5 r=%r10,hist:keys=r,ip", &err),
	   "a histogram of a register in the middle of a function%s", err.text);
	slot = slot_of(1);
	ok(opcode(FAKE_CACHE_ALLOC + 5) == JMP && slot && slot->want.point == POINT_INSIDE &&
		   slot->want.hist && slot->want.program->keys[0].reg == 10,
	   "its instruction is a jump to code that counts");
	ok(!try_add("n=probe:p kmem_cache_alloc+5 pid=%di stacktrace=%si,hist:keys=pid,stacktrace,"
		    "common_pid if pid > 4 && common_pid != 7",
		    &err),
	   "arguments with names of what is known of each event%s", err.text);
	slot = slot_of(2);
	ok(slot && slot->want.hist && slot->want.program->keys[0].source == HIST_REGISTER &&
		   slot->want.program->keys[1].source == HIST_REGISTER &&
		   slot->want.program->keys[2].source == HIST_PID,
	   "are the keys of these names, and common_ is in front of the others");
	ok(try_add("p=probe:p kmem_cache_alloc+5,hist:keys=parent_ip", &err) == -ENOTSUP &&
		   strstr(err.text, "use the key 'stacktrace'"),
	   "the caller alone is refused: %s", err.text);
	end();
	create();
	fake_session_list_reserved(&fs);
	ok(start("h=probe:p kmem_cache_alloc+5 r=%r10 m=+0(%r10),hist:keys=r,stacktrace,ip"),
	   "another one of call chains");
	slot = slot_of(0);
	ok(opcode(FAKE_CACHE_ALLOC + 5) == JMP && slot && slot->want.point == POINT_INSIDE &&
		   !slot->want.hist && slot->want.fields & DIRECT_STACK,
	   "its events are the host's to count");
	if (slot)
		emit(slot, 0, &event, 1);
	sums = sums_of_first();
	ok(sums.n == 1 && sums.v[0].key[0] == 3, "by the register");
	ok(sums.n == 1 && sums.v[0].key[1] == text && sums.v[0].key[2] == text + 1, "by the chain");
	ok(sums.n == 1 && sums.v[0].key[1 + HIST_FRAMES] == text + SITE_SIZE, "and by the place");
	hist_sums_deinit(&sums);
	end();
}

static void test_refusals(void)
{
	struct error err = {0};

	create();
	ok(start("function:kfree"), "a function");
	ok(try_add("h=function:kfree,hist:keys=ip if comm ~ \"a*\"", &err) == -ENOTSUP &&
		   strstr(err.text, "the guest cannot decide 'comm ~ \"a*\"'"),
	   "a condition that only the host can decide is refused: %s", err.text);
	ok(try_add("h=function:kfree,hist:keys=ip:size=131072", &err) == -ENOSPC &&
		   strstr(err.text, "size=1024 fits"),
	   "so is a size that there is no room for: %s", err.text);
	ok(!try_add("h=function:kfree,hist:keys=ip", &err), "after that one that fits is taken");
	end();
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		return 1;
	test_counts();
	test_stop();
	test_returns();
	test_with_probes();
	test_chains();
	test_record();
	test_fetched();
	test_allocations();
	test_allocations_if();
	test_inside();
	test_refusals();
	free(ram);
	return tap_done();
}
