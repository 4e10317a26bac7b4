/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of the direct lane on a fake guest: which sites they get, and how they come and go. */
#include <stdatomic.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/function.h"
#include "formats/event/kmem.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	ROUNDS = 100,
	PATIENCE_MS = 20000,
	CALL = 0xe8,
	JMP = 0xe9,
	OUT_LAST_MS = 400
};

static struct fake_session fs;
static uint8_t *ram;

/* --- streams --------------------------------------------------------------------------------- */

struct event_sink {
	char name[TRACE_INSTANCE_NAME_MAX + 1];
	unsigned int vcpu;
	bool open;
	struct event_batch *batch; /* that it belongs to */
	struct event_sink *next;
	unsigned int class; /* of the last event */
	uint64_t events, ip, parent;
	int64_t ns;
};

static struct event_sink sinks[64][FAKE_VCPUS];
static int nr_streams;
static atomic_bool misused;

static int open_stream(struct trace_session *s, const struct trace_instance *instance,
		       struct event_sink **out, struct error *err)
{
	int number = nr_streams++ % 64;

	(void)s;
	(void)err;
	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		sinks[number][i] = (struct event_sink){.vcpu = i, .open = true};
		snprintf(sinks[number][i].name, sizeof(sinks[number][i].name), "%s",
			 instance->name);
		out[i] = &sinks[number][i];
	}
	return number;
}

static void close_stream(struct trace_session *s, int number)
{
	(void)s;
	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		misused |= !sinks[number][i].open || sinks[number][i].batch;
		sinks[number][i].open = false;
	}
}

static int put_event(struct event_batch *batch, struct event_sink *sink, unsigned int class,
		     int64_t ns, const void *bytes)
{
	const struct function_event *event = bytes;

	if (!sink->batch) {
		sink->batch = batch;
		sink->next = batch->first;
		batch->first = sink;
	}
	misused |= !sink->open || sink->batch != batch || ns < sink->ns;
	sink->ns = ns;
	sink->class = class;
	sink->ip = event->ip;
	sink->parent = event->parent_ip;
	sink->events++;
	return 0;
}

static void put_run(struct event_batch *batch, struct event_sink *sink, unsigned int class,
		    const struct event_run *run)
{
	for (size_t i = 0; i < run->n; i++)
		put_event(batch, sink, class, run->ns[i], run->bytes + i * run->stride);
}

static void put_mix(struct event_batch *batch, struct event_sink *sink, const struct event_mix *mix)
{
	for (size_t i = 0; i < mix->n; i++)
		put_event(batch, sink, mix->classes[i], event_mix_ns(mix, i),
			  mix->bytes + i * mix->stride);
}

static void end_events(struct event_batch *batch)
{
	for (; batch->first; batch->first = batch->first->next)
		batch->first->batch = NULL;
}

static const struct stream_ops streams = {
	.open = open_stream,
	.close = close_stream,
	.output = {put_event, put_run, put_mix, end_events}};

/* The newest stream of an instance. */
static const struct event_sink *sink(const char *name, unsigned int vcpu)
{
	for (int i = nr_streams; i-- > 0;)
		if (!strcmp(sinks[i % 64][vcpu].name, name))
			return &sinks[i % 64][vcpu];
	abort();
}

static void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
	fs.session->stream_ops = &streams;
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
}

static int start(const char *first, const char *second, struct error *err)
{
	const char *const specs[] = {first, second, NULL};

	return trace_session_start(fs.session, specs, err);
}

static bool is_untouched(void)
{
	return !memcmp(ram, fs.fg.base.ram, FAKE_RAM) && fs.fg.nr_regions == 1;
}

static void end(void)
{
	ok(!trace_session_failure(fs.session) && !misused, "nothing has failed while tracing");
	ok(!trace_session_stop(fs.session, NULL) && is_untouched(),
	   "after a stop guest memory is what it was");
	fake_session_destroy(&fs);
}

static uint8_t opcode(uint64_t function)
{
	return *fake_text(&fs.fg, function);
}

static uint64_t target(uint64_t function)
{
	int32_t distance;

	memcpy(&distance, fake_text(&fs.fg, function) + 1, sizeof(distance));
	return fake_gva(function) + 5 + (uint64_t)(int64_t)distance;
}

static struct ring_engine *rings(void)
{
	return ring_engine_of(fs.session->ring_engine);
}

static const struct trace_instance_status *instance(const char *name)
{
	return fake_session_instance(&fs, name);
}

/* The slot of the instance of this name. */
static unsigned int slot_of(const char *name)
{
	const struct instance_list *list = &fs.session->instances;
	const struct session_instance *owner = NULL;
	struct direct_lane *lane = &rings()->direct;
	unsigned int found = DIRECT_MAX;

	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->v[i]->spec.name, name))
			owner = list->v[i];
	pthread_mutex_lock(&lane->lock);
	for (unsigned int id = 0; id < DIRECT_MAX && found == DIRECT_MAX; id++)
		if (lane->slots[id].state == DIRECT_LIVE && lane->slots[id].want.owner == owner)
			found = id;
	pthread_mutex_unlock(&lane->lock);
	if (found == DIRECT_MAX)
		abort();
	return found;
}

/* As shared code does for one instance. */
static bool put_record(unsigned int slot, unsigned int vcpu, uint64_t function)
{
	const struct direct_lane *lane = &rings()->direct;
	unsigned int ring = lane->slots[slot].group * FAKE_VCPUS + vcpu;
	struct ring_writer writer = ring_writer(lane->rings[ring].header, lane->ring_bytes);
	uint32_t size = lane->slots[slot].layout.size;
	struct direct_record *record;

	for (int i = 0; i < PATIENCE_MS; i++) {
		record = (struct direct_record *)ring_writer_reserve(&writer, size);
		if (record)
			break;
		clock_wait_ms(1);
	}
	if (!record)
		return false;
	record->tsc = fs.fg.guest.clock->tsc(&fs.fg.guest);
	record->ip = (uint32_t)(fake_gva(function) + 5);
	__atomic_store_n(&record->commit, ring_commit(slot), __ATOMIC_RELEASE);
	return true;
}

static bool await_records(const char *name, uint64_t n)
{
	for (int i = 0; i < PATIENCE_MS && instance(name)->records < n; i++)
		clock_wait_ms(1);
	return instance(name)->records == n;
}

static enum direct_state state_of(unsigned int slot)
{
	struct direct_lane *lane = &rings()->direct;
	enum direct_state state;

	pthread_mutex_lock(&lane->lock);
	state = lane->slots[slot].state;
	pthread_mutex_unlock(&lane->lock);
	return state;
}

/* While the guest runs. */
static void set_halted(unsigned int vcpu, bool halted)
{
	pthread_mutex_lock(&fs.fg.gate);
	fs.fg.vcpus[vcpu].sregs.halted = halted;
	pthread_mutex_unlock(&fs.fg.gate);
}

static bool await_free_slots(void)
{
	unsigned int used = 1;

	for (int i = 0; used && i < PATIENCE_MS; i++, clock_wait_ms(1)) {
		used = 0;
		for (unsigned int id = 0; id < DIRECT_MAX; id++)
			used += state_of(id) > DIRECT_LIVE;
	}
	return !used;
}

/* --- starting -------------------------------------------------------------------------------- */

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

/* --- changes --------------------------------------------------------------------------------- */

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
	ok(trace_session_remove_instance(fs.session, "c", &err) == -ENOENT,
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

/* Nobody can say when a vCPU that is not idle leaves the code. */
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

static void test_busy_guest(void)
{
	unsigned int slot;

	create();
	start("a=function:kfree", NULL, NULL);
	slot = slot_of("a");
	set_halted(1, false);
	trace_session_remove_instance(fs.session, "a", NULL);
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

static bool has_switched(uint64_t times, size_t sites)
{
	struct trace_switch last = trace_session_switch(fs.session);

	return last.times == times && last.sites == sites && last.ns &&
	       fake_session_count(&fs, COUNTER_SWITCHES) == times;
}

/* Each switch is told: how many sites, and for how long. */
static void test_switches(void)
{
	create();
	start("a=function:kfree,__kmalloc", NULL, NULL);
	ok(has_switched(1, 2), "a start switches the instance's sites");
	trace_session_add_instance(fs.session, "b=function:kfree,kmem_cache_free", NULL);
	ok(has_switched(2, 2), "a change those that differ");
	trace_session_remove_instance(fs.session, "c", NULL);
	ok(has_switched(2, 2), "one that fails none");
	trace_session_stop(fs.session, NULL);
	ok(has_switched(3, 3), "a stop all of them");
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

		good &= !trace_session_set_instances(fs.session, list, 2 + i % 2, NULL);
		good &= put_record(slot_of("c"), i % FAKE_VCPUS, FAKE_KFREE);
		records++;
	}
	ok(good, "%d changes", ROUNDS);
	ok(await_records("c", records), "an instance that stays loses nothing");
	ok(await_free_slots(), "the others' slots are free");
	end();
}

/* --- the guest's own ftrace ------------------------------------------------------------------ */

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

static void put_back(struct fake_guest *fg)
{
	fg->on_stop = NULL;
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
	const struct patch *patch;

	create();
	start("a=function:kmem_cache_free", "k=kmem:kmalloc", NULL);
	fs.fg.on_stop = probe_site;
	ok(!trace_session_replace_instance(fs.session, "k=kmem:pages", &err),
	   "a kprobe comes before a change is made: %s", err.text);
	patch = patch_set_at(&fs.session->plan.shared, fake_gva(FAKE_CACHE_FREE));
	ok(opcode(FAKE_CACHE_FREE) != CALL && patch && patch->yielded,
	   "its site stays the guest's");
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
	fake_session_call(&fs, 0, FAKE_ALLOC_PAGES, 0);
	ok(sink("a", 0)->events == 1 && sink("a", 0)->class == KMEM_CLASS_KFREE,
	   "the first gets the events that it wants");
	ok(sink("b", 0)->events == 2 && sink("b", 0)->class == KMEM_CLASS_PAGE_ALLOC,
	   "the second gets all");
	is_u64(sink("b", 1)->events, 0, "another vCPU has none");
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) && !misused,
	   "after a stop the text is what it was");
	fake_session_destroy(&fs);
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		return 1;
	test_start();
	test_large_events();
	test_with_probes();
	test_refusals();
	test_images();
	test_later();
	test_changes();
	test_fields_return();
	test_reused_code();
	test_busy_guest();
	test_wrong_position();
	test_last_losses();
	test_switches();
	test_failure();
	test_many_changes();
	test_ftrace();
	test_change_while_out();
	test_probes_while_out();
	test_patch_comes_back();
	test_kprobe_comes();
	test_probes_by_name();
	free(ram);
	return tap_done();
}
