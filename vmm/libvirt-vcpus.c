/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registers of a stopped domain's vCPUs, each read once per stop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vmm/libvirt-guest-internal.h"

int libvirt_guest_read_registers(struct libvirt_guest *g, unsigned int vcpu, struct error *err)
{
	int rc;

	if (vcpu >= g->guest.nr_vcpus)
		return error_set(err, EINVAL, "there is no vCPU %u", vcpu);
	if (g->have_registers[vcpu])
		return 0;
	rc = libvirt_guest_open_stub(g, err);
	if (!rc)
		rc = rsp_registers(&g->stub.rsp, vcpu, &g->registers[vcpu], err);
	g->have_registers[vcpu] = !rc;
	return rc;
}

int libvirt_guest_get_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
			   struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int rc = libvirt_guest_read_registers(g, vcpu, err);

	if (!rc)
		*out = g->registers[vcpu].regs;
	return rc;
}

static int ask_states(struct libvirt_guest *g, struct libvirt_vcpu_state *out, struct error *err)
{
	char *reply;
	int rc = libvirt_hmp(g->domain, "info registers -a", &reply, err);

	if (rc)
		return rc;
	rc = libvirt_reply_vcpus(reply, strlen(reply), out, g->guest.nr_vcpus, err);
	free(reply);
	return rc;
}

/* Of who is halted the gdbstub does not tell. */
static int read_states(struct libvirt_guest *g, struct error *err)
{
	int rc = g->have_states ? 0 : ask_states(g, g->states, err);

	g->have_states = !rc;
	return rc;
}

/* QEMU looks at each vCPU in its own thread (KVM), or at what it keeps exact all the time: level
 * and halt (emulation; registers may be old there). */
void libvirt_guest_seen_outside(struct guest *guest, bool *outside)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	struct libvirt_vcpu_state states[LIBVIRT_MAX_VCPUS];

	if (ask_states(g, states, NULL))
		return;
	for (unsigned int i = 0; i < guest->nr_vcpus; i++)
		outside[i] |= states[i].user || states[i].halted;
}

int libvirt_guest_get_sregs(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			    struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	int rc = libvirt_guest_read_registers(g, vcpu, err);

	if (!rc)
		rc = read_states(g, err);
	if (rc)
		return rc;
	*out = g->registers[vcpu].sregs;
	out->halted = g->states[vcpu].halted;
	return 0;
}
