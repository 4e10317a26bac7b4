// SPDX-License-Identifier: GPL-2.0-or-later
/* Exitless mode comes into a guest, and leaves it again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-exitless.h"
#include "tests/lib/fake-tasks.h"
#include "tests/lib/tap.h"

enum {
	PMD_OF_TEXT = 2,
	ROUNDS = 50,
	SOON_MS = 30,
	PATIENCE_MS = 20000,
	TASK_GPA = FAKE_HEAP_GPA + 0x180000,
};

static struct fake_exitless f;

static void begin(void)
{
	fake_exitless_init(&f, TRAMPOLINE_BLOCK);
}

static void run(void)
{
	if (fake_exitless_create(&f, NULL) || ring_engine_start(f.x, NULL))
		abort();
}

static bool leave(unsigned int ms)
{
	f.fs.fg.guest.control->stop(&f.fs.fg.guest, NULL);
	ring_engine_leave(f.x);
	f.fs.fg.guest.control->resume(&f.fs.fg.guest, NULL);
	return ring_engine_has_left(f.x, ms) && !ring_engine_leave_error(f.x);
}

static void begin_running(void)
{
	begin();
	run();
}

static void end(void)
{
	fake_exitless_deinit(&f);
}

static bool is_jump_to_code(const struct patch *patch)
{
	const struct ring_engine *x = f.x;
	int32_t distance;

	memcpy(&distance, patch->new_bytes + 1, sizeof(distance));
	return patch->new_bytes[0] == 0xe9 &&
	       patch->gva + 5 + (uint64_t)(int64_t)distance - x->mapping.gva < x->set.code_bytes;
}

static void test_come_and_go(void)
{
	uint8_t code[8];
	bool jumps = true;

	begin();
	ok(!fake_exitless_create(&f, NULL), "create");
	for (size_t i = 0; i < f.plan.entries.n; i++)
		jumps &= is_jump_to_code(&f.plan.entries.v[i]);
	ok(jumps && !memcmp(f.fs.text, f.fs.fg.base.ram + FAKE_PHYS_TEXT, sizeof(f.fs.text)),
	   "entries are planned as jumps, the text is not touched");
	ok(!kernel_read(&f.fs.fg.kernel, f.x->mapping.gva, code, sizeof(code), NULL) &&
		   !memcmp(code, f.x->scratch.hva, sizeof(code)),
	   "the guest sees the code");
	ok(!ring_engine_start(f.x, NULL), "start");
	ok(leave(PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "leave: memory and page tables are what they were");
	end();
}

static void refuse(int code, const char *why)
{
	struct error err = {0};
	int ret = fake_exitless_create(&f, &err);

	is_u64((uint64_t)-ret, (uint64_t)code, err.text);
	ok(err.code == code && strstr(err.text, why), "with its reason: %s", why);
	ok(fake_exitless_is_gone(&f) && fake_exitless_plans_traps(&f), "and nothing is left");
	end();
}

/* The entry that maps the kernel's text; its neighbours are for us. */
static uint64_t pmd_gpa(void)
{
	uint64_t table;

	if (kernel_page_table(&f.fs.fg.kernel, fake_gva(0), PMD_OF_TEXT, &table, NULL))
		abort();
	return table;
}

static void test_guests_without(void)
{
	struct guest_clock_ops no_tsc;

	begin();
	f.fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_SCRATCH;
	refuse(ENOTSUP, "memory");
	begin();
	no_tsc = *f.fs.fg.guest.clock;
	no_tsc.tsc = NULL;
	f.fs.fg.guest.clock = &no_tsc;
	refuse(ENOTSUP, "time stamp counter");
	begin();
	f.fs.fg.vcpus[2].tsc_behind = 5000;
	refuse(ENOTSUP, "vCPUs 0 and 2 differ");
	begin();
	fake_put32(&f.fs.fg.base, FAKE_PER_CPU_GPA + 0x1000, 3);
	refuse(EPROTO, "vCPU 1 finds 3");
}

static void test_no_room(void)
{
	begin();
	f.config.ring_bytes = 1 << 30;
	refuse(ENOSPC, "rings of 4 vCPUs");
	begin();
	f.config.ring_bytes = 12345;
	refuse(EINVAL, "ring");
	begin();
	f.fs.fg.nr_regions = 2;
	f.fs.fg.regions[1] = (struct guest_region){.gpa = UINT64_C(1) << 40};
	is_u64((uint64_t)-fake_exitless_create(&f, NULL), ENOSPC, "no place for scratch memory");
	ok(fake_exitless_plans_traps(&f), "the plan has its traps");
	f.fs.fg.nr_regions = 1;
	end();
}

static void test_mapping_fails(void)
{
	begin();
	fake_put64(&f.fs.fg.base, pmd_gpa() + 8, 0x1000);
	refuse(EAGAIN, "not cleared");
	begin();
	f.fs.fg.failing_gpa = pmd_gpa();
	refuse(EIO, "fake write");
}

/* Never seen by the guest: goes at once, also from under the thread. */
static void test_cancel(void)
{
	bool good = true;

	begin();
	for (int i = 0; i < ROUNDS; i++) {
		good &= !fake_exitless_create(&f, NULL) && !ring_engine_start(f.x, NULL);
		ring_engine_cancel(f.x);
		f.x = NULL;
		patch_plan_use_traps(&f.plan);
		good &= fake_exitless_is_gone(&f);
	}
	ok(good, "start and cancel %d times", ROUNDS);
	end();
}

static void test_toggling(void)
{
	bool good = true;
	uint16_t kfree;

	begin();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
	for (int i = 0; i < ROUNDS; i++) {
		good &= !fake_exitless_create(&f, NULL) && !ring_engine_start(f.x, NULL);
		good &= fake_exitless_record(&f, 1, kfree, (uint64_t)i);
		good &= leave(PATIENCE_MS);
		ring_engine_destroy(f.x);
		f.x = NULL;
		good &= f.nr_hits == (size_t)i + 1 && fake_exitless_is_gone(&f);
	}
	ok(good, "come and go %d times, with a record each time that leaving hands on", ROUNDS);
	end();
}

static uint64_t stops_until_out;

static void come_out(struct fake_guest *fg)
{
	if (stops_until_out && !--stops_until_out)
		fg->vcpus[1].sregs.halted = true;
}

/* A vCPU in the kernel may have been interrupted in our code, wherever it is now. */
static void test_who_is_inside(void)
{
	begin_running();
	f.fs.fg.vcpus[1].sregs.halted = false;
	stops_until_out = 5;
	f.fs.fg.on_stop = come_out;
	ok(leave(PATIENCE_MS) && fake_exitless_is_gone(&f), "leave with a vCPU in the kernel");
	is_u64(stops_until_out, 0, "not before it is idle");
	end();
}

static void test_who_is_outside(void)
{
	begin_running();
	f.fs.fg.vcpus[1].sregs.halted = false;
	f.fs.fg.vcpus[1].sregs.cpl = 3;
	ok(leave(PATIENCE_MS), "nobody waits for a vCPU in user mode");
	end();
	begin_running();
	f.fs.fg.vcpus[1].sregs.halted = false;
	f.fs.fg.vcpus[1].sregs.cr0 = 0;
	ok(leave(PATIENCE_MS), "nor for one that was not started");
	end();
}

static void test_stays_inside(void)
{
	uint16_t kfree;

	begin_running();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
	f.fs.fg.vcpus[3].sregs.halted = false;
	ok(!leave(SOON_MS) && f.fs.fg.nr_regions == 2, "the memory stays for a vCPU that stays");
	ok(fake_exitless_record(&f, 3, kfree, 1) && fake_exitless_wait(&f, 1),
	   "what it writes still is handed on");
	f.fs.fg.guest.control->stop(&f.fs.fg.guest, NULL);
	f.fs.fg.vcpus[3].sregs.halted = true;
	f.fs.fg.guest.control->resume(&f.fs.fg.guest, NULL);
	ok(ring_engine_has_left(f.x, PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "then it comes out");
	end();
}

static void test_paused(void)
{
	begin_running();
	f.fs.fg.paused = true;
	ok(!leave(SOON_MS), "a paused guest cannot be left");
	f.fs.fg.paused = false;
	ok(ring_engine_has_left(f.x, PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "until it runs again");
	end();
}

/* A second task, which does not run and has `ip` of our code in a pt_regs on its stack. */
static uint64_t add_preempted_task(uint64_t ip)
{
	struct fake_kernel *k = &f.fs.fg.base;
	uint64_t task = fake_task(k, TASK_GPA);

	fake_list_add(k, fake_tasks(), task + FAKE_TASK_TASKS);
	fake_write64(k, fake_task_stack(k, task, 0x3ff8), ip);
	fake_task_interrupt(k, task, 0x2000, ip);
	fake_task_interrupt(k, task, 0x3f00, ip);
	return fake_task_stack(k, task, 0x3f00);
}

static void test_preempted(void)
{
	uint64_t ip;

	begin_running();
	ip = add_preempted_task(f.x->mapping.gva);
	ok(!leave(SOON_MS) && f.fs.fg.nr_regions == 2,
	   "the memory stays for a task that was preempted in it");
	f.fs.fg.guest.control->stop(&f.fs.fg.guest, NULL);
	fake_write64(&f.fs.fg.base, ip, fake_gva(FAKE_KFREE));
	f.fs.fg.guest.control->resume(&f.fs.fg.guest, NULL);
	ok(ring_engine_has_left(f.x, PATIENCE_MS) && f.fs.fg.nr_regions == 1,
	   "not for what lies below its stack pointer, nor for other words");
	end();
}

/* The machine ends with a vCPU in the middle of a record. */
static void test_end(void)
{
	struct trace_counters counts = {0};
	struct ring_writer writer;
	uint16_t kfree;

	begin_running();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
	f.fs.fg.vcpus[2].sregs.halted = false;
	fake_exitless_record(&f, 2, kfree, 1);
	writer = fake_exitless_writer(&f, 2);
	ring_writer_reserve(&writer, f.x->set.places[kfree].layout.size);
	fake_exitless_record(&f, 1, kfree, 2);
	ring_engine_end(f.x);
	is_u64(f.nr_hits, 2, "at the end all whole records are handed on");
	ring_engine_counts(f.x, 2, &counts);
	is_u64(counts.v[COUNTER_RING_DAMAGED] + counts.v[COUNTER_RING_DROPS], 0,
	       "the one that was cut off is no damage");
	is_u64(counts.v[COUNTER_RING_RECORDS], 1, "nor a record");
	end();
}

enum { AT_END = 5, MANY = 1000 };

/* A vCPU that writes as fast as its records are read. */
static void write_another(void *arg, const struct probe_ref *ref, enum probe_point point,
			  const struct probe_hit *hit)
{
	(void)arg;
	(void)ref;
	(void)point;
	if (atomic_fetch_add(&f.nr_hits, 1) < MANY)
		fake_exitless_record(&f, hit->vcpu, fake_exitless_place(&f, FAKE_KFREE), 0);
}

/* Nobody could stop the machine. */
static void test_end_running(void)
{
	begin();
	f.config.handle = write_another;
	run();
	ring_engine_stop_thread(f.x);
	for (unsigned int i = 0; i < AT_END; i++)
		fake_exitless_record(&f, i % 2, fake_exitless_place(&f, FAKE_KFREE), i);
	ring_engine_end(f.x);
	is_u64(f.nr_hits, AT_END,
	       "of a guest that goes on writing it is handed on what was there at the end");
	end();
}

int main(void)
{
	test_come_and_go();
	test_guests_without();
	test_no_room();
	test_mapping_fails();
	test_cancel();
	test_toggling();
	test_who_is_inside();
	test_who_is_outside();
	test_paused();
	test_preempted();
	test_stays_inside();
	test_end();
	test_end_running();
	return tap_done();
}
