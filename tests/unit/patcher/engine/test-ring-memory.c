/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest sees of the ring engine: how much memory, what is where, and that it goes. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/tasks/task-reader.h"
#include "tests/lib/fake-exitless.h"
#include "tests/lib/tap.h"

enum {
	PATIENCE_MS = 20000,
	ROUNDS = 4,
	MIB = 1 << 20,
	SMALL_CODE = 128 << 10,
	SMALL_ROOM = 2 * MIB - SMALL_CODE - KERNEL_MAP_PAGE,
	SPIN_QUEUE = 8 * MIB,
	SPIN_MS = 500,
};

static struct fake_exitless f;

static void begin(void)
{
	fake_exitless_init(&f, TRAMPOLINE_BLOCK);
}

static void run(void)
{
	if (fake_exitless_install(&f, NULL))
		abort();
}

static bool leave(void)
{
	return fake_exitless_leave(&f, PATIENCE_MS);
}

static void end(void)
{
	fake_exitless_deinit(&f);
}

static void refuse(int code, const char *why)
{
	struct error err = {0};
	int ret = fake_exitless_install(&f, &err);

	ok(ret == -code && strstr(err.text, why), "install is refused: %s", err.text);
	ok(fake_exitless_is_gone(&f), "which leaves nothing");
	end();
}

/* The tracer's. */
static struct probe *probe_of(size_t ref)
{
	return (struct probe *)f.plan.refs[ref].probe;
}

/* --- facts ----------------------------------------------------------------------------------- */

static int read_clocks(uint64_t behind)
{
	f.fs.fg.vcpus[2].tsc_behind = behind;
	return ring_engine_read_clocks(f.x, NULL);
}

static void test_clocks(void)
{
	begin();
	fake_exitless_create(&f);
	ok(!read_clocks(500) && !read_clocks(-UINT64_C(500)),
	   "counters may differ by less than a microsecond");
	is_u64((uint64_t)-read_clocks(5000), ENOTSUP, "one may not be behind");
	is_u64((uint64_t)-read_clocks(-UINT64_C(5000)), ENOTSUP, "nor ahead");
	end();
}

static void test_task(void)
{
	static const struct task_places places = {.tgid = 77, .cgroup_path = {1, 2, 3, 4}};

	begin();
	run();
	is_u64(f.x->facts.task_pid, 0, "without a capture of tasks nothing of them is known");
	end();
	begin();
	probe_of(0)->entry.task = &places;
	run();
	ok(f.x->facts.task_pid == FAKE_TASK_PID && f.x->facts.task_comm == FAKE_TASK_COMM,
	   "with one it is known where the current task has its fields");
	ok(f.x->facts.task_tgid == places.tgid &&
		   !memcmp(f.x->facts.cgroup_path, places.cgroup_path, sizeof(places.cgroup_path)),
	   "also those that the capture has found");
	end();
}

/* --- how much ----------------------------------------------------------------------------------
 */

static struct ring_engine fit(uint32_t ring_bytes, bool has_pid_gate, uint64_t room,
			      uint64_t *bytes)
{
	struct ring_engine x = {
		.nr_vcpus = 4, .ring_bytes = ring_bytes, .has_pid_gate = has_pid_gate};

	*bytes = ring_engine_fit(&x, room);
	return x;
}

static uint64_t direct_end_of(const struct ring_engine *x)
{
	return x->direct.offset +
	       x->direct.nr_groups * (uint64_t)x->nr_vcpus * ring_stride(x->direct.ring_bytes);
}

static void test_fit(void)
{
	uint64_t bytes, least;
	struct ring_engine x = fit(256 << 10, false, SMALL_ROOM, &bytes), gated;

	ok(x.ring_bytes == 256 << 10 && x.direct.ring_bytes == 128 << 10 && x.direct.nr_groups,
	   "what is left beside the ordered lane is for smaller rings of the direct lane");
	is_u64(bytes, direct_end_of(&x), "both lanes take all of it");
	gated = fit(256 << 10, true, SMALL_ROOM, &bytes);
	is_u64(gated.direct.offset, x.direct.offset + PID_GATE_BUCKETS,
	       "the pids of a gate lie in front of the direct lane");
	fit(RING_MIN_DATA, false, 0, &least);
	x = fit(8 * RING_MIN_DATA, false, least + 4 * RING_MIN_DATA, &bytes);
	ok(x.ring_bytes == 2 * RING_MIN_DATA && !x.direct.nr_groups,
	   "without room for the direct lane, the ordered lane has the largest rings that fit");
	is_u64(bytes, least + 4 * RING_MIN_DATA, "and nothing else takes memory");
}

/* As in a libvirt domain. */
static void test_small(void)
{
	begin();
	f.fs.fg.guest.max_scratch = KERNEL_MAP_CHUNK;
	f.config.ring_bytes = 256 << 10;
	run();
	ok(f.x->scratch.size == KERNEL_MAP_CHUNK && f.x->code_bytes == SMALL_CODE,
	   "code and rings share a chunk, if there is one only");
	ok(leave() && fake_exitless_is_gone(&f), "it goes");
	end();
}

static void test_large(void)
{
	begin();
	f.fs.fg.guest.max_scratch = 16 * MIB;
	f.config.ring_bytes = 8 * MIB;
	refuse(ENOSPC, "14 are the most");
	begin();
	f.fs.fg.guest.max_scratch = UINT64_C(1) << 40;
	f.config.ring_bytes = 64 * MIB;
	refuse(ENOSPC, "254 are the most");
}

static void test_chains(void)
{
	begin();
	probe_of(f.plan.nr_refs - 1)->ret.fields |= CAPTURE(FIELD_CHAIN);
	refuse(ENOSPC, "call chains need rings");
}

/* --- what is where ------------------------------------------------------------------------------
 */

static void set_khz(uint64_t khz)
{
	if (tsc_clock_set_rate(&f.x->vcpus[0].clock, khz, NULL))
		abort();
}

static uint64_t ns_after(uint64_t ticks)
{
	const struct tsc_clock *clock = &f.x->vcpus[0].clock;

	return tsc_clock_ns(clock, clock->tsc0 + ticks) - clock->ns0;
}

static void test_ticks(void)
{
	uint64_t ticks;

	begin();
	run();
	ring_engine_stop_thread(f.x); /* it reads the clocks */
	set_khz(2500000);
	ticks = ring_engine_ticks(f.x, 1000);
	ok(ns_after(ticks) >= 1000 && ns_after(ticks - 1) < 1000,
	   "a microsecond is %llu ticks at 2.5 GHz", (unsigned long long)ticks);
	is_u64(ring_engine_rings(f.x, -1).patience, ring_engine_ticks(f.x, SPIN_MS * 1000000),
	       "writers wait for half a second");
	set_khz(100000000);
	is_u64(ring_engine_rings(f.x, -1).patience, UINT32_MAX,
	       "where that is too many ticks, for as many as they can compare");
	end();
}

static void test_rings(void)
{
	struct trampoline_rings rings;
	uint64_t data;

	begin();
	run();
	data = f.x->mapping.gva + f.x->code_bytes;
	rings = ring_engine_rings(f.x, -1);
	ok(rings.gva == data && rings.data_bytes == f.x->ring_bytes,
	   "the ordered lane's rings are behind the code");
	rings = ring_engine_rings(f.x, 1);
	is_u64(rings.gva,
	       f.x->mapping.gva + f.x->direct.offset +
		       (uint64_t)f.x->nr_vcpus * ring_stride(f.x->direct.ring_bytes),
	       "the second group of the direct lane is behind the first one");
	is_u64(rings.deadline, data + offsetof(struct ring_header, spin_deadline),
	       "all have one deadline");
	end();
}

static bool take(void *arg, const struct probe_ref *ref, const struct probe_record *record)
{
	(void)arg;
	(void)ref;
	(void)record;
	return true;
}

static probe_take_fn *taker(const struct probe_ref *ref)
{
	(void)ref;
	return take;
}

static void test_takers(void)
{
	size_t with = 0, right = 0;

	begin();
	f.config.taker = taker;
	run();
	for (size_t i = 0; i < f.x->set.n; i++) {
		const struct trampoline_place *place = &f.x->set.places[i];

		with += place->has_words;
		right += !place->take == place->has_words;
	}
	ok(with && with < f.x->set.n, "some records have stacks or items");
	is_u64(right, f.x->set.n, "all others are taken as they are");
	end();
}

/* Of all arenas and mappings. */
static size_t allocated(void)
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void test_queues(void)
{
	size_t before = 0, after;

	begin();
	run();
	is_u64(f.x->rings[0].config.queue_bytes, f.x->ring_bytes + RING_MAX_RECORD,
	       "a host queue holds what a ring does");
	end();
	fake_exitless_init(&f, TRAMPOLINE_SPIN);
	for (int i = 0; i < ROUNDS; i++) {
		run();
		if (!i)
			is_u64(f.x->rings[0].config.queue_bytes,
			       f.x->ring_bytes + RING_MAX_RECORD + SPIN_QUEUE,
			       "where writers spin, much more");
		if (!leave())
			abort();
		after = allocated();
		before = i ? before : after;
	}
	ok(after < before + SPIN_QUEUE, "they are freed");
	end();
}

/* --- how it goes --------------------------------------------------------------------------------
 */

static const struct guest_scratch_ops *scratch_ops;
static int failing_removals;

static int remove_scratch(struct guest *guest, const struct guest_region *scratch,
			  struct error *err)
{
	if (failing_removals && failing_removals--)
		return error_set(err, EBUSY, "fake removal failure");
	return scratch_ops->remove(guest, scratch, err);
}

static void begin_failing(int removals)
{
	static struct guest_scratch_ops failing;

	begin();
	scratch_ops = f.fs.fg.guest.scratch;
	failing = *scratch_ops;
	failing.remove = remove_scratch;
	f.fs.fg.guest.scratch = &failing;
	failing_removals = removals;
	run();
}

/* The first error of a guest that does not leave as it should. */
static const char *failure(void)
{
	const struct error *first = leave() ? NULL : first_error_get(&f.failure);

	return first ? first->text : "";
}

/* Its entry is the guest's now. */
static void change_mapping(void)
{
	fake_put64(&f.fs.fg.base, f.x->mapping.slots_gpa, 0x1000);
}

static void test_removal_fails(void)
{
	const char *why;

	begin_failing(1);
	why = failure();
	ok(strstr(why, "fake removal"), "memory that is not removed is an error: %s", why);
	ok(f.fs.fg.nr_regions == 1 && !f.x->scratch.size, "it is tried again");
	end();
}

static void test_mapping_changed(void)
{
	const char *why;

	begin_failing(0);
	change_mapping();
	why = failure();
	ok(strstr(why, "changed the mapping"),
	   "a mapping that the guest has changed is an error: %s", why);
	is_u64(f.fs.fg.nr_regions, 1, "the memory goes all the same");
	end();
	begin_failing(1);
	change_mapping();
	why = failure();
	ok(strstr(why, "changed the mapping"), "it is the one that is told, of two: %s", why);
	end();
}

static void test_stays_mapped(void)
{
	const char *why;

	begin_failing(0);
	f.fs.fg.failing_gpa = f.x->mapping.slots_gpa;
	why = failure();
	ok(strstr(why, "fake write") && f.fs.fg.nr_regions == 2,
	   "memory stays as long as the guest maps it: %s", why);
	end();
}

static const struct guest_memory_ops *memory_ops;
static uint64_t table_gpa;
static int entries_left;

static int write_entry(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		       struct error *err)
{
	if (gpa - table_gpa < KERNEL_MAP_PAGE && --entries_left < 0)
		return error_set(err, EIO, "fake entry failure");
	return memory_ops->write(guest, gpa, from, size, err);
}

/* The table cannot be written any more. */
static void test_half_mapped(void)
{
	struct guest_memory_ops failing;

	begin();
	memory_ops = f.fs.fg.guest.memory;
	failing = *memory_ops;
	failing.write = write_entry;
	f.fs.fg.guest.memory = &failing;
	table_gpa = fake_session_pmd(&f.fs);
	entries_left = 1;
	is_u64((uint64_t)-fake_exitless_install(&f, NULL), EIO,
	       "the second entry of a mapping cannot be written, nor the first one cleared");
	is_u64(f.fs.fg.nr_regions, 2, "the memory stays, as the guest maps some of it");
	f.fs.fg.guest.memory = memory_ops;
	end();
}

int main(void)
{
	test_clocks();
	test_task();
	test_fit();
	test_small();
	test_large();
	test_chains();
	test_ticks();
	test_rings();
	test_takers();
	test_queues();
	test_removal_fails();
	test_mapping_changed();
	test_stays_mapped();
	test_half_mapped();
	return tap_done();
}
