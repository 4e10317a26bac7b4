// SPDX-License-Identifier: GPL-2.0-or-later
/* Sessions whose guest changes its own mcount sites: what it finds, and what is taken again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/site.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { CALL = 0xe8, TRAP = 0xe6, HLT = 0xf4, NOP = 0x90 };

static struct fake_session fs;

/* The guest's ftrace begins to change sites, and is about to look at them. */
static int enter(void)
{
	fake_text(&fs.fg, FAKE_DURING_UPDATE)[0] = HLT;
	return fake_session_call(&fs, 1, FAKE_UPDATE, 0);
}

static int leave(void)
{
	fake_text(&fs.fg, FAKE_DURING_UPDATE)[0] = NOP;
	return fake_guest_run(&fs.fg, 1);
}

/* It calls something at that site from now on, or no more. */
static void take(uint64_t site)
{
	fake_branch(&fs.fg, site, CALL, FAKE_RETURN_THUNK);
	memcpy(fs.text + site, fake_text(&fs.fg, site), SITE_SIZE);
}

static void give_back(uint64_t site, const char *nop)
{
	memcpy(fake_text(&fs.fg, site), nop, SITE_SIZE);
	memcpy(fs.text + site, nop, SITE_SIZE);
}

static unsigned int nr_trapped(void)
{
	unsigned int n = 0;

	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		n += *fake_text(&fs.fg, fake_functions[i]) == TRAP;
	return n;
}

static bool all_original(void)
{
	bool same = true;

	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		same &= !memcmp(fake_text(&fs.fg, fake_functions[i]), fs.text + fake_functions[i],
				SITE_SIZE);
	return same;
}

static void test_nothing_taken(void)
{
	struct trace_status status;

	fake_session_begin(&fs);
	is_u64(nr_trapped(), FAKE_NR_PROBES, "all sites are trapped");
	is_u64((uint64_t)enter(), 1, "the guest begins to change sites");
	ok(all_original(), "it finds all of them as they were");
	is_u64((uint64_t)leave(), 2, "it ends");
	is_u64(nr_trapped(), FAKE_NR_PROBES, "all sites are trapped again");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 8), 2, "a call");
	is_u64(fake_session_recorded(&fs), 1, "is recorded");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_YIELDS], 1, "it is told that there was a gap");
	ok(status.counters.v[COUNTER_YIELDED_NS] > 0, "of some time");
	is_u64(status.counters.v[COUNTER_YIELDED_FUNCTIONS] + status.nr_refused, 0,
	       "and that no function was taken");
	fake_session_end(&fs);
}

static void test_taken(void)
{
	struct trace_status status;

	fake_session_begin(&fs);
	enter();
	take(FAKE_KMALLOC);
	leave();
	ok(!memcmp(fake_text(&fs.fg, FAKE_KMALLOC), fs.text + FAKE_KMALLOC, SITE_SIZE),
	   "a site that the guest has taken stays its own");
	is_u64(nr_trapped(), FAKE_NR_PROBES - 1, "all others are trapped");
	status = fake_session_status(&fs);
	is_u64(status.nr_refused, 1, "one function is refused");
	is_str(status.refused[0].function, "__kmalloc", "which is named");
	ok(status.refused[0].gva == fake_gva(FAKE_KMALLOC) &&
		   strstr(status.refused[0].reason, "guest's own ftrace"),
	   "with its address and why: %s", status.refused[0].reason);
	fake_session_call(&fs, 0, FAKE_KMALLOC, 8);
	is_u64(fake_session_recorded(&fs), 0, "it is not traced");
	fake_session_call(&fs, 0, FAKE_CACHE_ALLOC, 0);
	is_u64(fake_session_recorded(&fs), 1, "the others are");

	enter();
	ok(all_original(), "the next time it finds its own call, and the others as they were");
	give_back(FAKE_KMALLOC, "\x66\x66\x66\x66\x90");
	leave();
	is_u64(nr_trapped(), FAKE_NR_PROBES, "a site given back is taken again");
	is_u64(fake_session_status(&fs).nr_refused, 0, "nothing is refused any more");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 8);
	is_u64(fake_session_recorded(&fs), 2, "it is traced again");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_YIELDS], 2, "two gaps");
	is_u64(status.counters.v[COUNTER_YIELDED_FUNCTIONS], 1, "a function was the guest's once");
	fake_session_end(&fs);
}

static void test_all_taken(void)
{
	fake_session_begin(&fs);
	enter();
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		take(fake_functions[i]);
	leave();
	is_u64(nr_trapped(), 0, "all are taken");
	is_u64(fake_session_status(&fs).nr_refused, FAKE_NR_PROBES, "and refused");
	enter();
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		give_back(fake_functions[i], "\x0f\x1f\x44\0\0");
	leave();
	is_u64(nr_trapped(), FAKE_NR_PROBES, "all are given back");
	fake_session_end(&fs);
}

/* Tracing ends while the guest has a site, and begins again. */
static void test_stop_taken(void)
{
	fake_session_begin(&fs);
	enter();
	take(FAKE_KFREE);
	leave();
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "stop leaves the guest its site");
	is_u64(fake_session_status(&fs).restored.foreign, 0, "which nobody has to hear of");
	ok(!trace_session_start(fs.session, NULL, NULL), "start");
	is_u64(fake_session_status(&fs).nr_refused, 1, "the site is refused from the beginning");
	is_u64(nr_trapped(), FAKE_NR_PROBES - 1, "all others are trapped");
	enter();
	give_back(FAKE_KFREE, "\x0f\x1f\x44\0\0");
	leave();
	is_u64(nr_trapped(), FAKE_NR_PROBES, "given back, it is trapped like them");
	is_u64(fake_session_status(&fs).nr_refused, 0, "and refused no more");
	fake_session_end(&fs);
}

static void test_stop_inside(void)
{
	fake_session_begin(&fs);
	enter();
	ok(!trace_session_stop(fs.session, NULL), "stop while the guest changes sites");
	is_u64(fake_session_count(&fs, COUNTER_YIELDS), 1, "the gap is counted");
	is_u64((uint64_t)leave(), 0, "which goes on without a trap");
	ok(fake_session_text_same(&fs), "and leaves its own text");
	fake_session_destroy(&fs);
}

static void release_lock(struct fake_guest *fg)
{
	if (fg->stops > 4)
		fake_put64(&fg->base, FAKE_PHYS_TEXT + FAKE_FTRACE_LOCK, 0);
}

static void test_start_inside(void)
{
	struct error err;

	fake_session_create(&fs);
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + FAKE_FTRACE_LOCK, 1);
	ok(trace_session_start(fs.session, NULL, &err) == -EAGAIN && fake_session_text_same(&fs),
	   "no start while the guest changes sites: %s", err.text);
	ok(!fs.fg.stopped, "the guest runs on");
	fs.fg.stops = 0;
	fs.fg.on_stop = release_lock;
	ok(!trace_session_start(fs.session, NULL, NULL), "a start waits until it has ended");
	is_u64(nr_trapped(), FAKE_NR_PROBES, "and then all sites are trapped");
	fake_session_end(&fs);
}

static void test_endbr(void)
{
	fake_session_create(&fs);
	fake_code(&fs.fg, FAKE_PREPARE, "\xf3\x0f\x1e\xfa\x90\x90\xc3", 7);
	fake_session_keep_text(&fs);
	ok(!trace_session_start(fs.session, NULL, NULL), "start");
	ok(!memcmp(fake_text(&fs.fg, FAKE_PREPARE), "\xf3\x0f\x1e\xfa\xe6", 5),
	   "an ENDBR stays where it is");
	fake_session_end(&fs);
}

static void test_failure(void)
{
	const struct error *failure;

	fake_session_begin(&fs);
	enter();
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	leave();
	failure = trace_session_failure(fs.session);
	ok(failure && failure->code, "sites cannot be taken again: %s",
	   failure ? failure->text : "");
	fs.fg.failing_gpa = 0;
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "stop leaves the guest's text");
	fake_session_destroy(&fs);
}

int main(void)
{
	test_nothing_taken();
	test_taken();
	test_all_taken();
	test_stop_taken();
	test_stop_inside();
	test_start_inside();
	test_endbr();
	test_failure();
	return tap_done();
}
