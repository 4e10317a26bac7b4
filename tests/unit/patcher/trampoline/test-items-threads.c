/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Several CPUs write records of different sizes at once, and ring.c takes them out: every item
 * arrives in order and once, or is counted as lost.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/ring/ring.h"
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

enum { CPUS = 3, CALLS = 3000, MOST = 100, QUEUE = 4 * FAKE_DATA, ID = 2, BURST = 4 };

struct scene {
	struct fake_rings rings;
	struct trampoline_kernel kernel;
	struct trampoline_spec spec;
	struct fake_function function;
	struct ring_shape shapes[ID + 1];
	struct ring readers[CPUS];
	uint64_t items[CPUS], last[CPUS], records[CPUS];
	uint64_t written[CPUS];
	uint32_t running;
	bool wrong;
};

struct writer {
	struct scene *scene;
	uint32_t cpu;
	pthread_t thread;
};

/* Items are numbers that grow by one; each call has another count. */
static void *write_records(void *arg)
{
	const struct writer *w = arg;
	struct fake_cpu *cpu = fake_cpu_enter(w->cpu);
	void (*call)(const uint64_t *, uint64_t) =
		(void (*)(const uint64_t *, uint64_t))(uintptr_t)w->scene->function.code;
	uint64_t words[MOST], number = 0;

	for (unsigned int i = 0; i < CALLS; i++) {
		unsigned int count = 1 + (i * 7 + w->cpu) % MOST;

		for (unsigned int j = 0; j < count; j++)
			words[j] = ++number;
		call(words, count);
		if (i % BURST == 0)
			sched_yield();
	}
	w->scene->written[w->cpu] = number;
	__atomic_sub_fetch(&w->scene->running, 1, __ATOMIC_RELEASE);
	fake_cpu_leave(cpu);
	return NULL;
}

/* On the writer's thread: the host lets the CPU wait until the reader has made room. */
static uint64_t wait_for_room(void *arg, uint64_t rip)
{
	const struct scene *s = arg;
	uint32_t cpu;

	(void)rip;
	__asm__("mov %%gs:%c1, %0" : "=r"(cpu) : "i"(offsetof(struct fake_cpu, number)));
	while (ring_room(&s->readers[cpu]) != RING_ROOM)
		sched_yield();
	return s->spec.gva + s->function.trampoline.slow.retry;
}

static void take(struct scene *s, uint32_t cpu, const struct ring_record *record)
{
	const struct record_layout *layout = &s->function.trampoline.layout;
	const uint64_t *items = (const void *)((const uint8_t *)record + layout->items);
	unsigned int n = record->items;

	s->records[cpu]++;
	s->items[cpu] += n;
	s->wrong |= !n || items[0] <= s->last[cpu];
	for (unsigned int i = 0; i < n; i++)
		s->wrong |= items[i] != items[0] + i;
	s->last[cpu] = n ? items[n - 1] : s->last[cpu];
}

static void read_all(struct scene *s)
{
	const struct ring_clock clock = {
		.tsc = UINT64_MAX, .stall_ns = UINT64_MAX, .late_ns = UINT64_MAX};

	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		struct ring *ring = &s->readers[cpu];

		ring_consume(ring, &clock);
		while (ring_first(ring)) {
			take(s, cpu, ring_first(ring));
			ring_pop(ring);
		}
	}
}

static bool judge(const struct scene *s, const char *name)
{
	uint64_t lost = 0, items = 0, records = 0;
	bool good = !s->wrong;

	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		const struct ring_counts *c = &s->readers[cpu].counts;

		lost += c->lost;
		items += s->items[cpu];
		records += s->records[cpu];
		good &= s->items[cpu] + c->lost == s->written[cpu] && !c->malformed &&
			!c->stalled && !c->clamped && c->records == s->records[cpu];
	}
	tap_diag("%s: %lu items in %lu records, %lu items lost", name, items, records, lost);
	return good && items && (s->spec.full == TRAMPOLINE_DROP || !lost);
}

static void scene_init(struct scene *s, enum trampoline_full full)
{
	struct capture capture = fake_capture(POINT_ENTRY, CAPTURE(FIELD_CALL_SITE), 0);

	capture.items = (struct capture_items){.from = ITEMS_ARRAY, .pointer = 0, .count = 1};
	*s = (struct scene){.rings = fake_rings_create(CPUS), .kernel = fake_cpu_kernel()};
	s->spec = (struct trampoline_spec){
		.capture = capture, .id = ID, .kernel = &s->kernel, .full = full};
	if (!fake_function_create(&s->spec, &s->rings, FAKE_RET, &s->function))
		abort();
	s->shapes[ID].size = (uint16_t)s->function.trampoline.layout.size;
	s->shapes[ID].items = CAPTURE_MAX_ITEMS;
	for (uint32_t i = 0; i < CPUS; i++) {
		const struct ring_config config = {FAKE_DATA, QUEUE, s->shapes, ID + 1};

		if (ring_init(&s->readers[i], fake_ring(&s->rings, i), &config, NULL))
			abort();
	}
}

static void test_threads(enum trampoline_full full, const char *name)
{
	struct writer writers[CPUS];
	bool running = true;
	struct scene s;

	scene_init(&s, full);
	fake_host_install(wait_for_room, NULL, &s);
	s.running = CPUS;
	for (uint32_t i = 0; i < CPUS; i++) {
		writers[i] = (struct writer){.scene = &s, .cpu = i};
		if (pthread_create(&writers[i].thread, NULL, write_records, &writers[i]))
			abort();
	}
	while (running) {
		running = __atomic_load_n(&s.running, __ATOMIC_ACQUIRE);
		read_all(&s);
		sched_yield();
	}
	for (uint32_t i = 0; i < CPUS; i++) {
		pthread_join(writers[i].thread, NULL);
		ring_deinit(&s.readers[i]);
	}
	ok(judge(&s, name), "%s: each item is recorded once and in order, or counted as lost",
	   name);
	fake_function_destroy(&s.function);
	fake_rings_destroy(&s.rings);
}

int main(void)
{
	test_threads(TRAMPOLINE_BLOCK, "block");
	test_threads(TRAMPOLINE_DROP, "drop");
	return tap_done();
}
