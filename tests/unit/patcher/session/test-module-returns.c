/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Returns of a module's functions, which comes and goes, on a fake guest. */
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-module.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, CALL = 0xe8, JMP = 0xe9, INT3 = 0xcc, NOP = 0x90 };

static struct fake_session fs;
static uint8_t *ram;

static struct direct_lane *lane(void)
{
	return &ring_engine_of(fs.session->ring_engine)->direct;
}

static void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	fake_session_list_return_sites(&fs);
	fs.fg.guest.caps &= ~(unsigned int)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
	fake_module_prepare(&fs, true);
}

static bool add(const char *spec)
{
	return fake_session_add(&fs, spec);
}

static bool start(const char *spec)
{
	const bool has_started = fake_session_start_with(&fs, "function:__kmalloc");

	/* The fake kernel has no current tasks: trampolines are not executed. */
	lane()->task_fields = DIRECT_TASK_FIELDS;
	return has_started && add(spec);
}

static bool tick(void)
{
	return fake_session_tick(&fs);
}

/* Whether a jump there leads to code of the direct lane. */
static bool is_direct(uint64_t at)
{
	const uint8_t *text = fake_module_text(&fs, at);
	int32_t distance;
	uint64_t target;

	memcpy(&distance, text + 1, sizeof(distance));
	target = FAKE_MODULE_TEXT + at + FAKE_MODULE_SLOT_SIZE + (uint64_t)(int64_t)distance;
	return (*text == CALL || *text == JMP) && target - lane()->arena.gva < lane()->arena.size;
}

static bool are_direct(bool slot, bool slot_2)
{
	return is_direct(FAKE_MODULE_SLOT) == slot && is_direct(FAKE_MODULE_SLOT_2) == slot_2;
}

static void keep_memory(void)
{
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
}

static bool module_is_same(void)
{
	const uint8_t *text = fake_module_text(&fs, 0);

	return !memcmp(text, ram + (text - fs.fg.base.ram), 0x1000);
}

static void end(void)
{
	ok(!trace_session_failure(fs.session), "nothing has failed while tracing");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) &&
		   (!fake_module_is_mapped(&fs) || module_is_same()),
	   "after a stop the texts of kernel and module are what they were");
	fake_session_destroy(&fs);
}

/* As where the module was loaded again at the same place. */
static void restore_slot(void)
{
	uint8_t *slot = fake_module_text(&fs, FAKE_MODULE_SLOT);

	memcpy(slot, ram + (slot - fs.fg.base.ram), FAKE_MODULE_SLOT_SIZE);
}

static void test_loaded(void)
{
	create();
	fake_module_load(&fs);
	keep_memory();
	ok(start("graph:*:mod:brd") && is_direct(0) && is_direct(FAKE_MODULE_FUNCTION),
	   "functions of a module are recorded");
	ok(are_direct(true, true), "with their returns: a jump to the thunk, and a padded ret");
	ok(!is_direct(FAKE_MODULE_NO_SLOT), "a jump that leads elsewhere is left alone");
	ok(!trace_session_remove_instance(fs.session, "graph", NULL) && module_is_same(),
	   "without the tracer the module's text is what it was");
	ok(add("graph:brd_write") && are_direct(false, true),
	   "of one function: its own slot, not that of the one it jumps to");
	ok(!trace_session_remove_instance(fs.session, "graph", NULL) &&
		   add("graph:brd_write,tails") && are_direct(true, true),
	   "that one, too, on request");
	ok(!trace_session_remove_instance(fs.session, "graph", NULL) && add("profile:brd_read") &&
		   are_direct(true, false),
	   "a function whose calls are counted has its return");
	end();
}

static void test_follow(void)
{
	create();
	ok(start("graph:*:mod:brd,kfree"),
	   "a module that is not there, and a function of the kernel");
	fake_module_place(&fs);
	keep_memory();
	fake_module_list_sites(&fs, true);
	ok(tick() && module_is_same(), "while ftrace prepares the module it is left alone");
	fake_module_list_sites(&fs, false);
	ok(tick() && are_direct(true, true), "when it has come its returns are recorded");
	fake_module_unload(&fs);
	ok(tick() && !fs.session->plan.slots.n, "slots of a module that is gone are forgotten");
	fake_module_load(&fs);
	ok(tick() && are_direct(true, true), "it may come again");
	restore_slot();
	ok(tick() && are_direct(true, true), "also between two looks at the list");
	fake_module_unload(&fs);
	end();
}

/* Whether calls of __kmalloc(), which brd_write() jumps to, are recorded as what may be tail calls.
 */
static bool may_be_tail_call(void)
{
	const uint8_t *site = fake_text(&fs.fg, FAKE_KMALLOC);
	int32_t distance;
	uint64_t target;
	bool may = false;

	memcpy(&distance, site + 1, sizeof(distance));
	target = fake_gva(FAKE_KMALLOC) + FAKE_MODULE_SLOT_SIZE + (uint64_t)(int64_t)distance;
	pthread_mutex_lock(&lane()->change);
	for (size_t i = 0; i < lane()->nr_pieces; i++)
		for (unsigned int id = 0; id < DIRECT_MAX; id++)
			may |= lane()->pieces[i]->gva == target &&
			       lane()->pieces[i]->use.mask & UINT32_C(1) << id &&
			       lane()->slots[id].want.class == TRACER_TAIL;
	pthread_mutex_unlock(&lane()->change);
	return may;
}

static void test_lead_in(void)
{
	create();
	ok(start("graph:*:mod:brd,__kmalloc") && !may_be_tail_call(),
	   "a module that is not there, and a function of the kernel that it jumps to");
	fake_module_load(&fs);
	keep_memory();
	ok(tick() && are_direct(true, true) && may_be_tail_call(),
	   "when it has come, a call of that function may be a tail call");
	fake_module_unload(&fs);
	ok(tick() && !may_be_tail_call(), "when it is gone, it is none");
	end();
}

static size_t nr_others(void)
{
	return fake_session_status(&fs).instances[2].sites;
}

/* The kernel has this record twice, instead of that of its second site. */
static void hide_site(bool hide)
{
	static uint64_t second;
	uint8_t *records = fs.fg.base.ram + FAKE_SITES_GPA;

	if (hide)
		memcpy(&second, records + 16, sizeof(second));
	memcpy(records + 16, hide ? records : (uint8_t *)&second, sizeof(second));
}

static void test_cost(void)
{
	size_t n, slots;

	create();
	ok(start("graph:*:mod:brd,kmem_cache_alloc") && add("other=function:*"),
	   "functions of the kernel, and of a module that is not there");
	n = nr_others();
	slots = fs.session->plan.slots.n;
	hide_site(true);
	for (int i = 0; i < 3; i++) {
		fake_module_load(&fs);
		keep_memory();
		ok(tick() && is_direct(0) && are_direct(true, true),
		   "when it has come, it is recorded");
		is_u64(nr_others(), n + 2, "the kernel's list of its own sites is not read again");
		fake_module_unload(&fs);
		ok(tick() && fs.session->plan.slots.n == slots && nr_others() == n,
		   "when it is gone, the kernel's functions are left");
	}
	hide_site(false);
	end();
}

/* The guest is between ftrace_module_enable() and mod_sysfs_setup(). */
static void test_early(void)
{
	uint64_t switches;

	create();
	ok(start("graph:*:mod:brd"), "a module is asked for");
	fake_module_load(&fs);
	keep_memory();
	fake_module_hide_sections(&fs, true);
	ok(tick() && is_direct(0) && are_direct(false, false),
	   "before the kernel knows a module's sections its calls are recorded, without returns");
	switches = trace_session_switches(fs.session).times;
	ok(tick() && trace_session_switches(fs.session).times == switches,
	   "a tick alone changes nothing");
	fake_module_hide_sections(&fs, false);
	ok(tick() && are_direct(true, true), "then with them");
	end();
}

static void test_damage(void)
{
	const uint64_t places[] = {UINT64_C(0xffffffff80000000), fake_gva(FAKE_CACHE_ALLOC + 15),
				   UINT64_MAX - 0x1000, 0};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		create();
		fake_module_load(&fs);
		fake_module_claim_text(&fs, places[i]);
		keep_memory();
		ok(start("graph:*:mod:brd,kmem_cache_alloc") && are_direct(false, false),
		   "return slots that a module says are at %#llx are left alone",
		   (unsigned long long)places[i]);
		end();
	}
}

static void test_probes(void)
{
	create();
	fake_module_load(&fs);
	keep_memory();
	ok(start("probe:r:back brd:brd_read ret=$retval") && are_direct(true, false),
	   "a probe at the returns of a function that has its own only");
	ok(!trace_session_remove_instance(fs.session, "back", NULL) &&
		   add("probe:r:some brd:brd_write ret=$retval") && are_direct(false, false),
	   "of one that may leave by a jump to another, none is recorded");
	is_u64(fake_session_status(&fs).instances[1].nr_refused, 1, "it is refused by name");
	fake_module_unload(&fs);
	end();
}

/* A kprobe of the guest's stands at the only jump by which a function may leave. */
static void test_kprobe(void)
{
	uint8_t *jump;

	create();
	fake_module_load(&fs);
	memset(fake_module_text(&fs, FAKE_MODULE_NO_SLOT), NOP, FAKE_MODULE_SLOT_SIZE);
	jump = fake_module_text(&fs, FAKE_MODULE_JUMP);
	fake_session_put_kprobe_at(&fs, FAKE_MODULE_TEXT + FAKE_MODULE_JUMP, jump, 0);
	*jump = INT3;
	keep_memory();
	ok(start("probe:r:some brd:brd_write ret=$retval") && are_direct(false, false),
	   "an armed kprobe hides a jump, by which a function may leave nevertheless");
	is_u64(fake_session_status(&fs).instances[1].nr_refused, 1, "it is refused by name");
	fake_module_unload(&fs);
	end();
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		return 1;
	test_loaded();
	test_follow();
	test_lead_in();
	test_cost();
	test_early();
	test_damage();
	test_probes();
	test_kprobe();
	free(ram);
	return tap_done();
}
