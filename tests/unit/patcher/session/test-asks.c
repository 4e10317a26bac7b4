/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions on a fake guest without traps, whose functions ask before the guest changes its own text
 * or leaves its kernel. The test plays the guest's code: it writes the boxes.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "patcher/text/site.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	PATIENCE_MS = 10000,
	SOON_MS = 100,
	JMP = 0xe9,
	CALL = 0xe8,
	SLOT = FAKE_CACHE_ALLOC + 15,
	SLOT_SIZE = 5,
};

static const uint64_t askers[SESSION_YIELDS] = {FAKE_PREPARE, FAKE_PREPARE_KPROBE, FAKE_HIBERNATE,
						FAKE_KEXEC};
static struct fake_session fs;

/* The kernel has these symbols, too. */
static void begin_with(const struct fake_symbol *symbols)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};
	struct error err = {0};

	fake_session_create(&fs);
	if (fake_guest_add_symbols(&fs.fg, symbols))
		abort();
	fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
	if (!ok(!trace_session_start(fs.session, NULL, &err), "a guest without traps is traced"))
		tap_diag("%s", err.text);
}

static void begin(void)
{
	static const struct fake_symbol none[] = {{NULL, 0}};

	begin_with(none);
}

static void end(void)
{
	ok(!trace_session_failure(fs.session), "nothing has failed");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) &&
		   fs.fg.nr_regions == 1,
	   "after a stop text and memory are what they were");
	fake_session_destroy(&fs);
}

/* A task that polls holds its CPU: by half of what the lowest threshold of a watchdog allows. */
static void test_spins(void)
{
	const struct engine_asks *asks;
	unsigned int spins = 0, longest_ms = 0;

	begin();
	asks = &fs.session->asks.config;
	for (size_t i = 0; i < asks->n; i++) {
		if (asks->v[i].wait != ASK_SPIN)
			continue;
		spins++;
		longest_ms = asks->v[i].patience_ms > longest_ms ? asks->v[i].patience_ms : longest_ms;
	}
	ok(spins && longest_ms <= 1000, "what polls does so for %u ms at most", longest_ms);
	end();
}

static struct ask_box *box(enum session_ask kind)
{
	return &ring_engine_of(fs.session->ring_engine)->asks.boxes[kind];
}

/* A task comes to the function; returns its question. */
static uint64_t ask(enum session_ask kind, uint64_t argument)
{
	struct ask_box *b = box(kind);
	uint64_t asked = b->asked + 1;

	__atomic_store_n(&b->argument, argument, __ATOMIC_RELEASE);
	__atomic_store_n(&b->asked, asked, __ATOMIC_RELEASE);
	__atomic_store_n(&b->waiting, 1, __ATOMIC_RELEASE);
	return asked;
}

/* The answer to it: 0 there is none, 1 go, 2 it fails. The task goes on. */
static int answer(enum session_ask kind, uint64_t asked, unsigned int ms)
{
	struct ask_box *b = box(kind);

	for (unsigned int i = 0; i <= ms; i++) {
		const bool go = __atomic_load_n(&b->answered, __ATOMIC_ACQUIRE) == asked;

		if (go || __atomic_load_n(&b->refused, __ATOMIC_ACQUIRE) == asked) {
			__atomic_store_n(&b->waiting, 0, __ATOMIC_RELEASE);
			return go ? 1 : 2;
		}
		clock_wait_ms(1);
	}
	return 0;
}

/* The engine's thread writes text with the guest stopped. */
static void hold(void)
{
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
}

static void let_run(void)
{
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
}

static unsigned int nr_jumps(void)
{
	unsigned int n = 0;

	hold();
	for (size_t i = 0; i < FAKE_NR_PROBES; i++)
		n += *fake_text(&fs.fg, fake_functions[i]) == JMP;
	let_run();
	return n;
}

static uint8_t first_byte(uint64_t offset)
{
	uint8_t byte;

	hold();
	byte = *fake_text(&fs.fg, offset);
	let_run();
	return byte;
}

static bool wait_jumps(unsigned int n)
{
	for (unsigned int i = 0; i < PATIENCE_MS && nr_jumps() != n; i++)
		clock_wait_ms(1);
	return nr_jumps() == n;
}

static bool text_same(uint64_t offset, size_t size)
{
	bool same;

	hold();
	same = !memcmp(fake_text(&fs.fg, offset), fs.text + offset, size);
	let_run();
	return same;
}

/* The engine's thread also reads it while the guest runs. */
static void set_lock(uint64_t owner)
{
	uint8_t *at = fs.fg.base.ram + FAKE_PHYS_TEXT + FAKE_FTRACE_LOCK;

	__atomic_store_n((uint64_t *)(void *)at, owner, __ATOMIC_RELEASE);
}

static void test_places(void)
{
	struct trace_status status;

	begin();
	for (enum session_ask kind = 0; kind < SESSION_YIELDS; kind++)
		ok(first_byte(askers[kind]) == JMP, "%s: the function asks",
		   session_ask_name(kind));
	status = fake_session_status(&fs);
	is_u64(status.nr_yields, SESSION_YIELDS,
	       "the status names all that the tracer gives way to");
	is_str(status.yields[0].to, "ftrace", "the first is ftrace");
	is_str(status.yields[0].refusal, "", "which it gives way to");
	end();
}

static void test_ftrace(void)
{
	uint64_t asked;

	begin();
	is_u64(nr_jumps(), FAKE_NR_PROBES, "all sites are jumps");
	set_lock(1);
	asked = ask(ASK_FTRACE, 0);
	is_u64((uint64_t)answer(ASK_FTRACE, asked, PATIENCE_MS), 1, "ftrace may begin");
	ok(!nr_jumps() && !fs.fg.stopped, "by then all sites have their own bytes back");
	hold();
	fake_branch(&fs.fg, FAKE_KMALLOC, CALL, FAKE_RETURN_THUNK);
	fake_branch(&fs.fg, FAKE_KFREE, CALL, FAKE_FENTRY);
	memcpy(fs.text + FAKE_KMALLOC, fake_text(&fs.fg, FAKE_KMALLOC), SITE_SIZE);
	memcpy(fs.text + FAKE_KFREE, fake_text(&fs.fg, FAKE_KFREE), SITE_SIZE);
	let_run();
	clock_wait_ms(3 * SOON_MS);
	is_u64(nr_jumps(), 0, "while ftrace changes sites they are the guest's");
	asked = ask(ASK_FTRACE, 0);
	is_u64((uint64_t)answer(ASK_FTRACE, asked, PATIENCE_MS), 1,
	       "another change may begin, too");
	set_lock(0);
	ok(wait_jumps(FAKE_NR_PROBES - 2), "all sites but those that ftrace took are jumps again");
	ok(text_same(FAKE_KMALLOC, SITE_SIZE) && text_same(FAKE_KFREE, SITE_SIZE),
	   "those that it took are left to it");
	is_u64(fake_session_status(&fs).nr_refused, 1,
	       "the one that it uses is reported as refused, the call of __fentry__ is not");
	is_u64(fake_session_count(&fs, COUNTER_YIELDS), 1, "changes in a row are one gap");
	ok(fake_session_count(&fs, COUNTER_YIELDED_NS) > 0, "the gap has a duration");
	end();
}

/* Stopped while the sites are the guest's, and while it waits. */
static void test_stop_between(void)
{
	uint64_t asked;

	begin();
	set_lock(1);
	asked = ask(ASK_FTRACE, 0);
	answer(ASK_FTRACE, asked, PATIENCE_MS);
	ok(!trace_session_stop(fs.session, NULL), "a stop while ftrace changes sites");
	ok(fake_session_text_same(&fs) && fs.fg.nr_regions == 1,
	   "after it text and memory are what they were");
	set_lock(0);
	ok(!trace_session_start(fs.session, NULL, NULL) && nr_jumps() == FAKE_NR_PROBES,
	   "a new start patches all sites");
	end();
}

static void set_failing(uint64_t gpa)
{
	hold();
	fs.fg.failing_gpa = gpa;
	let_run();
}

/* A task asks, and waits for ever while a site cannot be reverted. */
static void wait_in_vain(const char *when)
{
	uint64_t asked;

	set_lock(1);
	asked = ask(ASK_FTRACE, 0);
	ok(!answer(ASK_FTRACE, asked, SOON_MS), "ftrace does not begin %s", when);
	ok(first_byte(FAKE_KFREE) == JMP, "the site is still a jump");
	set_failing(0);
	is_u64((uint64_t)answer(ASK_FTRACE, asked, PATIENCE_MS), 1,
	       "when it can be reverted, ftrace may begin");
	is_u64(nr_jumps(), 0, "by then all sites have their own bytes back");
	set_lock(0);
}

static void end_failed(void)
{
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) &&
		   fs.fg.nr_regions == 1,
	   "after a stop text and memory are what they were");
	fake_session_destroy(&fs);
}

static void test_failed_give(void)
{
	begin();
	set_failing(FAKE_PHYS_TEXT + FAKE_KFREE);
	wait_in_vain("while a site cannot be reverted");
	ok(wait_jumps(FAKE_NR_PROBES), "afterwards all sites are jumps again");
	is_u64(fake_session_count(&fs, COUNTER_YIELDS), 1, "several tries are one gap");
	end_failed();
}

/* A stop that could not take all patches out. */
static void test_failed_stop(void)
{
	begin();
	set_failing(FAKE_PHYS_TEXT + FAKE_KFREE);
	ok(trace_session_stop(fs.session, NULL) == -EIO && fake_session_status(&fs).enabled,
	   "a stop fails at a site");
	wait_in_vain("after a stop that failed");
	end_failed();
}

/* The same for the jump of a function that asks, into the tracer's memory. */
static void test_failed_jump(void)
{
	begin();
	set_failing(FAKE_PHYS_TEXT + FAKE_HIBERNATE);
	ok(trace_session_stop(fs.session, NULL) == -EIO && fake_session_status(&fs).enabled &&
		   first_byte(FAKE_HIBERNATE) == JMP && fs.fg.nr_regions == 2,
	   "a stop fails at a function that asks: the memory stays");
	set_failing(0);
	end_failed();
}

/* The last function that asks cannot be written, and then a site cannot be taken back. */
static void fail_both(struct fake_guest *fg)
{
	if (fg->failing_gpa)
		fg->failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	else if (*fake_text(fg, FAKE_KEXEC) == JMP)
		fg->failing_gpa = FAKE_PHYS_TEXT + FAKE_SUSPEND;
}

static void test_failed_start(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};
	struct error err = {0};

	fake_session_create(&fs);
	fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
	fs.fg.on_stop = fail_both;
	trace_session_set_options(fs.session, &options);
	ok(trace_session_start(fs.session, NULL, &err) == -ENOTRECOVERABLE && !fs.fg.stopped,
	   "a start fails and cannot be undone: %s", err.text);
	ok(first_byte(FAKE_KFREE) == JMP && fs.fg.nr_regions == 2 &&
		   fake_session_status(&fs).enabled,
	   "the memory stays for the site that is left, and the session is on");
	hold();
	fs.fg.on_stop = NULL;
	let_run();
	wait_in_vain("after a start that failed");
	end_failed();
}

static atomic_bool taking;

/* Sites are about to be put back. */
static void take_slowly(struct fake_guest *fg)
{
	fg->on_stop = NULL;
	taking = true;
	clock_wait_ms(SOON_MS);
}

static void test_end_while_taking(void)
{
	begin();
	set_lock(1);
	answer(ASK_FTRACE, ask(ASK_FTRACE, 0), PATIENCE_MS);
	hold();
	fs.fg.on_stop = take_slowly;
	let_run();
	set_lock(0);
	for (unsigned int i = 0; i < PATIENCE_MS && !taking; i++)
		clock_wait_ms(1);
	ok(taking && !trace_session_end(fs.session, NULL), "an end while sites are put back");
	ok(fake_session_text_same(&fs), "after it all sites have their own bytes");
	fake_session_destroy(&fs);
}

static void test_held(void)
{
	uint64_t asked;

	begin();
	set_lock(1);
	hold();
	asked = ask(ASK_FTRACE, 0);
	is_u64((uint64_t)answer(ASK_FTRACE, asked, SOON_MS), 0,
	       "while another thread holds the guest stopped nothing is answered");
	let_run();
	is_u64((uint64_t)answer(ASK_FTRACE, asked, PATIENCE_MS), 1, "afterwards it is");
	set_lock(0);
	end();
}

static int probe(uint64_t offset)
{
	return answer(ASK_KPROBES, ask(ASK_KPROBES, fake_gva(offset)), PATIENCE_MS);
}

static void test_kprobes(void)
{
	struct trace_status status;

	begin();
	ok(first_byte(SLOT) == JMP, "an exit is a jump");
	is_u64((uint64_t)probe(FAKE_CALLER), 1, "a kprobe elsewhere may be made");
	ok(first_byte(SLOT) == JMP, "the exit stays a jump");
	is_u64((uint64_t)probe(SLOT - 4), 1, "a kprobe near the exit may be made");
	ok(text_same(SLOT, SLOT_SIZE), "by then the exit has its own bytes back");
	is_u64((uint64_t)probe(FAKE_PREPARE), 2, "a kprobe at a function that asks is refused");
	is_u64((uint64_t)probe(FAKE_PREPARE + 1 - JUMP_SIZE), 2,
	       "so is one whose jump would reach it");
	status = fake_session_status(&fs);
	is_u64(status.nr_refused, 1, "the exit is reported as refused");
	ok(strstr(status.refused[0].reason, "kprobe"), "with the reason: %s",
	   status.refused[0].reason);
	is_u64((uint64_t)probe(FAKE_KFREE), 1, "a kprobe at a site, without ftrace, may be made");
	ok(text_same(FAKE_KFREE, SITE_SIZE), "by then the site has its own bytes back");
	is_u64(fake_session_status(&fs).nr_refused, 2, "the site is reported as refused, too");
	end();
}

/* Kprobes at sites are ftrace's: most kprobes reach nothing, and the guest need not be stopped. */
static void test_kprobes_of_ftrace(void)
{
	static const struct fake_symbol more[] = {{"arch_prepare_kprobe_ftrace", FAKE_POST_PROCESS},
						  {NULL, 0}};
	unsigned int stops;

	begin_with(more);
	is_u64((uint64_t)probe(SLOT - 4), 1, "where ftrace takes kprobes, one near an exit");
	ok(text_same(SLOT, SLOT_SIZE), "has the exit's own bytes put back");
	stops = fs.fg.stops;
	is_u64((uint64_t)probe(SLOT - 4), 1, "another one there");
	is_u64((uint64_t)probe(FAKE_CALLER), 1, "and one elsewhere");
	is_u64(fs.fg.stops, stops, "stop the guest no more");
	end();
}

static const struct guest_control_ops *control;
static _Atomic(const struct ask_box *) watched;
static atomic_uint answers, resumes;

/* A vCPU that spins goes on here: it is to find its answer. */
static int resume_asker(struct guest *guest, struct error *err)
{
	const struct ask_box *b = watched;

	if (b && fs.fg.stopped == 1 && __atomic_load_n(&b->asked, __ATOMIC_ACQUIRE)) {
		answers += __atomic_load_n(&b->answered, __ATOMIC_ACQUIRE) == b->asked;
		resumes++;
	}
	return control->resume(guest, err);
}

/* The answer is there at the resume that follows it. */
static void watch(enum session_ask kind, uint64_t argument)
{
	answers = resumes = 0;
	watched = box(kind);
	ok(answer(kind, ask(kind, argument), PATIENCE_MS) == 1, "%s may begin",
	   session_ask_name(kind));
	for (unsigned int i = 0; i < PATIENCE_MS && !resumes; i++)
		clock_wait_ms(1);
	watched = NULL;
	ok(answers == 1 && resumes == 1, "%s: the answer is there before the guest goes on",
	   session_ask_name(kind));
}

static void test_order(void)
{
	struct guest_control_ops ops;

	begin();
	control = fs.fg.guest.control;
	ops = *control;
	ops.resume = resume_asker;
	fs.fg.guest.control = &ops;
	watch(ASK_KPROBES, fake_gva(SLOT));
	set_lock(1);
	watch(ASK_FTRACE, 0);
	set_lock(0);
	end();
}

/* Each stop is announced to others, and takes time. */
static void test_again(void)
{
	static const struct fake_symbol symbols[] = {{"arch_prepare_kprobe_ftrace", FAKE_MSLEEP},
						     {NULL, 0}};
	unsigned int stops;

	begin();
	if (fake_guest_add_symbols(&fs.fg, symbols))
		abort();
	is_u64((uint64_t)probe(SLOT), 1, "a kprobe at an exit may be made");
	stops = fs.fg.stops;
	is_u64((uint64_t)probe(SLOT), 1, "another one there may be made");
	is_u64(fs.fg.stops, stops, "the guest is not stopped for what it has already");
	end();
}

static void test_leaving(enum session_ask kind, const char *why)
{
	uint64_t asked;

	begin();
	ok(!trace_session_must_end(fs.session), "the guest stays in its kernel");
	asked = ask(kind, 0);
	is_u64((uint64_t)answer(kind, asked, SOON_MS), 0, "the guest waits");
	is_str(trace_session_must_end(fs.session), why, "the session says what it does");
	ok(first_byte(FAKE_KFREE) == JMP, "tracing goes on until it is stopped");
	end();
}

/* At the wakeup the device with the tracer's memory is reset, before the guest has stopped using
 * it. */
static void test_suspend(void)
{
	begin();
	ok(first_byte(FAKE_SUSPEND) == JMP, "a guest that suspends asks");
	is_u64((uint64_t)answer(ASK_SUSPEND, ask(ASK_SUSPEND, 0), PATIENCE_MS), 2, "it is refused");
	ok(!trace_session_must_end(fs.session) && first_byte(FAKE_KFREE) == JMP, "tracing goes on");
	end();
}

/* What waits for the tracer's end goes on when the memory has gone, not before. */
static void test_leaving_last(void)
{
	begin();
	ask(ASK_HIBERNATION, 0);
	clock_wait_ms(SOON_MS);
	fs.fg.paused = true; /* it cannot leave */
	trace_session_stop(fs.session, NULL);
	ok(!nr_jumps() && first_byte(FAKE_KEXEC) != JMP,
	   "a stop restores the text before the guest has left the memory");
	ok(first_byte(FAKE_HIBERNATE) == JMP && fs.fg.nr_regions == 2,
	   "but for the function that waits for the end");
	ok(ring_engine_of(fs.session->ring_engine)->quiesce.policy.may_enter,
	   "until the memory goes the task may come into it");
	fs.fg.paused = false;
	trace_session_start(fs.session, NULL, NULL); /* waits until the memory has gone */
	trace_session_stop(fs.session, NULL);
	ok(fake_session_text_same(&fs) && fs.fg.nr_regions == 1,
	   "which has its own bytes back when the memory has gone");
	fake_session_destroy(&fs);
}

/* What spins goes on by itself when the jump is gone. */
static void test_spinning(void)
{
	begin();
	hold();
	ask(ASK_KPROBES, fake_gva(SLOT));
	ok(!trace_session_stop(fs.session, NULL), "a stop while a kprobe waits for an answer");
	ok(first_byte(FAKE_PREPARE_KPROBE) != JMP && fs.fg.nr_regions == 2,
	   "the function has its own bytes back before the guest has left the memory");
	ok(!ring_engine_of(fs.session->ring_engine)->quiesce.policy.may_enter,
	   "so that no task comes into it any more");
	let_run();
	trace_session_start(fs.session, NULL, NULL); /* waits until the memory has gone */
	end();
}

static void test_no_place(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};
	struct trace_status status;

	fake_session_create(&fs);
	fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
	fake_code(&fs.fg, FAKE_PREPARE, "\x8b\x05\0\0\0\0\xc3", 7); /* relative to RIP */
	fake_session_keep_text(&fs);
	trace_session_set_options(fs.session, &options);
	ok(!trace_session_start(fs.session, NULL, NULL), "tracing starts nevertheless");
	status = fake_session_status(&fs);
	ok(strstr(status.yields[0].refusal, "cannot be executed elsewhere"),
	   "a function that cannot ask is named, with the reason: %s", status.yields[0].refusal);
	ok(text_same(FAKE_PREPARE, 7), "it is left alone");
	end();
}

static void test_plan(void)
{
	const struct patch_plan *plan;

	fake_session_create(&fs);
	fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
	ok(!trace_session_plan(fs.session, NULL, &plan, NULL) && plan->entries.n == FAKE_NR_PROBES,
	   "a session that has not started plans");
	is_u64(fake_session_status(&fs).nr_yields, SESSION_YIELDS,
	       "its status names all that the tracer gives way to");
	ok(fake_session_text_same(&fs), "nothing is changed");
	fake_session_destroy(&fs);
}

int main(void)
{
	test_plan();
	test_places();
	test_spins();
	test_ftrace();
	test_stop_between();
	test_failed_give();
	test_failed_stop();
	test_failed_jump();
	test_failed_start();
	test_end_while_taking();
	test_held();
	test_kprobes();
	test_kprobes_of_ftrace();
	test_order();
	test_again();
	test_leaving(ASK_HIBERNATION, "the guest hibernates");
	test_suspend();
	test_leaving(ASK_KEXEC, "the guest starts another kernel (kexec)");
	test_leaving_last();
	test_spinning();
	test_no_place();
	return tap_done();
}
