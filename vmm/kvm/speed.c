/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine for the samples has one page of memory, and one vCPU in real mode that counts down
 * and halts. */
#include "vmm/kvm/speed.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "formats/base/clock.h"

enum {
	CODE_GPA = 0x1000,
	CODE_SIZE = 0x1000,
	FIRST_LOOPS = 2000,
	MAX_LOOPS = 1 << 28,
	LOOPS_FACTOR = 4,
	SAMPLE_NS = 500000,
	INSTRUCTIONS_PER_LOOP = 2,
	MAX_ENTRIES = 1000,
};

static const uint8_t code[] = {
	0x66, 0x49, /* 1: dec %ecx */
	0x75, 0xfc, /*    jnz 1b */
	0xf4,       /*    hlt */
};

struct counter {
	int vm_fd, vcpu_fd;
	struct kvm_run *run;
	size_t run_size;
	uint8_t *memory;
};

static void counter_deinit(struct counter *counter)
{
	if (counter->run != MAP_FAILED)
		munmap(counter->run, counter->run_size);
	if (counter->vcpu_fd >= 0)
		close(counter->vcpu_fd);
	if (counter->vm_fd >= 0)
		close(counter->vm_fd);
	if (counter->memory != MAP_FAILED)
		munmap(counter->memory, CODE_SIZE);
}

static bool counter_init(struct counter *counter, const struct kvm *kvm)
{
	struct kvm_userspace_memory_region region = {.guest_phys_addr = CODE_GPA,
						     .memory_size = CODE_SIZE};

	*counter = (struct counter){.vm_fd = -1,
				    .vcpu_fd = -1,
				    .run = MAP_FAILED,
				    .run_size = kvm->run_size,
				    .memory = MAP_FAILED};
	counter->memory =
		mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counter->memory == MAP_FAILED)
		return false;
	memcpy(counter->memory, code, sizeof(code));
	region.userspace_addr = (uintptr_t)counter->memory;
	counter->vm_fd = ioctl(kvm->fd, KVM_CREATE_VM, 0);
	if (counter->vm_fd < 0 || ioctl(counter->vm_fd, KVM_SET_TSS_ADDR, kvm_private_gpa) < 0 ||
	    ioctl(counter->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return false;
	counter->vcpu_fd = ioctl(counter->vm_fd, KVM_CREATE_VCPU, 0);
	if (counter->vcpu_fd < 0)
		return false;
	counter->run = mmap(NULL, counter->run_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			    counter->vcpu_fd, 0);
	return counter->run != MAP_FAILED;
}

static bool set_state(const struct counter *counter, uint32_t loops)
{
	struct kvm_regs regs = {.rip = CODE_GPA, .rcx = loops, .rflags = 2};
	struct kvm_sregs sregs;

	if (ioctl(counter->vcpu_fd, KVM_GET_SREGS, &sregs) < 0)
		return false;
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	return ioctl(counter->vcpu_fd, KVM_SET_SREGS, &sregs) == 0 &&
	       ioctl(counter->vcpu_fd, KVM_SET_REGS, &regs) == 0;
}

/* Nanoseconds that this number of rounds takes, 0 if the vCPU does not get to its HLT. */
static uint64_t time_loops(const struct counter *counter, uint32_t loops)
{
	uint64_t start;

	if (!set_state(counter, loops))
		return 0;
	start = clock_monotonic_ns();
	for (int i = 0; i < MAX_ENTRIES; i++) {
		int ret = ioctl(counter->vcpu_fd, KVM_RUN, 0);

		if (ret < 0 && errno != EINTR)
			return 0;
		if (ret == 0)
			return counter->run->exit_reason == KVM_EXIT_HLT
				       ? clock_monotonic_ns() - start + 1
				       : 0;
	}
	return 0;
}

void kvm_speed_init(struct kvm_speed *speed)
{
	*speed = (struct kvm_speed){.loops = FIRST_LOOPS};
}

bool kvm_speed_add(struct kvm_speed *speed, uint64_t ns, uint64_t enough)
{
	uint64_t per_second = (uint64_t)speed->loops * INSTRUCTIONS_PER_LOOP * KVM_NANOSECONDS / ns;

	if (per_second > speed->best)
		speed->best = per_second;
	if (speed->best >= enough)
		return false;
	/* In a short one most of the time goes to entering the guest. */
	if (ns < SAMPLE_NS && speed->loops <= MAX_LOOPS / LOOPS_FACTOR)
		speed->loops *= LOOPS_FACTOR;
	else
		speed->samples++;
	return speed->samples < KVM_SPEED_SAMPLES;
}

int kvm_measure_speed(const struct kvm *kvm, uint64_t enough, uint64_t *per_second,
		      struct error *err)
{
	struct counter counter;
	struct kvm_speed speed;
	uint64_t ns;
	int ret = 0;

	errno = 0;
	if (!counter_init(&counter, kvm)) {
		ret = error_set(err, errno, "KVM cannot create a virtual machine: %s",
				strerror(errno));
		goto out;
	}
	kvm_speed_init(&speed);
	do {
		ns = time_loops(&counter, speed.loops);
	} while (ns && kvm_speed_add(&speed, ns, enough));
	*per_second = speed.best;
	if (!ns)
		ret = error_set(err, EIO, "KVM cannot run a loop of three instructions");
out:
	counter_deinit(&counter);
	return ret;
}

int kvm_check_speed(uint64_t per_second, struct error *err)
{
	if (per_second >= KVM_MIN_SPEED)
		return 0;
	return error_set(err, ENOTSUP,
			 "/dev/kvm is not backed by hardware: a guest gets %.1f million "
			 "instructions a second, too slow and incomplete for Linux; 'sonde run "
			 "--force' tries nevertheless",
			 (double)per_second / 1e6);
}
