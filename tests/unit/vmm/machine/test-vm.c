/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine with a kernel of a few instructions: traps, stops. Any /dev/kvm will do, also one that
 * could not run Linux.
 */
#include "vmm/machine/vm.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "tests/lib/tiny-kernel.h"
#include "vmm/loop/event-loop.h"
#include "vmm/kvm/kvm.h"

/* Sites are 5 bytes apart. The counter is at `counter`; the loop ends when RBX is set. */
asm(".pushsection .rodata\n"
    "guest_code:\n"
    "	xor %eax, %eax\n"
    "	xor %ebx, %ebx\n"
    "	xor %ecx, %ecx\n"
    "guest_skip:	out %al, $0xe4\n	nop\n	nop\n	nop\n"
    "guest_again:	out %al, $0xe4\n	nop\n	nop\n	nop\n"
    "guest_check:	out %al, $0xe4\n	nop\n	nop\n	nop\n"
    "guest_loop:	incq guest_counter(%rip)\n"
    "	out %al, $0x80\n"
    "	test %ebx, %ebx\n"
    "	jz guest_loop\n"
    "	mov $0x604, %edx\n"
    "	mov $0x3400, %eax\n"
    "	out %ax, %dx\n"
    "guest_dead:	incq guest_counter(%rip)\n	jmp guest_dead\n"
    "	.balign 8\n"
    "guest_counter:	.quad 0\n"
    "guest_end:\n"
    "	.popsection\n");
extern const uint8_t guest_code[], guest_skip[], guest_again[], guest_check[], guest_loop[],
	guest_counter[], guest_end[];

enum { SITE_SIZE = 5, MARK = 41 };

static struct event_loop *loop;
static struct vm *vm;
static struct guest *guest;
static uint8_t *base; /* host address of guest_code */
static uint64_t base_gpa;
static unsigned int seen_skip, seen_again, seen_check, seen_other;
static uint64_t check_rcx, check_rbx, last_time;
static bool time_went_back;

static uint64_t offset_of(const uint8_t *label)
{
	return (uint64_t)(label - guest_code);
}

static bool own_registers_work;

/* In a handler, the vCPU's registers are those of the trap. */
static void test_own_registers(struct guest_trap *trap)
{
	struct guest_regs regs;

	guest->control->get_regs(guest, trap->vcpu, &regs, NULL);
	own_registers_work = regs.rip == trap->regs.rip;
	regs.r15 = MARK;
	guest->control->set_regs(guest, trap->vcpu, &regs, NULL);
	own_registers_work &= trap->regs.r15 == MARK;
}

/* Orders what handlers write and what the test reads, which waits for the guest's counter. */
static atomic_uint traps_taken;

static bool on_trap(void *arg, struct guest_trap *trap)
{
	uint64_t at = trap->regs.rip - base_gpa;

	(void)arg;
	time_went_back |= trap->time_ns < last_time;
	last_time = trap->time_ns;
	if (at == offset_of(guest_skip)) {
		seen_skip++;
		trap->regs.rip += SITE_SIZE;
		trap->regs.rcx = MARK;
	} else if (at == offset_of(guest_again)) {
		/* Stays where it is: what is there now is executed. */
		seen_again++;
		memcpy(base + at, "\x66\x90", 2);
	} else if (at == offset_of(guest_check)) {
		seen_check++;
		check_rcx = trap->regs.rcx;
		check_rbx = trap->regs.rbx;
		test_own_registers(trap);
		/* A stop from within a handler: the own vCPU counts as stopped. */
		guest->control->stop(guest, NULL);
		guest->control->resume(guest, NULL);
		trap->regs.rip += SITE_SIZE;
	} else {
		seen_other++;
	}
	traps_taken++;
	return true;
}

static uint64_t counter(void)
{
	return __atomic_load_n((uint64_t *)(base + offset_of(guest_counter)), __ATOMIC_SEQ_CST);
}

static bool wait_until_counting(void)
{
	uint64_t before = counter();

	for (int i = 0; i < 5000 && counter() < before + 3; i++)
		usleep(1000);
	return counter() >= before + 3 && traps_taken;
}

static int build(void)
{
	const struct tiny_kernel kernel = {.code = guest_code,
					   .size = (size_t)(guest_end - guest_code)};
	char path[64];
	struct vm_config config = {.boot = {.kernel = path, .cmdline = ""},
				   .ram_mib = 64,
				   .nr_vcpus = 3,
				   .no_console = true,
				   .force = true};
	struct error err = {0};
	int rc;

	if (tiny_kernel_write(&kernel, path) < 0)
		return -1;
	rc = event_loop_create(&loop, &err);
	if (!rc)
		rc = vm_create(&config, loop, &vm, &err);
	unlink(path);
	if (rc)
		tap_diag("%s", err.text);
	return rc;
}

static void test_traps(void)
{
	ok(wait_until_counting(), "the guest gets past all traps into its loop");
	ok(seen_skip == 1 && seen_again == 1 && seen_check == 1 && !seen_other,
	   "each trap calls the handler once, at its own address");
	ok(own_registers_work, "a handler reads and sets the registers of its trap");
	is_u64(check_rbx, 0, "registers that a handler does not change stay");
	is_u64(check_rcx, MARK, "a register that a handler sets is set in the guest");
	ok(!time_went_back && last_time, "the times of traps do not go back");
}

static void test_stop(void)
{
	struct guest_regs regs;
	uint64_t before;

	is_u64((uint64_t)guest->control->stop(guest, NULL), 0,
	       "the guest can be stopped while two vCPUs wait for start-up");
	guest->control->stop(guest, NULL);
	guest->control->resume(guest, NULL);
	before = counter();
	usleep(30000);
	is_u64(counter(), before,
	       "no vCPU runs while the guest is stopped, nor after a nested resume");
	guest->control->get_regs(guest, 0, &regs, NULL);
	ok(regs.rip - base_gpa < offset_of(guest_counter),
	   "RIP of the stopped vCPU is in the loop");
	guest->control->resume(guest, NULL);
	ok(wait_until_counting(), "the guest goes on after a resume");
	is_u64((uint64_t)-guest->control->resume(guest, NULL), EPERM,
	       "a resume without a stop is refused");
}

static void *stop_elsewhere(void *arg)
{
	struct error err = {0};
	int *ret = arg;

	*ret = guest->control->try_stop(guest, &err);
	if (!*ret)
		guest->control->resume(guest, NULL);
	return NULL;
}

static int try_in_thread(void)
{
	pthread_t thread;
	int ret = 0;

	pthread_create(&thread, NULL, stop_elsewhere, &ret);
	pthread_join(thread, NULL);
	return ret;
}

static void test_try_stop(void)
{
	is_u64((uint64_t)guest->control->try_stop(guest, NULL), 0,
	       "the guest can be stopped if no other thread holds it");
	ok(guest->control->is_stopped(guest),
	   "a guest that try_stop has stopped is known to be stopped");
	is_u64((uint64_t)-try_in_thread(), EBUSY, "another thread is told that the guest is held");
	guest->control->resume(guest, NULL);
	ok(!guest->control->is_stopped(guest), "after the resume the guest is known to run");
	is_u64((uint64_t)try_in_thread(), 0, "another thread can stop a guest that runs");
}

static void test_special_registers(void)
{
	struct guest_sregs first, second;

	guest->control->stop(guest, NULL);
	is_u64((uint64_t)guest->control->get_sregs(guest, 0, &first, NULL), 0,
	       "special registers can be read");
	ok(first.cr0 >> 31 == 1 && first.cr3 == BOOT_PML4_GPA && first.cr4 & 0x20 && !first.cpl,
	   "the first vCPU is in long mode, on the boot page tables");
	guest->control->get_sregs(guest, 1, &second, NULL);
	ok(!first.halted && second.halted, "the second vCPU waits for its start-up");
	is_u64((uint64_t)-guest->control->get_sregs(guest, 3, &second, NULL), EINVAL,
	       "a vCPU that does not exist has no special registers");
	guest->control->resume(guest, NULL);
}

static void test_pause(void)
{
	uint64_t before;

	is_u64((uint64_t)vm_pause(vm, NULL), 0, "the guest can be paused");
	is_str(vm_status_name(vm_status(vm)), "paused", "the status is then \"paused\"");
	is_u64((uint64_t)-vm_pause(vm, NULL), EALREADY, "a second pause is refused");
	before = counter();
	guest->control->stop(guest, NULL);
	guest->control->resume(guest, NULL);
	usleep(20000);
	is_u64(counter(), before, "a stop and resume do not end a pause");
	is_u64((uint64_t)vm_resume(vm, NULL), 0, "the pause can be ended");
	ok(wait_until_counting(), "the guest goes on after a pause");
}

static size_t count_regions(void)
{
	const struct guest_region *regions;
	size_t n;

	guest->memory->regions(guest, &regions, &n, NULL);
	return n;
}

static void test_scratch(void)
{
	enum { SIZE = 2 << 20, MAX = 4 };
	struct guest_region scratch[MAX + 1] = {{0}};
	size_t before = count_regions();
	uint64_t word = 0;
	bool added = true;

	if (!(guest->caps & GUEST_CAP_SCRATCH)) {
		tap_skip("scratch memory", "no physical addresses left above 4 GiB");
		return;
	}
	guest->control->stop(guest, NULL);
	ok(guest->scratch->add(guest, 4096, &scratch[0], NULL) == -EINVAL &&
		   guest->scratch->add(guest, 0, &scratch[0], NULL) == -EINVAL &&
		   guest->scratch->add(guest, (size_t)SIZE << 12, &scratch[0], NULL) == -EINVAL,
	   "scratch memory of a wrong size is refused");
	for (int i = 0; i < MAX; i++)
		added &= !guest->scratch->add(guest, SIZE, &scratch[i], NULL);
	ok(added, "four regions of scratch memory can be added");
	ok(guest->scratch->add(guest, SIZE, &scratch[MAX], NULL) == -ENOSPC,
	   "a fifth region is refused");
	ok(scratch[0].gpa >= 1ull << 32 && scratch[0].gpa % SIZE == 0,
	   "scratch memory is above RAM and 2 MiB-aligned");
	ok(guest_phys_hva(guest, scratch[2].gpa + SIZE - 8, 8) == scratch[2].hva + SIZE - 8 &&
		   !guest_phys_hva(guest, scratch[2].gpa + SIZE - 8, 16),
	   "guest-physical access reaches scratch memory and ends with it");
	scratch[1].hva[5] = MARK;
	ok(!guest->scratch->remove(guest, &scratch[1], NULL) &&
		   guest_phys_read(guest, scratch[1].gpa, &word, 8, NULL) == -EFAULT,
	   "removed scratch memory cannot be read any more");
	is_u64((uint64_t)-guest->scratch->remove(guest, &scratch[1], NULL), ENOENT,
	       "a region cannot be removed twice");
	ok(!guest->scratch->add(guest, SIZE, &scratch[MAX], NULL) &&
		   scratch[MAX].gpa == scratch[1].gpa && scratch[MAX].hva[5] == 0,
	   "the place of a removed region is used again, with zeros");
	for (int i = 0; i < MAX; i++)
		added &= !guest->scratch->remove(guest, &scratch[i], NULL);
	ok(added && count_regions() == before, "after removing all regions only RAM is left");
	guest->control->resume(guest, NULL);
	ok(wait_until_counting(), "the guest goes on after scratch memory is removed");
}

/* What a vCPU reads from its TSC, converted, is the time at which it did. */
static void test_tsc_clock(void)
{
	struct tsc_clock clock, again;
	struct error err = {0};
	uint64_t before, stamp, after;
	int rc;

	guest->control->stop(guest, NULL);
	rc = guest->clock->tsc_clock(guest, 0, &clock, &err);
	if (rc == -ENOTSUP) {
		tap_skip("vCPUs' time stamps", err.text);
	} else {
		before = guest->clock->now_ns(guest);
		stamp = tsc_clock_ns(&clock, guest->clock->tsc(guest));
		after = guest->clock->now_ns(guest);
		ok(!rc && before <= stamp && stamp <= after,
		   "a converted TSC reading is between two readings of the trace clock");
		usleep(20000);
		ok(!guest->clock->tsc_clock(guest, 0, &again, NULL),
		   "a conversion can be requested again");
		stamp = tsc_clock_ns(&again, clock.tsc0) - tsc_clock_ns(&clock, clock.tsc0);
		ok(stamp < 1000000, "the second conversion is the same clock (%llu ns ahead)",
		   (unsigned long long)stamp);
		ok(guest->clock->now_ns(guest) >= after + 20000000, "the trace clock goes on");
	}
	is_u64((uint64_t)-guest->clock->tsc_clock(guest, 3, &clock, NULL), EINVAL,
	       "the conversion of a vCPU that does not exist is refused");
	guest->control->resume(guest, NULL);
}

/* A handler that wants to stop the guest, which the main thread holds. */
static atomic_bool handler_entered;

static bool stopping_handler(void *arg, struct guest_trap *trap)
{
	(void)arg;
	atomic_store(&handler_entered, true);
	while (!guest->control->is_stopped(guest))
		usleep(100);
	guest->control->stop(guest, NULL);
	guest->control->resume(guest, NULL);
	trap->regs.rip = base_gpa + offset_of(guest_loop);
	return true;
}

static void test_removing_handler(void)
{
	struct guest_regs regs;
	int held, free;

	guest->control->stop(guest, NULL);
	guest->traps->set_handler(guest, stopping_handler, NULL, NULL);
	memcpy(base + offset_of(guest_again), (uint8_t[]){0xe6, GUEST_TRAP_PORT}, 2);
	guest->control->get_regs(guest, 0, &regs, NULL);
	regs.rip = base_gpa + offset_of(guest_again);
	guest->control->set_regs(guest, 0, &regs, NULL);
	guest->control->resume(guest, NULL);
	while (!atomic_load(&handler_entered))
		usleep(100);
	guest->control->stop(guest, NULL);
	held = guest->traps->set_handler(guest, NULL, NULL, NULL);
	guest->control->resume(guest, NULL);
	free = guest->traps->set_handler(guest, NULL, NULL, NULL);
	is_u64((uint64_t)-held, EDEADLK, "removing a handler that waits for the caller is refused");
	is_u64((uint64_t)free, 0, "after the resume the handler can be removed");
	ok(wait_until_counting(), "the guest goes on without the handler");
}

static void test_end(void)
{
	struct guest_regs regs;
	uint64_t before;

	guest->traps->set_handler(guest, NULL, NULL, NULL);
	guest->control->stop(guest, NULL);
	guest->control->get_regs(guest, 0, &regs, NULL);
	regs.rbx = 1;
	guest->control->set_regs(guest, 0, &regs, NULL);
	guest->control->resume(guest, NULL);
	is_u64((uint64_t)event_loop_run(loop), VM_END_POWER_OFF,
	       "a guest whose registers were set powers off");
	before = counter();
	usleep(10000);
	is_u64(counter(), before, "a guest that is powered off executes nothing");
	vm_finish(vm);
	is_str(vm_status_name(vm_status(vm)), "shutdown", "the status at the end is \"shutdown\"");
	is_u64((uint64_t)-vm_pause(vm, NULL), EINVAL, "a guest that has ended cannot be paused");
	guest->control->get_regs(guest, 0, &regs, NULL);
	is_u64(regs.rdx, 0x604, "registers can be read after the end");
}

int main(void)
{
	const struct guest_region *regions;
	struct guest_regs regs;
	struct kvm kvm;
	size_t n;

	if (kvm_open(&kvm, NULL) < 0)
		return tap_skip_all("no /dev/kvm");
	kvm_close(&kvm);
	ok(build() == 0, "a machine is created");
	if (!vm)
		return tap_done();
	guest = vm_guest(vm);
	guest->control->get_regs(guest, 0, &regs, NULL);
	base_gpa = regs.rip;
	guest->memory->regions(guest, &regions, &n, NULL);
	base = regions[0].hva + base_gpa;
	guest->traps->set_handler(guest, on_trap, NULL, NULL);
	is_u64((uint64_t)vm_start(vm, NULL), 0, "the machine starts");
	test_traps();
	test_stop();
	test_try_stop();
	test_special_registers();
	test_pause();
	test_scratch();
	test_tsc_clock();
	test_removing_handler();
	test_end();
	vm_destroy(vm);
	event_loop_destroy(loop);
	return tap_done();
}
