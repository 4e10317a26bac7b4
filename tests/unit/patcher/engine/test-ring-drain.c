/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records on their way from vCPUs to the emitted hits, with a thread for each vCPU. */
#include "tests/unit/patcher/engine/ring-fixture.h"

enum { EVENTS = 2000, DEAD = 1 << 20 };

static void begin(enum trampoline_full full)
{
	fake_exitless_init(&f, full);
	fake_exitless_create(&f);
	install();
}

/* A vCPU has made a hit in a trap. */
static void submit(unsigned int vcpu, uint64_t key)
{
	const struct probe_hit hit = {.vcpu = vcpu, .key = key};

	f.engine->ops->submit(f.engine, f.x->set.places[kfree].ref, POINT_ENTRY, &hit);
}

/* --- order ---------------------------------------------------------------------------------- */

/* A vCPU: by turns in a trampoline and in a trap. */
static void *both_ways(void *arg)
{
	unsigned int vcpu = *(const unsigned int *)arg;
	bool good = true;

	for (uint64_t i = 0; i < EVENTS; i++)
		if (i % 2)
			submit(vcpu, i);
		else
			good &= fake_exitless_record(&f, vcpu, kfree, i - BIAS);
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
		good &= !f.engine->ops->refresh(f.engine);
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
	ok(run_vcpus(both_ways), "four vCPUs write and trap while the clocks are read again");
	ok(fake_exitless_wait(&f, FAKE_VCPUS * EVENTS), "every hit is emitted");
	for (size_t i = 0; i < f.nr_hits; i++) {
		const struct fake_hit *hit = &f.hits[i];

		forward &= hit->time_ns >= last;
		last = hit->time_ns;
		in_turn &= hit->key == next[hit->vcpu]++;
		whose &= hit->point == POINT_ENTRY && hit->ref == f.x->set.places[kfree].ref;
	}
	ok(forward, "hits are emitted in the order of their time stamps");
	ok(in_turn, "each vCPU's hits are in its own order, traps and trampolines mixed");
	ok(whose, "each hit is of the function that was entered");
	leave();
	is_u64(f.nr_hits, FAKE_VCPUS * EVENTS, "no hit is emitted twice");
	end();
}

/* --- a clock that is learnt ----------------------------------------------------------------- */

static _Atomic uint64_t learnt;

static uint64_t learnt_tsc(struct guest *guest)
{
	(void)guest;
	return learnt;
}

static void learn_tsc(struct guest *guest, uint64_t tsc)
{
	(void)guest;
	if (tsc > learnt)
		learnt = tsc;
}

static void record_at(unsigned int vcpu, uint64_t tsc)
{
	struct ring_writer writer = fake_exitless_writer(&f, vcpu);
	const struct ring_sample sample = {kfree, f.x->set.places[kfree].layout.size, 0};

	if (!ring_writer_put(&writer, sample, tsc, tsc))
		abort();
}

/* The guest's counter stands still while the host's runs: the guest is paused, or the host is
 * loaded. */
static void test_learnt_clock(void)
{
	const uint64_t start = UINT64_C(1) << 40;
	struct guest_clock_ops ops;
	uint64_t changed = 0;

	fake_exitless_init(&f, TRAMPOLINE_BLOCK);
	fake_exitless_create(&f);
	ops = *f.x->guest->clock;
	ops.tsc = learnt_tsc;
	ops.tsc_seen = learn_tsc;
	f.x->guest->clock = &ops;
	install();
	record_at(0, start);
	record_at(1, start + 1);
	ok(fake_exitless_wait(&f, 2), "the last records come out while the clock stands at them");
	clock_wait_ms(50);
	for (uint64_t i = 2; i < 10; i++)
		record_at(i % 2, start + i);
	ok(fake_exitless_wait(&f, 10), "so do those behind a pause");
	for (unsigned int i = 0; i < 2; i++)
		changed += f.x->rings[i].counts.clamped;
	is_u64(changed, 0, "with the stamps that they have");
	leave();
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
	ok(result != NULL, "the vCPU writes all of its records in the end");
	ok(fake_exitless_wait(&f, MANY), "all records of a vCPU that waited are emitted");
	leave();
	is_count(1, COUNTER_RING_RECORDS, MANY, "records are counted");
	is_u64(count_of(1, COUNTER_RING_DROPS) + count_of(1, COUNTER_RING_DAMAGED), 0,
	       "waiting loses no record");
	ok(count_of(1, COUNTER_RING_WAIT_NS) > 0 && !count_of(0, COUNTER_RING_WAITS),
	   "the time that a vCPU waited is counted");
	end();
}

enum { CALLS = 5000 };

/* The host hangs: its thread makes no room, for longer than vCPUs wait. */
static void test_hang(void)
{
	uint64_t written = 0, before, waited;

	begin(TRAMPOLINE_BLOCK);
	pthread_mutex_lock(&f.gate);
	for (uint64_t i = 0; i < CALLS; i++)
		written += fake_exitless_record(&f, i % 2, kfree, i);
	waited = count_of(0, COUNTER_RING_WAITS) + count_of(1, COUNTER_RING_WAITS);
	before = count_of(0, COUNTER_RING_DROPS) + count_of(1, COUNTER_RING_DROPS);
	is_u64(before, CALLS - written, "what finds no room while the host hangs is counted");
	ok(before > CALLS / 2 && waited <= 2,
	   "of %lu calls without room, on two vCPUs, %lu have waited", before, waited);
	pthread_mutex_unlock(&f.gate);
	ok(fake_exitless_wait(&f, written), "what found room is emitted in the end");
	for (uint64_t i = 0; i < MANY; i++)
		written += fake_exitless_record(&f, 0, kfree, i);
	ok(fake_exitless_wait(&f, written) &&
		   count_of(0, COUNTER_RING_DROPS) + count_of(1, COUNTER_RING_DROPS) == before,
	   "once the host shows life vCPUs wait for it again, and lose nothing");
	leave();
	end();
}

static void fill_ring(unsigned int vcpu)
{
	const struct trampoline_place *p = &f.x->set.places[kfree];
	struct ring_writer writer = fake_exitless_writer(&f, vcpu);
	struct ring_record *record;

	while ((record = ring_writer_reserve(&writer, p->layout.size))) {
		record->tsc = f.x->guest->clock->tsc(f.x->guest);
		ring_writer_fill(record, p->layout.size, 0);
		ring_writer_commit(record, (struct ring_sample){kfree, p->layout.size, 0});
	}
}

static void *wait_in_slow_path(void *arg)
{
	struct guest_trap *trap = arg;

	return f.engine->ops->on_trap(f.engine, trap) == ENGINE_TRAP_OTHER ? arg : NULL;
}

/* ... and who stops the guest does not wait until the vCPU gives up. */
static void test_stop_while_full(void)
{
	struct guest_trap trap = {.vcpu = 1};
	pthread_t thread;
	uint64_t since;
	void *result;

	begin(TRAMPOLINE_BLOCK);
	trap.regs.rip = f.trap_gva[kfree];
	pthread_mutex_lock(&f.gate);
	fill_ring(0); /* the thread gets stuck with these */
	while (ring_room(&f.x->rings[0]) == RING_ROOM)
		fill_ring(0);
	fill_ring(1);
	if (pthread_create(&thread, NULL, wait_in_slow_path, &trap))
		abort();
	while (!count_of(1, COUNTER_RING_WAITS))
		clock_wait_ms(1);
	since = clock_monotonic_ns();
	f.fs.fg.paused = true;
	pthread_join(thread, &result);
	ok(result && trap.regs.rip == f.x->set.places[kfree].retry,
	   "a stop of the guest ends a vCPU's wait for room: it tries again");
	ok(clock_monotonic_ns() < since + 2000000000u, "at once");
	is_u64(count_of(1, COUNTER_RING_DROPS), 0, "its record is not lost");
	f.fs.fg.paused = false;
	pthread_mutex_unlock(&f.gate);
	leave();
	end();
}

static void test_drop(void)
{
	uint64_t written = 0;

	begin(TRAMPOLINE_DROP);
	pthread_mutex_lock(&f.gate);
	for (uint64_t i = 0; i < MANY; i++)
		written += fake_exitless_record(&f, 1, kfree, i);
	ok(written < MANY, "in drop mode a vCPU does not wait for room");
	pthread_mutex_unlock(&f.gate);
	leave();
	is_u64(f.nr_hits, written, "in drop mode, written records are emitted");
	is_count(1, COUNTER_RING_DROPS, MANY - written,
	       "in drop mode, other records are counted as lost");
	is_count(1, COUNTER_RING_WAITS, 0, "in drop mode no wait is counted");
	end();
}

enum { LOST = 5 };

/* More hits than the ring for traps can hold, while nothing is taken out of it. */
static void test_trap_drop(void)
{
	const uint64_t items[3] = {1, 2, 3};
	const struct probe_hit bulk = {.vcpu = 2, .items = items, .nr_items = 3};
	uint64_t submitted = 0;

	begin(TRAMPOLINE_DROP);
	pthread_mutex_lock(&f.gate);
	for (; count_of(2, COUNTER_RING_DROPS) < LOST * 3; submitted++)
		f.engine->ops->submit(f.engine, NULL, POINT_RETURN, &bulk);
	pthread_mutex_unlock(&f.gate);
	leave();
	is_u64(f.nr_hits, submitted - LOST,
	       "in drop mode, hits of traps are emitted while there is room");
	is_count(2, COUNTER_RING_DROPS, LOST * 3,
	       "each object of a hit without room is counted as lost");
	is_u64(f.engine->ops->lost(f.engine), LOST * 3, "and known of the ordered lane");
	is_count(2, COUNTER_RING_WAITS, 0, "in drop mode, hits of traps do not wait for room");
	end();
}

static void *submit_many(void *arg)
{
	for (uint64_t i = 0; i < MANY; i++)
		submit(1, i);
	return arg;
}

static void test_trap_block(void)
{
	pthread_t thread;

	begin(TRAMPOLINE_BLOCK);
	pthread_mutex_lock(&f.gate);
	if (pthread_create(&thread, NULL, submit_many, NULL))
		abort();
	for (int i = 0; i < PATIENCE_MS && !count_of(1, COUNTER_RING_WAITS); i++)
		clock_wait_ms(1);
	ok(count_of(1, COUNTER_RING_WAITS) > 0, "hits of traps wait for room");
	pthread_mutex_unlock(&f.gate);
	pthread_join(thread, NULL);
	ok(fake_exitless_wait(&f, MANY), "all of them are emitted in the end");
	leave();
	is_u64(count_of(1, COUNTER_RING_DROPS), 0, "and none is lost");
	end();
}

/* --- idle guests ---------------------------------------------------------------------------- */

enum { SLEEP_MS = 50 }; /* until it no longer wakes by itself */

static void test_doorbell(enum trampoline_full full, const char *mode)
{
	begin(full);
	ok(fake_exitless_wait_idle(&f), "%s: without events the thread sleeps", mode);
	ok(fake_exitless_record(&f, 3, kfree, 7 - BIAS), "%s: a record is written", mode);
	is_count(3, COUNTER_DOORBELLS, 1, "the first record rings the doorbell once");
	ok(fake_exitless_record(&f, 3, kfree, 8 - BIAS) && count_of(3, COUNTER_DOORBELLS) == 1,
	   "%s: the record behind it does not ring", mode);
	ok(fake_exitless_wait(&f, 2) && f.hits[0].key == 7 && f.hits[1].key == 8,
	   "%s: both records are emitted", mode);
	ok(fake_exitless_wait_idle(&f), "%s: the thread sleeps again", mode);
	clock_wait_ms(SLEEP_MS);
	submit(0, 9);
	ok(fake_exitless_wait(&f, 3), "%s: a hit of a trap wakes the thread", mode);
	leave();
	is_count(3, COUNTER_RING_WAITS, 0, "a doorbell is not counted as a wait for room");
	is_u64(count_of(3, COUNTER_RING_WAIT_NS) + count_of(0, COUNTER_RING_WAIT_NS), 0,
	       "nor is its time");
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
	ok(fake_exitless_record(&f, 1, kfree, 1),
	   "a vCPU writes a record while another damages its ring");
	ok(fake_exitless_wait(&f, 1) && f.hits[0].vcpu == 1,
	   "the record of the other vCPU is emitted");
	ok(fake_exitless_record(&f, 0, kfree, 2) && fake_exitless_wait(&f, 2),
	   "the next record in the damaged ring is emitted");
	is_count(0, COUNTER_RING_DAMAGED, 1, "the damage is counted");
	is_count(0, COUNTER_RING_RECORDS, 1, "damage is not counted as a record");
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
	ok(!fake_exitless_record(&f, 0, kfree, 1),
	   "with an impossible position in its ring, a vCPU gives up its record");
	is_count(0, COUNTER_RING_DROPS, 1,
	       "the record that is given up is counted as lost");
	ok(fake_exitless_record(&f, 1, kfree, 2) && fake_exitless_wait(&f, 1),
	   "other vCPUs are not affected by a dead ring");
	while (!count_of(0, COUNTER_RING_DAMAGED))
		clock_wait_ms(1);
	is_count(0, COUNTER_RING_DAMAGED, 1, "a dead ring is counted as damage once");
	ok(fake_exitless_wait_idle(&f), "the thread sleeps in spite of a dead ring");
	leave();
	end();
}

/* With each pass the thread tells writers that wait for room that it is alive. */
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
		ok(naps < 20000, "a pass gives waiting writers new time");
	}
	leave();
	end();
}

/* Writers of a group of the direct lane wait as long as all others do, not after them. */
static void test_one_deadline(void)
{
	begin(TRAMPOLINE_SPIN);
	for (int g = 0; g < (int)f.x->direct.nr_groups; g++)
		ok(ring_engine_rings(f.x, g).deadline == ring_engine_rings(f.x, -1).deadline,
		   "writers of group %d have the deadline of the ordered lane", g);
	leave();
	end();
}

/* ... unless one of them waits for room in a ring that gets none. */
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
		ok(fake_exitless_wait(&f, i), "a pass is made");
	}
	is_u64(__atomic_load_n(until, __ATOMIC_ACQUIRE), 1,
	       "passes give no new time while a ring is dead");
	leave();
	end();
}

/* An OUT of the guest's own. */
static bool is_foreign(struct guest_trap *trap)
{
	return f.engine->ops->on_trap(f.engine, trap) == ENGINE_TRAP_FOREIGN;
}

static void test_foreign_trap(void)
{
	struct guest_trap trap = {.regs = {.rip = 0x1234}};

	begin(TRAMPOLINE_BLOCK);
	ok(is_foreign(&trap), "a trap outside of the code is foreign");
	trap.regs.rip = f.x->mapping.gva;
	ok(is_foreign(&trap), "a trap in the code at no slow path is foreign");
	trap = (struct guest_trap){.vcpu = FAKE_VCPUS, .regs = {.rip = f.trap_gva[kfree]}};
	ok(is_foreign(&trap), "a trap of an unknown vCPU is foreign");
	leave();
	end();
}

int main(void)
{
	test_order();
	test_learnt_clock();
	test_block();
	test_hang();
	test_stop_while_full();
	test_drop();
	test_trap_drop();
	test_trap_block();
	test_doorbell(TRAMPOLINE_BLOCK, "block");
	test_doorbell(TRAMPOLINE_DROP, "drop");
	test_scribble();
	test_dead_ring();
	test_life();
	test_one_deadline();
	test_no_life();
	test_foreign_trap();
	return tap_done();
}
