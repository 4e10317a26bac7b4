/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "patcher/ring/ring.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum { DATA = RING_MIN_DATA, STALL_NS = 1000, SMALL = 24, BIG = 400, MAX_OUT = 1 << 20 };

enum { OTHER, LARGE, CALL, RETURN, WHOLE, NR_SHAPES };

static const struct ring_shape shapes[NR_SHAPES] = {
	[OTHER] = {.size = SMALL},
	[LARGE] = {.size = BIG},
	[CALL] = {.size = SMALL + 8, .role = RING_CALL},
	[RETURN] = {.size = SMALL + 8, .role = RING_RETURN},
	[WHOLE] = {.size = SMALL + 8, .role = RING_WHOLE},
};
static const struct ring_sample small = {0, SMALL, 0};
static const struct ring_sample big = {LARGE, BIG, 0};

struct fixture {
	unsigned int nr_cpus;
	void *memory[RING_MERGE_MAX];
	struct ring rings[RING_MERGE_MAX];
	struct ring_writer writers[RING_MERGE_MAX];
	struct ring_stacks stacks;
	uint64_t opens; /* a key: who takes a record of OTHER opens a call on its stack; 0: none */
	struct ring_merge merge;
	struct ring_clock clock;
	/* What was emitted. */
	uint64_t nr_out, stamps_back, last;
	struct {
		uint64_t tsc, value, returned;
		unsigned int cpu;
		uint32_t id;
		bool alone, if_clear;
	} * out;
	unsigned int wrong;
};

static void note(struct fixture *f, const struct ring_taken *taken)
{
	if (f->nr_out == MAX_OUT)
		abort();
	f->stamps_back += taken->tsc < f->last;
	f->last = taken->tsc;
	f->out[f->nr_out].tsc = taken->tsc;
	f->out[f->nr_out].value = taken->fields[0];
	f->out[f->nr_out].id = taken->id;
	f->out[f->nr_out].alone = taken->alone == RING_ALONE;
	f->out[f->nr_out].if_clear = taken->alone == RING_IF_CLEAR;
	f->out[f->nr_out].returned = taken->returned ? taken->returned[1] : 0;
	f->out[f->nr_out++].cpu = taken->ring;
	f->wrong +=
		taken->returned && (taken->returned_id != RETURN || taken->key != taken->fields[0]);
}

static unsigned int hash_of(const struct fixture *f, uint64_t key)
{
	return ring_stack_hash(ring_stack_of(&f->stacks, key + RING_KEY_BIAS));
}

static void record_out(void *arg, const struct ring_taken *taken, size_t n)
{
	struct fixture *f = arg;

	for (size_t i = 0; i < n; i++) {
		note(f, &taken[i]);
		if (f->opens && taken[i].id == OTHER)
			f->stacks.open[hash_of(f, f->opens)] = RING_STACK_OPEN;
	}
}

static struct fixture *setup_with(unsigned int nr_cpus, size_t queue_bytes, uint32_t data)
{
	const struct ring_config config = {data, queue_bytes, shapes, NR_SHAPES};
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || !(f->out = calloc(MAX_OUT, sizeof(*f->out))))
		abort();
	f->nr_cpus = nr_cpus;
	for (unsigned int cpu = 0; cpu < nr_cpus; cpu++) {
		f->memory[cpu] = malloc(ring_stride(data));
		if (!f->memory[cpu] || ring_init(&f->rings[cpu], f->memory[cpu], &config, NULL))
			abort();
		f->writers[cpu] = ring_writer(f->memory[cpu], data);
	}
	if (ring_merge_init(&f->merge, f->rings, nr_cpus, &f->stacks, NULL))
		abort();
	f->stacks.shift = 14;
	f->clock = (struct ring_clock){.tsc = 1000, .stall_ns = STALL_NS, .late_ns = STALL_NS};
	return f;
}

static struct fixture *setup(unsigned int nr_cpus, size_t queue_bytes)
{
	return setup_with(nr_cpus, queue_bytes, DATA);
}

static void teardown(struct fixture *f)
{
	for (unsigned int cpu = 0; cpu < f->nr_cpus; cpu++) {
		ring_deinit(&f->rings[cpu]);
		free(f->memory[cpu]);
	}
	free(f->out);
	free(f);
}

static void put(struct fixture *f, unsigned int cpu, uint64_t tsc)
{
	if (!ring_writer_put(&f->writers[cpu], small, tsc, tsc))
		abort();
}

static void pass(struct fixture *f)
{
	ring_merge_pass(&f->merge, &f->clock, record_out, f);
}

static void test_order(void)
{
	static const unsigned int cpus[] = {0, 1, 0, 2, 1, 1, 0};
	struct fixture *f = setup(3, DATA);
	unsigned int wrong = 0;

	for (unsigned int cpu = 0; cpu < 3; cpu++)
		for (unsigned int i = 0; i < 7; i++)
			if (cpus[i] == cpu)
				put(f, cpu, 10 * i + 1);
	pass(f);
	is_u64(f->nr_out, 7, "a pass emits all records older than itself");
	for (unsigned int i = 0; i < 7; i++)
		wrong += f->out[i].cpu != cpus[i] || f->out[i].tsc != 10 * i + 1;
	is_u64(wrong, 0, "records are emitted in the order of their stamps");
	for (unsigned int cpu = 3; cpu-- > 0;) {
		put(f, cpu, 1000);
		put(f, cpu, 1000);
	}
	pass(f);
	for (unsigned int i = 0; i < 6; i++)
		wrong += f->out[7 + i].cpu != i / 2;
	is_u64(wrong, 0, "of records with equal stamps the lower CPU's come first");
	teardown(f);
}

/* A reservation that is not complete may get any stamp from its ring's last one on. */
static void test_watermark(void)
{
	struct fixture *f = setup(2, DATA);
	struct ring_record *pending;

	put(f, 0, 100);
	pending = ring_writer_reserve(&f->writers[0], SMALL);
	put(f, 1, 50);
	put(f, 1, 150);
	pass(f);
	is_u64(f->nr_out, 2, "a pass emits what is older than an uncommitted record");
	is_u64(f->last, 100, "a pass emits up to the last record before the uncommitted one");
	pending->tsc = 120;
	ring_writer_commit(pending, small);
	pass(f);
	is_u64(f->nr_out, 4, "once the record is committed a pass emits the rest");
	is_u64(f->out[2].tsc, 120, "a record that was committed late is emitted in its order");
	f->clock.tsc = 2000;
	ring_writer_reserve(&f->writers[0], SMALL);
	put(f, 1, 1500);
	f->clock.now_ns = 1;
	pass(f);
	is_u64(f->nr_out, 4, "an uncommitted record holds up other rings' later records");
	f->clock.now_ns += STALL_NS;
	pass(f);
	is_u64(f->nr_out, 5,
	       "an uncommitted record holds other rings up no longer than the time limit");
	put(f, 0, 1400);
	pass(f);
	is_u64(f->last, 2000, "a stamp from before what was emitted is clamped");
	is_u64(f->rings[0].counts.clamped, 1, "a clamped stamp is counted");
	is_u64(f->stamps_back, 0, "stamps never go back");
	teardown(f);
}

/* One ring stalls; the other's records fill its queue, then its ring, and nothing is lost. */
static void test_queue_full(void)
{
	struct fixture *f = setup(2, RING_MAX_RECORD);
	struct ring_record *pending = ring_writer_reserve(&f->writers[0], SMALL);
	uint64_t written = 0, wrong = 0;

	for (int i = 0; i < 10; i++) {
		while (ring_writer_put(&f->writers[1], small, written + 1, written + 1))
			written++;
		pass(f);
	}
	is_u64(f->nr_out, 0, "no record is emitted before an older uncommitted one");
	ok(written * SMALL <= DATA - ring_slack(DATA) + RING_MAX_RECORD + SMALL,
	   "%lu records fill the ring and the queue, then the writer has to wait", written);
	ok(ring_room(&f->rings[1]) == RING_FULL, "a ring behind a full queue is full");
	pending->tsc = 1;
	pending->fields[0] = 0;
	ring_writer_commit(pending, small);
	for (int i = 0; i < 100 && f->nr_out < written + 1; i++)
		pass(f);
	is_u64(f->nr_out, written + 1, "all records are emitted, a queue at a time");
	for (uint64_t i = 0; i <= written; i++)
		wrong += f->out[i].value != i;
	is_u64(wrong, 0, "records are emitted in order");
	is_u64(f->stamps_back, 0, "stamps do not go back over several passes");
	teardown(f);
}

/* Others' records wait for an unfinished one, until they need room. */
static void test_late(void)
{
	struct fixture *f = setup(2, DATA);
	struct ring_record *pending = ring_writer_reserve(&f->writers[0], SMALL);

	put(f, 1, 500);
	pass(f);
	f->clock.now_ns = STALL_NS / 2;
	pass(f);
	is_u64(f->nr_out, 0, "an unfinished record holds up later ones");
	f->clock.late_ns = STALL_NS / 2;
	pass(f);
	is_u64(f->nr_out, 1, "an unfinished record that is late holds up none");
	pending->tsc = 400;
	pending->fields[0] = 400;
	ring_writer_commit(pending, small);
	f->clock.tsc = 2000;
	put(f, 0, 1500);
	pass(f);
	ok(f->nr_out == 3 && f->out[1].value == 400 && f->out[1].tsc == 1000,
	   "a late record that is finished comes behind what did not wait for it");
	ok(f->out[2].tsc == 1500 && f->rings[0].counts.clamped == 1 && !f->rings[0].counts.stalled,
	   "the record behind a late one keeps its stamp");
	teardown(f);
}

/* A record with a key, and a value behind it. */
static void put_keyed(struct fixture *f, unsigned int cpu, uint32_t id, uint64_t tsc, uint64_t key,
		      uint64_t value)
{
	struct ring_record *record = ring_writer_reserve(&f->writers[cpu], SMALL + 8);

	if (!record)
		abort();
	record->tsc = tsc;
	record->fields[0] = key;
	record->fields[1] = value;
	ring_writer_commit(record, (struct ring_sample){id, SMALL + 8, 0});
}

static void test_calls(void)
{
	struct fixture *f = setup(2, DATA);

	put_keyed(f, 0, CALL, 10, 1, 0);
	put_keyed(f, 0, RETURN, 30, 1, 77);
	put_keyed(f, 1, WHOLE, 20, 1, 0);
	pass(f);
	ok(f->nr_out == 2 && f->out[0].id == WHOLE && f->out[0].alone && !f->out[0].returned,
	   "a call that returns in the next record is older than what came before its return");
	ok(f->out[1].id == CALL && f->out[1].alone && f->out[1].tsc == 30 &&
		   f->out[1].returned == 77,
	   "it comes with its return, and with that one's stamp");
	is_u64(f->rings[0].counts.records, 2, "both records are counted");
	f->nr_out = 0;
	f->clock.tsc = 2000;
	put_keyed(f, 0, CALL, 1040, 1, 0);
	put_keyed(f, 0, CALL, 1041, 2, 0);
	put_keyed(f, 0, RETURN, 1042, 2, 78);
	put_keyed(f, 0, RETURN, 1043, 1, 79);
	pass(f);
	ok(f->nr_out == 3 && f->out[0].id == CALL && !f->out[0].alone && f->out[1].returned == 78 &&
		   !f->out[1].alone && f->out[2].id == RETURN && !f->out[2].alone,
	   "a call with another one in it is two records, and that one is not alone");
	f->nr_out = 0;
	f->clock.tsc = 3000;
	put_keyed(f, 0, CALL, 2050, 1, 0);
	put_keyed(f, 0, RETURN, 2051, 2, 80);
	put_keyed(f, 0, CALL, 2052, 3, 0);
	pass(f);
	f->clock.tsc = 4000;
	put_keyed(f, 0, RETURN, 3053, 3, 81);
	pass(f);
	ok(f->nr_out == 4 && !f->out[0].alone && !f->out[1].alone && !f->out[2].alone &&
		   f->out[3].id == RETURN,
	   "a return of another call, or in another pass, is a record by itself");
	is_u64(f->wrong, 0, "a call has the key that was read, and the id of its return");
	teardown(f);
}

/* The number of a record that was emitted, by its value. */
static uint64_t place_of(const struct fixture *f, uint64_t value)
{
	for (uint64_t i = 0; i < f->nr_out; i++)
		if (f->out[i].value == value)
			return i;
	return UINT64_MAX;
}

/* Keys are addresses on stacks: those of a task that has moved to another CPU are in two rings. */
static void test_stacks(void)
{
	enum { A = 0x10000, B = 0x20000, C = 0x30000, WITHIN = 8 };
	struct fixture *f = setup(3, DATA);

	put_keyed(f, 0, CALL, 10, A, 0);
	put_keyed(f, 0, WHOLE, 20, B, 0);
	put_keyed(f, 0, RETURN, 30, A, 0);
	put_keyed(f, 1, WHOLE, 5, C, 0);
	put_keyed(f, 1, WHOLE, 15, C + WITHIN, 0);
	pass(f);
	ok(f->nr_out == 5 && f->out[0].tsc == 10 && f->out[1].tsc == 5 && f->out[2].tsc == 15,
	   "up to where all rings were read, those of one follow those of another");
	ok(!f->out[0].alone && f->out[1].alone && f->out[2].alone && f->out[3].alone &&
		   !f->out[4].alone,
	   "all that is not on a call's stack is alone");
	f->nr_out = 0;
	f->clock.tsc = 2000;
	put_keyed(f, 2, CALL, 1010, A, 0);
	put_keyed(f, 0, WHOLE, 1020, A - WITHIN, 0);
	put_keyed(f, 2, WHOLE, 1030, B, 0);
	put_keyed(f, 1, RETURN, 1040, A, 0);
	put_keyed(f, 1, WHOLE, 1050, A + WITHIN, 0);
	f->stamps_back = f->last = 0;
	pass(f);
	ok(f->nr_out == 5 && !f->stamps_back,
	   "a task that moves in the middle of a call has its records in order");
	ok(place_of(f, B) == 2 && f->out[2].alone && f->out[1].if_clear && f->out[4].if_clear,
	   "others are alone nevertheless, and what is whole may be, on that stack");
	f->nr_out = 0;
	f->clock.tsc = 3000;
	f->stacks.open[hash_of(f, C)] = RING_STACK_OPEN;
	put_keyed(f, 1, WHOLE, 2010, C, 0);
	put_keyed(f, 0, WHOLE, 2020, B, 0);
	put_keyed(f, 0, WHOLE, 2030, C + WITHIN, 0);
	f->stamps_back = f->last = 0;
	pass(f);
	ok(f->nr_out == 3 && !f->stamps_back && f->out[0].if_clear && f->out[1].alone &&
		   f->out[2].if_clear,
	   "nothing is sure to be alone on the stack of a call that is open, and all of it is in "
	   "order");
	f->clock.tsc = 4000;
	f->nr_out = 0;
	put_keyed(f, 1, WHOLE, 3010, B, 0);
	put(f, 0, 3020);
	pass(f);
	ok(f->nr_out == 2 && f->out[0].if_clear, "nor is anything beside a record without a stack");
	teardown(f);
}

/* A record without a key opens a call, of which later windows of the pass must know. */
static void test_unknown_stack(void)
{
	enum { B = 0x20000, C = 0x30000 };
	struct fixture *f = setup_with(1, RING_MIN_LARGE, RING_MIN_LARGE);
	uint64_t alone = 0;

	f->opens = C;
	put(f, 0, 1);
	for (uint64_t i = 0; i < 2 * RING_AHEAD; i++)
		put_keyed(f, 0, WHOLE, 2 + i, B, 0);
	put_keyed(f, 0, WHOLE, 500, C, 0);
	pass(f);
	for (uint64_t i = 0; i < f->nr_out; i++)
		alone += f->out[i].alone;
	ok(f->nr_out == 2 * RING_AHEAD + 2 && alone >= RING_AHEAD && f->out[f->nr_out - 1].if_clear,
	   "what a record without a key has opened is known in later windows");
	teardown(f);
}

/* More than are read at once, so that some end between a call and its return. */
static void test_many_calls(void)
{
	enum { CALLS = 200 };
	struct fixture *f = setup_with(1, RING_MIN_LARGE, RING_MIN_LARGE);
	uint64_t joined = 0;

	for (unsigned int round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < CALLS; i++) {
			put_keyed(f, 0, CALL, f->clock.tsc - 500, i, 0);
			put_keyed(f, 0, RETURN, f->clock.tsc - 500, i, 1);
		}
		put(f, 0, f->clock.tsc - 400);
		pass(f);
		f->clock.tsc += 1000;
	}
	for (uint64_t i = 0; i < f->nr_out; i++)
		joined += f->out[i].returned;
	is_u64(f->rings[0].counts.records, 20 * (2 * CALLS + 1), "all records were taken");
	ok(joined > 20 * CALLS - 20 && f->nr_out == 20 * (2 * CALLS + 1) - joined,
	   "all calls but those across the ring's end have their returns (%llu of %d)",
	   (unsigned long long)joined, 20 * CALLS);
	teardown(f);
}

/* Each ring holds up the others in its own way, and its writer does not stop writing. */
static void test_close(void)
{
	struct fixture *f = setup(4, RING_MAX_RECORD);
	uint64_t written[4] = {0}, n = 0;
	unsigned int passes = 0;
	bool drained = false;

	ring_writer_reserve(&f->writers[0], SMALL);
	put(f, 1, UINT64_MAX);
	put(f, 1, UINT64_MAX - 1);
	for (; ring_writer_put(&f->writers[2], small, n + 1, n + 1); n++)
		ring_writer_put(&f->writers[3], small, n + 1, n + 1);
	pass(f);
	f->clock.stall_ns = 0;
	for (unsigned int cpu = 0; cpu < 4; cpu++)
		ring_close(&f->rings[cpu]);
	for (; !drained && passes < 1000; passes++) {
		drained = true;
		for (unsigned int cpu = 0; cpu < 4; cpu++) {
			while (ring_writer_put(&f->writers[cpu], small, 999, n + 1))
				written[cpu]++;
			drained &= ring_is_drained(&f->rings[cpu]);
		}
		pass(f);
	}
	ok(drained, "rings that were closed are drained (after %u passes)", passes);
	ok(written[0] && written[1] && written[2] && written[3],
	   "all writers went on writing meanwhile");
	is_u64(f->nr_out, 2 + 2 * n,
	       "what was reserved when the rings were closed is emitted, and nothing else");
	is_u64(f->rings[0].counts.stalled, 1, "an uncommitted record in a closed ring is skipped");
	is_u64(f->stamps_back, 0, "records are emitted in order");
	teardown(f);
}

static void test_clock_back(void)
{
	struct fixture *f = setup(2, DATA);

	put(f, 0, 900);
	pass(f);
	f->clock.tsc = 10;
	put(f, 1, 5);
	put(f, 0, 950);
	pass(f);
	is_u64(f->nr_out, 3, "a clock that goes back holds no record up");
	is_u64(f->stamps_back, 0, "a clock that goes back takes no stamp back");
	teardown(f);
}

static void test_limits(void)
{
	struct fixture *f = setup(RING_MERGE_MAX, DATA);
	struct ring_merge merge;

	ok(ring_merge_init(&merge, f->rings, 0, &f->stacks, NULL) == -EINVAL,
	   "no rings are refused");
	ok(ring_merge_init(&merge, f->rings, RING_MERGE_MAX + 1, &f->stacks, NULL) == -EINVAL,
	   "too many rings are refused");
	for (uint64_t i = 0; i < 640; i++)
		put(f, (unsigned int)(i * 37 % RING_MERGE_MAX), i + 1);
	pass(f);
	is_u64(f->nr_out, 640, "records of the maximal number of rings are emitted");
	for (uint64_t i = 0, wrong = 0; i < 640; i++) {
		wrong += f->out[i].tsc != i + 1;
		if (i == 639)
			is_u64(wrong, 0, "records are emitted in order");
	}
	teardown(f);
}

enum { NR_WRITERS = 4, PER_WRITER = 50000 };

struct producer {
	pthread_t thread;
	struct fixture *f;
	unsigned int cpu;
	uint64_t *clock; /* shared by all: no two records have the same stamp */
};

/* The stamp is taken after the reservation; sometimes the thread loses the CPU before or after. */
static void *produce(void *arg)
{
	struct producer *p = arg;
	unsigned int seed = p->cpu + 1;

	for (unsigned int i = 0; i < PER_WRITER; i++) {
		struct ring_sample sample = rand_r(&seed) % 16 ? small : big;
		struct ring_record *record;

		while (!(record = ring_writer_reserve(&p->f->writers[p->cpu], sample.size)))
			sched_yield();
		if (rand_r(&seed) % 256 == 0)
			sched_yield();
		record->tsc = __atomic_add_fetch(p->clock, 1, __ATOMIC_SEQ_CST);
		if (rand_r(&seed) % 256 == 0)
			sched_yield();
		ring_writer_fill(record, sample.size, record->tsc);
		ring_writer_commit(record, sample);
	}
	return NULL;
}

static void test_concurrent(size_t queue_bytes)
{
	struct fixture *f = setup(NR_WRITERS, queue_bytes);
	struct producer producers[NR_WRITERS];
	uint64_t clock = 0, wrong = 0, changed = 0;

	f->clock.stall_ns = UINT64_MAX;
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		producers[i] = (struct producer){.f = f, .cpu = i, .clock = &clock};
		if (pthread_create(&producers[i].thread, NULL, produce, &producers[i]))
			abort();
	}
	while (f->nr_out < (uint64_t)NR_WRITERS * PER_WRITER) {
		f->clock.tsc = __atomic_load_n(&clock, __ATOMIC_SEQ_CST);
		pass(f);
		sched_yield();
	}
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		pthread_join(producers[i].thread, NULL);
		changed += f->rings[i].counts.clamped + f->rings[i].counts.malformed;
	}
	for (uint64_t i = 0; i < f->nr_out; i++)
		wrong += f->out[i].tsc != i + 1 || f->out[i].value != i + 1;
	is_u64(wrong, 0,
	       "concurrent writers' records are emitted in the order of all stamps, each once");
	is_u64(changed, 0, "no concurrent writer's stamp is changed");
	teardown(f);
}

int main(void)
{
	test_order();
	test_watermark();
	test_queue_full();
	test_late();
	test_calls();
	test_stacks();
	test_unknown_stack();
	test_many_calls();
	test_close();
	test_clock_back();
	test_limits();
	test_concurrent(DATA);
	test_concurrent(RING_MAX_RECORD);
	return tap_done();
}
