/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sessions on a fake guest that go from traps to trampolines, and leave them. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "formats/base/clock.h"
#include "formats/trace/writer-internal.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { ROUNDS = 50, RING_BYTES = 64 << 10, POLL_NS = 20000000, BEHIND = 500, PATIENCE_MS = 20000 };

static struct fake_session fs;
static uint8_t *ram;

static void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
}

static struct ring_engine *rings(void)
{
	return ring_engine_of(fs.session->ring_engine);
}

static bool is_untouched(void)
{
	return fake_session_has_left(&fs) && !memcmp(ram, fs.fg.base.ram, FAKE_RAM) &&
	       fs.fg.nr_regions == 1;
}

static bool has_jumps(void)
{
	return *fake_text(&fs.fg, FAKE_KFREE) == 0xe9 && *fake_text(&fs.fg, FAKE_KMALLOC) == 0xe9;
}

static bool has_traps(void)
{
	return *fake_text(&fs.fg, FAKE_KFREE) == 0xe6 && *fake_text(&fs.fg, FAKE_KMALLOC) == 0xe6;
}

static void test_start(void)
{
	create();
	ok(!trace_session_start(fs.session, NULL, NULL) && fake_session_status(&fs).exitless,
	   "a guest that has booted gets trampolines at once");
	ok(has_jumps() && !fs.fg.stopped, "the sites are jumps, and the guest runs");
	is_str(fake_session_status(&fs).no_exitless, "",
	       "a session with trampolines gives no reason for traps");
	ok(trace_session_start(fs.session, NULL, NULL) == -EALREADY, "a second start is refused");
	ok(!trace_session_stop(fs.session, NULL) && is_untouched(),
	   "after a stop guest memory is what it was");
	ok(fake_session_status(&fs).exitless && !fs.fg.trap_fn,
	   "a stopped session reports that the last start had trampolines");
	fake_session_destroy(&fs);
}

static void test_toggling(void)
{
	bool good = true;

	create();
	for (int i = 0; i < ROUNDS; i++) {
		good &= !trace_session_start(fs.session, NULL, NULL) && has_jumps();
		good &= !trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs);
	}
	ok(good && is_untouched(), "after %d starts and stops guest memory is what it was", ROUNDS);
	fake_session_destroy(&fs);
}

static void test_never(void)
{
	create();
	fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_SCRATCH;
	ok(!trace_session_start(fs.session, NULL, NULL) && has_traps(),
	   "a guest without scratch memory gets traps");
	ok(!fake_session_status(&fs).exitless &&
		   strstr(fake_session_status(&fs).no_exitless, "memory"),
	   "the session gives the reason: %s", fake_session_status(&fs).no_exitless);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 33), 2,
	       "these traps catch a call");
	is_u64(fake_session_recorded(&fs), 1, "these traps record a call");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "after a stop the text is what it was");
	fake_session_destroy(&fs);
}

/* A call that begins with a trap and ends in a trampoline is one call. */
static void test_later(void)
{
	uint64_t stops;

	create();
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0x1000);
	ok(!trace_session_start(fs.session, NULL, NULL) && has_traps(),
	   "a kernel that has not cleared its mappings is traced by traps");
	is_str(fake_session_status(&fs).no_exitless, "",
	       "no reason is given while trampolines may still come");
	fs.fg.clock += POLL_NS;
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KFREE, fake_object()), 1,
	       "a free is one trap");
	ok(has_traps() && !fs.fg.stopped, "a trap polls the guest, which is not ready");
	stops = fs.fg.stops;
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	is_u64(fs.fg.stops, stops, "the next trap comes too soon to poll the guest");
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0);
	fs.fg.clock += POLL_NS;
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	ok(has_jumps() && fake_session_status(&fs).exitless && !fs.fg.stopped,
	   "when the guest is ready, the trap that polls it switches to trampolines");
	is_u64(fake_session_recorded(&fs), 3, "each trap made one record");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) &&
		   fs.fg.nr_regions == 1,
	   "stop");
	fake_session_destroy(&fs);
}

/* As the trampoline at a function's entry, whose first argument is the fake cache. */
static void write_entry(unsigned int vcpu, uint64_t function, uint64_t rsp)
{
	struct ring_engine *x = rings();
	struct ring_writer writer = ring_writer(x->rings[vcpu].header, RING_BYTES);
	struct ring_sample sample = {0};
	const struct record_layout *layout;
	struct ring_record *record;

	while (fs.session->plan.entries.v[sample.id].gva != fake_gva(function))
		sample.id++;
	layout = &x->set.places[sample.id].layout;
	sample.size = layout->size;
	record = fake_session_reserve(&fs, &writer, sample.size);
	record->tsc = fs.fg.guest.clock->tsc(&fs.fg.guest);
	record->fields[(layout->offset[FIELD_KEY] - sizeof(*record)) / 8] = rsp - RECORD_KEY_BIAS;
	record->fields[(layout->offset[FIELD_ARG0] - sizeof(*record)) / 8] = fake_cache();
	ring_writer_commit(record, sample);
}

/* The only traps that are left may be those of trampolines. */
static void test_clocks(void)
{
	const struct ring_engine *x;
	struct guest_trap trap = {0};
	uint64_t at;

	create();
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, 1);
	ok(!trace_session_start(fs.session, NULL, NULL) && has_jumps(),
	   "trampolines are installed before all vCPUs are started");
	x = rings();
	fs.fg.vcpus[2].tsc_behind = BEHIND;
	fs.fg.clock += POLL_NS;
	at = x->mapping.gva;
	while (!trampoline_set_at(&x->set, at))
		at++;
	trap.regs.rip = at;
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap) && !fs.fg.stopped, "a trampoline traps");
	is_u64(x->vcpus[2].clock.ns0 - x->vcpus[2].clock.tsc0, BEHIND,
	       "a trampoline's trap has the clocks read again");
	ok(fs.session->refreshing, "they are read again until all vCPUs have started");
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_SYSTEM_STATE, 3);
	fs.fg.clock += POLL_NS;
	trap.regs.rip = at;
	fs.fg.trap_fn(fs.fg.trap_arg, &trap);
	ok(!fs.session->refreshing, "clocks are not read again when all vCPUs have started");
	trace_session_stop(fs.session, NULL);
	fake_session_destroy(&fs);
}

/* After the switch a hit of a trap goes through a ring, in its order. */
static void test_trap_among_trampolines(void)
{
	struct guest_trap trap;

	create();
	trace_session_start(fs.session, NULL, NULL);
	trap = (struct guest_trap){.vcpu = 2,
				   .regs = {.rip = fake_gva(FAKE_KFREE),
					    .rsp = fake_stack_top(2),
					    .rdi = fake_object()}};
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap) && trap.regs.rip == fake_gva(FAKE_KFREE) + 5,
	   "a trap is served while trampolines are in place");
	ok(!trace_session_stop(fs.session, NULL), "stop");
	is_u64(fake_session_recorded(&fs), 1, "a trap among trampolines is recorded once");
	ok(fs.events[0].vcpu == 2 && fs.events[0].record.ptr == fake_object(),
	   "the record of a trap among trampolines has its vCPU and object");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "nothing is lost");
	fake_session_destroy(&fs);
}

/* A bulk allocation that was entered through a trampoline returns where there is only room for a
 * trap: the array that it was given is in the guest's table. */
static void test_bulk_returns_by_trap(void)
{
	uint64_t rsp = fake_stack_top(1);
	struct guest_trap trap = {
		.vcpu = 1, .regs = {.rip = fake_gva(FAKE_BULK_RESULT + 10), .rsp = rsp, .rax = 3}};
	struct ring_saved_array *slot;

	create();
	trace_session_start(fs.session, NULL, NULL);
	for (unsigned int i = 0; i < 3; i++)
		fake_put64(&fs.fg.base, FAKE_ARRAY_GPA + i * 8,
			   fake_object() + i * FAKE_CACHE_SIZE);
	write_entry(1, FAKE_ALLOC_BULK, rsp);
	slot = &rings()->saved_arrays[RING_SAVED_SLOTS - 1];
	*slot = (struct ring_saved_array){rsp - RECORD_KEY_BIAS, fake_direct(FAKE_ARRAY_GPA + 8), 1,
					  0};
	ok(fs.fg.trap_fn(fs.fg.trap_arg, &trap), "a bulk allocation returns by a trap");
	is_u64(slot->key, 0, "the slot of its saved array is free again");
	trace_session_stop(fs.session, NULL);
	is_u64(fake_session_recorded(&fs), 2, "two objects of the bulk allocation are recorded");
	ok(fs.events[0].record.ptr == fake_object() + FAKE_CACHE_SIZE &&
		   fs.events[1].record.ptr == fake_object() + 2 * FAKE_CACHE_SIZE,
	   "the object that was in the array before is not recorded");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "nothing is lost");
	fake_session_destroy(&fs);
}

static void test_paused(void)
{
	create();
	trace_session_start(fs.session, NULL, NULL);
	fs.fg.paused = true;
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "stopping a paused guest restores its text");
	ok(fs.fg.trap_fn && fs.fg.nr_regions == 2,
	   "the memory and the trap handler stay while the guest is paused");
	ok(trace_session_start(fs.session, NULL, NULL) == -EINPROGRESS && !fs.fg.stopped,
	   "tracing cannot start while the guest is paused");
	write_entry(1, FAKE_KMALLOC, fake_stack_top(1));
	fs.fg.paused = false;
	ok(!trace_session_start(fs.session, NULL, NULL) && has_jumps(),
	   "tracing starts when the guest runs again");
	is_u64(fake_session_count(&fs, COUNTER_IN_FLIGHT), 1,
	       "a call in the old rings is counted as unfinished");
	ok(!trace_session_stop(fs.session, NULL) && is_untouched(), "stop");
	fake_session_destroy(&fs);
}

/* The machine has ended: a vCPU that stays inside is not waited for. */
static void test_end(void)
{
	uint64_t stops;

	create();
	trace_session_start(fs.session, NULL, NULL);
	fs.fg.vcpus[1].sregs.halted = false;
	stops = fs.fg.stops;
	ok(!trace_session_end(fs.session, NULL) && fake_session_text_same(&fs),
	   "the end restores the text with a vCPU inside the trampolines");
	ok(fs.fg.stops - stops < 10, "the end does not wait for that vCPU");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "nothing is lost");
	ok(!trace_session_end(fs.session, NULL), "a second end succeeds");
	fake_session_destroy(&fs);
}

/* --- failures ------------------------------------------------------------------------------- */

static uint64_t fail_at_stop;

static void fail_kfree(struct fake_guest *fg)
{
	if (fg->stops == fail_at_stop)
		fg->failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
}

/* Stops of a start: itself, two patch sets, and the two that the switch takes back. */
static void test_text_fails(uint64_t nth_stop, bool stays_on, const char *when)
{
	create();
	fail_at_stop = fs.fg.stops + nth_stop;
	fs.fg.on_stop = fail_kfree;
	ok(trace_session_start(fs.session, NULL, NULL) == -EIO && !fs.fg.stopped, "%s", when);
	fs.fg.on_stop = NULL;
	fs.fg.failing_gpa = 0;
	ok(fake_session_status(&fs).enabled == stays_on && !fs.fg.trap_fn != stays_on,
	   "only a session whose text could not be restored counts as started");
	ok(trace_session_stop(fs.session, NULL) == (stays_on ? 0 : -EALREADY) && is_untouched(),
	   "after the failure is over, a stop leaves nothing");
	fake_session_destroy(&fs);
}

static void fail_kfree_once(struct fake_guest *fg)
{
	fg->failing_gpa = fg->stops == fail_at_stop ? FAKE_PHYS_TEXT + FAKE_KFREE : 0;
}

/* What could not be done at one stop is done at the next. */
static void test_text_fails_once(uint64_t nth_stop)
{
	struct error err = {0};

	create();
	fail_at_stop = fs.fg.stops + nth_stop;
	fs.fg.on_stop = fail_kfree_once;
	ok(trace_session_start(fs.session, NULL, &err) == -EIO && err.code == EIO && !fs.fg.stopped,
	   "a start fails where stop %u cannot write text: %s", (unsigned int)nth_stop, err.text);
	ok(!fake_session_status(&fs).enabled && !fs.fg.trap_fn && is_untouched(),
	   "the start itself has undone all, and no handler is left");
	fs.fg.on_stop = NULL;
	fake_session_destroy(&fs);
}

/* The jumps cannot be written at one stop; the traps are, at the next ones. */
static void test_jumps_fail_once(uint64_t nth_stop)
{
	create();
	fail_at_stop = fs.fg.stops + nth_stop;
	fs.fg.on_stop = fail_kfree_once;
	ok(!trace_session_start(fs.session, NULL, NULL) && has_traps() &&
		   *fake_text(&fs.fg, FAKE_CACHE_ALLOC + 15) == 0xe6,
	   "where stop %u cannot write jumps, entries and returns are traps again",
	   (unsigned int)nth_stop);
	fs.fg.on_stop = NULL;
	fs.fg.failing_gpa = 0;
	ok(strlen(fake_session_status(&fs).no_exitless) != 0, "the reason is told: %s",
	   fake_session_status(&fs).no_exitless);
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 33), 2, "a call is two traps");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) &&
		   fs.fg.nr_regions == 1,
	   "a stop leaves neither text nor memory");
	fake_session_destroy(&fs);
}

/* --- others at the same time ---------------------------------------------------------------- */

static atomic_bool finished, seen;

static void *query(void *arg)
{
	while (!finished) {
		struct trace_status status = fake_session_status(&fs);

		if (status.exitless)
			seen = true;
		if (strlen(status.no_exitless))
			abort();
	}
	return arg;
}

/* A vCPU makes the switch, and holds no lock that readers of the status take. */
static void test_status_during_switch(void)
{
	pthread_t thread;

	create();
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0x1000);
	trace_session_start(fs.session, NULL, NULL);
	finished = false;
	if (pthread_create(&thread, NULL, query, &fs))
		abort();
	for (int i = 0; i < ROUNDS; i++) {
		fs.fg.clock += POLL_NS;
		fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
		if (i == ROUNDS / 2)
			fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0);
		if (has_jumps())
			break;
	}
	for (int ms = 0; ms < PATIENCE_MS && !seen; ms++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	finished = true;
	pthread_join(thread, NULL);
	ok(seen && has_jumps(), "a status reader sees the switch that a vCPU makes");
	trace_session_stop(fs.session, NULL);
	fake_session_destroy(&fs);
}

/* The guest's watchdogs report a lockup after a second. */
static void set_watchdogs(void)
{
	enum { THRESH = 0x30100, STALL = 0x30104 };
	static const struct fake_symbol symbols[] = {
		{"watchdog_thresh", THRESH}, {"rcu_cpu_stall_timeout", STALL}, {NULL, 0}};

	if (fake_guest_add_symbols(&fs.fg, symbols))
		abort();
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + THRESH, 1);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + STALL, 21);
}

/* Put events until one is lost. Returns for how long that one was waited with, in ms. */
static uint64_t put_until_lost(void)
{
	uint64_t n = 0, began;
	int ret;

	do {
		const struct kmem_record record =
			make_alloc(KMEM_TYPE_KMALLOC, n * 0x1234567, n * 16, n, n, (int64_t)n);

		n++;
		began = clock_monotonic_ms();
		ret = trace_writer_append(fs.writer, 0, &record);
	} while (!ret);
	return clock_monotonic_ms() - began;
}

/* vCPUs put events themselves where there are only traps. */
static void test_hung_disk(void)
{
	uint64_t took, began;

	fake_session_create(&fs);
	set_watchdogs();
	fake_session_start(&fs);
	output_hold(fs.writer->output);
	took = put_until_lost();
	ok(took < 2500,
	   "a vCPU waits for a disk that hangs as long as the guest's watchdogs allow: %" PRIu64
	   " ms",
	   took);
	began = clock_monotonic_ms();
	fake_session_call(&fs, 0, FAKE_KMALLOC, 8);
	ok(clock_monotonic_ms() - began < 400, "no call is waited with after that");
	ok(put_until_lost() < 400, "until the disk shows life");
	output_resume(fs.writer->output);
	ok(!trace_session_stop(fs.session, NULL), "tracing stops");
	fake_session_destroy(&fs);
}

static void test_patience(void)
{
	create();
	set_watchdogs();
	is_u64(session_patience_ms(fs.session), 500,
	       "before there are rings, vCPUs wait for a disk");
	fake_session_start(&fs);
	is_u64(session_patience_ms(fs.session), OUTPUT_STALL_MS,
	       "with rings, the host's thread does");
	ok(!trace_session_stop(fs.session, NULL), "tracing stops again");
	fake_session_destroy(&fs);
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		return 1;
	test_start();
	test_toggling();
	test_never();
	test_later();
	test_trap_among_trampolines();
	test_clocks();
	test_bulk_returns_by_trap();
	test_paused();
	test_end();
	test_text_fails(3, false, "a start fails where traps cannot be written");
	test_text_fails(4, true, "a start fails where traps cannot be removed for the switch");
	test_text_fails_once(4);
	test_jumps_fail_once(7);
	test_status_during_switch();
	test_hung_disk();
	test_patience();
	free(ram);
	return tap_done();
}
