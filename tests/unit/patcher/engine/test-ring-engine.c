/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ring engine comes into a guest, and leaves it again. */
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
	if (fake_exitless_install(&f, NULL))
		abort();
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

static void stop(void)
{
	f.fs.fg.guest.control->stop(&f.fs.fg.guest, NULL);
}

static void resume(void)
{
	f.fs.fg.guest.control->resume(&f.fs.fg.guest, NULL);
}

/* Whether guest text has a jump into the code at this patch. */
static bool is_jump_to_code(const struct patch *patch)
{
	uint8_t bytes[5];
	int32_t distance;

	if (kernel_read(&f.fs.fg.kernel, patch->gva, bytes, sizeof(bytes), NULL))
		return false;
	memcpy(&distance, bytes + 1, sizeof(distance));
	return bytes[0] == 0xe9 && patch->gva + 5 + (uint64_t)(int64_t)distance - f.x->mapping.gva <
					   f.x->set.code_bytes;
}

static void test_come_and_go(void)
{
	uint8_t code[8];
	bool jumps = true;

	begin();
	fake_exitless_create(&f);
	ok(!f.engine->ops->finish(f.engine, NULL), "an engine that is not installed is finished");
	ok(!fake_exitless_install(&f, NULL), "the engine is installed");
	for (size_t i = 0; i < f.plan.entries.n; i++)
		jumps &= is_jump_to_code(&f.plan.entries.v[i]);
	ok(jumps, "every entry site is a jump into its code");
	ok(!kernel_read(&f.fs.fg.kernel, f.x->mapping.gva, code, sizeof(code), NULL) &&
		   !memcmp(code, f.x->scratch.hva, sizeof(code)),
	   "the guest sees the code");
	ok(fake_exitless_leave(&f, PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "after leaving, text, memory and page tables are what they were");
	end();
}

static void refuse(int code, const char *why)
{
	struct error err = {0};
	int ret = fake_exitless_install(&f, &err);

	ok(ret == -code, "install is refused: %s", err.text);
	ok(err.code == code && strstr(err.text, why), "the reason has the words '%s'", why);
	ok(fake_exitless_is_gone(&f) && fake_exitless_plans_traps(&f),
	   "a refused install leaves nothing, and the plan has traps");
	end();
}

/* gpa of the table that maps the kernel's text; its free entries are for scratch memory. */
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
	is_u64((uint64_t)-fake_exitless_install(&f, NULL), ENOSPC,
	       "without a place for scratch memory, install is refused");
	ok(fake_exitless_plans_traps(&f), "without a place for scratch memory, the plan has traps");
	f.fs.fg.nr_regions = 1;
	end();
}

/* The rings of both lanes in 2 MiB, as in a libvirt domain, beside 128 KiB of code and a page. */
static void test_small_room(void)
{
	const uint64_t room = (2 << 20) - (128 << 10) - 4096;
	unsigned int without = 0, too_large = 0;

	for (unsigned int vcpus = 1; vcpus <= 64; vcpus++) {
		for (uint32_t bytes = 4096; bytes <= 4 << 20; bytes *= 2) {
			struct ring_engine x = {.nr_vcpus = vcpus, .ring_bytes = bytes};

			too_large += ring_engine_fit(&x, room) > room;
			without += !x.direct.nr_groups;
		}
	}
	is_u64(too_large, 0, "in 2 MiB there is room for rings of up to 64 vCPUs");
	is_u64(without, 0, "of both lanes, for any number of them");
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

/* The thread runs by then, and code and rings are mapped. */
static void test_text_fails(void)
{
	begin();
	f.fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	refuse(EIO, "fake write");
}

static void test_toggling(void)
{
	bool good = true;
	uint32_t kfree;

	begin();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
	for (int i = 0; i < ROUNDS; i++) {
		good &= !fake_exitless_install(&f, NULL);
		good &= fake_exitless_record(&f, 1, kfree, (uint64_t)i);
		good &= fake_exitless_leave(&f, PATIENCE_MS);
		good &= f.nr_hits == (size_t)i + 1 && fake_exitless_is_gone(&f);
	}
	ok(good, "install and leave %d times: each time the last record is emitted", ROUNDS);
	is_u64(fake_exitless_count(&f, 1, COUNTER_RING_RECORDS), ROUNDS,
	       "counts go on over installations");
	end();
}

static uint64_t stops_until_out;

static void come_out(struct fake_guest *fg)
{
	if (stops_until_out && !--stops_until_out)
		fg->vcpus[1].sregs.halted = true;
}

/* A vCPU in the kernel may have been interrupted in the code, wherever it is now. */
static void test_waits_for_vcpu(void)
{
	begin_running();
	f.fs.fg.vcpus[1].sregs.halted = false;
	stops_until_out = 5;
	f.fs.fg.on_stop = come_out;
	ok(fake_exitless_leave(&f, PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "the engine leaves a guest with a vCPU in the kernel");
	is_u64(stops_until_out, 0, "it does not leave before that vCPU is idle");
	end();
}

static void test_does_not_wait(void)
{
	begin_running();
	f.fs.fg.vcpus[1].sregs.halted = false;
	f.fs.fg.vcpus[1].sregs.cpl = 3;
	ok(fake_exitless_leave(&f, PATIENCE_MS), "a vCPU in user mode is not waited for");
	end();
	begin_running();
	f.fs.fg.vcpus[1].sregs.halted = false;
	f.fs.fg.vcpus[1].sregs.cr0 = 0;
	ok(fake_exitless_leave(&f, PATIENCE_MS), "a vCPU that was not started is not waited for");
	end();
}

static void test_stays_inside(void)
{
	uint32_t kfree;

	begin_running();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
	f.fs.fg.vcpus[3].sregs.halted = false;
	ok(!fake_exitless_leave(&f, SOON_MS) && f.fs.fg.nr_regions == 2,
	   "the memory stays while a vCPU may be inside");
	ok(fake_exitless_record(&f, 3, kfree, 1) && fake_exitless_wait(&f, 1),
	   "what that vCPU writes is emitted");
	stop();
	f.fs.fg.vcpus[3].sregs.halted = true;
	resume();
	ok(fake_exitless_finish(&f, PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "when that vCPU is outside, the memory goes");
	end();
}

static void test_paused(void)
{
	struct error err = {0};

	begin_running();
	f.fs.fg.paused = true;
	ok(!fake_exitless_leave(&f, SOON_MS), "the engine cannot leave a paused guest");
	ok(f.engine->ops->finish(f.engine, &err) == -EINPROGRESS &&
		   strstr(err.text,
			  "trampolines: it cannot be stopped to look: the guest is paused"),
	   "finish gives up: %s", err.text);
	f.fs.fg.paused = false;
	ok(fake_exitless_finish(&f, PATIENCE_MS) && fake_exitless_is_gone(&f),
	   "when the guest runs again, the engine leaves");
	end();
}

/* A second task, which does not run and has `ip` in a pt_regs on its stack. */
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
	ok(!fake_exitless_leave(&f, SOON_MS) && f.fs.fg.nr_regions == 2,
	   "the memory stays for a task that was preempted inside");
	stop();
	fake_write64(&f.fs.fg.base, ip, fake_gva(FAKE_KFREE));
	resume();
	ok(fake_exitless_finish(&f, PATIENCE_MS) && f.fs.fg.nr_regions == 1,
	   "it does not stay for words below a task's stack pointer, nor for others");
	end();
}

static void end_engine(void)
{
	f.engine->ops->end(f.engine, NULL, NULL);
}

/* The guest ends with a vCPU in the middle of a record. */
static void test_end(void)
{
	struct ring_writer writer;
	uint32_t kfree;

	begin_running();
	kfree = fake_exitless_place(&f, FAKE_KFREE);
	f.fs.fg.vcpus[2].sregs.halted = false;
	fake_exitless_record(&f, 2, kfree, 1);
	writer = fake_exitless_writer(&f, 2);
	ring_writer_reserve(&writer, f.x->set.places[kfree].layout.size);
	fake_exitless_record(&f, 1, kfree, 2);
	end_engine();
	is_u64(f.nr_hits, 2, "at the guest's end all whole records are emitted");
	is_u64(fake_exitless_count(&f, 2, COUNTER_RING_DAMAGED) +
		       fake_exitless_count(&f, 2, COUNTER_RING_DROPS),
	       0, "a record that the guest's end cuts off is not lost");
	is_u64(fake_exitless_count(&f, 2, COUNTER_RING_RECORDS), 1,
	       "a record that is cut off is not counted");
	end();
}

/* Text that cannot be put back at the guest's end is said, and all other text is put back. */
static void test_end_fails(void)
{
	struct patch_outcome outcome = {0};
	struct error err = {0};

	begin_running();
	f.fs.fg.failing_gpa = FAKE_PHYS_TEXT + FAKE_KFREE;
	ok(f.engine->ops->end(f.engine, &outcome, &err) == -EIO && err.code == EIO &&
		   outcome.failed == 1 && outcome.restored,
	   "text that cannot be put back at the guest's end is an error: %s", err.text);
	f.fs.fg.failing_gpa = 0;
	ok(!patch_plan_revert(&f.plan, &f.fs.fg.kernel, NULL, NULL) &&
		   !memcmp(fake_text(&f.fs.fg, 0), f.fs.text, sizeof(f.fs.text)),
	   "it can be tried again");
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

/* A guest that could not be stopped. */
static void test_end_running(void)
{
	begin();
	f.config.emit = write_another;
	run();
	ring_engine_stop_thread(f.x);
	for (unsigned int i = 0; i < AT_END; i++)
		fake_exitless_record(&f, i % 2, fake_exitless_place(&f, FAKE_KFREE), i);
	end_engine();
	is_u64(f.nr_hits, AT_END,
	       "of a guest that goes on writing, what was there at the end is emitted");
	end();
}

int main(void)
{
	test_come_and_go();
	test_guests_without();
	test_no_room();
	test_small_room();
	test_mapping_fails();
	test_text_fails();
	test_toggling();
	test_waits_for_vcpu();
	test_does_not_wait();
	test_paused();
	test_preempted();
	test_stays_inside();
	test_end();
	test_end_fails();
	test_end_running();
	return tap_done();
}
