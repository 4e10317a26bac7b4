// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * scratch KERNEL INITRD LOG: boot a guest whose initramfs prints "scratch-test: ready", runs
 * tests/workload/clock.c, prints "scratch-test: clock read" and stays busy. Its console goes to
 * LOG. Prints TAP.
 *
 * While the guest boots and runs, scratch memory is mapped beside its kernel and unmapped again,
 * each time with other memory at the same addresses. Each vCPU is redirected from the idle loop
 * through code in that memory. A stale TLB entry would lead to memory that has been unmapped.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "introspect/kernel/scratch-mapping.h"
#include "introspect/tasks/percpu.h"
#include "tests/guest/scratch-clock.h"
#include "tests/guest/scratch-stub.h"
#include "tests/lib/tap.h"
#include "vmm/loop/event-loop.h"
#include "vmm/machine/vm.h"

enum {
	VCPUS = 2,
	ROUNDS = 20,
	TICK_MS = 10,
	BOOT_TICK_MS = 100, /* stopping an emulated guest is expensive */
	SECONDS_MAX = 200,
	LOG_MAX = 1 << 20,
	SIZE = 3 * KERNEL_MAP_CHUNK,
	CODE_SIZE = 4 * KERNEL_MAP_PAGE, /* in a mixed chunk */
	RFLAGS_IF = 1 << 9,
};

/* Large pages, and page tables. */
static const struct scratch_part layouts[2][2] = {
	{{0, KERNEL_MAP_CHUNK, true}, {KERNEL_MAP_CHUNK, KERNEL_MAP_CHUNK, false}},
	{{KERNEL_MAP_PAGE, CODE_SIZE, true},
	 {KERNEL_MAP_PAGE + CODE_SIZE, KERNEL_MAP_CHUNK, false}},
};

enum state { BOOTING, WAITING, RUNNING, READING_CLOCK };

struct test {
	struct event_loop *loop;
	struct vm *vm;
	struct guest *guest;
	struct kernel_image *image;
	struct kernel kernel;
	const char *log_path;
	char log[LOG_MAX];
	enum state state;
	struct event_source *timer;
	struct timespec started;
	unsigned int round, not_yet;
	bool failed;

	struct guest_region region, other;
	struct scratch_mapping mapping;
	const struct scratch_part *parts;
	uint64_t last_gva, last_gpa;
	bool sent[VCPUS], back[VCPUS];
	uint64_t sent_ns[VCPUS];
	int32_t cpu_number;
	struct percpu_task task;
	struct tsc_clock clocks[VCPUS];
};

static struct test test;

static bool check(int rc, const struct error *err, const char *what)
{
	if (rc) {
		ok(false, "round %u: %s: %s", test.round, what, err->text);
		test.failed = true;
	}
	return !rc;
}

static bool expect(bool pass, const char *what)
{
	if (!pass) {
		ok(false, "round %u: %s", test.round, what);
		test.failed = true;
	}
	return pass;
}

/* In every other round a second region comes first, so that the same addresses get other memory. */
static bool add_regions(void)
{
	struct error err;

	return (test.round % 2 == 0 ||
		check(test.guest->scratch->add(test.guest, KERNEL_MAP_CHUNK, &test.other, &err),
		      &err, "a second region of scratch memory is added")) &&
	       check(test.guest->scratch->add(test.guest, SIZE, &test.region, &err), &err,
		     "scratch memory is added");
}

static bool remove_regions(void)
{
	struct error err;

	return check(test.guest->scratch->remove(test.guest, &test.region, &err), &err,
		     "scratch memory is removed") &&
	       (test.round % 2 == 0 ||
		check(test.guest->scratch->remove(test.guest, &test.other, &err), &err,
		      "the second region of scratch memory is removed"));
}

static bool may(uint64_t gva, bool write, bool execute)
{
	struct page_walk walk;

	return !kernel_walk(&test.kernel, gva, &walk, NULL) && walk.writable == write &&
	       walk.executable == execute && !walk.user;
}

static bool check_permissions(void)
{
	uint64_t gva = test.mapping.gva;
	bool right = true;

	for (int i = 0; i < 2; i++) {
		const struct scratch_part *part = &test.parts[i];

		right &= may(gva + part->offset, !part->executable, part->executable) &&
			 may(gva + part->offset + part->size - 1, !part->executable,
			     part->executable);
	}
	return expect(right, "code is not writable, data is not executable");
}

/* Guest stopped. */
static bool start_round(void)
{
	struct error err;

	memset(test.sent, 0, sizeof(test.sent));
	memset(test.back, 0, sizeof(test.back));
	test.parts = layouts[test.round / 2 % 2];
	if (!add_regions() || !check(scratch_mapping_create(&test.kernel, &test.region, test.parts,
							    2, &test.mapping, &err),
				     &err, "scratch memory is mapped"))
		return false;
	if (!check_permissions() ||
	    !expect(!test.round || test.mapping.gva == test.last_gva,
		    "the mapping has the addresses of the last round") ||
	    !expect(!test.round || test.region.gpa != test.last_gpa,
		    "the mapping has other memory than in the last round"))
		return false;
	test.last_gva = test.mapping.gva;
	test.last_gpa = test.region.gpa;
	return check(percpu_cpu_number(&test.kernel, &test.cpu_number, &err), &err,
		     "the per-CPU variable with the CPU number is found") &&
	       check(percpu_current_task(&test.kernel, &test.task, &err), &err,
		     "the per-CPU variable with the current task is found");
}

static bool is_idle(unsigned int vcpu, struct guest_regs *regs)
{
	struct guest_sregs sregs;

	test.guest->control->get_regs(test.guest, vcpu, regs, NULL);
	test.guest->control->get_sregs(test.guest, vcpu, &sregs, NULL);
	return sregs.cpl == 0 && (regs->rflags & RFLAGS_IF) &&
	       kernel_in_image(&test.kernel, regs->rip) && sregs.halted;
}

static struct stub_slot *slot_of(unsigned int vcpu)
{
	return (struct stub_slot *)(test.region.hva + test.parts[1].offset) + vcpu;
}

static void send_vcpu(unsigned int vcpu)
{
	uint64_t code = test.parts[0].offset + vcpu * STUB_SIZE;
	struct guest_regs regs;
	struct stub stub;

	if (!is_idle(vcpu, &regs))
		return;
	stub = (struct stub){
		.gva = test.mapping.gva + code,
		.slot = test.mapping.gva + test.parts[1].offset + vcpu * sizeof(struct stub_slot),
		.back = regs.rip,
		.cpu_number = test.cpu_number,
		.current_task = test.task.displacement,
		.round = test.round + 1,
	};
	stub_write(&stub, test.region.hva + code);
	regs.rip = stub.gva;
	test.guest->control->set_regs(test.guest, vcpu, &regs, NULL);
	test.sent[vcpu] = true;
	test.sent_ns[vcpu] = test.guest->clock->now_ns(test.guest);
}

/* Check what the stub has stored. The name of the idle task has the CPU's number. */
static void check_slot(unsigned int vcpu)
{
	const struct stub_slot *slot = slot_of(vcpu);
	uint64_t ns = tsc_clock_ns(&test.clocks[vcpu], slot->tsc);
	char comm[16] = "", want[16];
	uint32_t pid = 1;

	snprintf(want, sizeof(want), "swapper/%u", vcpu);
	kernel_read_string(&test.kernel, slot->task + test.task.comm, comm, sizeof(comm), NULL);
	kernel_read(&test.kernel, slot->task + test.task.pid, &pid, sizeof(pid), NULL);
	expect(slot->runs == 1 && slot->round == test.round + 1, "each vCPU runs the stub once");
	expect(slot->cpu == vcpu, "the stub reads the number of its vCPU");
	expect(!strcmp(comm, want) && pid == 0, "the stub reads the current task");
	expect(ns >= test.sent_ns[vcpu] && ns <= test.guest->clock->now_ns(test.guest),
	       "the time stamp of the stub lies between redirection and check");
}

/*
 * A vCPU that waits in the idle loop again has left the stub for good. Being elsewhere is not
 * enough: an interrupt may come before the stub's last jump, and its handler returns there. In the
 * testbed one came between `sti` and the jump; on hardware, an NMI may.
 */
static void see_whether_back(unsigned int vcpu)
{
	struct guest_regs regs;

	if (test.sent[vcpu] && slot_of(vcpu)->runs && is_idle(vcpu, &regs))
		test.back[vcpu] = true;
}

static bool all_came_back(void)
{
	for (unsigned int i = 0; i < VCPUS; i++)
		if (!test.back[i])
			return false;
	return true;
}

/* Guest stopped. */
static void finish_round(void)
{
	struct page_walk walk;
	struct error err;

	for (unsigned int i = 0; i < VCPUS; i++)
		check_slot(i);
	if (check(scratch_mapping_remove(&test.mapping, &err), &err, "scratch memory is unmapped"))
		remove_regions();
	expect(kernel_walk(&test.kernel, test.last_gva + test.parts[0].offset, &walk, NULL) ==
		       -EFAULT,
	       "the address is not mapped after unmapping");
	test.round++;
}

static void get_clocks(void)
{
	struct error err;

	for (unsigned int i = 0; i < VCPUS; i++)
		check(test.guest->clock->tsc_clock(test.guest, i, &test.clocks[i], &err), &err,
		      "the clock of a vCPU is read");
}

/* Guest stopped; at any moment of its boot. */
static int try_mapping(struct error *err)
{
	struct guest_region region;
	struct scratch_mapping mapping;
	int rc = test.guest->scratch->add(test.guest, SIZE, &region, err);

	if (rc)
		return rc;
	rc = scratch_mapping_create(&test.kernel, &region, layouts[0], 2, &mapping, err);
	if (!rc)
		rc = scratch_mapping_remove(&mapping, err);
	test.guest->scratch->remove(test.guest, &region, NULL);
	return rc;
}

static bool log_has(const char *text)
{
	FILE *file = fopen(test.log_path, "r");
	size_t n = file ? fread(test.log, 1, LOG_MAX - 1, file) : 0;

	test.log[n] = '\0';
	if (file)
		fclose(file);
	return strstr(test.log, text);
}

static void boot_tick(void)
{
	struct error err;
	int rc = try_mapping(&err);

	test.not_yet += rc == -EAGAIN;
	if (rc == -EAGAIN)
		return;
	if (check(rc, &err, "scratch memory is mapped while the guest boots"))
		tap_diag("mapping was refused %u times as too early; then the kernel %s",
			 test.not_yet, log_has("scratch-test") ? "was up" : "was still booting");
	test.state = WAITING;
}

static void round_tick(void)
{
	if (!test.mapping.size && !start_round())
		return;
	for (unsigned int i = 0; i < VCPUS; i++) {
		see_whether_back(i);
		if (!test.sent[i])
			send_vcpu(i);
	}
	if (all_came_back())
		finish_round();
	if (test.round == ROUNDS)
		test.state = READING_CLOCK;
}

static long seconds_up(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - test.started.tv_sec;
}

static void on_tick(void *arg)
{
	(void)arg;
	test.guest->control->stop(test.guest, NULL);
	if (test.state == BOOTING) {
		boot_tick();
	} else if (test.state == WAITING && log_has("scratch-test: ready")) {
		get_clocks();
		clock_check_kvmclock(&test.kernel, test.clocks);
		test.state = RUNNING;
	} else if (test.state == RUNNING) {
		round_tick();
	} else if (test.state == READING_CLOCK && log_has("scratch-test: clock read")) {
		clock_check_log(&test.kernel, test.clocks, test.log);
		vm_request_end(test.vm, VM_END_QUIT);
	}
	test.guest->control->resume(test.guest, NULL);
	if (test.failed || seconds_up() > SECONDS_MAX)
		vm_request_end(test.vm, VM_END_FAILED);
	event_timer_arm(test.timer, test.state == RUNNING ? TICK_MS : BOOT_TICK_MS);
}

static void try_before_first_instruction(void)
{
	const struct boot_info *boot = vm_boot_info(test.vm);
	struct error err;

	test.guest = vm_guest(test.vm);
	kernel_at(&test.kernel, test.guest, test.image, boot->virt_slide, boot->phys_text);
	ok(try_mapping(&err) == -EAGAIN,
	   "mapping before the first instruction is refused with EAGAIN");
	tap_diag("%s", err.text);
}

static int load_image(const char *path, struct error *err)
{
	struct kernel_file *file;
	int rc = kernel_file_open(path, &file, err);

	if (rc)
		return rc;
	rc = kernel_image_load(file, NULL, &test.image, err);
	kernel_file_close(file);
	return rc;
}

static int run(const char *kernel, const char *initrd, struct error *err)
{
	const struct vm_config config = {
		.boot = {.kernel = kernel,
			 .initrd = initrd,
			 .cmdline = "console=ttyS0 cryptomgr.notests panic=-1 printk.time=1 printk.devkmsg=on quiet "
				    "loglevel=5",
			 .mode = BOOT_DIRECT,
			 .has_kaslr_seed = true,
			 .kaslr_seed = 7},
		.ram_mib = 256,
		.nr_vcpus = VCPUS,
		.console = test.log_path,
	};
	int rc = load_image(kernel, err);

	if (!rc)
		rc = event_loop_create(&test.loop, err);
	if (!rc)
		rc = vm_create(&config, test.loop, &test.vm, err);
	if (!rc)
		try_before_first_instruction();
	if (!rc)
		rc = event_loop_add_timer(test.loop, 0, on_tick, NULL, &test.timer, err);
	if (!rc)
		rc = vm_start(test.vm, err);
	if (rc)
		return rc;
	clock_gettime(CLOCK_MONOTONIC, &test.started);
	event_timer_arm(test.timer, BOOT_TICK_MS);
	event_loop_run(test.loop);
	event_source_remove(test.timer);
	vm_finish(test.vm);
	return 0;
}

int main(int argc, char **argv)
{
	struct error err = {0};

	if (argc != 4)
		return 2;
	test.log_path = argv[3];
	if (!ok(!run(argv[1], argv[2], &err), "the guest is created and started"))
		tap_diag("%s", err.text);
	ok(test.round == ROUNDS, "the guest made %u of %d rounds", test.round, ROUNDS);
	ok(test.vm && vm_end_reason(test.vm) == VM_END_QUIT,
	   "the guest ran until the test ended it");
	vm_destroy(test.vm);
	event_loop_destroy(test.loop);
	kernel_image_destroy(test.image);
	return tap_done();
}
