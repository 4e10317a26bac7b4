/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sites of the direct lane that the guest's own ftrace and kprobes take, and give back. */
#include <pthread.h>
#include "tests/unit/patcher/session/direct-fixture.h"

enum { OUT_LAST_MS = 400 };

static void test_ftrace(void)
{
	create();
	start("function:kfree,kmem_cache_free", NULL, NULL);
	fake_branch(&fs.fg, FAKE_DURING_UPDATE, CALL, FAKE_UPDATE + 0x40);
	fake_code(&fs.fg, FAKE_UPDATE + 0x40, "\xc3", 1);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
	memcpy(ram + FAKE_PHYS_TEXT + FAKE_KFREE, fs.text + FAKE_KFREE, 5);
	memcpy(ram + FAKE_PHYS_TEXT + FAKE_CACHE_FREE, fs.text + FAKE_CACHE_FREE, 5);
	ok(fake_guest_call(&fs.fg, 0, FAKE_CALLER, FAKE_UPDATE) >= 0, "the guest changes sites");
	ok(opcode(FAKE_KFREE) == CALL && fs.session->ftrace.times == 1,
	   "the functions are recorded again afterwards");
	ok(!trace_session_stop(fs.session, NULL), "stop");
	ok(opcode(FAKE_KFREE) != CALL, "the site is as it was");
	fake_session_destroy(&fs);
}

static bool is_taking, is_given;

/* With the guest stopped: its ftrace is ready, if it was not before. */
static void take_back(struct fake_guest *fg)
{
	(void)fg;
	if (is_taking || !fs.session->ftrace.out)
		return;
	is_taking = true;
	ftrace_handoff_take(&fs.session->ftrace, NULL);
	is_taking = false;
}

static void *take_later(void *arg)
{
	(void)arg;
	clock_wait_ms(OUT_LAST_MS);
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	take_back(&fs.fg);
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
	return NULL;
}

/* The guest's ftrace has the sites for some time, or until the next stop. */
static pthread_t give_for_some_time(void)
{
	pthread_t thread;

	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	ftrace_handoff_give(&fs.session->ftrace, NULL);
	is_given = opcode(FAKE_CACHE_FREE) != CALL;
	fs.fg.on_stop = take_back;
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
	if (pthread_create(&thread, NULL, take_later, NULL))
		abort();
	return thread;
}

static void await_taken(pthread_t thread)
{
	pthread_join(thread, NULL);
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	fs.fg.on_stop = NULL;
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
}

/* What is planned while the sites are the guest's knows nothing of the patches that come back. */
static void test_change_while_out(void)
{
	struct error err = {0};
	pthread_t thread;

	create();
	start("a=function:kmem_cache_free", NULL, NULL);
	thread = give_for_some_time();
	ok(is_given, "the guest's ftrace has the sites");
	ok(!trace_session_replace_instance(fs.session, "a=function:kfree", &err),
	   "an instance gets another site: %s", err.text);
	await_taken(thread);
	ok(opcode(FAKE_KFREE) == CALL && opcode(FAKE_CACHE_FREE) != CALL,
	   "the former one has no patch that was forgotten");
	end();
}

/* The guest's function tracer is on at this site. */
static void let_guest_hold(uint64_t function)
{
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	ftrace_handoff_give(&fs.session->ftrace, NULL);
	fake_branch(&fs.fg, function, CALL, FAKE_UPDATE);
	ftrace_handoff_take(&fs.session->ftrace, NULL);
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
}

/* A site of the direct lane that the guest has held until then keeps its new patch. */
static void test_probes_while_out(void)
{
	struct error err = {0};
	pthread_t thread;

	create();
	start("a=function:kmem_cache_free", "k=kmem:kmalloc", NULL);
	let_guest_hold(FAKE_CACHE_FREE);
	thread = give_for_some_time();
	memcpy(fake_text(&fs.fg, FAKE_CACHE_FREE), fs.text + FAKE_CACHE_FREE, 5);
	ok(!trace_session_replace_instance(fs.session, "k=kmem:pages", &err),
	   "probes change after the guest's ftrace: %s", err.text);
	await_taken(thread);
	ok(target(FAKE_CACHE_FREE) >= rings()->direct.arena.gva && opcode(FAKE_KFREE) != JMP,
	   "to what is wanted, and the site is recorded again");
	end();
}

static uint8_t came_back[5];
static bool in_order;

static void put_back(struct fake_guest *fg)
{
	fg->on_stop = NULL;
	in_order = rings()->direct.unseen.n == 1 && rings()->direct.unseen.sorted;
	memcpy(fake_text(fg, FAKE_CACHE_FREE), came_back, sizeof(came_back));
}

/* Whoever has put it there. */
static void test_patch_comes_back(void)
{
	struct error err = {0};

	create();
	start("a=function:kfree,kmem_cache_free", "b=function:kfree", NULL);
	memcpy(came_back, fake_text(&fs.fg, FAKE_CACHE_FREE), sizeof(came_back));
	memcpy(fake_text(&fs.fg, FAKE_CACHE_FREE), fs.text + FAKE_CACHE_FREE, sizeof(came_back));
	fs.fg.on_stop = put_back;
	ok(!trace_session_remove_instance(fs.session, "a", &err),
	   "a patch comes back before a change is made: %s", err.text);
	ok(in_order, "it was to be looked for, in order of addresses");
	ok(!fs.fg.on_stop && opcode(FAKE_CACHE_FREE) != CALL, "it is not forgotten");
	end();
}

/* --- its kprobes ---------------------------------------------------------------------------- */

static void probe_site(struct fake_guest *fg)
{
	fg->on_stop = NULL;
	kprobe_handoff_give(&fs.session->kprobes, fake_gva(FAKE_CACHE_FREE), NULL);
}

/* A kernel whose kprobes do not use ftrace. */
static void test_kprobe_comes(void)
{
	struct error err = {0};
	struct trace_status status;
	const struct patch *patch;

	create();
	start("a=function:kmem_cache_free", "k=kmem:kmalloc", NULL);
	fs.fg.on_stop = probe_site;
	ok(!trace_session_replace_instance(fs.session, "k=kmem:pages", &err),
	   "a kprobe comes before a change is made: %s", err.text);
	patch = patch_set_at(&fs.session->plan.shared, fake_gva(FAKE_CACHE_FREE));
	ok(opcode(FAKE_CACHE_FREE) != CALL && patch && patch->yielded,
	   "its site stays the guest's");
	trace_session_status(fs.session, &status);
	ok(status.counters.v[COUNTER_YIELDS] == 1 &&
		   status.counters.v[COUNTER_YIELDED_FUNCTIONS] == 1,
	   "which is counted");
	kprobe_handoff_give(&fs.session->kprobes, fake_gva(FAKE_CACHE_FREE), NULL);
	trace_session_status(fs.session, &status);
	ok(status.counters.v[COUNTER_YIELDS] == 1, "once");
	end();
}

int main(void)
{
	allocate_ram();
	test_ftrace();
	test_change_while_out();
	test_probes_while_out();
	test_patch_comes_back();
	test_kprobe_comes();
	free(ram);
	return tap_done();
}
