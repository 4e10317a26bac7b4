/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of the graph tracer on a fake guest: which return slots they get, beside the kmem
 * tracer's too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	PATIENCE_MS = 20000,
	CALL = 0xe8,
	JMP = 0xe9,
	INT3 = 0xcc,
	SLOT_BYTES = 5,
	ALLOC_SLOT = FAKE_CACHE_ALLOC + 15, /* kmem_cache_alloc(): behind the site and a load */
	KMALLOC_SLOT = FAKE_KMALLOC + 20,   /* one of __kmalloc()'s; the other is a `ret` */
};

static struct fake_session fs;
static uint8_t *ram;

static void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	fake_session_list_return_sites(&fs);
	trace_session_set_options(fs.session, &options);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
}

static struct direct_lane *lane(void)
{
	return &ring_engine_of(fs.session->ring_engine)->direct;
}

static bool add(const char *spec)
{
	return fake_session_add(&fs, spec);
}

/* The fake kernel has no current tasks: trampolines are not executed. */
static bool start(const char *first, const char *graph)
{
	const bool has_started = fake_session_start_with(&fs, first);

	lane()->task_fields = DIRECT_TASK_FIELDS;
	return has_started && add(graph);
}

static void end(void)
{
	fake_session_end_as(&fs, ram);
}

static uint8_t opcode(uint64_t at)
{
	return *fake_text(&fs.fg, at);
}

/* Whether a branch there leads to code of the direct lane. */
static bool is_direct(uint64_t at)
{
	int32_t distance;
	uint64_t target;

	memcpy(&distance, fake_text(&fs.fg, at) + 1, sizeof(distance));
	target = fake_gva(at) + SLOT_BYTES + (uint64_t)(int64_t)distance;
	return (opcode(at) == CALL || opcode(at) == JMP) &&
	       target - lane()->arena.gva < lane()->arena.size;
}

static bool is_original(uint64_t at)
{
	return !memcmp(fake_text(&fs.fg, at), ram + FAKE_PHYS_TEXT + at, SLOT_BYTES);
}

/* Whether the instance "graph" records with these classes, and no others. */
static bool has_classes(unsigned int classes)
{
	unsigned int found = 0;

	pthread_mutex_lock(&lane()->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		const struct direct_slot *slot = &lane()->slots[id];
		const struct session_instance *owner = slot->want.owner;

		if (slot->state == DIRECT_LIVE && !strcmp(owner->spec.name, "graph"))
			found |= 1u << slot->want.class;
	}
	pthread_mutex_unlock(&lane()->lock);
	return found == classes;
}

/* Whether the entries' records have what a call chain is made of, and it gets to where the class of
 * the event has it; none of the others. */
static bool has_chains(void)
{
	bool found = false, good = true;

	pthread_mutex_lock(&lane()->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		const struct direct_slot *slot = &lane()->slots[id];
		const struct session_instance *owner = slot->want.owner;
		const struct event_field *stack;
		size_t n;

		if (slot->state != DIRECT_LIVE || strcmp(owner->spec.name, "graph"))
			continue;
		stack = event_field_find(&owner->ops->classes(owner->tracer, &n)[slot->want.class],
					 "stack");
		good &= !stack == !(slot->want.fields & DIRECT_STACK);
		good &= !stack == (slot->want.class == TRACER_EXIT);
		good &= !stack || stack->at == slot->plan.stack;
		found |= stack != NULL;
	}
	pthread_mutex_unlock(&lane()->lock);
	return found && good;
}

enum {
	ENTRY = 1 << TRACER_ENTRY,
	EXIT = 1 << TRACER_EXIT,
	NO_EXIT = 1 << TRACER_CALL,
	TAIL = 1 << TRACER_TAIL
};

static void test_alone(void)
{
	create();
	is_u64(fs.fg.base.image.nr_return_sites, 2, "the fake kernel has two return slots");
	ok(start("function:kfree", "graph:kmem_cache_alloc"), "a function with its return");
	ok(opcode(FAKE_CACHE_ALLOC) == CALL && is_direct(FAKE_CACHE_ALLOC), "its site is a call");
	ok(opcode(ALLOC_SLOT) == JMP && is_direct(ALLOC_SLOT), "its return slot is a jump");
	ok(is_original(KMALLOC_SLOT), "another function's slot is not changed");
	ok(has_classes(ENTRY | EXIT), "others jump to it, but none that is recorded");
	end();
	create();
	ok(start("function:kfree", "graph:kfree") && has_classes(NO_EXIT),
	   "a function that has no return slot: its entry alone, as such");
	end();
	create();
	ok(start("function:kfree", "graph:__kmalloc") && is_direct(KMALLOC_SLOT) &&
		   has_classes(ENTRY | EXIT),
	   "a function that none jumps to");
	end();
}

/* As clang writes it. */
static void test_prefix(void)
{
	create();
	fake_code(&fs.fg, ALLOC_SLOT, "\x2e", 1);
	fake_branch(&fs.fg, ALLOC_SLOT + 1, JMP, FAKE_RETURN_THUNK);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
	ok(start("function:kfree", "graph:kmem_cache_alloc") && has_classes(ENTRY | EXIT) &&
		   is_direct(ALLOC_SLOT) && opcode(ALLOC_SLOT + 5) == INT3,
	   "a jump with a prefix is a return slot, of which nothing is left");
	ok(add("kmem:kmalloc,cache") && is_direct(ALLOC_SLOT) && opcode(ALLOC_SLOT + 5) == INT3,
	   "for allocations, too");
	end();
}

static void test_stack(void)
{
	create();
	ok(start("function:kfree", "graph:kmem_cache_alloc,ret,stack") &&
		   has_classes(ENTRY | EXIT) && has_chains(),
	   "with call chains: of entries, not of returns");
	end();
}

/* Entry and return alike. */
static bool has_gates(void)
{
	unsigned int points = 0;

	pthread_mutex_lock(&lane()->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		const struct direct_slot *slot = &lane()->slots[id];

		if (slot->state == DIRECT_LIVE && slot->want.gate && slot->want.gate->n == 3)
			points |= 1u << slot->want.point;
	}
	pthread_mutex_unlock(&lane()->lock);
	return points == (1u << POINT_ENTRY | 1u << POINT_RETURN);
}

/* Whether entries and returns of calls from there are recorded: 1; none of them: 0. */
static int passes(uint64_t call_site)
{
	const struct gate_values values = {.source = {[GATE_CALL_SITE] = call_site}};
	int passed = 0, slots = 0;

	pthread_mutex_lock(&lane()->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++) {
		const struct direct_slot *slot = &lane()->slots[id];
		const struct session_instance *owner = slot->want.owner;

		if (slot->state != DIRECT_LIVE || strcmp(owner->spec.name, "graph"))
			continue;
		slots++;
		passed += slot->want.gate && gate_eval(slot->want.gate, &values);
	}
	pthread_mutex_unlock(&lane()->lock);
	return slots && passed == slots ? 1 : passed ? -1 : 0;
}

/* The caller by its name, which the guest compares with the function's run-time addresses. */
static void test_caller(void)
{
	struct error err = {0};

	create();
	ok(start("function:kfree", "graph:kmem_cache_alloc if parent_ip.function == fake_caller") &&
		   passes(fake_session_call_site()) == 1 && passes(fake_gva(FAKE_CALLER)) == 1 &&
		   !passes(fake_gva(FAKE_CALLER) - 1) && !passes(fake_gva(FAKE_KMALLOC)),
	   "a caller by name: the gate has its range");
	is_str(fake_session_instance(&fs, "graph")->guest_conditions,
	       "parent_ip.function == fake_caller", "the guest decides it");
	ok(trace_session_add_instance(fs.session, "g=graph:kfree if parent_ip == fake_callar",
				      &err) == -EINVAL &&
		   err.column == 31 && strstr(err.text, "did you mean 'fake_caller'?"),
	   "an unknown one is refused: %s", err.text);
	ok(!trace_session_add_instance(fs.session, "f=function:kfree if parent_ip != fake_caller",
				       &err) &&
		   !*fake_session_instance(&fs, "f")->host_conditions,
	   "the function tracer leaves nothing of it for the host");
	end();
}

static void test_condition(void)
{
	static const char *const refused[] = {
		"graph:kmem_cache_alloc if pid == 5 && comm ~ \"w*\"",
		"graph:kmem_cache_alloc if cgroup == 5",
		"profile:kmem_cache_alloc if vcpu == 0",
	};
	struct error err = {0};

	create();
	ok(start("function:kfree",
		 "graph:kmem_cache_alloc,pid=5 if tgid == 4 || parent_ip > 0xffffffff81000000") &&
		   has_gates(),
	   "a condition on what stays as it is during a call: at entry and return");
	is_str(fake_session_instance(&fs, "graph")->guest_conditions,
	       "pid=5 && (tgid == 4 || parent_ip > 0xffffffff81000000)", "the guest decides it");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const char *condition = strstr(refused[i], " if ") + 4;

		err = (struct error){0};
		ok(trace_session_add_instance(fs.session, refused[i], &err) == -ENOTSUP &&
			   err.column == (unsigned int)(condition - refused[i]) + 1 &&
			   strstr(err.text, "it cannot decide"),
		   "another is refused: %s", err.text);
	}
	end();
}

static void test_tails(void)
{
	create();
	ok(start("function:kfree", "graph:kmem_cache_alloc_lru") && is_original(ALLOC_SLOT) &&
		   has_classes(ENTRY),
	   "a function that ends with a tail call: the other one's slot is left alone");
	end();
	create();
	ok(start("function:kfree", "graph:kmem_cache_alloc_lru,tails") && is_direct(ALLOC_SLOT) &&
		   has_classes(ENTRY | EXIT),
	   "on request it is recorded, too");
	end();
	create();
	ok(start("function:kfree", "graph:kmem_cache_alloc,kmem_cache_alloc_lru") &&
		   has_classes(TAIL | ENTRY | EXIT),
	   "the other one, if both are recorded, is one that may be tail-called");
	end();
}

static bool await_free(void)
{
	struct direct_lane *l = &ring_engine_of(fs.session->ring_engine)->direct;
	bool freed = false;

	for (int i = 0; !freed && i < PATIENCE_MS; i++, clock_wait_ms(1)) {
		pthread_mutex_lock(&l->change);
		freed = !l->nr_pieces;
		pthread_mutex_unlock(&l->change);
		pthread_mutex_lock(&l->lock);
		for (unsigned int id = 0; id < DIRECT_MAX; id++)
			freed &= l->slots[id].state == DIRECT_FREE;
		pthread_mutex_unlock(&l->lock);
	}
	return freed;
}

static void test_with_probes(void)
{
	create();
	ok(start("kmem:cache", "graph:kmem_cache_alloc"), "beside the kmem tracer");
	ok(opcode(FAKE_CACHE_ALLOC) == JMP && is_direct(FAKE_CACHE_ALLOC) && is_direct(ALLOC_SLOT),
	   "site and slot lead to trampolines made for both");
	ok(!trace_session_remove_instance(fs.session, "graph", NULL), "the graph goes");
	ok(opcode(ALLOC_SLOT) == JMP && !is_direct(ALLOC_SLOT) && !is_direct(FAKE_CACHE_ALLOC),
	   "site and slot lead to kmem's first trampolines again");
	ok(await_free(), "code and ids are free again");
	ok(add("graph:kmem_cache_alloc,ret") && is_direct(ALLOC_SLOT),
	   "it comes again, with results");
	ok(!trace_session_remove_instance(fs.session, "kmem", NULL), "the allocations go");
	ok(opcode(FAKE_CACHE_ALLOC) == CALL && is_direct(FAKE_CACHE_ALLOC) && is_direct(ALLOC_SLOT),
	   "site and slot lead to shared code");
	ok(is_original(KMALLOC_SLOT), "and a slot of kmem's alone is as it was");
	ok(add("kmem:kmalloc,cache") && opcode(FAKE_CACHE_ALLOC) == JMP && is_direct(ALLOC_SLOT) &&
		   !is_direct(KMALLOC_SLOT) && !is_original(KMALLOC_SLOT),
	   "they come again");
	end();
}

static void test_kprobe(void)
{
	struct kprobe_handoff *kprobes;

	create();
	ok(start("function:kfree", "graph:kmem_cache_alloc"), "start");
	kprobes = &fs.session->kprobes;
	ok(kprobe_handoff_reaches(kprobes, fake_gva(ALLOC_SLOT)) &&
		   !kprobe_handoff_give(kprobes, fake_gva(ALLOC_SLOT), NULL) &&
		   is_original(ALLOC_SLOT) && is_direct(FAKE_CACHE_ALLOC),
	   "a kprobe of the guest gets the slot's own bytes");
	*fake_text(&fs.fg, ALLOC_SLOT) = 0xcc;
	ok(add("f=function:kmem_cache_free") && opcode(ALLOC_SLOT) == 0xcc && has_classes(NO_EXIT),
	   "a later change leaves it alone: the function has no slot then");
	*fake_text(&fs.fg, ALLOC_SLOT) = JMP;
	ok(!trace_session_remove_instance(fs.session, "f", NULL) && is_direct(ALLOC_SLOT),
	   "when the kprobe is gone, a change takes it again");
	fake_session_put_kprobe(&fs, ALLOC_SLOT, FAKE_KPROBE_DISABLED);
	ok(add("f=function:kmem_cache_free") && is_original(ALLOC_SLOT) && has_classes(NO_EXIT),
	   "one that is disabled shows in no text, and keeps the slot");
	fake_session_put_kprobe(&fs, 0, 0);
	end();
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		return 1;
	test_alone();
	test_prefix();
	test_stack();
	test_condition();
	test_caller();
	test_tails();
	test_with_probes();
	test_kprobe();
	free(ram);
	return tap_done();
}
