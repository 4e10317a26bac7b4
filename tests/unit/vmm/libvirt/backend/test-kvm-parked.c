/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints of a KVM domain that its administrator suspends: its memory may be saved, so that it
 * has its own bytes meanwhile.
 */
#include "tests/unit/vmm/libvirt/backend/kvm-breaks-fixture.h"

static bool is_parked(struct fixture *f)
{
	return are_out(f) && !libvirt_guest_holds_breaks(f->g) &&
	       !libvirt_guest_check_breaks(f->g, NULL);
}

/* All are set, and the administrator has suspended the domain. */
static void park_all(struct fixture *f)
{
	if (set_all(f, true))
		abort();
	fake_qemu_suspend(f->qemu);
	await(f, is_parked);
}

static bool is_back(struct fixture *f)
{
	return are_in(f) && f->gaps == 1 && libvirt_guest_holds_breaks(f->g) &&
	       fake_qemu_runs(f->qemu);
}

/* The administrator suspends the domain: its memory may be saved. `cr3`: of the vCPUs then. */
static void test_parked(uint64_t cr3, uint32_t cs)
{
	struct fixture f;

	set_up(&f, cr3, cs);
	if (set_all(&f, true))
		abort();
	fake_qemu_suspend(f.qemu);
	ok(await(&f, is_parked) && !fake_qemu_runs(f.qemu),
	   "a domain that is suspended has its own bytes, and stays suspended");
	clock_wait_ms(300);
	ok(is_parked(&f) && !fake_qemu_runs(f.qemu) && !f.gaps, "as long as it is");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "when it is resumed the breakpoints are put back");
	ok(hit(&f, 0, 1) && hit(&f, 1, 0) && !has_failed(&f), "and served");
	end_trace(&f);
}

/* --- while libvirt answers nothing ------------------------------------------------------------ */

static void *stop_and_resume(void *arg)
{
	struct fixture *f = arg;
	struct guest *guest = libvirt_guest(f->g);

	if (!guest->control->stop(guest, NULL))
		guest->control->resume(guest, NULL);
	return NULL;
}

static bool is_waited_for(struct fixture *f)
{
	return fake_qemu_nr_waiting(f->qemu);
}

/* libvirt stops the domain to save it, and someone waits for libvirt then. */
static void save(struct fixture *f, const char *who)
{
	ok(await(f, is_waited_for), "%s waits for libvirt, which is busy", who);
	fake_qemu_suspend(f->qemu);
	ok(await(f, is_parked), "a domain that is saved meanwhile has its own bytes");
	fake_qemu_set_busy_libvirtd(f->qemu, false);
}

static void test_busy_at_stop(void)
{
	struct fixture f;
	pthread_t thread;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	fake_qemu_set_busy_libvirtd(f.qemu, true);
	if (pthread_create(&thread, NULL, stop_and_resume, &f))
		abort();
	save(&f, "a stop");
	pthread_join(thread, NULL);
	ok(is_parked(&f) && !fake_qemu_runs(f.qemu) && !has_failed(&f),
	   "the stop finds it suspended, and leaves it alone");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "when it is resumed the breakpoints are put back");
	end_trace(&f);
}

/* The administrator suspends the domain after a stop has found it running: the gdbstub's notice of
 * that answers the stop. */
static void test_suspended_at_stop(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	fake_qemu_cross(f.qemu, FAKE_SUSPEND);
	stop_and_resume(&f);
	ok(is_parked(&f) && !fake_qemu_runs(f.qemu) && !has_failed(&f),
	   "a domain that is suspended at the moment of a stop has its own bytes");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "when it is resumed the breakpoints are put back");
	end_trace(&f);
}

/* `hits`: before; without, a look after a while without any. */
static void test_busy_at_look(unsigned int hits)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	fake_qemu_set_busy_libvirtd(f.qemu, true);
	for (unsigned int i = 0; i < hits; i++)
		hit(&f, 0, i % PLACES);
	ok(f.hits == hits && !has_failed(&f), "%u hits are served", hits);
	save(&f, "the thread that asks");
	ok(!fake_qemu_runs(f.qemu) && !has_failed(&f), "and stays suspended");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "when it is resumed the breakpoints are put back");
	end_trace(&f);
}

/* --- several who stop the domain ------------------------------------------------------------- */

enum { STOPPERS = 3, ROUNDS = 40 };

static _Atomic unsigned int nr_running; /* while a thread held the domain stopped */

static void *stop_often(void *arg)
{
	struct fixture *f = arg;
	struct guest *guest = libvirt_guest(f->g);

	for (int i = 0; i < ROUNDS; i++) {
		if (guest->control->stop(guest, NULL)) {
			nr_running++;
			continue;
		}
		nr_running += fake_qemu_runs(f->qemu);
		guest->control->resume(guest, NULL);
	}
	return NULL;
}

/* Each asks libvirt while another one may stop the domain. */
static void test_stoppers(void)
{
	pthread_t threads[STOPPERS];
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_all(&f, true))
		abort();
	for (int i = 0; i < STOPPERS; i++)
		if (pthread_create(&threads[i], NULL, stop_often, &f))
			abort();
	for (unsigned int i = 0; i < ROUNDS; i++)
		hit(&f, i % 2, i % PLACES);
	for (int i = 0; i < STOPPERS; i++)
		pthread_join(threads[i], NULL);
	ok(!nr_running && !has_failed(&f), "%d threads stop the domain %d times each", STOPPERS,
	   ROUNDS);
	ok(fake_qemu_runs(f.qemu) && f.hits >= ROUNDS, "in between it runs, and hits are served");
	end_trace(&f);
}

static bool is_parked_and_runs(struct fixture *f)
{
	return is_parked(f) && fake_qemu_runs(f->qemu) && !has_failed(f);
}

/* When the domain is resumed, its vCPUs are in the kernel's first instructions, with the page
 * tables of user mode. */
static void test_put_back_later(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	park_all(&f);
	fake_qemu_be_kvm(f.qemu, USER_CR3, KERNEL_CS);
	fake_qemu_resume(f.qemu);
	clock_wait_ms(300);
	ok(await(&f, is_parked_and_runs) && !f.gaps,
	   "a domain whose page tables do not map the kernel runs on without breakpoints");
	fake_qemu_be_kvm(f.qemu, USER_CR3, USER_CS);
	ok(await(&f, is_back) && f.gap_ns > 300000000,
	   "they are put back when it can be done, and all of the time is a gap");
	end_trace(&f);
}

/* The gdbstub refuses to set CR3 `times` times, when a breakpoint that was parked is put back and
 * the vCPU should get its own page tables back. The connection stays. */
static void test_refused_loan(unsigned int times)
{
	struct guest *guest;
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	guest = libvirt_guest(f.g);
	park_all(&f);
	f.fault = FAKE_REFUSE;
	f.spare = 1;
	f.times = times;
	f.refuse = "P1d";
	fake_qemu_resume(f.qemu);
	ok(await(&f, has_failed), "a loan that cannot be ended at once ends the trace");
	if (times == 1) {
		ok(await(&f, runs_with_own_tables), "the guest goes on with its own page tables");
	} else {
		ok(!fake_qemu_runs(f.qemu) && journal_has_loan(&f),
		   "a guest whose vCPU has borrowed page tables does not go on");
		f.refuse = NULL;
		ok(!libvirt_guest_stop(guest, NULL) && !libvirt_guest_resume(guest, NULL) &&
			   runs_with_own_tables(&f),
		   "it does when the gdbstub gives the vCPU its own back");
	}
	ok(are_out(&f), "without breakpoints, which are served no longer");
	end_trace(&f);
}

/* While breakpoints are parked others are set and taken out. */
static void test_set_while_parked(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	if (set_one(&f, 0, true))
		abort();
	fake_qemu_suspend(f.qemu);
	for (int i = 0; i < PATIENCE_MS && fake_qemu_breaks(f.qemu); i++)
		clock_wait_ms(1);
	ok(!set_one(&f, 1, true) && are_out(&f) && !fake_qemu_runs(f.qemu),
	   "a breakpoint of a suspended domain is not in its memory yet");
	fake_qemu_resume(f.qemu);
	ok(await(&f, is_back), "it is when the domain runs");
	end_trace(&f);
	set_up(&f, KERNEL_CR3, KERNEL_CS);
	fake_qemu_suspend(f.qemu);
	ok(!set_all(&f, true) && are_out(&f) && is_parked(&f),
	   "the first breakpoints of a suspended domain wait until it runs");
	fake_qemu_resume(f.qemu);
	ok(await(&f, are_in), "then they are in its memory");
	end_trace(&f);
}

/* The guest changes its code while the breakpoints are parked. */
static void test_changed(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	park_all(&f);
	set_byte(&f, 1, 0x90);
	fake_qemu_resume(f.qemu);
	ok(await(&f, has_failed), "a guest that has changed its code ends the trace");
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f.qemu); i++)
		clock_wait_ms(1);
	ok(fake_qemu_runs(f.qemu) && byte_of(&f, 0) == OWN && byte_of(&f, 1) == 0x90 &&
		   !fake_qemu_breaks(f.qemu),
	   "it keeps its byte, no other breakpoint is put back, and it runs");
	ok(!libvirt_guest_check_breaks(f.g, NULL), "nothing is left to be taken out");
	tear_down(&f);
}

/* A place whose own byte is that of a breakpoint. */
static void test_own_int3(void)
{
	struct fixture f;

	set_up(&f, USER_CR3, USER_CS);
	set_byte(&f, 0, INT3);
	if (set_all(&f, true))
		abort();
	fake_qemu_suspend(f.qemu);
	for (int i = 0; i < PATIENCE_MS && libvirt_guest_holds_breaks(f.g); i++)
		clock_wait_ms(1);
	ok(byte_of(&f, 0) == INT3 && byte_of(&f, 1) == OWN + 1,
	   "an INT3 of the guest's own stays where it was");
	fake_qemu_resume(f.qemu);
	tear_down(&f);
}

/* The gdbstub fails when the second breakpoint is put back: all or none. */
static void test_half_back(void)
{
	struct fixture f;

	set_up(&f, KERNEL_CR3, KERNEL_CS);
	park_all(&f);
	f.spare = 1;
	f.refuse = "Z0";
	fake_qemu_resume(f.qemu);
	ok(await(&f, has_failed), "a gdbstub that fails meanwhile ends the trace");
	for (int i = 0; i < PATIENCE_MS && !fake_qemu_runs(f.qemu); i++)
		clock_wait_ms(1);
	ok(await(&f, are_out) && fake_qemu_runs(f.qemu),
	   "the guest runs with its own bytes, all of them");
	tear_down(&f);
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	test_parked(KERNEL_CR3, KERNEL_CS);
	test_parked(USER_CR3, USER_CS);
	test_put_back_later();
	test_refused_loan(1);
	test_refused_loan(1000);
	test_set_while_parked();
	test_changed();
	test_own_int3();
	test_half_back();
	test_suspended_at_stop();
	test_stoppers();
	test_busy_at_stop();
	test_busy_at_look(0);
	test_busy_at_look(20);
	return tap_done();
}
