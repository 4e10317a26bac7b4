/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modules that are loaded and unloaded while their functions are recorded, on a fake guest. */
#include <errno.h>
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
	LOADER_INLINED,
};

static void create(enum loader loader)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	if (loader != LOADER_RINGS)
		fs.fg.guest.caps &= ~(unsigned int)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
	fake_module_prepare(&fs, loader != LOADER_INLINED);
}

/* The sites of a module that is loaded have their own bytes. */
static bool is_untouched(void)
{
	if (!fake_module_is_mapped(&fs))
		return true;
	return !memcmp(fake_module_text(&fs, 0), nop, sizeof(nop)) &&
	       !memcmp(fake_module_text(&fs, FAKE_MODULE_FUNCTION), nop, sizeof(nop));
}

static void end(void)
{
	ok(!trace_session_failure(fs.session), "nothing has failed while tracing");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) && is_untouched(),
	   "after a stop the texts of kernel and module are what they were");
	fake_session_destroy(&fs);
}

static bool start(const char *spec)
{
	const char *const specs[] = {spec, NULL};
	struct error err = {0};

	if (!trace_session_start(fs.session, specs, &err))
		return true;
	tap_diag("%s", err.text);
	return false;
}

static bool tick(void)
{
	return fake_session_tick(&fs);
}

/* Whether calls of the module's first and second function are recorded. */
static bool records(bool first, bool second)
{
	return (*fake_module_text(&fs, 0) == CALL) == first &&
	       (*fake_module_text(&fs, FAKE_MODULE_FUNCTION) == CALL) == second;
}

static size_t sites_of(unsigned int i)
{
	return fake_session_status(&fs).instances[i].sites;
}

static uint64_t nr_late(void)
{
	return fake_session_count(&fs, COUNTER_LATE_MODULES);
}

/* As trace_session_symbolize(), with the name put into `name`. */
static int symbolize(uint64_t gva, char name[64])
{
	struct site_function function = {0};
	int ret = trace_session_symbolize(fs.session, gva, &function);

	snprintf(name, 64, "%.63s", function.name);
	return ret;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_polled(void)
{
	struct site_function function = {0};
	char name[64];

	create(LOADER_INLINED);
	ok(start("function:*:mod:brd"), "a module can be asked for that is not there");
	is_u64(sites_of(0), 0, "none of its functions is recorded");
	fake_module_place(&fs);
	fake_module_list_sites(&fs, true);
	ok(tick() && records(false, false), "while ftrace prepares the module it is left alone");
	fake_module_list_sites(&fs, false);
	ok(tick() && records(true, true), "functions of a module that was loaded are recorded");
	is_u64(sites_of(0), 2, "the instance has them");
	is_u64(nr_late(), 1, "that their first calls were missed is counted");
	ok(tick() && trace_session_switch(fs.session).times == 1, "a tick alone changes nothing");
	fake_module_unload(&fs);
	ok(tick() && !sites_of(0), "functions of a module that is gone are forgotten");
	fake_module_load(&fs);
	ok(tick() && records(true, true), "it may come again");
	memcpy(fake_module_text(&fs, 0), nop, sizeof(nop));
	ok(tick() && records(true, true), "also between two looks at the list");
	for (size_t i = 0; i < fs.session->plan.shared.n; i++)
		fs.session->plan.shared.v[i].yielded = true;
	fake_module_load(&fs);
	ok(tick() && records(true, true),
	   "also if the guest's ftrace had its sites, and has given them back by unloading it");
	fake_module_unload(&fs);
	ok(tick(), "it goes");
	ok(!symbolize(FAKE_MODULE_TEXT + 5, name) && !strcmp(name, "brd_read [brd]"),
	   "its functions keep their names: %s", name);
	ok(!trace_session_symbolize(fs.session, FAKE_MODULE_TEXT + 5, &function) &&
		   function.build_id.size == 8 &&
		   !memcmp(function.build_id.bytes, "\1\2\3\4\5\6\7\10", 8),
	   "and the build id of the module");
	end();
}

/* A guest that each read stops: the thread that writes the trace asks for names, and must not wait
 * for a stop. */
static void test_slow_names(void)
{
	char name[64];
	uint64_t reads, stops;

	create(LOADER_INLINED);
	fs.fg.guest.caps |= GUEST_STOPS_TO_READ;
	fake_module_load(&fs);
	ok(start("kmem"), "tracing starts");
	reads = fs.fg.reads;
	ok(!symbolize(fake_gva(FAKE_KFREE) + 1, name) && !strcmp(name, "kfree"),
	   "the image names its functions: %s", name);
	is_u64((uint64_t)-symbolize(FAKE_MODULE_TEXT + 5, name), EAGAIN,
	       "a module's functions have no names yet");
	is_u64(fs.fg.reads, reads, "the guest is not read");
	trace_session_modules_changed(fs.session);
	stops = fs.fg.stops;
	ok(!symbolize(FAKE_MODULE_TEXT + 5, name) && !strcmp(name, "brd_read [brd]"),
	   "they have when the list of modules may be read: %s", name);
	is_u64(fs.fg.stops, stops + 1, "the guest is stopped once for all reads");
	is_u64(fs.fg.stopped, 0, "and goes on");
	reads = fs.fg.reads;
	is_u64((uint64_t)-symbolize(FAKE_MODULE_TEXT - 5, name), EAGAIN,
	       "an address without a name");
	is_u64(fs.fg.reads, reads, "the list is read once");
	end();
}

static void test_selection(void)
{
	struct error err = {0};

	create(LOADER_INLINED);
	fake_module_load(&fs);
	ok(start("function:brd_read,kfree"), "functions of a module and of the kernel");
	ok(records(true, false) && sites_of(0) == 2, "only those that are wanted are recorded");
	fake_module_unload(&fs);
	ok(tick() && sites_of(0) == 1, "one that is gone is no error");
	ok(!trace_session_add_instance(fs.session, "other=function:__kmalloc", &err),
	   "nor when another tracer comes: %s", err.text);
	ok(trace_session_add_instance(fs.session, "again=function:brd_read", &err) == -ENOENT,
	   "a new tracer must name functions that there are: %s", err.text);
	fake_module_load(&fs);
	ok(tick() && records(true, false) && sites_of(0) == 2,
	   "it is recorded when it comes again");
	end();
}

/* Text that is freed while patches are planned for it. */
static void free_text(struct fake_guest *fg)
{
	fg->on_stop = NULL;
	fake_module_unload(&fs);
}

static void test_race(void)
{
	create(LOADER_INLINED);
	ok(start("function:kfree,*:mod:brd"), "a function and a module");
	fake_module_load(&fs);
	fs.fg.on_stop = free_text;
	ok(tick() && sites_of(0) == 1,
	   "a module that goes while its sites are planned is left alone");
	fake_module_load(&fs);
	fake_module_free_text(&fs);
	ok(tick() && sites_of(0) == 1 && fake_session_status(&fs).instances[0].nr_refused == 2,
	   "text that cannot be read is refused by name");
	end();
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

static void test_bell(void)
{
	struct error err = {0};
	pthread_t thread;

	create(LOADER_RINGS);
	fs.session->options.wake = wake;
	ok(start("function:*:mod:brd"), "a module is asked for");
	ok(*fake_text(&fs.fg, FAKE_INIT_MODULE) == CALL,
	   "the loader rings, though it is not traced");
	if (pthread_create(&thread, NULL, load_on_vcpu, NULL))
		abort();
	for (int i = 0; i < PATIENCE_MS && !atomic_load(&wakes); i++)
		clock_wait_ms(1);
	ok(atomic_load(&wakes) && !atomic_load(&through), "a vCPU that loads a module waits");
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
	for (int i = 0; i < PATIENCE_MS && atomic_load(&wakes) < 2; i++)
		clock_wait_ms(1);
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

static void hold_bell(bool held)
{
	static const uint8_t call[] = {CALL, 0, 0x10, 0, 0};
	const struct patch *patch =
		patch_set_at(&fs.session->plan.shared, fake_gva(FAKE_INIT_MODULE));
	struct patch *bell = (struct patch *)patch;
	uint8_t *text = fake_text(&fs.fg, FAKE_INIT_MODULE);

	if (!bell)
		abort();
	atomic_store(&bell->holder, (uint8_t)(held ? SITE_CALL_OTHER : SITE_NOP));
	bell->yielded = held;
	memcpy(text, held ? call : bell->new_bytes, sizeof(call));
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

/* Nobody hears it. */
static void test_deaf(void)
{
	create(LOADER_RINGS);
	ok(start("function:*:mod:brd"), "a module is asked for");
	fake_module_load(&fs);
	ok(fake_session_call(&fs, 1, FAKE_INIT_MODULE, 0) == 1 && records(false, false),
	   "a vCPU does not wait for ever");
	is_u64(nr_late(), 1, "that is counted");
	ok(tick() && records(true, true), "the functions are recorded later");
	end();
}

int main(void)
{
	test_polled();
	test_slow_names();
	test_selection();
	test_race();
	test_bell();
	test_asked();
	test_entered();
	test_probed();
	test_held();
	test_deaf();
	return tap_done();
}
