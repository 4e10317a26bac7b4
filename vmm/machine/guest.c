/* SPDX-License-Identifier: GPL-2.0-or-later */
/* struct guest (introspect/guest/guest.h) of a machine of this VMM. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include "vmm/machine/internal.h"

static struct vm *vm_of(struct guest *guest)
{
	return (struct vm *)guest;
}

/* NULL, with the error, if there is no such vCPU. */
static struct vcpu *get_vcpu(struct guest *guest, unsigned int index, struct error *err)
{
	struct vm *vm = vm_of(guest);

	if (index < vm->group.nr_vcpus)
		return &vm->vcpus[index];
	error_set(err, EINVAL, "there is no vCPU %u", index);
	return NULL;
}

static int regions(struct guest *guest, const struct guest_region **out, size_t *n,
		   struct error *err)
{
	(void)err;
	*out = vm_of(guest)->scratch.regions;
	*n = __atomic_load_n(&vm_of(guest)->scratch.nr_regions, __ATOMIC_ACQUIRE);
	return 0;
}

static int get_regs(struct guest *guest, unsigned int index, struct guest_regs *out,
		    struct error *err)
{
	struct vcpu *vcpu = get_vcpu(guest, index, err);

	if (!vcpu)
		return -EINVAL;
	vcpu_get_regs(vcpu, out);
	return 0;
}

static int set_regs(struct guest *guest, unsigned int index, const struct guest_regs *regs,
		    struct error *err)
{
	struct vcpu *vcpu = get_vcpu(guest, index, err);

	if (!vcpu)
		return -EINVAL;
	vcpu_set_regs(vcpu, regs);
	return 0;
}

static int get_sregs(struct guest *guest, unsigned int index, struct guest_sregs *out,
		     struct error *err)
{
	struct vcpu *vcpu = get_vcpu(guest, index, err);

	return !vcpu ? -EINVAL : vcpu_get_sregs(vcpu, out, err);
}

static int stop(struct guest *guest, struct error *err)
{
	(void)err;
	stop_gate_stop(&vm_of(guest)->group.gate);
	return 0;
}

static int try_stop(struct guest *guest, struct error *err)
{
	if (stop_gate_try_stop(&vm_of(guest)->group.gate))
		return 0;
	return error_set(err, EBUSY, "another thread has stopped the guest");
}

static int resume(struct guest *guest, struct error *err)
{
	if (!stop_gate_is_mine(&vm_of(guest)->group.gate))
		return error_set(err, EPERM, "resume of a guest that this thread did not stop");
	stop_gate_resume(&vm_of(guest)->group.gate);
	return 0;
}

static bool is_stopped(struct guest *guest)
{
	return stop_gate_requested(&vm_of(guest)->group.gate);
}

static bool is_handling(struct vm *vm)
{
	for (unsigned int i = 0; i < vm->group.nr_vcpus; i++) {
		if (atomic_load(&vm->vcpus[i].in_trap))
			return true;
	}
	return false;
}

static int set_trap_handler(struct guest *guest, guest_trap_fn *fn, void *arg, struct error *err)
{
	struct vm *vm = vm_of(guest);
	bool mine = stop_gate_is_mine(&vm->group.gate);

	atomic_store(&vm->group.trap_fn, NULL);
	/* Handlers are short, but one may be waiting for the stop that the caller holds. */
	while (is_handling(vm)) {
		if (mine)
			return error_set(err, EDEADLK,
					 "a trap handler waits for the caller to resume the guest");
		sched_yield();
	}
	vm->group.trap_arg = arg;
	atomic_store(&vm->group.trap_fn, fn);
	return 0;
}

static uint64_t clock_ns(struct guest *guest)
{
	return trace_clock_ns(&vm_of(guest)->group.clock);
}

static uint64_t tsc(struct guest *guest)
{
	return trace_clock_tsc(&vm_of(guest)->group.clock);
}

static int get_tsc_clock(struct guest *guest, unsigned int index, struct tsc_clock *out,
			 struct error *err)
{
	struct vcpu *vcpu = get_vcpu(guest, index, err);

	return !vcpu ? -EINVAL
		     : trace_clock_of_vcpu(&vm_of(guest)->group.clock, index, vcpu->fd, out, err);
}

static int add_scratch(struct guest *guest, size_t size, struct guest_region *out,
		       struct error *err)
{
	return scratch_memory_add(&vm_of(guest)->scratch, size, out, err);
}

static int remove_scratch(struct guest *guest, const struct guest_region *region, struct error *err)
{
	return scratch_memory_remove(&vm_of(guest)->scratch, region, err);
}

static const struct guest_memory_ops memory_ops = {.regions = regions};
static const struct guest_control_ops control_ops = {
	.stop = stop,
	.resume = resume,
	.try_stop = try_stop,
	.is_stopped = is_stopped,
	.get_regs = get_regs,
	.set_regs = set_regs,
	.get_sregs = get_sregs,
};
static const struct guest_trap_ops trap_ops = {.set_handler = set_trap_handler};
static const struct guest_clock_ops clock_ops = {
	.now_ns = clock_ns, .tsc = tsc, .tsc_clock = get_tsc_clock};
static const struct guest_scratch_ops scratch_ops = {.add = add_scratch, .remove = remove_scratch};

const struct guest vmm_guest = {
	.name = "kvm",
	.memory = &memory_ops,
	.control = &control_ops,
	.traps = &trap_ops,
	.clock = &clock_ops,
	.scratch = &scratch_ops,
};
