/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registers of a stopped domain's vCPUs. Each vCPU is read once per stop. */
#include <errno.h>
#include <string.h>
#include "vmm/libvirt/backend/internal.h"

int libvirt_guest_read_states(struct libvirt_guest *g, struct error *err)
{
	int ret = 0;

	if (!g->have_states)
		ret = libvirt_read_registers(g->domain, g->states, g->guest.nr_vcpus, err);
	g->have_states = !ret;
	return ret;
}

/* The gdbstub does not report which vCPUs are halted, nor which exist. An empty slot is given
 * registers, too: those of a vCPU that was never started. */
static bool is_empty_slot(struct libvirt_guest *g, unsigned int vcpu)
{
	return !libvirt_guest_read_states(g, NULL) && !libvirt_vcpu_exists(&g->states[vcpu]);
}

int libvirt_guest_read_registers(struct libvirt_guest *g, unsigned int vcpu, struct error *err)
{
	int ret;

	if (vcpu >= g->guest.nr_vcpus)
		return error_set(err, EINVAL, "there is no vCPU %u", vcpu);
	if (g->have_registers[vcpu])
		return 0;
	ret = libvirt_guest_open_stub(g, err);
	if (!ret)
		ret = rsp_registers(&g->stub.rsp, vcpu, &g->registers[vcpu], err);
	if (ret == -EFAULT && is_empty_slot(g, vcpu)) {
		g->registers[vcpu] = (struct rsp_registers){0};
		ret = 0;
	}
	g->have_registers[vcpu] = !ret;
	return ret;
}

int libvirt_guest_get_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
			   struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int ret = libvirt_guest_read_registers(g, vcpu, err);

	if (!ret)
		*out = g->registers[vcpu].regs;
	return ret;
}

/* Under KVM, QEMU reads each vCPU in its own thread. Under emulation registers may be outdated, but
 * CPL and halt state are always exact. */
void libvirt_guest_sample_idle(struct guest *guest, bool *outside)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	struct guest_sregs states[LIBVIRT_MAX_VCPUS];

	if (libvirt_read_registers(g->domain, states, guest->nr_vcpus, NULL))
		return;
	for (unsigned int i = 0; i < guest->nr_vcpus; i++)
		outside[i] |=
			states[i].cpl == 3 || states[i].halted || !libvirt_vcpu_exists(&states[i]);
}

int libvirt_guest_get_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			    struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int ret = libvirt_guest_read_registers(g, vcpu, err);

	if (!ret)
		ret = libvirt_guest_read_states(g, err);
	if (ret)
		return ret;
	*out = g->registers[vcpu].sregs;
	out->halted = g->states[vcpu].halted;
	return 0;
}
