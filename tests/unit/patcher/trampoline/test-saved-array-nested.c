/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls that return many objects, interrupted at every instruction by another one, as an NMI does,
 * and on several CPUs that share one table: each finds its own array.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-saved-array.h"
#include "tests/lib/tap.h"

enum { RAX = 0, RDX = 2, PAIRS = 10000 };

/* Calls a function at one depth of the stack: its entry, and then its return. */
void call_pair(const void *entry, const void *leave, const uint64_t *array, uint64_t result);
__asm__(".pushsection .text\n"
	".globl call_pair\n.type call_pair, @function\n"
	"call_pair:\n"
	"push %rbx\n push %rbp\n push %r12\n"
	"mov %rsi, %rbx\n mov %rcx, %rbp\n mov %rdi, %r12\n"
	"call *%r12\n"
	"mov %rbp, %rax\n"
	"call *%rbx\n"
	"pop %r12\n pop %rbp\n pop %rbx\n"
	"ret\n"
	".size call_pair, . - call_pair\n"
	".popsection\n");

struct nested {
	struct fake_saved_array *b;
	volatile int steps;
	int interrupt_at;
	volatile bool interrupted;
	uint64_t words[3];
};

static void on_step(void *arg, uint64_t rip)
{
	struct nested *n = arg;

	if (!fake_function_contains(&n->b->entry, rip) &&
	    !fake_function_contains(&n->b->leave, rip))
		return;
	if (n->steps++ != n->interrupt_at)
		return;
	n->interrupted = true;
	call_pair(n->b->entry.code, n->b->leave.code, n->words, 3);
}

/* Records of both, in whatever order; the outer call's items must be its own. */
static bool both_recorded(struct fake_saved_array *b, const struct nested *n, const uint64_t *words)
{
	const struct record_layout *layout = &b->leave.trampoline.layout;
	unsigned int outer = 0, inner = 0;

	while (fake_saved_array_take(b)) {
		const uint64_t *items = (const void *)(b->record + layout->items);

		if (fake_saved_array_record(b)->commit != ring_commit(FAKE_SAVED_ARRAY_RETURN))
			continue;
		if (fake_saved_array_field(b, &b->leave, FIELD_SAVED) != 1)
			return false;
		outer += fake_saved_array_record(b)->items == 5 && !memcmp(items, words, 40);
		inner += fake_saved_array_record(b)->items == 3 && !memcmp(items, n->words, 24);
	}
	return outer == 1 && inner == n->interrupted && !fake_saved_array_count(b);
}

static void test_nested(void)
{
	struct nested n = {.interrupt_at = -1};
	uint64_t words[5];
	struct fake_saved_array b;
	bool good = true;

	fake_saved_array_init(&b, FAKE_RETURNS_NUMBER, TRAMPOLINE_BLOCK);
	n.b = &b;
	fake_host_install(fake_saved_array_on_out, on_step, &n);
	do {
		fake_saved_array_fill(n.words, 3);
		n.steps = 0;
		n.interrupt_at++;
		n.interrupted = false;
		fake_cpu_randomise(b.cpu);
		b.cpu->in.reg[RDX] = (uint64_t)(uintptr_t)words;
		b.cpu->in.flags |= FAKE_FLAG_TRAP;
		good = fake_saved_array_call(&b, &b.entry, 9);
		fake_saved_array_fill(words, 5);
		fake_cpu_randomise(b.cpu);
		b.cpu->in.reg[RAX] = 5;
		b.cpu->in.flags |= FAKE_FLAG_TRAP;
		good &= fake_saved_array_call(&b, &b.leave, 9) && both_recorded(&b, &n, words);
	} while (good && n.interrupted);
	tap_diag("instructions of an entry that keeps and a return with 5 items: %d", n.steps);
	ok(good && n.interrupt_at > 80, "interrupted at %d places, each call finds its own array",
	   n.interrupt_at);
	fake_saved_array_deinit(&b);
}

struct worker {
	const struct fake_saved_array *b;
	uint32_t cpu;
	uint64_t wrong, missing;
	pthread_t thread;
};

/* It empties its ring itself, so that the table alone is shared. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct fake_cpu *cpu = fake_cpu_enter(w->cpu);
	struct ring_header *ring = fake_ring(&w->b->rings, w->cpu);
	const uint32_t sizes[] = {w->b->entry.trampoline.layout.size,
				  w->b->leave.trampoline.layout.items};
	uint64_t words[2];

	for (uint64_t i = 0; i < PAIRS; i++) {
		uint8_t *data = fake_ring_data(&w->b->rings, w->cpu);
		const uint64_t *items;

		words[0] = (uint64_t)w->cpu << 32 | i;
		words[1] = ~words[0];
		ring->reserve = 0;
		call_pair(w->b->entry.code, w->b->leave.code, words, 2);
		items = (const void *)(data + sizes[0] + sizes[1]);
		w->missing += ring->reserve == sizes[0] + sizes[1];
		w->wrong += ring->reserve == sizes[0] + sizes[1] + 16 &&
			    memcmp(items, words, sizeof(words));
		w->wrong += ring->reserve > sizes[0] + sizes[1] + 16;
	}
	fake_cpu_leave(cpu);
	return NULL;
}

static void test_threads(void)
{
	struct worker workers[FAKE_SAVED_ARRAY_CPUS];
	uint64_t wrong = 0, missing = 0;
	struct fake_saved_array b;

	fake_saved_array_init(&b, FAKE_RETURNS_NUMBER, TRAMPOLINE_BLOCK);
	for (int i = 0; i < RING_SAVED_SLOTS; i++) /* all but one in four is taken */
		b.rings.saved_arrays[i].key = i % 4 ? 1 : 0;
	for (uint32_t i = 0; i < FAKE_SAVED_ARRAY_CPUS; i++) {
		workers[i] = (struct worker){.b = &b, .cpu = i};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			abort();
	}
	for (uint32_t i = 0; i < FAKE_SAVED_ARRAY_CPUS; i++) {
		pthread_join(workers[i].thread, NULL);
		wrong += workers[i].wrong;
		missing += workers[i].missing;
	}
	tap_diag("%lu of %d calls found no place", missing, FAKE_SAVED_ARRAY_CPUS * PAIRS);
	ok(!wrong && missing < FAKE_SAVED_ARRAY_CPUS * PAIRS / 2,
	   "calls on several CPUs never find another call's array");
	fake_saved_array_deinit(&b);
}

int main(void)
{
	test_nested();
	test_threads();
	return tap_done();
}
