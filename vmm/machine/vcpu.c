/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/machine/vcpu.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KICK_SIGNAL = SIGUSR1, STACK_SIZE = 256 * 1024 };

static void do_nothing(int signal_number)
{
	(void)signal_number;
}

void vcpu_install_kick_signal(void)
{
	/* No SA_RESTART: the signal has to end KVM_RUN. */
	struct sigaction action = {.sa_handler = do_nothing};

	sigaction(KICK_SIGNAL, &action, NULL);
}

static void set_immediate_exit(struct vcpu *vcpu, uint8_t value)
{
	__atomic_store_n(&vcpu->run->immediate_exit, value, __ATOMIC_SEQ_CST);
}

void vcpu_kick(struct vcpu *vcpu)
{
	/* The flag stops a thread that is about to enter the guest, the signal one that has
	 * entered. */
	set_immediate_exit(vcpu, 1);
	if (vcpu->has_thread)
		pthread_kill(vcpu->thread, KICK_SIGNAL);
}

static void kick_member(void *arg)
{
	vcpu_kick(arg);
}

int vcpu_init(struct vcpu *vcpu, struct vcpu_group *group, unsigned int index, struct error *err)
{
	void *run;

	*vcpu = (struct vcpu){.group = group, .index = index};
	vcpu->fd = ioctl(group->kvm.vm_fd, KVM_CREATE_VCPU, index);
	if (vcpu->fd < 0)
		return error_set(err, errno, "KVM: cannot create vCPU %u: %s", index,
				 strerror(errno));
	run = mmap(NULL, group->kvm.run_size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
	if (run == MAP_FAILED)
		return error_set(err, errno, "KVM: cannot map the state of vCPU %u: %s", index,
				 strerror(errno));
	vcpu->run = run;
	vcpu->run->kvm_valid_regs = KVM_SYNC_X86_REGS;
	vcpu->member.kick = kick_member;
	vcpu->member.arg = vcpu;
	stop_gate_add(&group->gate, &vcpu->member);
	return 0;
}

void vcpu_deinit(struct vcpu *vcpu)
{
	if (vcpu->run)
		munmap(vcpu->run, vcpu->group->kvm.run_size);
	if (vcpu->fd > 0)
		close(vcpu->fd);
	*vcpu = (struct vcpu){.fd = -1};
}

static enum vcpu_exit fail(struct vcpu *vcpu, const char *what, uint64_t detail)
{
	struct error err;

	error_set_at(&err, EIO, vcpu->run->s.regs.regs.rip, "KVM: vCPU %u: %s (%#llx)", vcpu->index,
		     what, (unsigned long long)detail);
	vcpu->group->on.fail(vcpu->group->owner, &err);
	return VCPU_EXIT_OVER;
}

static void do_port_io(struct vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;
	uint8_t *data = (uint8_t *)run + run->io.data_offset;
	unsigned int size = run->io.size;

	/* A repeated string instruction delivers several items at once, all for one port. */
	for (uint32_t i = 0; i < run->io.count; i++, data += size) {
		if (run->io.direction == KVM_EXIT_IO_OUT)
			bus_write(&vcpu->group->ports, run->io.port, data, size);
		else
			bus_read(&vcpu->group->ports, run->io.port, data, size);
	}
}

static enum vcpu_exit handle_port_io(struct vcpu *vcpu)
{
	const struct kvm_run *run = vcpu->run;

	vcpu->io_pending = true;
	if (run->io.port == GUEST_TRAP_PORT && run->io.direction == KVM_EXIT_IO_OUT &&
	    vcpu_take_trap(vcpu))
		return VCPU_EXIT_HANDLED;
	do_port_io(vcpu);
	return vcpu->group->on.port_io(vcpu->group->owner) ? VCPU_EXIT_OVER : VCPU_EXIT_HANDLED;
}

static enum vcpu_exit handle_mmio(struct vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;

	vcpu->io_pending = true;
	if (run->mmio.is_write)
		bus_write(&vcpu->group->mmio, run->mmio.phys_addr, run->mmio.data, run->mmio.len);
	else
		bus_read(&vcpu->group->mmio, run->mmio.phys_addr, run->mmio.data, run->mmio.len);
	return VCPU_EXIT_HANDLED;
}

static enum vcpu_exit handle_exit(struct vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;

	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		return handle_port_io(vcpu);
	case KVM_EXIT_MMIO:
		return handle_mmio(vcpu);
	case KVM_EXIT_INTR:
		return VCPU_EXIT_INTERRUPTED;
	case KVM_EXIT_SHUTDOWN:
		vcpu->group->on.triple_fault(vcpu->group->owner);
		return VCPU_EXIT_OVER;
	case KVM_EXIT_FAIL_ENTRY:
		return fail(vcpu, "the processor refused to enter the guest",
			    run->fail_entry.hardware_entry_failure_reason);
	case KVM_EXIT_INTERNAL_ERROR:
		return fail(vcpu, "KVM cannot emulate the guest's instruction",
			    run->internal.suberror);
	default:
		return fail(vcpu, "unexpected exit", run->exit_reason);
	}
}

static int do_run(struct vcpu *vcpu)
{
	int ret = ioctl(vcpu->fd, KVM_RUN, 0);

	atomic_store_explicit(&vcpu->exits,
			      atomic_load_explicit(&vcpu->exits, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return ret < 0 ? -errno : 0;
}

enum vcpu_exit vcpu_enter(struct vcpu *vcpu)
{
	int ret = do_run(vcpu);

	vcpu->io_pending = false;
	if (ret == -EINTR || ret == -EAGAIN)
		return VCPU_EXIT_INTERRUPTED;
	if (ret < 0)
		return fail(vcpu, strerror(-ret), (uint64_t)-ret);
	return handle_exit(vcpu);
}

void vcpu_complete_io(struct vcpu *vcpu)
{
	while (vcpu->io_pending) {
		set_immediate_exit(vcpu, 1);
		/* Memory I/O may come in pieces, and each is an exit of its own. */
		if (vcpu_enter(vcpu) == VCPU_EXIT_OVER)
			return;
	}
}

static void run_guest(struct vcpu *vcpu)
{
	struct vcpu_group *group = vcpu->group;
	enum vcpu_exit last = VCPU_EXIT_HANDLED;

	while (last != VCPU_EXIT_OVER && !atomic_load(&group->ending)) {
		/* In this order: a kick after the check sets the flag again. */
		set_immediate_exit(vcpu, 0);
		if (atomic_load(&group->ending))
			break;
		if (stop_gate_requested(&group->gate)) {
			vcpu_complete_io(vcpu);
			stop_gate_park(&vcpu->member);
			continue;
		}
		last = vcpu_enter(vcpu);
	}
}

/*
 * On the exit of an OUT, RIP is behind the instruction with KVM of Linux before 5.1 and some of its
 * relatives; the others skip it later. Find out which, before the first instruction of the guest,
 * with a stub in a page that the boot protocol leaves free. The stub is cleared afterwards.
 */
static bool probe_trap_rip(struct vcpu *vcpu)
{
	static const uint8_t stub[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};
	uint8_t *page = guest_memory_at(&vcpu->group->memory, BOOT_STUB_GPA, sizeof(stub));
	const struct kvm_run *run = vcpu->run;
	struct guest_regs boot_regs, regs;
	int ret;

	vcpu_get_regs(vcpu, &boot_regs);
	regs = boot_regs;
	regs.rip = BOOT_STUB_GPA;
	memcpy(page, stub, sizeof(stub));
	vcpu_set_regs(vcpu, &regs);
	do {
		set_immediate_exit(vcpu, 0);
		ret = do_run(vcpu);
	} while (ret == -EINTR || ret == -EAGAIN);
	if (ret < 0 || run->exit_reason != KVM_EXIT_IO || run->io.port != GUEST_TRAP_PORT) {
		fail(vcpu, "the guest cannot execute an OUT instruction", run->exit_reason);
		return false;
	}
	vcpu->group->trap_rip_bias = run->s.regs.regs.rip - BOOT_STUB_GPA;
	vcpu->io_pending = true;
	vcpu_complete_io(vcpu);
	memset(page, 0, sizeof(stub));
	vcpu_set_regs(vcpu, &boot_regs);
	return true;
}

static void *vcpu_thread(void *arg)
{
	struct vcpu *vcpu = arg;

	atomic_store(&vcpu->tid, gettid());
	stop_gate_enter(&vcpu->member);
	/* The other vCPUs wait for this one to start them. */
	if (vcpu->index > 0 || probe_trap_rip(vcpu))
		run_guest(vcpu);
	vcpu_complete_io(vcpu);
	stop_gate_leave(&vcpu->member);
	return NULL;
}

int vcpu_start(struct vcpu *vcpu, struct error *err)
{
	char name[16]; /* TASK_COMM_LEN of Linux */
	pthread_attr_t attr;
	sigset_t all, old;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	/* Signals to the process are for the event loop; only the kick interrupts this thread. */
	sigfillset(&all);
	sigdelset(&all, KICK_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&vcpu->thread, &attr, vcpu_thread, vcpu);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (ret)
		return error_set(err, ret, "cannot start the thread of vCPU %u: %s", vcpu->index,
				 strerror(ret));
	snprintf(name, sizeof(name), "sonde-vcpu%u", vcpu->index);
	pthread_setname_np(vcpu->thread, name);
	vcpu->has_thread = true;
	return 0;
}

void vcpu_join(struct vcpu *vcpu)
{
	if (!vcpu->has_thread)
		return;
	pthread_join(vcpu->thread, NULL);
	vcpu->has_thread = false;
}
