/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest that loads a module waits until its functions are recorded: it rings a bell, or asks. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-module.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	CALL = 0xe8,
	PATIENCE_MS = 20000,
};

static const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static struct fake_session fs;

enum loader {
	LOADER_RINGS, /* do_init_module(), in a guest with port traps */
	LOADER_ASKS,  /* in one without */
};

static void create(enum loader loader)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	fake_session_list_reserved(&fs);
	if (loader == LOADER_ASKS)
		fs.fg.guest.caps &= ~(unsigned int)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
	fake_module_prepare(&fs, true);
}

static void end(void)
{
	fake_module_end(&fs);
}

static bool start(const char *spec)
{
	return fake_session_start_with(&fs, spec);
}

static bool tick(void)
{
	return fake_session_tick(&fs);
}

static bool records(bool first, bool second)
{
	return fake_module_is_recorded(&fs, first, second);
}

static uint64_t nr_late(void)
{
	return fake_session_count(&fs, COUNTER_LATE_MODULES);
}

static atomic_bool through;
static bool seen;

/* A vCPU that loads the module: in do_init_module() its functions are recorded already. */
static void *load_on_vcpu(void *arg)
{
	(void)arg;
	fake_module_load(&fs);
	fake_session_call(&fs, 1, FAKE_INIT_MODULE, 0);
	seen = records(true, true);
	atomic_store(&through, true);
	return NULL;
}

static atomic_uint wakes;

static void wake(void *arg)
{
	(void)arg;
	atomic_fetch_add(&wakes, 1);
}

static void create_ringing(void)
{
	create(LOADER_RINGS);
	fs.session->options.wake = wake;
	ok(start("function:*:mod:brd"), "a module is asked for");
}

static pthread_t ring(void)
{
	pthread_t thread;

	atomic_store(&wakes, 0);
	atomic_store(&through, false);
	if (pthread_create(&thread, NULL, load_on_vcpu, NULL))
		abort();
	for (int i = 0; i < PATIENCE_MS && !atomic_load(&wakes); i++)
		clock_wait_ms(1);
	ok(atomic_load(&wakes) && !atomic_load(&through), "a vCPU that loads a module waits");
	return thread;
}

static void test_bell(void)
{
	struct error err = {0};
	pthread_t thread;

	create_ringing();
	ok(*fake_text(&fs.fg, FAKE_INIT_MODULE) == CALL,
	   "the loader rings, though it is not traced");
	thread = ring();
	for (int i = 0; i < PATIENCE_MS && !atomic_load(&through); i++, clock_wait_ms(1))
		trace_session_tick(fs.session, NULL);
	pthread_join(thread, NULL);
	ok(atomic_load(&through) && seen, "when it goes on, the module's functions are recorded");
	is_u64(nr_late(), 0, "none of their calls is missing");
	ok(!trace_session_remove_instance(fs.session, "function", &err) &&
		   *fake_text(&fs.fg, FAKE_INIT_MODULE) != CALL,
	   "without tracers the loader does not ring: %s", err.text);
	end();
}

static void stop(void)
{
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
}

static void resume(void)
{
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
}

/* Whoever stops the guest may be the one who is to hear the bell. */
static void test_bell_gives_way(void)
{
	pthread_t thread;
	uint64_t polls, stops;

	create_ringing();
	thread = ring();
	stop();
	polls = fs.fg.polls;
	stops = fs.fg.stops;
	for (int i = 0; i < PATIENCE_MS && fs.fg.polls == polls; i++)
		clock_wait_ms(1);
	resume();
	for (int i = 0; i < PATIENCE_MS && (fs.fg.stops == stops || fs.fg.stopped); i++)
		clock_wait_ms(1);
	ok(fs.fg.stops > stops, "a vCPU that waits can be stopped");
	is_u64(fs.fg.stopped, 0, "and goes on");
	ok(tick(), "it is heard");
	pthread_join(thread, NULL);
	ok(seen && !nr_late(), "the module's functions are recorded in time");
	end();
}

/* The guest's ftrace may be waiting for the vCPU that has rung. */
static void test_bell_while_out(void)
{
	pthread_t thread;

	create_ringing();
	thread = ring();
	stop();
	ok(!ftrace_handoff_give(&fs.session->ftrace, NULL), "the guest's ftrace has all sites");
	resume();
	ok(tick(), "the vCPU is heard");
	pthread_join(thread, NULL);
	ok(!seen && nr_late() == 1, "it goes on, and what it missed is counted");
	stop();
	ok(tick() && nr_late() == 1, "once");
	ok(!ftrace_handoff_take(&fs.session->ftrace, NULL), "the sites come back");
	resume();
	ok(tick() && records(true, true), "the module's functions are recorded");
	end();
}

static struct ask_box *box(void)
{
	size_t i = 0;

	while (fs.session->asks.kinds[i] != ASK_MODULES)
		i++;
	return &ring_engine_of(fs.session->ring_engine)->asks.boxes[i];
}

static void ask(uint64_t number)
{
	__atomic_store_n(&box()->asked, number, __ATOMIC_RELEASE);
}

static bool is_answered(uint64_t number)
{
	return __atomic_load_n(&box()->answered, __ATOMIC_ACQUIRE) == number;
}

static bool wait_answered(uint64_t number)
{
	for (int i = 0; i < PATIENCE_MS && !is_answered(number); i++)
		clock_wait_ms(1);
	return is_answered(number);
}

static uint64_t asking_place(void)
{
	const struct engine_asks *asks = &fs.session->asks.config;

	return asks->v[box() - ring_engine_of(fs.session->ring_engine)->asks.boxes].place.gva;
}

static bool has_jump(void)
{
	return *fake_text(&fs.fg, asking_place() - fake_gva(0)) == 0xe9;
}

/* A vCPU stands in the bytes that the jump would replace. */
static void test_entered(void)
{
	create(LOADER_ASKS);
	fs.fg.vcpus[1].regs.rip = fake_gva(FAKE_INIT_MODULE) + 1;
	ok(start("function:*:mod:brd"), "a module is asked for while a task is in the loader");
	ok(!has_jump(), "the loader does not ask");
	fake_module_load(&fs);
	ok(tick() && records(true, true), "functions of a module that was loaded are recorded");
	is_u64(nr_late(), 1, "that their first calls were missed is counted");
	fs.fg.vcpus[1].regs.rip = fake_gva(FAKE_KFREE);
	ok(tick() && has_jump(), "it asks when the task has left");
	fake_module_unload(&fs);
	ok(tick() && tick() && nr_late() == 1, "which alone misses nothing");
	end();
}

static void test_entered_before(void)
{
	create(LOADER_ASKS);
	fs.fg.vcpus[1].regs.rip = fake_gva(FAKE_INIT_MODULE) + 1;
	ok(start("function:*:mod:brd"), "a module is asked for while a task loads it");
	fake_module_load(&fs);
	fs.fg.vcpus[1].regs.rip = fake_gva(FAKE_KFREE);
	ok(tick() && has_jump() && records(true, true),
	   "when the task has left, the loader asks, and the module's functions are recorded");
	is_u64(nr_late(), 1, "that their first calls were missed is counted");
	end();
}

/* A kprobe of the guest's that is registered and disabled has copied what stands there. */
static void test_probed(void)
{
	create(LOADER_ASKS);
	fake_session_put_kprobe(&fs, FAKE_INIT_MODULE + 1, FAKE_KPROBE_DISABLED);
	ok(start("function:*:mod:brd"), "a module is asked for while a kprobe is in the loader");
	ok(!has_jump() && tick() && !has_jump(), "the loader does not ask");
	fake_session_put_kprobe(&fs, 0, 0);
	ok(tick() && has_jump(), "it asks when the kprobe has gone");
	end();
}

static void await_wakes(unsigned int n)
{
	for (int i = 0; i < PATIENCE_MS && atomic_load(&wakes) < n; i++)
		clock_wait_ms(1);
}

static void test_asked(void)
{
	struct error err = {0};

	create(LOADER_ASKS);
	fs.session->options.wake = wake;
	atomic_store(&wakes, 0);
	ok(start("function:*:mod:brd"), "a module is asked for");
	ok(has_jump(), "the loader asks");
	fake_module_load(&fs);
	ask(1);
	await_wakes(2);
	ok(atomic_load(&wakes) > 1 && !is_answered(1), "a task that loads a module waits");
	ok(tick() && records(true, true) && wait_answered(1),
	   "it goes on when the module's functions are recorded");
	is_u64(nr_late(), 0, "none of their calls is missing");
	ask(3);
	for (int i = 0; i < PATIENCE_MS && !is_answered(3); i++, clock_wait_ms(1))
		tick();
	ok(is_answered(3), "two tasks at a time get one answer");
	__atomic_store_n(&box()->given_up, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < PATIENCE_MS && !nr_late(); i++)
		clock_wait_ms(1);
	is_u64(nr_late(), 1, "one that waited in vain is counted");
	ok(!trace_session_remove_instance(fs.session, "function", &err), "the tracer goes: %s",
	   err.text);
	ask(4);
	ok(wait_answered(4), "without tracers nobody waits");
	end();
}

static enum engine_answer second_answer(void)
{
	return modules_answer(fs.session, 2);
}

static void ask_second(struct fake_guest *fg)
{
	fg->on_stop = NULL;
	second_answer();
}

/* While another change is made, which does not have the module's functions. */
static void test_asked_meanwhile(void)
{
	create(LOADER_ASKS);
	ok(start("function:*:mod:brd"), "a module is asked for");
	fs.fg.on_stop = ask_second;
	ok(fake_session_add(&fs, "other=function:kfree") && !fs.fg.on_stop,
	   "a task loads one while another tracer comes");
	is_u64(second_answer(), ANSWER_LATER, "it waits for the next look");
	ok(tick(), "which comes");
	is_u64(second_answer(), ANSWER_GO, "it goes on");
	end();
}

/* The boxes are new, and questions are counted anew. */
static void test_asked_anew(void)
{
	create(LOADER_ASKS);
	fs.session->options.wake = wake;
	atomic_store(&wakes, 0);
	ok(start("function:*:mod:brd"), "a module is asked for");
	ask(1);
	await_wakes(1);
	ok(tick() && wait_answered(1), "a task that loads another one goes on");
	ok(!trace_session_stop(fs.session, NULL) && start("function:*:mod:brd"),
	   "the trace ends, and another one begins");
	fake_module_load(&fs);
	atomic_store(&wakes, 0);
	ask(1);
	await_wakes(2);
	ok(!is_answered(1), "a task that loads a module waits again");
	ok(tick() && records(true, true) && wait_answered(1) && !nr_late(),
	   "it goes on when the module's functions are recorded");
	end();
}

/* Where each read stops the guest, only a question makes a look worth while before its time. */
static void test_asked_early(void)
{
	create(LOADER_ASKS);
	fs.fg.guest.caps |= GUEST_STOPS_TO_READ;
	fs.session->options.wake = wake;
	atomic_store(&wakes, 0);
	ok(start("function:*:mod:brd"), "a module is asked for");
	fake_module_load(&fs);
	fs.session->next_follow = UINT64_MAX;
	ok(tick() && records(false, false), "the list of modules is not looked at yet");
	ask(1);
	await_wakes(1);
	ok(tick() && records(true, true) && wait_answered(1), "it is for a task that waits");
	end();
}

static void hold_bell(bool held)
{
	fake_session_hold_site(&fs, fake_gva(FAKE_INIT_MODULE), fake_text(&fs.fg, FAKE_INIT_MODULE),
			       held);
}

/* The guest's own ftrace traces do_init_module(). */
static void test_held(void)
{
	uint64_t late;

	create(LOADER_RINGS);
	ok(start("function:*:mod:brd"), "a module is asked for");
	hold_bell(true);
	fake_module_load(&fs);
	ok(tick() && records(true, true),
	   "a module is loaded while the guest holds the bell's site");
	is_u64(nr_late(), 1, "that its first calls were missed is counted");
	fake_module_unload(&fs);
	memcpy(fake_text(&fs.fg, FAKE_INIT_MODULE), nop, sizeof(nop));
	ok(tick() && *fake_text(&fs.fg, FAKE_INIT_MODULE) == CALL, "the site is the bell's again");
	late = nr_late();
	hold_bell(true);
	ok(tick(), "the guest holds it once more");
	hold_bell(false);
	fake_module_load(&fs);
	ok(tick() && records(true, true), "it gives the site back when a module has been loaded");
	is_u64(nr_late(), late + 1, "which is counted, too");
	end();
}

/* Between the look that saw it held and the next one the list cannot be read. */
static void test_held_before(void)
{
	create(LOADER_RINGS);
	ok(start("function:*:mod:brd"), "a module is asked for");
	hold_bell(true);
	ok(tick(), "the guest holds the bell's site");
	hold_bell(false);
	fs.fg.missing_gpa = FAKE_FTRACE_LIST_GPA;
	ok(tick(), "when it gives it back, it is changing the list of sites");
	fs.fg.missing_gpa = 0;
	fake_module_load(&fs);
	ok(tick() && records(true, true), "then a module has been loaded");
	is_u64(nr_late(), 1, "that its first calls were missed is counted");
	end();
}

/* Nobody hears it. */
static void test_deaf(void)
{
	uint64_t stops;

	create(LOADER_RINGS);
	ok(start("function:*:mod:brd"), "a module is asked for");
	fake_module_load(&fs);
	stops = fs.fg.stops;
	ok(fake_session_call(&fs, 1, FAKE_INIT_MODULE, 0) == 1 && records(false, false),
	   "a vCPU does not wait for ever");
	is_u64(nr_late(), 1, "that is counted");
	ok(fs.fg.stops < stops + 10, "it does not stop all the time");
	ok(tick() && records(true, true), "the functions are recorded later");
	end();
}

int main(void)
{
	test_bell();
	test_bell_gives_way();
	test_bell_while_out();
	test_asked();
	test_asked_meanwhile();
	test_asked_anew();
	test_asked_early();
	test_entered();
	test_entered_before();
	test_probed();
	test_held();
	test_held_before();
	test_deaf();
	return tap_done();
}
