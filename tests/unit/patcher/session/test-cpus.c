/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sessions whose guest takes CPUs on and off line. */
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	ALL = (1 << FAKE_VCPUS) - 1,
	WITHOUT_2 = ALL & ~(1 << 2),
	BEHIND = 5000,
	RAM_PAGES = 0x30100,
};

static struct fake_session fs;

static void start(bool exitless)
{
	const struct trace_options options = {.exitless = exitless, .ring_bytes = RING_BYTES};

	trace_session_set_options(fs.session, &options);
	ok(!trace_session_start(fs.session, NULL, NULL), "a session starts");
}

static void begin(bool exitless)
{
	fake_session_create(&fs);
	start(exitless);
}

static void set_online(uint64_t mask)
{
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_CPU_ONLINE_MASK, mask);
}

/* Whether the session may go on; *stops: for how many stops of the guest it took. */
static bool goes_on(unsigned int *stops)
{
	const unsigned int before = fs.fg.stops;

	if (trace_session_tick(fs.session, NULL))
		return false;
	*stops = fs.fg.stops - before;
	return !trace_session_must_end(fs.session);
}

static void test_same(void)
{
	unsigned int stops;

	begin(true);
	goes_on(&stops);
	ok(goes_on(&stops) && !stops, "while the CPUs stay the same the guest is not stopped");
	set_online(WITHOUT_2);
	ok(goes_on(&stops) && stops, "when one goes off line, all are checked");
	ok(goes_on(&stops) && !stops, "once");
	fs.fg.vcpus[2].tsc_behind = 500;
	set_online(ALL);
	ok(goes_on(&stops), "when it comes back with nearly the same counter, tracing goes on");
	is_u64(ring_engine_of(fs.session->ring_engine)->vcpus[2].clock.ns0 -
		       ring_engine_of(fs.session->ring_engine)->vcpus[2].clock.tsc0,
	       500, "with the counter that it has now");
	fake_session_end(&fs);
}

static void test_skewed(void)
{
	unsigned int stops;

	begin(true);
	fs.fg.vcpus[2].tsc_behind = BEHIND;
	set_online(WITHOUT_2);
	ok(!goes_on(&stops), "a counter that was set ends tracing");
	is_str(trace_session_must_end(fs.session),
	       "the guest has changed its CPUs: the time stamp counters of vCPUs 0 and 2 differ",
	       "the session says why");
	fs.fg.vcpus[2].tsc_behind = 0;
	ok(!trace_session_stop(fs.session, NULL) && !trace_session_start(fs.session, NULL, NULL),
	   "tracing may start again");
	ok(goes_on(&stops), "and goes on if they agree");
	fake_session_end(&fs);
}

/* Off line and on again between two looks: the mask is the same. */
static void test_quick(void)
{
	const uint64_t at = FAKE_PER_CPU_GPA + 2 * 0x1000 + FAKE_RCU_DATA - FAKE_PER_CPU;
	unsigned int stops;

	begin(true);
	goes_on(&stops);
	fs.fg.vcpus[2].tsc_behind = BEHIND;
	ok(goes_on(&stops) && !stops, "while no CPU goes the counters are not compared");
	fake_put64(&fs.fg.base, at + FAKE_RCU_OFFLINE, 4711);
	ok(!goes_on(&stops) && strstr(trace_session_must_end(fs.session), "vCPUs 0 and 2 differ"),
	   "that of a CPU that was off line for a moment is");
	fs.fg.vcpus[2].tsc_behind = 0;
	fake_session_end(&fs);
}

static void saw_stamp(struct guest *guest, uint64_t tsc)
{
	(void)guest;
	(void)tsc;
}

static void set_unstable(uint32_t unstable)
{
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_TSC_UNSTABLE, unstable);
}

/* All counters are taken for one: only the guest can compare them. `clock`: room for its
 * operations. */
static void begin_by_stamps(struct guest_clock_ops *clock)
{
	unsigned int stops;

	fake_session_create(&fs);
	*clock = *fs.fg.guest.clock;
	clock->tsc_seen = saw_stamp;
	fs.fg.guest.clock = clock;
	start(true);
	goes_on(&stops);
}

static void test_stamps_only(void)
{
	struct guest_clock_ops clock;
	unsigned int stops;

	begin_by_stamps(&clock);
	set_unstable(1);
	ok(goes_on(&stops) && !stops, "a guest that finds its counters unstable is not looked at");
	set_online(WITHOUT_2);
	ok(!goes_on(&stops), "after it has changed its CPUs, that ends tracing");
	is_str(trace_session_must_end(fs.session),
	       "the guest has changed its CPUs: by its own comparison, its time stamp counters are "
	       "unstable",
	       "the session says why");
	trace_session_stop(fs.session, NULL);
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing may start again");
	set_online(ALL);
	ok(goes_on(&stops), "what the guest had found before is nothing new");
	set_unstable(0);
	fake_session_end(&fs);
}

/* Linux 6.7 has a worker say so, when the CPU is on line. */
static void test_late_verdict(void)
{
	struct guest_clock_ops clock;
	unsigned int stops;

	begin_by_stamps(&clock);
	set_online(WITHOUT_2);
	ok(goes_on(&stops) && stops && goes_on(&stops), "CPUs have changed");
	set_unstable(1);
	ok(!goes_on(&stops), "the guest's verdict on their counters may come behind that");
	set_unstable(0);
	fake_session_end(&fs);
	begin_by_stamps(&clock);
	set_online(WITHOUT_2);
	goes_on(&stops);
	fs.session->cpus_changed_ns -= UINT64_C(11000000000);
	set_unstable(1);
	ok(goes_on(&stops), "one that comes long after is about another clock");
	set_online(ALL);
	set_unstable(0);
	fake_session_end(&fs);
}

/* The clocksource watchdog of a guest on a busy host, and hours later another CPU. */
static void test_other_verdict(void)
{
	struct guest_clock_ops clock;
	unsigned int stops;

	begin_by_stamps(&clock);
	set_unstable(1);
	goes_on(&stops);
	ok(fs.session->tsc_unstable_ns && !fake_session_status(&fs).tsc_doubtful,
	   "it is noted when the guest finds its counters unstable");
	fs.session->tsc_unstable_ns -= UINT64_C(11000000000);
	set_online(WITHOUT_2);
	ok(goes_on(&stops) && stops,
	   "a CPU that goes off line long after that does not end tracing");
	set_online(ALL);
	trace_session_stop(fs.session, NULL);
	ok(!trace_session_start(fs.session, NULL, NULL) && fake_session_status(&fs).tsc_doubtful,
	   "when tracing starts after that, the status says so");
	set_unstable(0);
	fake_session_end(&fs);
}

static void test_renumbered(void)
{
	const uint64_t at = FAKE_PER_CPU_GPA + 2 * 0x1000 + FAKE_CPU_NUMBER - FAKE_PER_CPU;
	unsigned int stops;

	begin(true);
	fake_put32(&fs.fg.base, at, 3);
	set_online(WITHOUT_2);
	ok(!goes_on(&stops) && strstr(trace_session_must_end(fs.session), "finds 3 for the number"),
	   "another number ends tracing");
	fake_put32(&fs.fg.base, at, 2);
	fake_session_end(&fs);
}

/* It is in long mode, and has no per-CPU data yet. */
static void test_starting(void)
{
	unsigned int stops;
	uint64_t base;

	begin(true);
	base = fs.fg.vcpus[2].sregs.gs_base;
	fs.fg.vcpus[2].sregs.gs_base = 0;
	set_online(WITHOUT_2);
	ok(goes_on(&stops) && stops, "a CPU that is being started does not end tracing");
	ok(goes_on(&stops) && stops, "it is looked at again");
	fs.fg.vcpus[2].sregs.gs_base = base;
	ok(goes_on(&stops) && stops && goes_on(&stops) && !stops, "until it has started");
	fake_session_end(&fs);
}

/* Each read of its memory stops such a guest. */
static void test_seldom(void)
{
	unsigned int stops;
	uint64_t reads;

	begin(true);
	fs.fg.guest.caps |= GUEST_STOPS_TO_READ;
	goes_on(&stops);
	reads = fs.fg.reads;
	ok(goes_on(&stops) && fs.fg.reads == reads, "a tick soon after another reads nothing");
	fs.session->next_cpus = 0;
	ok(goes_on(&stops) && fs.fg.reads > reads, "a later one does");
	fake_session_end(&fs);
}

static unsigned int asked;

static int note_asked(struct guest *guest, struct error *err)
{
	(void)guest;
	(void)err;
	asked++;
	return 0;
}

static void set_pages(uint64_t pages)
{
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + RAM_PAGES, pages);
}

/* As if a second had passed: the backend may be asked again. */
static bool asks_again(void)
{
	const unsigned int before = asked;
	unsigned int stops;

	fs.session->next_memory = 0;
	return goes_on(&stops) && asked > before;
}

/* What is plugged in has to be read, too, and what is plugged out may be other memory soon. */
static void test_memory(void)
{
	static const struct fake_symbol symbols[] = {{"_totalram_pages", RAM_PAGES}, {NULL, 0}};
	struct guest_memory_ops memory;
	uint64_t before;

	fake_session_create(&fs);
	memcpy(&before, fake_text(&fs.fg, RAM_PAGES), sizeof(before));
	if (fake_guest_add_symbols(&fs.fg, symbols))
		abort();
	memory = *fs.fg.guest.memory;
	memory.follow = note_asked;
	fs.fg.guest.memory = &memory;
	set_pages(1000);
	start(true);
	is_u64(asked, 1, "when tracing starts the backend is asked what the memory is now");
	ok(!asks_again(), "while the guest has as many pages it is not asked");
	set_pages(2000);
	ok(asks_again(), "when memory was plugged in it is");
	set_pages(3000);
	asked = 0;
	for (unsigned int i = 0, stops; i < 5; i++)
		goes_on(&stops);
	is_u64(asked, 0, "but not again at once");
	set_pages(1000);
	ok(asks_again() && asks_again(), "what the guest gives away is plugged out a moment later");
	fs.session->memory_settled = 0;
	ok(!asks_again(), "some seconds later it is not asked any more");
	asked = 0;
	set_pages(before);
	fake_session_end(&fs);
	is_u64(asked, 1, "when tracing ends it is");
}

static void test_traps(void)
{
	unsigned int stops;

	begin(false);
	fs.fg.vcpus[2].tsc_behind = BEHIND;
	set_online(WITHOUT_2);
	ok(goes_on(&stops), "in trap mode the counters do not matter");
	fake_session_end(&fs);
}

int main(void)
{
	test_same();
	test_skewed();
	test_quick();
	test_stamps_only();
	test_late_verdict();
	test_other_verdict();
	test_renumbered();
	test_starting();
	test_seldom();
	test_memory();
	test_traps();
	return tap_done();
}
