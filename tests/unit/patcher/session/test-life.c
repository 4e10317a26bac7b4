/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a session finds its kernel, and its last end, when the guest's machine has stopped: what is
 * undone, and what is said of it.
 */
#include <errno.h>
#include <stdlib.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, ALL_PLACES = FAKE_NR_PROBES + FAKE_NR_EXITS, PATIENCE_MS = 20000 };

static struct fake_session fs;

static void begin(bool traps)
{
	const struct trace_options options = {.exitless = !traps, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	if (!traps)
		fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
	ok(!trace_session_start(fs.session, NULL, NULL), "a session %s traps starts",
	   traps ? "with" : "without");
}

static size_t restored(void)
{
	return fake_session_status(&fs).restored.restored;
}

static void test_counts(void)
{
	begin(true);
	ok(!trace_session_end(fs.session, NULL) && fake_session_text_same(&fs),
	   "the end puts the text back");
	is_u64(restored(), ALL_PLACES, "and counts the places");
	ok(!trace_session_end(fs.session, NULL), "a second end finds nothing");
	is_u64(restored(), ALL_PLACES, "and counts nothing");
	fake_session_destroy(&fs);
}

static void test_asks(void)
{
	begin(false);
	ok(fs.session->asks.active, "the guest's questions are answered");
	ok(!trace_session_end(fs.session, NULL) && fake_session_text_same(&fs),
	   "the end puts the text back");
	ok(!fs.session->asks.active, "and no question is answered any more");
	fake_session_destroy(&fs);
}

/* One-shot traps are not the engine's. */
static void test_oneshots_fail(void)
{
	struct error err = {0};

	begin(true);
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_HIBERNATE;
	ok(trace_session_end(fs.session, &err) == -EIO && err.code == EIO,
	   "a one-shot trap that stays is an error: %s", err.text);
	is_u64(restored(), ALL_PLACES, "all other places are put back");
	fs.fg.failing_gpa = 0;
	ok(!trace_session_end(fs.session, NULL) && fake_session_text_same(&fs),
	   "the next end puts it back");
	fake_session_destroy(&fs);
}

/* Nor are the jumps of functions that ask. */
static void test_asks_fail(void)
{
	struct error err = {0};

	begin(false);
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_HIBERNATE;
	ok(trace_session_end(fs.session, &err) == -EIO && err.code == EIO,
	   "a question's jump that stays is an error: %s", err.text);
	fs.fg.failing_gpa = 0;
	fake_session_destroy(&fs);
	begin(false);
	fs.fg.missing_gpa = FAKE_PHYS_TEXT + FAKE_PREPARE;
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_HIBERNATE;
	ok(trace_session_end(fs.session, &err) == -EFAULT && err.code == EFAULT,
	   "the first error of several jumps is told: %s", err.text);
	fs.fg.missing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	fake_session_destroy(&fs);
	begin(false);
	fs.fg.missing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_HIBERNATE;
	ok(trace_session_end(fs.session, &err) == -EFAULT && err.code == EFAULT,
	   "so is that of a site, before that of a jump: %s", err.text);
	fs.fg.failing_gpa = fs.fg.missing_gpa = 0;
	fake_session_destroy(&fs);
}

/* The engine's patches are out, and its memory may be gone. */
static void test_half_stopped(bool exitless)
{
	const struct trace_options options = {.exitless = exitless, .ring_bytes = RING_BYTES};
	const char *const specs[] = {"kmem:pages,pid=5", exitless ? "function:kfree" : NULL, NULL};
	const char *const other[] = {"kmem:pages,pid=6"};
	struct error err = {0};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
	ok(!trace_session_start(fs.session, specs, NULL), "a session starts");
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_HIBERNATE;
	ok(trace_session_stop(fs.session, &err) == -EIO, "a stop fails half-way: %s", err.text);
	ok(!exitless || ring_engine_has_left(ring_engine_of(fs.session->ring_engine), PATIENCE_MS),
	   "the guest leaves the rings");
	is_u64(fs.fg.nr_regions, 1, "they are gone");
	fs.fg.failing_gpa = 0;
	ok(!trace_session_tick(fs.session, NULL) && !direct_is_active(fs.session) &&
		   *fake_text(&fs.fg, FAKE_KFREE) == fs.text[FAKE_KFREE],
	   "nothing is patched any more");
	ok(trace_session_set_instances(fs.session, other, 1, &err) == -EBUSY,
	   "a change is refused: %s", err.text);
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "another stop does the rest");
	ok(!trace_session_set_instances(fs.session, other, 1, &err) &&
		   !trace_session_start(fs.session, NULL, &err),
	   "tracing may start again: %s", err.text);
	fake_session_end(&fs);
}

/* Of several errors the first is told. */
static void test_both_fail(void)
{
	struct error err = {0};

	begin(true);
	fs.fg.missing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_HIBERNATE;
	ok(trace_session_end(fs.session, &err) == -EFAULT && err.code == EFAULT,
	   "the first error of an end is told: %s", err.text);
	fs.fg.failing_gpa = fs.fg.missing_gpa = 0;
	fake_session_destroy(&fs);
}

static void test_none(void)
{
	trace_session_destroy(NULL);
	ok(true, "no session can be destroyed, too");
}

/* What a guest makes the tracer remember counts against one budget. */
static void test_budget(void)
{
	fake_session_create(&fs);
	ok(fs.fg.guest.budget && fs.fg.guest.budget == trace_writer_budget(fs.writer),
	   "a guest has its trace's budget");
	trace_session_destroy(fs.session);
	fs.session = NULL;
	ok(!fs.fg.guest.budget, "until the session ends");
	ok(!trace_session_create(&fs.fg.guest, &fs.fg.base.image, NULL, &fs.session, NULL) &&
		   !fs.fg.guest.budget,
	   "without a trace there is none");
	fake_session_destroy(&fs);
}

static struct trace_session *create_alone(void)
{
	struct trace_session *session;

	if (trace_session_create(&fs.fg.guest, &fs.fg.base.image, NULL, &session, NULL))
		abort();
	return session;
}

/* Its text is not where this session's patches would go. */
static void overwrite_banner(void)
{
	fake_text(&fs.fg, FAKE_BANNER)[0] ^= 1;
}

static void test_locate(uint32_t caps)
{
	struct trace_session *session;
	unsigned int stops;

	fake_session_create(&fs);
	fs.fg.guest.caps |= caps;
	session = create_alone();
	stops = fs.fg.stops;
	ok(!trace_session_locate(session, NULL) && session->located &&
		   session->kernel.phys_text == FAKE_PHYS_TEXT &&
		   session->kernel.virt_slide == FAKE_SLIDE,
	   "a session finds its kernel");
	ok(!fs.fg.stopped && fs.fg.stops - stops == (caps ? 1 : 0),
	   caps ? "for all reads of a slow memory the guest is stopped once"
		: "without stopping the guest");
	overwrite_banner();
	ok(trace_session_locate(session, NULL) == -ESTALE, "it looks again whether it is there");
	trace_session_destroy(session);
	session = create_alone();
	ok(trace_session_locate(session, NULL) < 0 && !session->located,
	   "where there is none it finds none");
	overwrite_banner();
	ok(!trace_session_locate(session, NULL) && session->located, "until there is one");
	trace_session_destroy(session);
	fake_session_destroy(&fs);
}

int main(void)
{
	test_locate(0);
	test_locate(GUEST_STOPS_TO_READ);
	test_counts();
	test_asks();
	test_oneshots_fail();
	test_asks_fail();
	test_half_stopped(true);
	test_half_stopped(false);
	test_both_fail();
	test_none();
	test_budget();
	return tap_done();
}
