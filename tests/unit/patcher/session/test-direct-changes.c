/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of the direct lane come, change and go while others record. */
#include <errno.h>
#include "tests/lib/fake-tasks.h"
#include "tests/unit/patcher/session/direct-fixture.h"

enum { ROUNDS = 100, SOON_MS = 100, TASK_GPA = FAKE_HEAP_GPA + 0x400000 };

static void test_changes(void)
{
	struct error err = {0};
	uint64_t stops;

	create();
	ok(!start("a=function:kfree", NULL, NULL), "one instance");
	stops = fs.fg.stops;
	ok(!trace_session_add_instance(fs.session, "b=function:kfree,__kmalloc,parent", &err),
	   "another one comes: %s", err.text);
	ok(fs.fg.stops - stops <= 3, "in one stop, which nests");
	ok(target(FAKE_KFREE) != target(FAKE_KMALLOC), "sites with other masks call other code");
	ok(put_record(slot_of("a"), 0, FAKE_KFREE) && put_record(slot_of("b"), 0, FAKE_KFREE) &&
		   put_record(slot_of("b"), 1, FAKE_KMALLOC),
	   "records of both");
	ok(await_records("a", 1) && await_records("b", 2), "each gets its own");
	ok(sink("a", 0)->events == 1 && sink("b", 0)->events == 1 && sink("b", 1)->events == 1 &&
		   sink("b", 1)->ip == fake_gva(FAKE_KMALLOC),
	   "in the streams of their vCPUs");
	ok(trace_session_add_instance(fs.session, "b=function:kfree", &err) == -EEXIST,
	   "a second one of a name is refused: %s", err.text);
	ok(trace_session_remove_instance(fs.session, "c", &err) == -ENOENT &&
		   strstr(err.text, "is a or b, not 'c'"),
	   "one that is not there cannot go: %s", err.text);
	ok(!trace_session_replace_instance(fs.session, "b=function:kmem_cache_free,parent", &err),
	   "one gets another filter: %s", err.text);
	ok(opcode(FAKE_KMALLOC) != CALL && opcode(FAKE_CACHE_FREE) == CALL &&
		   opcode(FAKE_KFREE) == CALL,
	   "the sites follow");
	is_u64(instance("b")->records, 2, "its stream goes on");
	ok(!trace_session_replace_instance(fs.session, "b=function:kmem_cache_free", &err),
	   "one gets other fields: %s", err.text);
	ok(put_record(slot_of("b"), 0, FAKE_CACHE_FREE) && await_records("b", 1) &&
		   sink("b", 0)->events == 1,
	   "they go to another stream");
	ok(!trace_session_remove_instance(fs.session, "a", &err) && opcode(FAKE_KFREE) != CALL,
	   "the first one goes");
	ok(await_free_slots(), "its slot is free when the guest has left the code");
	end();
}

/* What an instance recorded before the last change but one may still come. */
static void test_fields_return(void)
{
	struct error err = {0};
	int before;

	create();
	start("a=function:kfree", NULL, NULL);
	set_halted(1, false);
	before = nr_streams;
	ok(!trace_session_replace_instance(fs.session, "a=function:kfree,parent", &err),
	   "an instance gets other fields in a guest that is busy: %s", err.text);
	is_u64((uint64_t)(nr_streams - before), 1, "with another stream");
	ok(!trace_session_replace_instance(fs.session, "a=function:kfree,__kmalloc", &err),
	   "it gets the former ones: %s", err.text);
	is_u64((uint64_t)(nr_streams - before), 1, "with the former stream, which is still open");
	set_halted(1, true);
	ok(await_free_slots(), "its slots are free when the guest has left the code");
	end();
}

/* A guest that goes on executing what it has executed at an address before, until it is told. */
static struct guest_region renewed;
static unsigned int renewals;
static bool wrong_renewal;

static int renew(struct guest *guest, const struct guest_region *code, struct error *err)
{
	const struct ring_engine *x = ring_engine_of(fs.session->ring_engine);

	(void)guest;
	(void)err;
	renewed = *code;
	renewals++;
	wrong_renewal |= !fs.fg.stopped || opcode(FAKE_KMALLOC) == CALL ||
			 code->hva - x->scratch.hva != (ptrdiff_t)(code->gpa - x->scratch.gpa);
	return 0;
}

static void test_reused_code(void)
{
	struct guest_scratch_ops ops;
	const struct ring_engine *x;
	struct error err = {0};
	uint64_t code;

	create();
	ops = *fs.fg.guest.scratch;
	ops.renew = renew;
	fs.fg.guest.scratch = &ops;
	ok(!start("a=function:kfree,parent", NULL, NULL), "one instance");
	code = target(FAKE_KFREE);
	ok(!trace_session_add_instance(fs.session, "b=function:kmem_cache_free", &err),
	   "another one comes");
	ok(!trace_session_remove_instance(fs.session, "a", &err) && await_free_slots(),
	   "the first one goes, with its code");
	is_u64(renewals, 0, "the guest has executed no other code where it stood");
	ok(!trace_session_add_instance(fs.session, "c=function:__kmalloc", &err) &&
		   target(FAKE_KMALLOC) == code,
	   "other code takes its place");
	x = ring_engine_of(fs.session->ring_engine);
	ok(renewals == 1 && !wrong_renewal && renewed.size > 16 &&
		   renewed.gpa - x->scratch.gpa == code - x->mapping.gva,
	   "the guest is told, before it gets there");
	end();
}

/* An instance goes while a vCPU is not idle. Returns its slot. */
static unsigned int remove_from_busy(void)
{
	unsigned int slot;

	create();
	start("a=function:kfree", NULL, NULL);
	slot = slot_of("a");
	set_halted(1, false);
	trace_session_remove_instance(fs.session, "a", NULL);
	return slot;
}

/* Nobody can say when a vCPU that is not idle leaves the code. */
static void test_busy_guest(void)
{
	unsigned int slot;

	slot = remove_from_busy();
	ok(put_record(slot, 1, FAKE_KFREE), "a vCPU inside the code goes on writing");
	clock_wait_ms(100);
	ok(state_of(slot) == DIRECT_LEAVING && rings()->direct.nr_pieces == 1,
	   "slot and code stay while it may be inside");
	ok(fs.session->streams != NULL, "and so does the stream");
	set_halted(1, true);
	ok(await_free_slots() && !rings()->direct.nr_pieces, "they are free when it has left");
	ok(sink("a", 1)->events == 1 && sink("a", 1)->open, "the stream has the late record");
	ok(!trace_session_tick(fs.session, NULL) && !fs.session->streams && !sink("a", 1)->open,
	   "the stream is closed");
	end();
}

/* The word of a task's stack that says where it was preempted. */
static uint64_t add_preempted_task(void)
{
	struct fake_kernel *k = &fs.fg.base;
	uint64_t task = fake_task(k, TASK_GPA);

	fake_list_add(k, fake_tasks(), task + FAKE_TASK_TASKS);
	fake_task_interrupt(k, task, 0x3f00, 0);
	memcpy(ram, k->ram, FAKE_RAM);
	return fake_task_stack(k, task, 0x3f00);
}

static void preempt_at(uint64_t ip, uint64_t gva)
{
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	fake_write64(&fs.fg.base, ip, gva);
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
}

/* Of all code that is being left, none may go while a task will go on in any of it. */
static void test_preempted(void)
{
	const char *const stays[] = {"c=function:kmem_cache_free"};
	uint64_t ip, first, second;

	create();
	ip = add_preempted_task();
	start("a=function:kfree", "b=function:__kmalloc,parent", NULL);
	trace_session_add_instance(fs.session, stays[0], NULL);
	first = target(FAKE_KFREE);
	second = target(FAKE_KMALLOC);
	preempt_at(ip, first);
	ok(!trace_session_set_instances(fs.session, stays, 1, NULL), "two of three instances go");
	clock_wait_ms(SOON_MS);
	is_u64(rings()->direct.nr_pieces, 3, "code stays for a task that was preempted in it");
	preempt_at(ip, second);
	clock_wait_ms(SOON_MS);
	is_u64(rings()->direct.nr_pieces, 3, "and for one in other code that is being left");
	preempt_at(ip, target(FAKE_CACHE_FREE));
	ok(await_free_slots() && rings()->direct.nr_pieces == 1,
	   "a task in code that stays does not keep it");
	preempt_at(ip, 0);
	end();
}

/* A record in a ring is its slot's, as long as it takes. */
static void test_unfinished(void)
{
	struct direct_record *record;
	unsigned int slot;

	slot = remove_from_busy();
	record = begin_record(slot, 1);
	set_halted(1, true);
	for (int i = 0; i < PATIENCE_MS && state_of(slot) == DIRECT_LEAVING; i++)
		clock_wait_ms(1);
	clock_wait_ms(SOON_MS);
	ok(state_of(slot) == DIRECT_DRAINING, "a slot stays while a record of its is unfinished");
	end_record(record, slot, FAKE_KFREE);
	ok(await_free_slots() && sink("a", 1)->events == 1, "it goes behind that record");
	end();
}

/* A guest that writes into the header of a ring, for a moment. */
static void test_wrong_position(void)
{
	uint64_t *reserve;
	unsigned int slot;

	create();
	start("a=function:kfree", NULL, NULL);
	slot = slot_of("a");
	reserve = &rings()->direct.rings[rings()->direct.slots[slot].group * FAKE_VCPUS]
			   .header->reserve;
	__atomic_fetch_add(reserve, RING_BYTES / 2, __ATOMIC_SEQ_CST);
	trace_session_remove_instance(fs.session, "a", NULL);
	for (int i = 0; i < PATIENCE_MS && state_of(slot) == DIRECT_LEAVING; i++)
		clock_wait_ms(1);
	__atomic_fetch_sub(reserve, RING_BYTES / 2, __ATOMIC_SEQ_CST);
	ok(await_free_slots(), "a position that was never reserved keeps no slot");
	end();
}

static struct ring_header *losing;
static uint64_t nr_lost;

static void lose_one(struct fake_guest *fg)
{
	(void)fg;
	__atomic_fetch_add(&losing->lost, 1, __ATOMIC_SEQ_CST);
	nr_lost++;
}

/* The last one is met by the pass that closes the slot: the thread stops the guest right before. */
static void test_last_losses(void)
{
	struct instance_stream *stream;

	create();
	start("a=function:kfree", NULL, NULL);
	losing = rings()->direct.rings[rings()->direct.slots[slot_of("a")].group * FAKE_VCPUS]
			 .header;
	nr_lost = 0;
	stream = fs.session->streams;
	stream->users++; /* it stays, however soon the slot is free */
	fs.fg.on_stop = lose_one;
	trace_session_remove_instance(fs.session, "a", NULL);
	ok(await_free_slots(), "an instance loses and goes");
	fs.fg.on_stop = NULL;
	is_u64(atomic_load(&stream->lost), nr_lost, "its stream is told all that it has lost");
	stream->users--;
	end();
}

static uint64_t fail_gpa;

static void fail_now(struct fake_guest *fg)
{
	fg->failing_gpa = fail_gpa;
}

/* Since it was asked last, and in all. */
static bool has_switched(uint64_t times, uint64_t sites, uint64_t all)
{
	static struct trace_switches before;
	const struct trace_switches now = trace_session_switches(fs.session);
	const struct trace_switches news = trace_switches_since(&now, &before);

	before = now;
	return news.times == times && news.sites == sites && !news.ns == !times &&
	       now.times == all && fake_session_count(&fs, COUNTER_SWITCHES) == all;
}

/* Each switch is told: how many sites, and for how long. */
static void test_switches(void)
{
	create();
	start("a=function:kfree,__kmalloc", NULL, NULL);
	ok(has_switched(1, 2, 1), "a start switches the instance's sites");
	trace_session_add_instance(fs.session, "b=function:kfree,kmem_cache_free", NULL);
	ok(has_switched(1, 2, 2), "a change those that differ");
	trace_session_remove_instance(fs.session, "c", NULL);
	ok(has_switched(0, 0, 2), "one that fails none");
	trace_session_stop(fs.session, NULL);
	ok(has_switched(1, 3, 3), "a stop all of them");
	is_u64(fake_session_count(&fs, COUNTER_SWITCHED_SITES), 7, "all sites are counted");
	fake_session_destroy(&fs);
}

/* The last of the sites cannot be written: those before it are put back. */
static void test_failure(void)
{
	uint8_t *before = malloc(FAKE_IMAGE_SIZE);
	struct error err = {0};

	create();
	start("kmem:kmalloc", "a=function:kfree,__kmalloc", NULL);
	if (!before)
		abort();
	memcpy(before, fake_text(&fs.fg, 0), FAKE_IMAGE_SIZE);
	fail_gpa = FAKE_PHYS_TEXT + FAKE_FREE_PAGE;
	fs.fg.on_stop = fail_now;
	ok(trace_session_add_instance(fs.session, "b=function", &err) == -EIO,
	   "a change fails half-way: %s", err.text);
	fs.fg.on_stop = NULL;
	fs.fg.failing_gpa = 0;
	ok(!memcmp(before, fake_text(&fs.fg, 0), FAKE_IMAGE_SIZE) && !fs.fg.stopped,
	   "the text is as before");
	is_u64(fake_session_status(&fs).nr_specs, 2, "so are the instances");
	ok(!trace_session_add_instance(fs.session, "b=function", &err), "the next try succeeds: %s",
	   err.text);
	ok(put_record(slot_of("b"), 3, FAKE_KFREE) && await_records("b", 1), "and records");
	end();
	free(before);
}

/* Rings of the ordered lane that leave no room for others. */
static void test_no_groups(void)
{
	struct error err = {0};
	unsigned int groups;

	create();
	start("k=kmem:kmalloc", NULL, NULL);
	groups = rings()->direct.nr_groups;
	rings()->direct.nr_groups = 0;
	ok(trace_session_add_instance(fs.session, "a=function:kmem_cache_free", &err) == -ENOSPC &&
		   strstr(err.text, "no memory for rings"),
	   "without room for its rings an instance is refused: %s", err.text);
	rings()->direct.nr_groups = groups;
	ok(!trace_session_add_instance(fs.session, "a=function:kmem_cache_free", &err),
	   "with room it is not: %s", err.text);
	end();
}

/* --- when rings come ------------------------------------------------------------------------- */

static void set_ready(bool ready)
{
	fake_put64(&fs.fg.base, fake_session_pmd(&fs) + 8, ready ? 0 : 0x1000);
}

/* Of a session that had no instance of the direct lane. */
static void test_first(void)
{
	struct error err = {0};

	create();
	start("kmem", NULL, NULL);
	ok(!direct_is_active(fs.session), "probes alone do not use the direct lane");
	ok(!trace_session_add_instance(fs.session, "a=function:kmem_cache_free", &err) &&
		   direct_is_active(fs.session),
	   "it is in use from its first instance on: %s", err.text);
	end();
}

/* A change comes after the rings, and before the tick that starts the direct lane. */
static void test_before_tick(void)
{
	struct error err = {0};

	create();
	set_ready(false);
	ok(!start("a=function:kmem_cache_free", "k=kmem:kmalloc", NULL), "a guest is not ready");
	set_ready(true);
	fs.fg.clock += 20000000;
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	ok(opcode(FAKE_KFREE) == JMP && opcode(FAKE_CACHE_FREE) != CALL,
	   "a trap brings the rings, not the direct lane");
	ok(!trace_session_replace_instance(fs.session, "k=kmem:pages", &err) &&
		   opcode(FAKE_CACHE_FREE) == CALL && opcode(FAKE_KFREE) != JMP,
	   "a change of probes brings it, too: %s", err.text);
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) && !misused,
	   "after a stop the text is what it was");
	fake_session_destroy(&fs);
}

static void bring_rings(struct fake_guest *fg)
{
	fg->on_stop = NULL;
	set_ready(true);
	if (session_switch(fs.session, NULL))
		abort();
}

/* What was planned for traps is done with rings. */
static void test_rings_come(void)
{
	struct error err = {0};

	create();
	set_ready(false);
	start("k=kmem:kmalloc", NULL, NULL);
	fs.fg.on_stop = bring_rings;
	ok(!trace_session_replace_instance(fs.session, "k=kmem:pages", &err),
	   "rings come when the guest stops for a change: %s", err.text);
	ok(!fs.fg.on_stop && opcode(FAKE_ALLOC_PAGES) == JMP && opcode(FAKE_KFREE) != JMP,
	   "it is made with them");
	end();
}

/* On a busy machine a change may not be over when the next one comes, which is refused then. */
static bool set_in_time(const char *const *specs, size_t n)
{
	int ret = -EAGAIN;

	for (int i = 0; i < PATIENCE_MS && ret == -EAGAIN; i++) {
		if (i)
			clock_wait_ms(1);
		ret = trace_session_set_instances(fs.session, specs, n, NULL);
	}
	return !ret;
}

static void test_many_changes(void)
{
	static const char *const specs[] = {"a=function", "a=function:k*", "a=function:*free*",
					    "b=function:kfree,parent", "b=function:k*,parent"};
	enum { NR_SPECS = sizeof(specs) / sizeof(specs[0]) };
	uint64_t records = 0;
	bool good = true;

	create();
	good &= !start("kmem", "c=function:kfree", NULL);
	for (unsigned int i = 0; i < ROUNDS && good; i++) {
		const char *list[] = {"kmem", "c=function:kfree", specs[i * 7 % NR_SPECS]};

		good &= set_in_time(list, 2 + i % 2);
		good &= put_record(slot_of("c"), i % FAKE_VCPUS, FAKE_KFREE);
		records++;
	}
	ok(good, "%d changes", ROUNDS);
	ok(await_records("c", records), "an instance that stays loses nothing");
	ok(await_free_slots(), "the others' slots are free");
	end();
}

int main(void)
{
	allocate_ram();
	test_changes();
	test_fields_return();
	test_reused_code();
	test_busy_guest();
	test_preempted();
	test_unfinished();
	test_wrong_position();
	test_last_losses();
	test_switches();
	test_failure();
	test_no_groups();
	test_first();
	test_before_tick();
	test_rings_come();
	test_many_changes();
	free(ram);
	return tap_done();
}
