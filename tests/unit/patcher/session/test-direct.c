/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of the direct lane on a fake guest: which sites they get, and when they start. */
#include <errno.h>
#include <stdlib.h>
#include "formats/event/kmem.h"
#include "tests/unit/patcher/session/direct-fixture.h"

static void test_start(void)
{
	struct error err = {0};

	create();
	ok(!start("function:kfree,kmem_cache_*,!*_bulk", NULL, &err), "functions alone: %s",
	   err.text);
	ok(opcode(FAKE_KFREE) == CALL && opcode(FAKE_CACHE_FREE) == CALL,
	   "the sites that are meant are calls");
	ok(target(FAKE_KFREE) == target(FAKE_CACHE_FREE), "all call the same code");
	ok(opcode(FAKE_FREE_BULK) != CALL && opcode(FAKE_KMALLOC) != CALL,
	   "other sites are not changed");
	is_u64(instance("function")->sites, 5, "the status says how many there are");
	ok(instance("function")->active && instance("function")->direct, "the instance traces");
	ok(put_record(slot_of("function"), 2, FAKE_KFREE) && await_records("function", 1),
	   "a record gets to the instance's stream");
	ok(sink("function", 2)->events == 1 && sink("function", 2)->ip == fake_gva(FAKE_KFREE),
	   "of its vCPU, with the function's address");
	end();
}

/* Whose slot it is may go before the code that writes such records is there. */
static atomic_uint nr_new, nr_taken;

static void look_at_new_slots(struct fake_guest *fg)
{
	const struct direct_lane *lane = &rings()->direct;

	(void)fg;
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		if (lane->slots[id].state != DIRECT_NEW)
			continue;
		nr_new++;
		nr_taken += lane->shapes[id].size != 0;
	}
}

static void test_forged(void)
{
	create();
	if (start("function:kfree", NULL, NULL))
		abort();
	atomic_store(&fs.fg.on_stop, look_at_new_slots);
	ok(!trace_session_add_instance(fs.session, "g=function:__kmalloc", NULL) && nr_new &&
		   !nr_taken,
	   "until a change takes effect, a record of its slots is damage");
	atomic_store(&fs.fg.on_stop, NULL);
	ok(put_record(slot_of("g"), 1, FAKE_KMALLOC) && await_records("g", 1),
	   "then it is an event");
	end();
}

/* Events of many long strings, more than fit into the memory for a batch's. */
static void test_large_events(void)
{
	static const char spec[] =
		"probe:p:texts kfree +0(%di):char[64] +0(%di):char[64] +0(%di):char[64] "
		"+0(%di):char[64] +0(%di):char[64] +0(%di):char[64] +0(%di):char[64]";
	enum { LARGE = 64 };
	pthread_mutex_t *lock;
	bool done = true;
	unsigned int slot;

	create();
	if (start("function:kfree", spec, NULL))
		abort();
	slot = slot_of("texts");
	lock = &rings()->direct.lock;
	pthread_mutex_lock(lock); /* all are there at once */
	for (int i = 0; i < LARGE; i++)
		done &= put_record(slot, 1, FAKE_KFREE);
	pthread_mutex_unlock(lock);
	ok(done && await_records("texts", LARGE) && sink("texts", 1)->events == LARGE &&
		   sink("texts", 1)->ip == fake_gva(FAKE_KFREE),
	   "large events of one batch get to their stream in parts");
	end();
}

static void test_with_probes(void)
{
	create();
	ok(!start("kmem:kmalloc", "f=function", NULL), "functions beside probes");
	ok(opcode(FAKE_KFREE) == JMP && target(FAKE_KFREE) >= rings()->direct.arena.gva,
	   "a probe's site leads to its own trampoline, made for both");
	ok(opcode(FAKE_CACHE_FREE) == CALL, "a site without a probe is a call");
	ok(!trace_session_remove_instance(fs.session, "f", NULL), "the functions go");
	ok(opcode(FAKE_KFREE) == JMP && target(FAKE_KFREE) < rings()->direct.arena.gva,
	   "the probe's site leads to its first trampoline again");
	ok(opcode(FAKE_CACHE_FREE) != CALL, "the site without a probe is as it was");
	ok(await_free_slots() && !rings()->direct.nr_pieces, "code and slot are free again");
	end();
}

/* --- slow paths ------------------------------------------------------------------------------ */

static bool is_served(struct guest_trap *trap)
{
	return ring_engine_on_trap(fs.session->ring_engine, trap) == ENGINE_TRAP_OTHER;
}

/* Without the thread that drains, so that the ring stays full: how many records fit in. */
static uint64_t fill_ring(unsigned int slot, unsigned int vcpu)
{
	const struct direct_lane *lane = &rings()->direct;
	unsigned int ring = lane->slots[slot].group * FAKE_VCPUS + vcpu;
	struct ring_writer writer = ring_writer(lane->rings[ring].header, lane->ring_bytes);
	struct ring_record *record;
	uint64_t n = 0;

	while ((record = ring_writer_reserve(&writer, lane->slots[slot].layout.size))) {
		end_record((struct direct_record *)record, slot, FAKE_KFREE);
		n++;
	}
	return n;
}

static void test_slow_path(void)
{
	const struct direct_piece *piece;
	const struct direct_slow *slow;
	struct guest_trap trap = {.vcpu = 1};
	unsigned int slot;
	uint64_t n;

	create();
	start("a=function:kfree", NULL, NULL);
	slot = slot_of("a");
	piece = rings()->direct.pieces[0];
	slow = &piece->slow[0].slow;
	trap.regs.rip = piece->slow[0].trap;
	ok(is_served(&trap) && trap.regs.rip == slow->retry, "a vCPU tries again if there is room");
	trap.regs.rip = piece->slow[0].trap;
	ring_engine_stop_thread(rings());
	n = fill_ring(slot, 1);
	ok(is_served(&trap) && trap.regs.rip == slow->skip, "it does not if there is none");
	if (ring_engine_start_thread(rings(), NULL))
		abort();
	is_u64(rings()->vcpus[1].lost, 1, "its record is counted as lost");
	ok(await_records("a", n), "those that had room are not");
	trap = (struct guest_trap){.vcpu = FAKE_VCPUS, .regs = {.rip = piece->slow[0].trap}};
	ok(!is_served(&trap), "a vCPU that is not there is not served");
	trap = (struct guest_trap){.vcpu = 1, .regs = {.rip = piece->slow[0].trap + 1}};
	ok(!is_served(&trap), "nor is one that is elsewhere");
	end();
}

/* The thread that drains frees those that were left. */
static unsigned int guarded_pieces(void)
{
	struct direct_lane *lane = &rings()->direct;
	unsigned int n = 0;

	pthread_mutex_lock(&lane->change);
	for (size_t i = 0; i < lane->nr_pieces; i++)
		n += lane->pieces[i]->state == DIRECT_LIVE && lane->pieces[i]->guarded;
	pthread_mutex_unlock(&lane->change);
	return n;
}

/* While an instance reads memory by functions of the guest, no other records what these call. */
static void test_guarded(void)
{
	create();
	start("f=function:kfree", NULL, NULL);
	is_u64(guarded_pieces(), 0, "code without a probe that reads memory asks for none");
	ok(trace_session_add_instance(fs.session, "probe:p:r kmem_cache_free %di", NULL) >= 0 &&
		   !guarded_pieces(),
	   "one of registers reads none");
	ok(trace_session_add_instance(fs.session, "probe:p:m kmem_cache_free +0(%di)", NULL) >= 0,
	   "one that reads memory comes");
	is_u64(guarded_pieces(), 2, "all code is made anew");
	ok(!trace_session_remove_instance(fs.session, "m", NULL) && !guarded_pieces(),
	   "and again, when it has gone");
	end();
}

static void test_refusals(void)
{
	const struct trace_options traps = {.exitless = false};
	struct error err = {0};

	create();
	ok(start("function:no_such_*", NULL, &err) == -ENOENT && strstr(err.text, "no_such_*"),
	   "a pattern that names nothing is refused: %s", err.text);
	ok(is_untouched() && !fake_session_status(&fs).enabled, "and leaves nothing behind");
	memcpy(fake_text(&fs.fg, FAKE_KFREE), "\xcc\x90\x90\x90\x90", 5);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
	ok(!start("function:kfree,kmem_cache_free", NULL, &err), "one of two sites is taken");
	ok(instance("function")->nr_refused == 1 &&
		   !strcmp(instance("function")->refused[0].function, "kfree"),
	   "the other one is refused by name: %s", instance("function")->refused[0].reason);
	end();
	create();
	trace_session_set_options(fs.session, &traps);
	ok(start("kmem", "function", &err) == -ENOTSUP, "traps record no functions: %s", err.text);
	ok(is_untouched() && !fake_session_status(&fs).enabled, "and nothing is traced then");
	fake_session_destroy(&fs);
}

/* While the guest boots, too: nobody waits for what cannot come. */
static void test_images(void)
{
	struct kernel_image *image;
	struct error err = {0};
	struct btf_types *btf;
	size_t n;

	create();
	image = (struct kernel_image *)(uintptr_t)fs.session->image;
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0x1000);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
	btf = image->btf;
	image->btf = NULL;
	ok(start("function:kfree", NULL, &err) == -ENOTSUP &&
		   strstr(err.text, "exitless mode only: the kernel image has no BTF"),
	   "a kernel without BTF is refused at the start: %s", err.text);
	image->btf = btf;
	n = image->nr_mcount_sites;
	image->nr_mcount_sites = 0;
	ok(start("function:kfree", NULL, &err) == -ENOTSUP &&
		   strstr(err.text, "the kernel has no mcount sites"),
	   "so is one without ftrace: %s", err.text);
	image->nr_mcount_sites = n;
	ok(is_untouched() && !fake_session_status(&fs).enabled, "and nothing is left behind");
	fake_session_destroy(&fs);
}

/* No trap shows that the guest is ready. */
static void test_later(void)
{
	create();
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0x1000);
	ok(!start("function:kfree", NULL, NULL) && !instance("function")->active,
	   "functions wait for a guest that is not ready");
	ok(instance("function")->waiting != NULL, "the status says so: %s",
	   instance("function")->waiting);
	ok(!trace_session_tick(fs.session, NULL) && opcode(FAKE_KFREE) != CALL, "they wait");
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, 0);
	fs.fg.clock += 20000000;
	ok(!trace_session_tick(fs.session, NULL) && opcode(FAKE_KFREE) == CALL &&
		   instance("function")->active,
	   "they start when it is");
	ok(!trace_session_stop(fs.session, NULL), "stop");
	ok(!start("function:kfree", NULL, NULL) && opcode(FAKE_KFREE) == CALL,
	   "they start again at once");
	end();
}

/* --- the ordered lane ------------------------------------------------------------------------ */

static void test_probes_by_name(void)
{
	const struct trace_options traps = {.exitless = false};

	create();
	trace_session_set_options(fs.session, &traps);
	ok(!start("a=kmem:kmalloc", "b=kmem", NULL), "two instances of one tracer");
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	fs.fg.vcpus[0].regs.rsi = 0;
	fake_session_call(&fs, 0, FAKE_ALLOC_PAGES, 0);
	ok(sink("a", 0)->events == 1 && sink("a", 0)->class == KMEM_CLASS_KFREE,
	   "the first gets the events that it wants");
	ok(sink("b", 0)->events == 2 && sink("b", 0)->class == KMEM_CLASS_PAGE_ALLOC,
	   "the second gets all");
	is_u64(sink("b", 1)->events, 0, "another vCPU has none");
	ok(!trace_session_add_instance(fs.session, "c=kmem", NULL) && sink("c", 0)->late &&
		   !sink("a", 0)->late && !sink("b", 0)->late,
	   "an instance that comes later is told from those of the start");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) && !misused,
	   "after a stop the text is what it was");
	fake_session_destroy(&fs);
}

int main(void)
{
	allocate_ram();
	test_start();
	test_forged();
	test_large_events();
	test_with_probes();
	test_slow_path();
	test_guarded();
	test_refusals();
	test_images();
	test_later();
	test_probes_by_name();
	free(ram);
	return tap_done();
}
