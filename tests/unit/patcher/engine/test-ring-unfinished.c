/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that a vCPU has begun and does not finish, as the host does not run it. */
#include "tests/unit/patcher/engine/ring-fixture.h"

/* `poll_ns`: between two polls whether the guest runs. */
static void begin_polling(enum trampoline_full full, uint64_t poll_ns)
{
	fake_exitless_init(&f, full);
	fake_exitless_create(&f);
	f.x->poll_ns = poll_ns;
	install();
}

enum { SHORT_NS = 2000000, IDLE_MS = 200 };

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

	begin_polling(TRAMPOLINE_BLOCK, SHORT_NS);
	clock_wait_ms(IDLE_MS);
	is_u64(f.fs.fg.polls, 0, "the run state is not polled while no record is unfinished");
	begin_record(1, &before);
	for (int i = 0; i < PATIENCE_MS && !count_of(1, COUNTER_RING_DAMAGED); i++)
		clock_wait_ms(1);
	is_count(1, COUNTER_RING_DAMAGED, 1, "a record that is never finished is given up");
	ok(f.fs.fg.polls >= 300,
	   "three hundred polls find the guest running before a record is given up");
	leave();
	end();
}

/* The administrator suspends the guest for longer than that. */
static void test_suspended(void)
{
	struct ring_record *record;
	unsigned int polls;
	size_t n;

	begin_polling(TRAMPOLINE_BLOCK, SHORT_NS);
	f.fs.fg.paused = true;
	record = begin_record(1, &n);
	fake_exitless_record(&f, 1, kfree, 2 - BIAS);
	while (f.fs.fg.polls < 400)
		clock_wait_ms(1);
	is_count(1, COUNTER_RING_DAMAGED, 0,
	       "no record is given up while the guest is suspended");
	polls = f.fs.fg.polls;
	f.fs.fg.paused = false;
	while (f.fs.fg.polls < polls + 5)
		clock_wait_ms(1);
	end_record(record, 1 - BIAS);
	ok(fake_exitless_wait(&f, n + 2) && f.hits[n].key == 1 && f.hits[n + 1].key == 2,
	   "when the guest runs again, the record and the one behind it are emitted");
	is_count(1, COUNTER_RING_DAMAGED, 0,
	       "a record that a suspend delays is not damaged");
	leave();
	end();
}

/* Other vCPUs' records wait for one that is unfinished, but not until they find no room. */
static void test_late(void)
{
	struct ring_record *record;
	size_t n, written = 0;

	begin_polling(TRAMPOLINE_BLOCK, SHORT_NS);
	record = begin_record(1, &n);
	ok(fake_exitless_record(&f, 0, kfree, 0),
	   "a vCPU writes while another's record is unfinished");
	clock_wait_ms(100);
	is_u64(f.nr_hits, n, "an unfinished record holds up later ones while there is room");
	for (written = 1; written < MANY; written++)
		if (!fake_exitless_record(&f, 0, kfree, written))
			break;
	is_u64(written, MANY, "the vCPU that needs room gets it, and loses nothing");
	end_record(record, 1 - BIAS);
	ok(fake_exitless_wait(&f, n + MANY + 1), "the late record is emitted, too");
	is_count(1, COUNTER_RING_DAMAGED, 0, "a late record is not damaged");
	leave();
	end();
}

/* The guest's watchdogs let writers wait for so much less than usual. */
static void begin_impatient(uint32_t expedited_ms)
{
	enum { STALL = 0x30100, EXPEDITED = 0x30104 };
	static const struct fake_symbol symbols[] = {{"rcu_cpu_stall_timeout", STALL},
						     {"rcu_exp_cpu_stall_timeout", EXPEDITED},
						     {NULL, 0}};

	fake_exitless_init(&f, TRAMPOLINE_BLOCK);
	if (fake_guest_add_symbols(&f.fs.fg, symbols))
		abort();
	fake_put32(&f.fs.fg.base, FAKE_PHYS_TEXT + STALL, 21);
	fake_put32(&f.fs.fg.base, FAKE_PHYS_TEXT + EXPEDITED, expedited_ms);
	fake_exitless_create(&f);
	install();
}

static void test_late_for_watchdogs(void)
{
	enum { EXPEDITED_MS = 600, NS_PER_MS = 1000000 };
	size_t n, written = 0;

	begin_impatient(EXPEDITED_MS);
	is_u64(ring_engine_late_ns(f.x), EXPEDITED_MS / 4 / 2 * NS_PER_MS,
	       "an unfinished record holds up writers for half of the time that they wait");
	begin_record(1, &n);
	while (written < MANY && fake_exitless_record(&f, 0, kfree, written))
		written++;
	is_u64(written, MANY, "where watchdogs let writers wait for 150 ms, none gives up before");
	leave();
	end();
	begin_polling(TRAMPOLINE_BLOCK, 100 * NS_PER_MS);
	is_u64(ring_engine_late_ns(f.x), 200 * NS_PER_MS,
	       "where they wait for long it does so for 200 ms at most");
	leave();
	end();
}

/* A CPU that has gone on writing will never finish it. */
static void test_abandoned(void)
{
	size_t n;

	begin_polling(TRAMPOLINE_BLOCK, SHORT_NS);
	begin_record(1, &n);
	for (n = 0; n < MANY && fake_exitless_record(&f, 1, kfree, n);)
		n++;
	is_u64(n, MANY, "a vCPU that never finishes a record does not wait for room in vain");
	ok(count_of(1, COUNTER_RING_DAMAGED) >= 1, "a record that is given up is counted");
	leave();
	ok(f.x->run_ns < 300 * SHORT_NS, "its record is given up once its ring is full");
	end();
}

int main(void)
{
	test_stall();
	test_suspended();
	test_late();
	test_late_for_watchdogs();
	test_abandoned();
	return tap_done();
}
