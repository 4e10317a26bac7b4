/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sessions whose guest changes its own mcount sites: what ftrace finds, and what is patched again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/site.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { CALL = 0xe8, TRAP = 0xe6, HLT = 0xf4, NOP = 0x90 };

static struct fake_session fs;

/* The guest's ftrace begins to change sites, and is about to read them. */
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

/* ftrace calls something at that site from now on, or no longer. */
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
	is_u64(nr_trapped(), FAKE_NR_PROBES,
	       "before ftrace changes sites, all of them are trapped");
	is_u64((uint64_t)enter(), 1,
	       "the guest's ftrace meets one trap when it begins to change sites");
	ok(all_original(), "while ftrace changes sites, all have their original bytes");
	is_u64((uint64_t)leave(), 2, "ftrace meets two traps when it ends");
	is_u64(nr_trapped(), FAKE_NR_PROBES, "after ftrace has ended, all sites are trapped again");
	is_u64((uint64_t)fake_session_call(&fs, 0, FAKE_KMALLOC, 8), 2,
	       "a call after the hand-off hits two traps");
	is_u64(fake_session_recorded(&fs), 1, "a call after the hand-off is recorded");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_YIELDS], 1, "a hand-off is counted as a gap");
	ok(status.counters.v[COUNTER_YIELDED_NS] > 0, "a hand-off's gap has a duration");
	is_u64(status.counters.v[COUNTER_YIELDED_FUNCTIONS] + status.nr_refused, 0,
	       "no function is refused if ftrace has taken none");
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
	   "a site that ftrace has taken is left to it");
	is_u64(nr_trapped(), FAKE_NR_PROBES - 1, "all sites but the yielded one are trapped");
	status = fake_session_status(&fs);
	is_u64(status.nr_refused, 1, "a yielded site is reported as one refusal");
	is_str(status.refused[0].function, "__kmalloc", "the refusal names the function");
	ok(status.refused[0].gva == fake_gva(FAKE_KMALLOC) &&
		   strstr(status.refused[0].reason, "guest's own ftrace"),
	   "the refusal has the address and the reason: %s", status.refused[0].reason);
	fake_session_call(&fs, 0, FAKE_KMALLOC, 8);
	is_u64(fake_session_recorded(&fs), 0, "a call of a yielded function is not recorded");
	fake_session_call(&fs, 0, FAKE_CACHE_ALLOC, 0);
	is_u64(fake_session_recorded(&fs), 1, "calls of other functions are recorded");

	enter();
	ok(all_original(),
	   "at the next change ftrace finds its own call, and the original bytes elsewhere");
	give_back(FAKE_KMALLOC, "\x66\x66\x66\x66\x90");
	leave();
	is_u64(nr_trapped(), FAKE_NR_PROBES, "a site that ftrace gives back is trapped again");
	is_u64(fake_session_status(&fs).nr_refused, 0,
	       "a site that was given back is no longer refused");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 8);
	is_u64(fake_session_recorded(&fs), 2,
	       "calls of a function that was given back are recorded");
	status = fake_session_status(&fs);
	is_u64(status.counters.v[COUNTER_YIELDS], 2, "two changes of ftrace are two gaps");
	is_u64(status.counters.v[COUNTER_YIELDED_FUNCTIONS], 1,
	       "a site that ftrace took once is counted once");
	fake_session_end(&fs);
}

static void test_all_taken(void)
{
	fake_session_begin(&fs);
	enter();
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		take(fake_functions[i]);
	leave();
	is_u64(nr_trapped(), 0, "if ftrace takes all sites, none is trapped");
	is_u64(fake_session_status(&fs).nr_refused, FAKE_NR_PROBES,
	       "if ftrace takes all sites, all are refused");
	enter();
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		give_back(fake_functions[i], "\x0f\x1f\x44\0\0");
	leave();
	is_u64(nr_trapped(), FAKE_NR_PROBES, "if ftrace gives all sites back, all are trapped");
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
	   "a stop leaves a site to ftrace that it has taken");
	is_u64(fake_session_status(&fs).restored.foreign, 0,
	       "a yielded site is not counted as foreign at the stop");
	ok(!trace_session_start(fs.session, NULL, NULL), "a session starts");
	is_u64(fake_session_status(&fs).nr_refused, 1, "a start refuses a site that ftrace holds");
	is_u64(nr_trapped(), FAKE_NR_PROBES - 1, "all sites but the yielded one are trapped");
	enter();
	give_back(FAKE_KFREE, "\x0f\x1f\x44\0\0");
	leave();
	is_u64(nr_trapped(), FAKE_NR_PROBES,
	       "a site held since the start is trapped once it is given back");
	is_u64(fake_session_status(&fs).nr_refused, 0,
	       "a site held since the start is no longer refused once it is given back");
	fake_session_end(&fs);
}

static void test_stop_inside(void)
{
	fake_session_begin(&fs);
	enter();
	ok(!trace_session_stop(fs.session, NULL), "a session stops while ftrace changes sites");
	is_u64(fake_session_count(&fs, COUNTER_YIELDS), 1,
	       "a stop while ftrace changes sites counts the gap");
	is_u64((uint64_t)leave(), 0, "ftrace ends without a trap after the stop");
	ok(fake_session_text_same(&fs),
	   "after a stop inside the change the text is the guest's own");
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
	   "a start while ftrace changes sites is refused: %s", err.text);
	ok(!fs.fg.stopped, "after a refused start the guest runs");
	fs.fg.stops = 0;
	fs.fg.on_stop = release_lock;
	ok(!trace_session_start(fs.session, NULL, NULL), "a start waits until ftrace has ended");
	is_u64(nr_trapped(), FAKE_NR_PROBES, "a start that waited traps all sites");
	fake_session_end(&fs);
}

static void test_endbr(void)
{
	fake_session_create(&fs);
	fake_code(&fs.fg, FAKE_PREPARE, "\xf3\x0f\x1e\xfa\x90\x90\xc3", 7);
	fake_session_keep_text(&fs);
	ok(!trace_session_start(fs.session, NULL, NULL), "a session starts");
	ok(!memcmp(fake_text(&fs.fg, FAKE_PREPARE), "\xf3\x0f\x1e\xfa\xe6", 5),
	   "a one-shot trap is put behind an ENDBR");
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
	ok(failure && failure->code,
	   "an error while sites are patched again is a failure of the session: %s",
	   failure ? failure->text : "");
	fs.fg.failing_gpa = 0;
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "a stop after that failure leaves the guest's text");
	fake_session_destroy(&fs);
}

/* What could not be reverted for ftrace is still a tracer's when ftrace has ended. */
static void test_failed_give(void)
{
	fake_session_begin(&fs);
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	enter();
	ok(trace_session_failure(fs.session), "a site that cannot be reverted is a failure");
	fs.fg.failing_gpa = 0;
	leave();
	is_u64(nr_trapped(), FAKE_NR_PROBES, "after ftrace has ended all sites are trapped again");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "a stop after that failure leaves the guest's text");
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
	test_failed_give();
	return tap_done();
}
