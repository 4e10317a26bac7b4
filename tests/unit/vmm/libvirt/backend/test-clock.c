/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clock that is learnt from the guest's stamps, and what a damaged one does to a trace. */
#include <stdlib.h>
#include <unistd.h>
#include <x86intrin.h>
#include "patcher/ring/ring.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/clock.h"

enum {
	DATA = 32768,
	SIZE = 24,
	CPUS = 2,
	DAY_BITS = 48,
	WINDOW_US = 300000,
	STALL_RECORDS = 300,
	PASSES = 60,
	PASS_US = 5000,
	PASS_RECORDS = 5,
};

/* A guest that runs since a day: its counter is that far behind the host's, or ahead of it. */
static const uint64_t day = UINT64_C(1) << DAY_BITS;
/* Far less than a pause. */
static const uint64_t little = UINT64_C(1) << 27;

static bool is_near(uint64_t tsc, uint64_t expected)
{
	return tsc - expected + little < 2 * little;
}

static void test_learning(void)
{
	struct libvirt_clock clock;
	uint64_t stamp;

	libvirt_clock_init(&clock);
	is_u64(libvirt_clock_tsc(&clock), 0, "without a stamp the counter is unknown");
	stamp = __rdtsc() + day;
	libvirt_clock_seen(&clock, stamp);
	is_u64(libvirt_clock_tsc(&clock), stamp, "one stamp is enough to know the counter");
	libvirt_clock_seen(&clock, stamp - day);
	is_u64(libvirt_clock_tsc(&clock), stamp, "an old stamp changes nothing");
	usleep(WINDOW_US);
	ok(libvirt_clock_estimate(&clock) - stamp > little,
	   "the estimate runs on while no stamps come");
	is_u64(libvirt_clock_tsc(&clock), stamp, "what is known of the counter does not");
	libvirt_clock_deinit(&clock);
}

/* A damaged stamp comes first, or later; one day or many years ahead. */
static void test_damaged_stamp(void)
{
	const uint64_t start = __rdtsc();
	const uint64_t damages[] = {start | UINT64_C(1) << 62, UINT64_MAX,
				    start | UINT64_C(1) << 63, start + day};
	unsigned int moved = 0;

	for (unsigned int i = 0; i < 4; i++) {
		struct libvirt_clock clock;
		uint64_t stamp = __rdtsc();

		libvirt_clock_init(&clock);
		if (i < 3)
			libvirt_clock_seen(&clock, damages[i]);
		moved += libvirt_clock_tsc(&clock) != 0;
		libvirt_clock_seen(&clock, stamp);
		for (int passes = 0; passes < 3; passes++)
			libvirt_clock_seen(&clock, damages[i]);
		libvirt_clock_freeze(&clock, true);
		libvirt_clock_seen(&clock, damages[i]);
		moved += !is_near(libvirt_clock_tsc(&clock), stamp);
		libvirt_clock_freeze(&clock, false);
		libvirt_clock_seen(&clock, damages[i]);
		libvirt_clock_seen(&clock, stamp);
		moved += !is_near(libvirt_clock_tsc(&clock), stamp);
		libvirt_clock_deinit(&clock);
	}
	is_u64(moved, 0, "no single stamp that is far ahead moves the clock");
}

/* What the clock was learnt from may have been read late, by any time. */
static void test_confirmed_stamp(void)
{
	struct libvirt_clock clock;
	uint64_t now = __rdtsc();

	libvirt_clock_init(&clock);
	libvirt_clock_seen(&clock, now);
	libvirt_clock_seen(&clock, now + day);
	ok(is_near(libvirt_clock_tsc(&clock), now),
	   "a stamp that is far ahead has to be confirmed");
	libvirt_clock_seen(&clock, now + day + 1);
	ok(is_near(libvirt_clock_tsc(&clock), now + day),
	   "two stamps that are far ahead are believed");
	libvirt_clock_seen(&clock, now + 3 * day);
	libvirt_clock_seen(&clock, now + day + 2);
	libvirt_clock_seen(&clock, now + 2 * day);
	ok(is_near(libvirt_clock_tsc(&clock), now + day),
	   "stamps that are far ahead confirm each other only one after the other");
	libvirt_clock_deinit(&clock);
}

/* --- a trace ---------------------------------------------------------------------------------- */

struct trace {
	struct libvirt_clock clock;
	struct ring rings[CPUS];
	struct ring_writer writers[CPUS];
	uint64_t *memory[CPUS];
	struct ring_stacks stacks;
	struct ring_merge merge;
	uint64_t nr_out, wrong; /* a record's field is its true stamp */
};

static void record_out(void *arg, const struct ring_taken *taken, size_t n)
{
	struct trace *t = arg;

	t->nr_out += n;
	for (size_t i = 0; i < n; i++)
		t->wrong += taken[i].tsc != taken[i].fields[0];
}

static void setup(struct trace *t)
{
	static const struct ring_shape shape = {.size = SIZE};
	static const struct ring_config config = {DATA, DATA, &shape, 1};

	*t = (struct trace){0};
	libvirt_clock_init(&t->clock);
	for (unsigned int i = 0; i < CPUS; i++) {
		t->memory[i] = calloc(1, ring_stride(DATA));
		if (!t->memory[i] || ring_init(&t->rings[i], t->memory[i], &config, NULL))
			abort();
		t->writers[i] = ring_writer(t->memory[i], DATA);
	}
	if (ring_merge_init(&t->merge, t->rings, CPUS, &t->stacks, NULL))
		abort();
}

static void teardown(struct trace *t)
{
	for (unsigned int i = 0; i < CPUS; i++) {
		ring_deinit(&t->rings[i]);
		free(t->memory[i]);
	}
	libvirt_clock_deinit(&t->clock);
}

/* As the thread that drains the rings does it. */
static void pass(struct trace *t)
{
	struct ring_clock now = {.stall_ns = UINT64_MAX, .late_ns = UINT64_MAX};
	uint64_t tsc;

	for (unsigned int i = 0; i < CPUS; i++)
		if (ring_newest_stamp(&t->rings[i], &tsc))
			libvirt_clock_seen(&t->clock, tsc);
	now.tsc = libvirt_clock_tsc(&t->clock);
	ring_merge_pass(&t->merge, &now, record_out, t);
}

static void put(struct trace *t, unsigned int cpu, uint64_t tsc, uint64_t damage)
{
	const struct ring_sample sample = {0, SIZE, 0};

	if (!ring_writer_put(&t->writers[cpu], sample, tsc | damage, tsc))
		abort();
}

static void test_trace(void)
{
	struct trace t;
	uint64_t written = 0;

	setup(&t);
	for (unsigned int i = 0; i < 100; i++) {
		uint64_t tsc = __rdtsc();

		put(&t, 0, tsc, i == 50 ? UINT64_C(1) << 62 : 0);
		put(&t, 1, tsc + 1, 0);
		written += 2;
		pass(&t);
	}
	for (unsigned int i = 0; i < 10 && t.nr_out < written; i++)
		pass(&t);
	is_u64(t.nr_out, written, "all records come out, though one has a stamp of 2^62");
	ok(t.wrong <= 2 && t.rings[0].counts.clamped + t.rings[1].counts.clamped == t.wrong,
	   "besides its stamp at most one changes, and each is counted (%lu)", t.wrong);
	teardown(&t);
}

/* QEMU's emulation stops the counter while its administrator has paused the guest. */
static void test_pause(void)
{
	const uint64_t start = __rdtsc();
	struct trace t;

	setup(&t);
	put(&t, 0, start, 0);
	pass(&t);
	usleep(WINDOW_US);
	pass(&t);
	ok(__rdtsc() - start > little, "the guest stands still for a long time");
	for (unsigned int i = 0; i < 100; i++) {
		put(&t, i % CPUS, start + 1 + i, 0);
		pass(&t);
	}
	is_u64(t.nr_out, 101, "records from behind a pause come out");
	is_u64(t.wrong, 0, "their stamps are the guest's");
	teardown(&t);
}

/* Records that a busy vCPU has written since `since`, one behind the other; returns the last stamp.
 */
static uint64_t write_since(struct trace *t, uint64_t since, unsigned int n)
{
	const uint64_t now = __rdtsc();

	for (unsigned int i = 1; i <= n; i++)
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			put(t, cpu, since + (now - since) * i / n, 0);
	return now;
}

/* The thread was kept from its work, and the vCPUs never leave a ring empty. */
static void test_backlog(void)
{
	const uint64_t soon = little / 4;
	uint64_t last = __rdtsc(), behind = UINT64_MAX;
	struct trace t;

	setup(&t);
	put(&t, 0, last, 0);
	pass(&t);
	usleep(WINDOW_US);
	last = write_since(&t, last, STALL_RECORDS);
	for (unsigned int i = 0; i < PASSES; i++) {
		uint64_t late;

		usleep(PASS_US);
		last = write_since(&t, last, PASS_RECORDS);
		pass(&t);
		late = __rdtsc() - libvirt_clock_estimate(&t.clock);
		behind = i < PASSES / 2 || behind < late ? behind : late;
	}
	ok(behind < soon, "after a stall the clock is not behind, though no ring gets empty (%lu)",
	   behind);
	teardown(&t);
}

int main(void)
{
	test_learning();
	test_damaged_stamp();
	test_confirmed_stamp();
	test_trace();
	test_pause();
	test_backlog();
	return tap_done();
}
