/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Several CPUs write at once while a reader goes round their rings: every record arrives complete,
 * in order and once, or is counted as lost.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

/* A burst fills half a ring, and then the reader gets its turn. */
enum { CPUS = 4, CALLS = 30000, BURST = 20, ID = 7 };

struct reader {
	uint64_t consumed, records, last, last_tsc;
	bool wrong;
};

struct scene {
	struct fake_rings rings;
	struct trampoline_kernel kernel;
	struct trampoline_spec spec;
	struct fake_function function;
	struct reader readers[CPUS];
};

struct writer {
	const struct scene *scene;
	uint32_t cpu;
	pthread_t thread;
};

static void *write_records(void *arg)
{
	const struct writer *w = arg;
	struct fake_cpu *cpu = fake_cpu_enter(w->cpu);
	void (*call)(uint64_t, uint64_t) =
		(void (*)(uint64_t, uint64_t))(uintptr_t)w->scene->function.code;

	for (uint64_t i = 1; i <= CALLS; i++) {
		call(i, ~i * (w->cpu + 1));
		if (!(i % BURST))
			sched_yield();
	}
	fake_cpu_leave(cpu);
	return NULL;
}

/* On the writer's thread: the host lets the CPU wait until the reader has made room. */
static uint64_t wait_for_room(void *arg, uint64_t rip)
{
	const struct scene *s = arg;
	uint32_t cpu;
	const struct ring_header *ring;

	(void)rip;
	__asm__("mov %%gs:%c1, %0" : "=r"(cpu) : "i"(offsetof(struct fake_cpu, number)));
	ring = fake_ring(&s->rings, cpu);
	while (__atomic_load_n(&ring->limit, __ATOMIC_ACQUIRE) <= ring->reserve)
		sched_yield();
	return s->spec.gva + s->function.trampoline.slow.retry;
}

static uint64_t word(const uint8_t *record, const struct fake_function *f, enum record_field field)
{
	return *(const uint64_t *)(record + f->trampoline.layout.offset[field]);
}

/* Take the next record of a ring; false if it is not there yet. */
static bool take(struct scene *s, uint32_t cpu)
{
	struct reader *r = &s->readers[cpu];
	struct ring_header *ring = fake_ring(&s->rings, cpu);
	uint8_t *at = fake_ring_data(&s->rings, cpu) + (r->consumed & (FAKE_DATA - 1));
	uint32_t size = s->function.trampoline.layout.size;
	uint32_t commit = __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE);
	uint64_t number, tsc = ((struct ring_record *)at)->tsc;

	if (!commit)
		return false;
	number = word(at, &s->function, FIELD_ARG0);
	if (commit != ring_commit(ID) || number <= r->last ||
	    word(at, &s->function, FIELD_ARG1) != ~number * (cpu + 1) || tsc < r->last_tsc)
		r->wrong = true;
	r->last = number;
	r->last_tsc = tsc;
	r->records++;
	memset(at, 0, size);
	r->consumed += size;
	__atomic_store_n(&ring->limit, r->consumed + FAKE_DATA - RING_SLACK, __ATOMIC_RELEASE);
	return true;
}

static bool finished(const struct scene *s, uint32_t cpu)
{
	const struct ring_header *ring = fake_ring(&s->rings, cpu);

	return s->readers[cpu].records + __atomic_load_n(&ring->lost, __ATOMIC_ACQUIRE) >= CALLS;
}

static void read_records(struct scene *s)
{
	bool all_done = false;

	while (!all_done) {
		bool idle = true;

		all_done = true;
		for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
			while (take(s, cpu))
				idle = false;
			all_done &= finished(s, cpu);
		}
		if (idle)
			sched_yield();
	}
}

static bool judge(const struct scene *s, const char *name)
{
	uint64_t lost = 0;
	bool good = true;

	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		const struct ring_header *ring = fake_ring(&s->rings, cpu);
		const struct reader *r = &s->readers[cpu];

		lost += ring->lost;
		good &= !r->wrong && r->records + ring->lost == CALLS &&
			r->consumed == ring->reserve;
	}
	tap_diag("%s: %lu of %d records lost", name, lost, CPUS * CALLS);
	return good && (s->spec.full == TRAMPOLINE_DROP || !lost);
}

static void test_threads(enum trampoline_full full, const char *name)
{
	const struct capture capture = fake_capture(
		POINT_ENTRY, CAPTURE(FIELD_ARG0) | CAPTURE(FIELD_ARG1) | CAPTURE(FIELD_STACK), 3);
	struct scene s = {.rings = fake_rings_create(CPUS), .kernel = fake_cpu_kernel()};
	struct writer writers[CPUS];

	s.spec = (struct trampoline_spec){
		.capture = capture, .id = ID, .kernel = &s.kernel, .full = full};
	if (!fake_function_create(&s.spec, &s.rings, FAKE_RET, &s.function))
		abort();
	fake_host_install(wait_for_room, NULL, &s);
	for (uint32_t i = 0; i < CPUS; i++) {
		writers[i] = (struct writer){.scene = &s, .cpu = i};
		if (pthread_create(&writers[i].thread, NULL, write_records, &writers[i]))
			abort();
	}
	read_records(&s);
	for (uint32_t i = 0; i < CPUS; i++)
		pthread_join(writers[i].thread, NULL);
	ok(judge(&s, name), "%s: each record is written once, or counted as lost", name);
	fake_function_destroy(&s.function);
	fake_rings_destroy(&s.rings);
}

int main(void)
{
	test_threads(TRAMPOLINE_BLOCK, "block");
	test_threads(TRAMPOLINE_DROP, "drop");
	return tap_done();
}
