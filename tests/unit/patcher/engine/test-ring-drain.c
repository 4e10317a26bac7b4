// SPDX-License-Identifier: GPL-2.0-or-later
/* Records on their way from vCPUs to whoever wants them, with a thread for each vCPU. */
#include <stdlib.h>
#include "tests/lib/fake-exitless.h"
#include "tests/lib/tap.h"

enum { EVENTS = 2000, MANY = 2000, BIAS = RECORD_KEY_BIAS, DEAD = 1 << 20, PATIENCE_MS = 20000 };

static struct fake_exitless f;
static uint16_t kfree;

static void prepare(enum trampoline_full full)
{
	fake_exitless_init(&f, full);
	if (fake_exitless_create(&f, NULL))
		abort();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
}

static void begin(enum trampoline_full full)
{
	prepare(full);
	if (ring_engine_start(f.x, NULL))
		abort();
}

/* With another time between two looks whether the guest runs. */
static void begin_looking(uint64_t look_ns)
{
	prepare(TRAMPOLINE_BLOCK);
	f.x->look_ns = look_ns;
	if (ring_engine_start(f.x, NULL))
		abort();
}

static void leave(void)
{
	f.fs.fg.guest.control->stop(&f.fs.fg.guest, NULL);
	ring_engine_leave(f.x);
	f.fs.fg.guest.control->resume(&f.fs.fg.guest, NULL);
	ok(ring_engine_has_left(f.x, PATIENCE_MS) && fake_exitless_is_gone(&f), "leave");
}

static void end(void)
{
	fake_exitless_deinit(&f);
}

static uint64_t count_of(unsigned int vcpu, enum counter_id id)
{
	struct trace_counters counts = {0};

	ring_engine_counts(f.x, vcpu, &counts);
	return counts.v[id];
}

static bool put(unsigned int vcpu, uint64_t key)
{
	const struct probe_hit hit = {.vcpu = vcpu, .key = key};

	return ring_engine_put(f.x, f.x->set.places[kfree].ref, POINT_ENTRY, &hit);
}

/* --- order ---------------------------------------------------------------------------------- */

/* A vCPU: by turns in a trampoline and in a trap. */
static void *both_ways(void *arg)
{
	unsigned int vcpu = *(const unsigned int *)arg;
	bool good = true;

	for (uint64_t i = 0; i < EVENTS; i++)
		good &= i % 2 ? put(vcpu, i) : fake_exitless_record(&f, vcpu, kfree, i - BIAS);
	return good ? arg : NULL;
}

static bool run_vcpus(void *(*fn)(void *))
{
	unsigned int numbers[FAKE_VCPUS];
	pthread_t threads[FAKE_VCPUS];
	bool good = true;
	void *result;

	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, fn, &numbers[i]))
			abort();
	}
	for (int i = 0; i < 200; i++)
		good &= !ring_engine_read_clocks(f.x, NULL);
	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		pthread_join(threads[i], &result);
		good &= result != NULL;
	}
	return good;
}

static void test_order(void)
{
	uint64_t next[FAKE_VCPUS] = {0}, last = 0;
	bool forward = true, in_turn = true, whose = true;

	begin(TRAMPOLINE_BLOCK);
	ok(run_vcpus(both_ways), "four vCPUs write and trap, and clocks are read meanwhile");
	ok(fake_exitless_wait(&f, FAKE_VCPUS * EVENTS), "every hit comes");
	for (size_t i = 0; i < f.nr_hits; i++) {
		const struct fake_hit *hit = &f.hits[i];

		forward &= hit->time_ns >= last;
		last = hit->time_ns;
		in_turn &= hit->key == next[hit->vcpu]++;
		whose &= hit->point == POINT_ENTRY && hit->ref == f.x->set.places[kfree].ref;
	}
	ok(forward, "time does not go back");
	ok(in_turn, "each vCPU's hits are in its own order, those of its traps among the others");
	ok(whose, "and of the function that was entered");
	leave();
	is_u64(f.nr_hits, FAKE_VCPUS * EVENTS, "none comes twice");
	end();
}

/* --- full rings ----------------------------------------------------------------------------- */

static void *write_many(void *arg)
{
	size_t written = 0;

	for (uint64_t i = 0; i < MANY; i++)
		written += fake_exitless_record(&f, 1, kfree, i);
	return written == MANY ? arg : NULL;
}

static void test_block(void)
{
	pthread_t thread;
	void *result;

	begin(TRAMPOLINE_BLOCK);
	pthread_mutex_lock(&f.gate);
	if (pthread_create(&thread, NULL, write_many, &f))
		abort();
	while (!count_of(1, COUNTER_RING_WAITS))
		clock_wait_ms(1);
	ok(f.nr_hits < MANY, "a full ring makes its vCPU wait");
	pthread_mutex_unlock(&f.gate);
	pthread_join(thread, &result);
	ok(result != NULL, "until there is room, for each of its records");
	ok(fake_exitless_wait(&f, MANY), "and all come");
	leave();
	is_u64(count_of(1, COUNTER_RING_RECORDS), MANY, "records are counted");
	is_u64(count_of(1, COUNTER_RING_DROPS) + count_of(1, COUNTER_RING_DAMAGED), 0,
	       "none is lost");
	ok(count_of(1, COUNTER_RING_WAIT_NS) > 0 && !count_of(0, COUNTER_RING_WAITS),
	   "the time it waited is counted");
	end();
}

static void test_drop(void)
{
	uint64_t written = 0;

	begin(TRAMPOLINE_DROP);
	pthread_mutex_lock(&f.gate);
	for (uint64_t i = 0; i < MANY; i++)
		written += fake_exitless_record(&f, 1, kfree, i);
	ok(written < MANY, "in drop mode a vCPU goes on when its ring is full");
	pthread_mutex_unlock(&f.gate);
	leave();
	is_u64(f.nr_hits, written, "what was written comes");
	is_u64(count_of(1, COUNTER_RING_DROPS), MANY - written, "what was not is counted");
	is_u64(count_of(1, COUNTER_RING_WAITS), 0, "nobody waited");
	end();
}

/* More than its ring can hold, while nothing is taken out of it. */
static void test_trap_drop(void)
{
	const uint64_t items[3] = {1, 2, 3};
	const struct probe_hit bulk = {.vcpu = 2, .items = items, .nr_items = 3};
	uint64_t written = 0, given_up = 0;

	begin(TRAMPOLINE_DROP);
	pthread_mutex_lock(&f.gate);
	while (given_up < 5)
		*(ring_engine_put(f.x, NULL, POINT_RETURN, &bulk) ? &written : &given_up) += 1;
	pthread_mutex_unlock(&f.gate);
	leave();
	is_u64(f.nr_hits, written, "traps' hits come as far as there was room");
	is_u64(count_of(2, COUNTER_RING_DROPS), given_up * 3,
	       "of the others each object is counted");
	end();
}

/* --- idle guests ---------------------------------------------------------------------------- */

static void test_doorbell(enum trampoline_full full, const char *mode)
{
	begin(full);
	ok(fake_exitless_wait_idle(&f), "%s: without events the thread goes to sleep", mode);
	ok(fake_exitless_record(&f, 3, kfree, 7 - BIAS), "the next record rings the doorbell");
	is_u64(ring_engine_doorbells(f.x), 1, "once");
	ok(fake_exitless_record(&f, 3, kfree, 8 - BIAS) && ring_engine_doorbells(f.x) == 1,
	   "the one behind it does not");
	ok(fake_exitless_wait(&f, 2) && f.hits[0].key == 7 && f.hits[1].key == 8, "both come");
	ok(fake_exitless_wait_idle(&f) && put(0, 9) && fake_exitless_wait(&f, 3),
	   "a trap wakes the thread, too");
	leave();
	is_u64(count_of(3, COUNTER_RING_WAITS), 0, "ringing is not waiting for room");
	end();
}

/* --- unfinished records --------------------------------------------------------------------- */

enum { SHORT_NS = 2000000, LONG_NS = 20000000, IDLE_MS = 200 };

/* A vCPU begins a record. Records before it wake the thread, if it sleeps. */
static struct ring_record *begin_record(unsigned int vcpu, size_t *before)
{
	struct ring_writer writer = fake_exitless_writer(&f, vcpu);
	const uint32_t size = f.x->set.places[kfree].layout.size;
	struct ring_record *record;

	*before = 0;
	while (!(record = ring_writer_reserve(&writer, size)))
		*before += fake_exitless_record(&f, vcpu, kfree, 0);
	return record;
}

static void end_record(struct ring_record *record, uint64_t value)
{
	const uint32_t size = f.x->set.places[kfree].layout.size;

	record->tsc = f.fs.fg.guest.clock->tsc(&f.fs.fg.guest);
	ring_writer_fill(record, size, value);
	ring_writer_commit(record, (struct ring_sample){kfree, size, 0});
}

static void test_stall(void)
{
	size_t before;

	begin_looking(SHORT_NS);
	clock_wait_ms(IDLE_MS);
	is_u64(f.fs.fg.looks, 0, "nobody is asked whether the guest runs while no record waits");
	begin_record(1, &before);
	for (int i = 0; i < PATIENCE_MS && !count_of(1, COUNTER_RING_DAMAGED); i++)
		clock_wait_ms(1);
	is_u64(count_of(1, COUNTER_RING_DAMAGED), 1, "a record that is never finished is given up");
	ok(f.fs.fg.looks >= 30, "after thirty looks, at each of which the guest ran");
	leave();
	end();
}

/* Its administrator suspends the guest, which stands longer than that. */
static void test_suspended(void)
{
	struct ring_record *record;
	unsigned int looks;
	size_t n;

	begin_looking(LONG_NS);
	f.fs.fg.paused = true;
	record = begin_record(1, &n);
	fake_exitless_record(&f, 1, kfree, 2 - BIAS);
	while (f.fs.fg.looks < 40)
		clock_wait_ms(1);
	is_u64(count_of(1, COUNTER_RING_DAMAGED), 0, "not while the guest is suspended");
	looks = f.fs.fg.looks;
	f.fs.fg.paused = false;
	while (f.fs.fg.looks < looks + 5)
		clock_wait_ms(1);
	end_record(record, 1 - BIAS);
	ok(fake_exitless_wait(&f, n + 2) && f.hits[n].key == 1 && f.hits[n + 1].key == 2,
	   "when it goes on the record comes, and what is behind it");
	is_u64(count_of(1, COUNTER_RING_DAMAGED), 0, "whole");
	leave();
	end();
}

/* --- hostile guests ------------------------------------------------------------------------- */

static void test_scribble(void)
{
	struct ring_writer writer;
	struct ring_record *record;

	begin(TRAMPOLINE_BLOCK);
	writer = fake_exitless_writer(&f, 0);
	record = ring_writer_reserve(&writer, 64);
	record->tsc = UINT64_MAX;
	__atomic_store_n(&record->commit, 0xdeadbeef, __ATOMIC_RELEASE);
	ok(fake_exitless_record(&f, 1, kfree, 1), "a vCPU scribbles, another does not");
	ok(fake_exitless_wait(&f, 1) && f.hits[0].vcpu == 1, "whose record comes");
	ok(fake_exitless_record(&f, 0, kfree, 2) && fake_exitless_wait(&f, 2), "so does the next");
	is_u64(count_of(0, COUNTER_RING_DAMAGED), 1, "the damage is counted");
	is_u64(count_of(0, COUNTER_RING_RECORDS), 1, "and no record");
	leave();
	end();
}

/* A position that cannot be. */
static void test_dead_ring(void)
{
	struct ring_writer writer;

	begin(TRAMPOLINE_BLOCK);
	writer = fake_exitless_writer(&f, 0);
	__atomic_store_n(&writer.header->reserve, DEAD, __ATOMIC_RELEASE);
	ok(!fake_exitless_record(&f, 0, kfree, 1), "a ring that is none: its vCPU goes on");
	is_u64(count_of(0, COUNTER_RING_DROPS), 1, "without its record");
	ok(fake_exitless_record(&f, 1, kfree, 2) && fake_exitless_wait(&f, 1),
	   "others do not care");
	while (!count_of(0, COUNTER_RING_DAMAGED))
		clock_wait_ms(1);
	is_u64(count_of(0, COUNTER_RING_DAMAGED), 1, "the damage is counted, once");
	ok(fake_exitless_wait_idle(&f), "and the thread can sleep");
	leave();
	end();
}

/* Writers that wait for room hear from the thread with each pass. */
static void test_life(void)
{
	uint64_t *until;
	unsigned int naps;

	begin(TRAMPOLINE_SPIN);
	until = &f.x->rings[0].header->spin_deadline;
	for (int i = 0; i < 3; i++) {
		__atomic_store_n(until, 1, __ATOMIC_RELEASE);
		fake_exitless_record(&f, 1, kfree, (uint64_t)i);
		for (naps = 0; naps < 20000 && __atomic_load_n(until, __ATOMIC_ACQUIRE); naps++)
			clock_wait_ms(1);
		ok(naps < 20000, "a pass gives writers new time");
	}
	leave();
	end();
}

/* ... unless one of them waits for what will not come. */
static void test_no_life(void)
{
	uint64_t *until;

	begin(TRAMPOLINE_SPIN);
	until = &f.x->rings[0].header->spin_deadline;
	__atomic_store_n(&f.x->rings[1].header->reserve, UINT64_C(1) << 40, __ATOMIC_RELEASE);
	while (!count_of(1, COUNTER_RING_DAMAGED))
		clock_wait_ms(1);
	__atomic_store_n(until, 1, __ATOMIC_RELEASE);
	for (size_t i = 1; i <= 3; i++) {
		fake_exitless_record(&f, 0, kfree, i);
		ok(fake_exitless_wait(&f, i), "a pass");
	}
	is_u64(__atomic_load_n(until, __ATOMIC_ACQUIRE), 1, "gives no new time for a dead ring");
	leave();
	end();
}

/* An OUT of the guest's own at some place in our code, or by a vCPU that there is not. */
static void test_foreign_trap(void)
{
	struct guest_trap trap = {.regs = {.rip = 0x1234}};

	begin(TRAMPOLINE_BLOCK);
	ok(!ring_engine_on_trap(f.x, &trap), "a trap that is nowhere");
	trap.regs.rip = f.x->mapping.gva;
	ok(!ring_engine_on_trap(f.x, &trap), "or elsewhere in the code");
	trap = (struct guest_trap){.vcpu = FAKE_VCPUS, .regs = {.rip = f.trap_gva[kfree]}};
	ok(!ring_engine_on_trap(f.x, &trap), "or of no vCPU, is not ours");
	leave();
	end();
}

int main(void)
{
	test_order();
	test_block();
	test_drop();
	test_trap_drop();
	test_doorbell(TRAMPOLINE_BLOCK, "block");
	test_doorbell(TRAMPOLINE_DROP, "drop");
	test_stall();
	test_suspended();
	test_scribble();
	test_dead_ring();
	test_life();
	test_no_life();
	test_foreign_trap();
	return tap_done();
}
