/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How hits are served: what QEMU and libvirt are asked for meanwhile, and what is left behind. */
#include <dirent.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/libvirt/backend/traps-fixture.h"

enum {
	PACE_HITS = 8, /* of serve.c */
	WATCH_MS = 500,
	LATE_MS = 50,
	IDLE_MS = 600,
};

static _Atomic unsigned int register_reads;

static enum fake_fault count_reads(void *arg, const char *packet)
{
	(void)arg;
	if (!strcmp(packet, "g"))
		register_reads++;
	return FAKE_OBEY;
}

/* Each read takes time in which no vCPU runs. */
static void test_named(void)
{
	struct fixture f;

	set_up_domain(&f);
	fake_qemu_set_fault(f.qemu, count_reads, NULL);
	register_reads = 0;
	ok(hit(&f, 1, 0), "a hit is served");
	is_u64(register_reads, 2, "if QEMU names its vCPU, no other's registers are read");
	fake_qemu_set_fault(f.qemu, NULL, NULL);
	tear_down(&f);
}

static bool await_queries(struct fixture *f, unsigned int n)
{
	for (int i = 0; i < PATIENCE_MS && fake_qemu_status_queries(f->qemu) < n; i++)
		clock_wait_ms(1);
	return fake_qemu_status_queries(f->qemu) >= n;
}

/* Each hit is two events for libvirt, before which it takes up no command. */
static void test_pace(void)
{
	enum { PACES = 4 };
	const uint64_t begin = clock_monotonic_ms();
	unsigned int before, n;
	bool paced = true;
	struct fixture f;

	set_up_domain(&f);
	before = fake_qemu_status_queries(f.qemu);
	for (unsigned int i = 1; paced && i <= PACES * PACE_HITS; i++) {
		paced = hit(&f, 0, i % PLACES);
		if (paced && i % PACE_HITS == 0)
			paced = await_queries(&f, before + i / PACE_HITS);
	}
	ok(paced, "libvirt is waited for after every %d hits", PACE_HITS);
	n = fake_qemu_status_queries(f.qemu) - before;
	ok(n <= PACES + (clock_monotonic_ms() - begin) / WATCH_MS,
	   "and not more often: asked %u times", n);
	tear_down(&f);
}

static void test_idle(void)
{
	unsigned int before, n;
	struct fixture f;
	uint64_t begin;

	set_up_domain(&f);
	begin = clock_monotonic_ms();
	before = fake_qemu_status_queries(f.qemu);
	clock_wait_ms(IDLE_MS);
	n = fake_qemu_status_queries(f.qemu) - before;
	ok(n <= 1 + (clock_monotonic_ms() - begin) / WATCH_MS,
	   "without hits the run state is asked for each %d ms: asked %u times", WATCH_MS, n);
	tear_down(&f);
}

/* What follows would be read from a guest that runs. */
static void test_late_stop(void)
{
	struct fixture f;

	set_up_domain(&f);
	fake_qemu_be_late(f.qemu, LATE_MS);
	ok(!libvirt_guest_stop(libvirt_guest(f.g), NULL) && !fake_qemu_runs(f.qemu),
	   "a stop by the gdbstub returns when the domain has stopped, not before");
	ok(!libvirt_guest_resume(libvirt_guest(f.g), NULL) && hit(&f, 0, 0) && !failed(&f, NULL),
	   "the domain runs on, and hits are served");
	tear_down(&f);
}

static unsigned int count(const char *path)
{
	DIR *folder = opendir(path);
	unsigned int n = 0;

	while (folder && readdir(folder))
		n++;
	if (!folder)
		abort();
	closedir(folder);
	return n;
}

static void test_end(void)
{
	const unsigned int threads = count("/proc/self/task"), fds = count("/proc/self/fd");
	struct fixture f;

	set_up_domain(&f);
	ok(hit(&f, 0, 0) && count("/proc/self/task") > threads, "a thread serves hits");
	tear_down(&f);
	is_u64(count("/proc/self/task"), threads, "it has ended when the guest is destroyed");
	is_u64(count("/proc/self/fd"), fds, "and nothing is left open");
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_named();
	test_pace();
	test_idle();
	test_late_stop();
	test_end();
	return tap_done();
}
