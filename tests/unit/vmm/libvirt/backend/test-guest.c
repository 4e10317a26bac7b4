/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A domain as a struct guest: memory, scratch memory, registers, clock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>
#include "formats/base/clock.h"
#include "introspect/guest/control.h"
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/internal.h"

enum { PLACE = 0x3000, PATIENCE_MS = 5000, STOP_AND_GO = 8 /* bytes of a journal's lines */ };

struct fixture {
	struct fake_qemu *qemu;
	struct libvirt_domain domain;
	struct libvirt_journal journal;
	struct libvirt_guest *g;
	struct guest *guest;
};

/* `by_stub`: QEMU's process cannot be found. */
static void set_up(struct fixture *f, bool by_stub)
{
	*f = (struct fixture){.qemu = fake_qemu_create(2),
			      .journal = {.folder = -1,
					  .fd = memfd_create("journal", MFD_CLOEXEC),
					  .compact_at = 1 << 20}};
	f->domain = fake_qemu_domain(f->qemu);
	if (by_stub)
		f->domain.qemu = (struct libvirt_process){.fd = -1, .why = {.text = "no process"}};
	if (libvirt_guest_create(&f->domain, &f->journal, false, &f->g, NULL))
		abort();
	f->guest = libvirt_guest(f->g);
}

static void tear_down(struct fixture *f)
{
	libvirt_guest_destroy(f->g);
	fake_qemu_destroy(f->qemu);
	libvirt_journal_close(&f->journal);
}

static int write_by(guest_write_fn *fn, struct fixture *f, uint64_t gpa, const char *text)
{
	int ret = libvirt_guest_stop(f->guest, NULL);

	if (!ret)
		ret = fn(f->guest, gpa, text, strlen(text), NULL);
	libvirt_guest_resume(f->guest, NULL);
	return ret;
}

static int write_text(struct fixture *f, uint64_t gpa, const char *text)
{
	return write_by(guest_phys_write, f, gpa, text);
}

static void test_memory(bool by_stub)
{
	struct journal_contents contents;
	char now[8] = "";
	struct fixture f;
	off_t size;

	set_up(&f, by_stub);
	memcpy(fake_qemu_ram(f.qemu) + PLACE, "before", 6);
	ok(!guest_phys_read(f.guest, PLACE, now, 6, NULL) && !strcmp(now, "before") &&
		   fake_qemu_runs(f.qemu),
	   "memory is read: %s", libvirt_guest_memory_text(f.g));
	ok(libvirt_guest_is_slow(f.g) == by_stub &&
		   !(f.guest->caps & GUEST_STOPS_TO_READ) == !by_stub,
	   "only the gdbstub stops the guest for that");
	ok(guest_phys_read(f.guest, FAKE_QEMU_RAM - 2, now, 6, NULL) == -EFAULT,
	   "what is not RAM is not read");
	ok(!write_text(&f, PLACE, "behind") &&
		   !memcmp(fake_qemu_ram(f.qemu) + PLACE, "behind", 6) && fake_qemu_runs(f.qemu),
	   "memory is written, with the guest stopped");
	if (libvirt_journal_read(&f.journal, &contents, NULL))
		abort();
	ok(contents.nr_places == 1 && contents.places[0].gpa == PLACE &&
		   !memcmp(contents.places[0].original, "before", 6) && !contents.stopped,
	   "the journal has what was there before");
	journal_contents_deinit(&contents);
	ok(!write_text(&f, PLACE, "behind"), "it is written once");
	size = lseek(f.journal.fd, 0, SEEK_END);
	ok(!write_text(&f, PLACE, "before") &&
		   !memcmp(fake_qemu_ram(f.qemu) + PLACE, "before", 6) && f.journal.nr_back == 1 &&
		   lseek(f.journal.fd, 0, SEEK_END) == size + STOP_AND_GO,
	   "what was there before is written without a line, and the journal knows it");
	ok(guest_phys_write(f.guest, PLACE, "x", 1, NULL) == -EBUSY,
	   "a guest that runs is not written to");
	tear_down(&f);
}

/* Neither the end of tracing nor a recovery takes back what the guest goes on with. */
static void test_given_memory(void)
{
	struct journal_contents contents;
	struct fixture f;

	set_up(&f, false);
	memcpy(fake_qemu_ram(f.qemu) + PLACE, "before", 6);
	ok(!write_by(guest_phys_give, &f, PLACE, "behind") &&
		   !memcmp(fake_qemu_ram(f.qemu) + PLACE, "behind", 6),
	   "the guest is given data of its own");
	if (libvirt_journal_read(&f.journal, &contents, NULL))
		abort();
	ok(!contents.nr_places, "which the journal does not note");
	journal_contents_deinit(&contents);
	ok(guest_phys_give(f.guest, PLACE, "x", 1, NULL) == -EBUSY,
	   "a guest that runs is given nothing");
	tear_down(&f);
}

static enum fake_fault refuse_reads(void *arg, const char *packet)
{
	(void)arg;
	return *packet == 'm' ? FAKE_REFUSE : FAKE_OBEY;
}

/* Of a read that stops the guest, each part may fail. */
static void test_stub_fails(void)
{
	struct error err = {0};
	struct fixture f;
	uint8_t byte;

	set_up(&f, true);
	fake_qemu_set_fault(f.qemu, refuse_reads, NULL);
	ok(guest_phys_read(f.guest, PLACE, &byte, 1, &err) == -EFAULT && err.code == EFAULT &&
		   fake_qemu_runs(f.qemu),
	   "what the gdbstub refuses is not read, and the domain runs on: %s", err.text);
	fake_qemu_set_fault(f.qemu, NULL, NULL);
	fake_qemu_refuse(f.qemu, "cont", 0);
	ok(guest_phys_read(f.guest, PLACE, &byte, 1, &err) < 0 && strstr(err.text, "cont"),
	   "a read behind which the domain does not run on is an error: %s", err.text);
	tear_down(&f);
}

/* Memory modules come and go while the guest is traced. */
static void test_modules(bool by_stub)
{
	struct guest_region scratch = {0};
	const struct guest_region *regions;
	struct error err = {0};
	char now[8] = "";
	struct fixture f;
	size_t n;

	set_up(&f, by_stub);
	memcpy(fake_qemu_set_dimm(f.qemu, true), "module", 6);
	ok(guest_phys_read(f.guest, FAKE_DIMM_GPA, now, 6, &err) == -EFAULT,
	   "memory that was plugged in is not known: %s", err.text);
	if (!by_stub &&
	    (libvirt_guest_plug(f.g, NULL) || f.guest->scratch->add(f.guest, 4096, &scratch, NULL)))
		abort();
	ok(!f.guest->memory->follow(f.guest, NULL) &&
		   !guest_phys_read(f.guest, FAKE_DIMM_GPA, now, 6, &err) && !strcmp(now, "module"),
	   "it is read once QEMU was asked: %s", libvirt_guest_memory_text(f.g));
	f.guest->memory->regions(f.guest, &regions, &n, NULL);
	ok(n == (by_stub ? 2u : 3u) && regions[1].gpa == FAKE_DIMM_GPA &&
		   (by_stub || regions[2].gpa == FAKE_DEVICE_GPA),
	   "it lies in front of the scratch memory");
	fake_qemu_refuse(f.qemu, "info", 0);
	fake_qemu_set_dimm(f.qemu, false);
	ok(f.guest->memory->follow(f.guest, &err) < 0 &&
		   !guest_phys_read(f.guest, PLACE, now, 6, NULL),
	   "if QEMU does not say, what is known stays: %s", err.text);
	fake_qemu_refuse(f.qemu, NULL, 0);
	ok(!f.guest->memory->follow(f.guest, NULL) &&
		   guest_phys_read(f.guest, FAKE_DIMM_GPA, now, 6, NULL) == -EFAULT &&
		   !guest_phys_read(f.guest, PLACE, now, 6, NULL),
	   "memory that was plugged out is no memory any more");
	if (scratch.size) {
		libvirt_guest_stop(f.guest, NULL);
		ok(guest_phys_hva(f.guest, scratch.gpa, 1) &&
			   !f.guest->scratch->remove(f.guest, &scratch, NULL) &&
			   !guest_phys_hva(f.guest, scratch.gpa, 1),
		   "the scratch memory stays until it is taken away");
		libvirt_guest_resume(f.guest, NULL);
	}
	tear_down(&f);
}

static bool is_zero(const uint8_t *memory, size_t size)
{
	return !memory[0] && !memcmp(memory, memory + 1, size - 1);
}

static void test_scratch(void)
{
	struct guest_region scratch = {0};
	const struct guest_region *regions;
	uint8_t *device;
	struct fixture f;
	struct error err;
	size_t before, n;

	set_up(&f, false);
	ok(f.guest->scratch->add(f.guest, 4096, &scratch, &err) == -ENOSPC,
	   "without a device there is no scratch memory: %s", err.text);
	ok(!libvirt_guest_plug(f.g, &err) && f.guest->caps & GUEST_CAP_SCRATCH,
	   "a device is plugged in");
	f.guest->memory->regions(f.guest, &regions, &before, NULL);
	ok(!f.guest->scratch->add(f.guest, 1 << 20, &scratch, &err) && scratch.size == 1 << 20 &&
		   scratch.gpa == FAKE_DEVICE_GPA && scratch.hva,
	   "it has scratch memory");
	f.guest->memory->regions(f.guest, &regions, &n, NULL);
	ok(n == before + 1 && regions[before].gpa == FAKE_DEVICE_GPA, "which is guest memory now");
	ok(f.guest->scratch->add(f.guest, 4096, &scratch, NULL) == -ENOSPC, "once");
	device = fake_qemu_ram(f.qemu) + FAKE_QEMU_RAM;
	memset(device, 0xff, FAKE_DEVICE_BYTES);
	memset(scratch.hva, 0xff, 4096);
	scratch.hva[(1 << 20) - 1] = 1;
	libvirt_guest_stop(f.guest, NULL);
	memset(scratch.hva + 4096, 0x90, 8192);
	ok(!f.guest->scratch->renew(
		   f.guest, &(struct guest_region){scratch.gpa + 5000, 10, scratch.hva + 5000},
		   &err) &&
		   device[5009] == 0x90 && device[5010] == 0xff,
	   "a few bytes of code are written through QEMU, and no more");
	ok(!f.guest->scratch->renew(
		   f.guest, &(struct guest_region){scratch.gpa + 5000, 3000, scratch.hva + 5000},
		   &err) &&
		   device[4999] == 0xff && device[5000] == 0x90 && device[7999] == 0x90 &&
		   device[8000] == 0xff,
	   "code in it is written through QEMU, which forgets its translations of what stood "
	   "there");
	memset(scratch.hva + 4096, 0, 8192);
	memset(device, 0xff, 12288);
	ok(!f.guest->scratch->remove(
		   f.guest, &(struct guest_region){scratch.gpa, 1 << 20, scratch.hva}, &err),
	   "it is taken away");
	libvirt_guest_resume(f.guest, NULL);
	ok(is_zero(device, 4096) && !device[(1 << 20) - 1] && device[1 << 19] == 0xff,
	   "what was written is zeroed through QEMU, and nothing else");
	f.guest->memory->regions(f.guest, &regions, &n, NULL);
	is_u64(n, before, "and is no guest memory any more");
	ok(!libvirt_guest_unplug(f.g, &err) && !fake_qemu_has_device(f.qemu),
	   "the device is plugged out");
	ok(!libvirt_guest_unplug(f.g, &err), "once");
	tear_down(&f);
	set_up(&f, true);
	ok(libvirt_guest_plug(f.g, &err) == -EACCES && !fake_qemu_has_device(f.qemu),
	   "without access to its memory no device is plugged in: %s", err.text);
	tear_down(&f);
}

static void test_vcpus(void)
{
	bool outside[2] = {false, false};
	struct guest_sregs sregs;
	struct guest_regs regs;
	struct fixture f;
	struct error err;

	set_up(&f, false);
	is_u64(libvirt_guest_present_vcpus(f.g), 2, "the domain has two vCPUs");
	fake_qemu_reach(f.qemu, 1, 0x1234);
	f.guest->control->sample_idle(f.guest, outside);
	ok(!outside[0] && outside[1] && fake_qemu_runs(f.qemu),
	   "which vCPU is outside of the kernel is known without a stop");
	ok(f.guest->control->get_regs(f.guest, 1, &regs, &err) == -EBUSY,
	   "the registers of a guest that runs are not");
	libvirt_guest_stop(f.guest, NULL);
	ok(!f.guest->control->get_regs(f.guest, 1, &regs, NULL) && regs.rip == 0x1234,
	   "those of a stopped guest are");
	ok(!f.guest->control->get_sregs(f.guest, 1, &sregs, NULL) && sregs.halted,
	   "and whether a vCPU is halted");
	ok(!f.guest->control->get_sregs(f.guest, 0, &sregs, NULL) && !sregs.halted, "or not");
	ok(f.guest->control->get_regs(f.guest, 2, &regs, &err) == -EINVAL, "there is no third: %s",
	   err.text);
	libvirt_guest_resume(f.guest, NULL);
	tear_down(&f);
}

static void test_clock(void)
{
	struct tsc_clock first, second;
	struct fixture f;
	uint64_t tsc;
	uint64_t ns;

	set_up(&f, false);
	is_u64(f.guest->clock->tsc(f.guest), 0, "without a record the guest's counter is unknown");
	f.guest->clock->tsc_seen(f.guest, __rdtsc());
	ok(f.guest->clock->tsc(f.guest) > 0, "a record shows it");
	ok(!f.guest->clock->tsc_clock(f.guest, 0, &first, NULL) &&
		   !f.guest->clock->tsc_clock(f.guest, 1, &second, NULL) &&
		   !memcmp(&first, &second, sizeof(first)),
	   "all vCPUs have one clock");
	ns = f.guest->clock->now_ns(f.guest);
	usleep(200000);
	ok(f.guest->clock->now_ns(f.guest) - ns > 150000000,
	   "the trace clock goes on while no records come");
	f.guest->clock->tsc_seen(f.guest, __rdtsc());
	libvirt_guest_stop(f.guest, NULL);
	tsc = f.guest->clock->tsc(f.guest);
	usleep(1000);
	is_u64(f.guest->clock->tsc(f.guest), tsc,
	       "the counter stands still while the guest is stopped");
	libvirt_guest_resume(f.guest, NULL);
	tear_down(&f);
}

/* Whatever is known of its counter. */
static void test_clock_with_traps(void)
{
	uint64_t before, now;
	struct fixture f;

	set_up(&f, false);
	if (libvirt_guest_use_traps(f.g, PLACE, PLACE, NULL))
		abort();
	before = clock_monotonic_ns();
	now = f.guest->clock->now_ns(f.guest);
	ok(now >= before && now <= clock_monotonic_ns(),
	   "the trace clock of a guest with breakpoints is the host's");
	tear_down(&f);
}

/* --- without libvirt ---------------------------------------------------------------------------
 */

/* Stopped, with an open gdbstub, when libvirt fails. */
static void set_up_deaf(struct fixture *f)
{
	set_up(f, false);
	if (libvirt_guest_stop(f->guest, NULL) ||
	    guest_phys_write(f->guest, PLACE, "behind", 6, NULL))
		abort();
	fake_qemu_set_dead_libvirtd(f->qemu, true);
}

static void test_no_libvirt(void)
{
	struct fixture f;

	set_up_deaf(&f);
	ok(!libvirt_guest_resume(f.guest, NULL) && fake_qemu_runs(f.qemu),
	   "without libvirt the gdbstub lets the domain go on");
	fake_qemu_set_dead_libvirtd(f.qemu, false);
	tear_down(&f);
	set_up_deaf(&f);
	fake_qemu_kill(f.qemu);
	is_u64((uint64_t)-libvirt_guest_resume(f.guest, NULL), ESRCH,
	       "not one whose QEMU has ended");
	tear_down(&f);
}

/* --- beats ------------------------------------------------------------------------------------ */

struct beats {
	_Atomic unsigned int exposed, idle;
	atomic_bool last; /* exposed */
};

static void on_beat(void *arg, bool exposed)
{
	struct beats *beats = arg;

	beats->exposed += exposed;
	beats->idle += !exposed;
	beats->last = exposed;
}

/* The watchdog kills a tracer whose last beat was an exposed one and that beats no more. */
static void test_last_beat(void)
{
	struct beats beats = {0};
	struct fixture f;

	set_up(&f, false);
	if (libvirt_guest_beat(f.g, on_beat, &beats, NULL))
		abort();
	libvirt_guest_expose(f.g, true);
	for (int ms = 0; ms < PATIENCE_MS && !beats.exposed; ms++)
		usleep(1000);
	ok(beats.exposed && beats.last, "while the guest is patched each beat says so");
	libvirt_guest_expose(f.g, false);
	tear_down(&f);
	ok(beats.idle && !beats.last, "the last beat says that it is patched no longer");
	beats.idle = 0;
	set_up(&f, false);
	if (libvirt_guest_beat(f.g, on_beat, &beats, NULL))
		abort();
	libvirt_guest_expose(f.g, true);
	tear_down(&f);
	is_u64(beats.idle, 0, "no beat says so of a guest that is left patched");
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_memory(false);
	test_memory(true);
	test_modules(false);
	test_modules(true);
	test_given_memory();
	test_stub_fails();
	test_scratch();
	test_vcpus();
	test_clock();
	test_clock_with_traps();
	test_no_libvirt();
	test_last_beat();
	return tap_done();
}
