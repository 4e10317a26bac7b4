/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modules that are loaded and unloaded while their functions are recorded, on a fake guest in which
 * no bell rings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-module.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10 };

static const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static struct fake_session fs;

static void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	fs.fg.guest.caps &= ~(unsigned int)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
	fake_module_prepare(&fs, false);
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
	uint64_t stops;

	create();
	ok(start("function:*:mod:brd"), "a module can be asked for that is not there");
	is_u64(sites_of(0), 0, "none of its functions is recorded");
	fake_module_place(&fs);
	fake_module_list_sites(&fs, true);
	ok(tick() && records(false, false), "while ftrace prepares the module it is left alone");
	fake_module_list_sites(&fs, false);
	ok(tick() && records(true, true), "functions of a module that was loaded are recorded");
	is_u64(sites_of(0), 2, "the instance has them");
	is_u64(nr_late(), 1, "that their first calls were missed is counted");
	stops = fs.fg.stops;
	ok(tick() && trace_session_switches(fs.session).times == 1, "a tick alone changes nothing");
	is_u64(fs.fg.stops, stops, "it does not stop the guest");
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

	create();
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

	create();
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
	create();
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

/* What cannot be written is not written again and again, with the guest stopped. */
static void test_read_only(void)
{
	uint64_t stops;

	create();
	ok(start("function:kfree,*:mod:brd"), "a function and a module");
	fake_module_load(&fs);
	fs.fg.failing_gpa = (uint64_t)(fake_module_text(&fs, 0) - fs.fg.base.ram);
	ok(!tick() && records(false, false), "a module whose text cannot be written is an error");
	stops = fs.fg.stops;
	ok(tick() && fs.fg.stops == stops, "it is not tried again");
	fs.fg.failing_gpa = 0;
	fake_module_unload(&fs);
	ok(tick(), "the module goes");
	fake_module_load(&fs);
	ok(tick() && records(true, true), "it is tried again when the module has come again");
	end();
}

/* Where each read stops the guest. */
static void test_orcs(void)
{
	struct module_orcs *orcs;
	struct orc_entry entry;
	uint64_t stops;

	create();
	fs.fg.guest.caps |= GUEST_STOPS_TO_READ;
	ok(start("kmem"), "tracing starts");
	orcs = fs.session->module_orcs;
	stops = fs.fg.stops;
	modules_read_orcs(fs.session);
	is_u64(fs.fg.stops, stops, "tables that nobody wants are not read");
	module_orcs_want(orcs);
	modules_read_orcs(fs.session);
	ok(fs.fg.stops == stops + 1 && !fs.fg.stopped && !module_orcs_are_due(orcs),
	   "those that are wanted are read in one stop");
	module_orcs_find(orcs, FAKE_MODULE_TEXT, &entry);
	modules_read_orcs(fs.session);
	ok(fs.fg.stops == stops + 1 && module_orcs_are_due(orcs),
	   "an address that they do not have waits for the next second");
	end();
}

/* The guest's own ftrace traces a function of the module. */
static void test_sites_held(void)
{
	uint64_t stops;

	create();
	fake_module_load(&fs);
	ok(start("function:*:mod:brd"), "a module is recorded");
	fake_session_hold_site(&fs, FAKE_MODULE_TEXT, fake_module_text(&fs, 0), true);
	stops = fs.fg.stops;
	ok(tick() && fs.fg.stops == stops, "a site that the guest holds is no change of modules");
	fake_session_hold_site(&fs, FAKE_MODULE_TEXT, fake_module_text(&fs, 0), false);
	end();
}

int main(void)
{
	test_polled();
	test_slow_names();
	test_selection();
	test_race();
	test_read_only();
	test_sites_held();
	test_orcs();
	return tap_done();
}
