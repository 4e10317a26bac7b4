/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A domain's breakpoints: which there are to be, and what is done so that QEMU has them.
 *
 * Under emulation QEMU knows them beside the guest's memory. Under KVM it writes INT3 (QEMU 7.2,
 * target/i386/kvm/kvm.c, kvm_arch_insert_sw_breakpoint()), which has two consequences. It finds the
 * place with a vCPU's page tables, and with isolated ones a vCPU in user mode does not see the
 * kernel: if that is so of all, one is lent the kernel's for the moment. And the INT3 would be part
 * of a memory that is saved: so when somebody else stops the domain they are taken out, and put in
 * again when it runs on (they are parked).
 */
#include <errno.h>
#include <string.h>
#include "introspect/guest/page-walk.h"
#include "introspect/guest/control.h"
#include "vmm/libvirt/backend/internal.h"

enum { INT3 = 0xcc };

/* --- which there are ------------------------------------------------------------------------- */

struct libvirt_break *libvirt_find_break(struct libvirt_traps *t, uint64_t gva)
{
	for (size_t i = 0; i < t->nr_breaks; i++)
		if (t->breaks[i].gva == gva)
			return &t->breaks[i];
	return NULL;
}

static struct libvirt_break *get_break(struct libvirt_traps *t, uint64_t gva, uint64_t gpa,
				       struct error *err)
{
	struct libvirt_break *b = libvirt_find_break(t, gva);

	if (b)
		return b;
	if (!t->enabled || t->nr_breaks == LIBVIRT_MAX_BREAKS) {
		error_set_at(err, ENOSPC, gva, "no room for another breakpoint");
		return NULL;
	}
	b = &t->breaks[t->nr_breaks++];
	*b = (struct libvirt_break){.gva = gva, .gpa = gpa};
	return b;
}

/* What will be in the guest's memory, and what was there at first, which must not have changed. */
static int note(struct libvirt_guest *g, struct libvirt_break *b, struct error *err)
{
	static const uint8_t ours = INT3;
	uint8_t before;
	int ret = guest_phys_read(&g->guest, b->gpa, &before, sizeof(before), err);

	if (!ret && b->noted && before != b->before)
		ret = error_set_at(err, ESTALE, b->gva,
				   "the guest changed what a breakpoint is at");
	if (ret || b->noted)
		return ret;
	b->before = before;
	if (g->journal && !g->traps.noted)
		ret = libvirt_journal_breaks(g->journal, err);
	g->traps.noted |= !ret;
	if (g->journal && !ret && g->traps.in_memory)
		ret = libvirt_journal_write(g->journal, b->gpa, &before, &ours, sizeof(ours), err);
	b->noted = !ret;
	return ret;
}

/* --- page tables ----------------------------------------------------------------------------- */

enum { USER_CS = 0x33 }; /* of 64-bit code (arch/x86/include/asm/segment.h) */

static bool shows(struct libvirt_guest *g, unsigned int vcpu, uint64_t cr3,
		  const struct libvirt_break *b)
{
	const struct guest_sregs *sregs = &g->registers[vcpu].sregs;
	struct page_walk walk;

	return vcpu_in_long_mode(sregs) &&
	       !page_walk(&g->guest, cr3, vcpu_paging_levels(sregs), b->gva, &walk, NULL) &&
	       walk.gpa == b->gpa;
}

/* One whose page tables show the kernel, if there is one. */
static int choose_vcpu(struct libvirt_guest *g, const struct libvirt_break *b, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	int ret = 0;

	for (unsigned int i = 0; !ret && !t->chosen && i < g->guest.nr_vcpus; i++) {
		ret = libvirt_guest_read_registers(g, i, err);
		if (ret || !shows(g, i, g->registers[i].sregs.cr3, b))
			continue;
		ret = rsp_choose(&g->stub.rsp, i, err);
		t->chosen = t->sees_kernel = !ret;
	}
	t->chosen = !ret;
	return ret;
}

/* Of 32-bit code the gdbstub sets no more than 32 bits of CR3. */
static bool may_lend(struct libvirt_guest *g, unsigned int vcpu, const struct libvirt_break *b,
		     struct journal_loan *loan)
{
	const struct rsp_registers *r = &g->registers[vcpu];

	*loan = (struct journal_loan){
		.vcpu = vcpu, .cr3 = r->sregs.cr3, .lent = vcpu_kernel_cr3(r->sregs.cr3)};
	return (r->cs == USER_CS || !(loan->cr3 >> 32)) && loan->lent != loan->cr3 &&
	       shows(g, vcpu, loan->lent, b);
}

static bool find_loan(struct libvirt_guest *g, const struct libvirt_break *b,
		      struct journal_loan *loan)
{
	for (unsigned int i = 0; i < g->guest.nr_vcpus; i++)
		if (may_lend(g, i, b, loan))
			return true;
	return false;
}

static int give_back(struct libvirt_guest *g, const struct journal_loan *loan, struct error *err)
{
	int ret = rsp_set_cr3(&g->stub.rsp, loan->vcpu, loan->cr3, err);

	if (!ret && g->journal)
		ret = libvirt_journal_lent(g->journal, err);
	return ret;
}

int libvirt_guest_end_loan(struct libvirt_guest *g, const struct journal_loan *loan,
			   struct error *err)
{
	int ret = loan->vcpu < g->guest.nr_vcpus
			  ? libvirt_guest_read_registers(g, loan->vcpu, err)
			  : error_set(err, EPROTO, "the journal is of another domain");

	if (ret || g->registers[loan->vcpu].sregs.cr3 != loan->lent)
		return ret;
	return rsp_set_cr3(&g->stub.rsp, loan->vcpu, loan->cr3, err);
}

/* --- in QEMU --------------------------------------------------------------------------------- */

static int tell_lent(struct libvirt_guest *g, const struct libvirt_break *b, bool on,
		     struct error *err)
{
	struct rsp *rsp = &g->stub.rsp;
	struct journal_loan loan = {0};
	int ret = 0, back;

	if (!find_loan(g, b, &loan))
		return error_set_at(err, EAGAIN, b->gva,
				    "the page tables of no vCPU show the kernel");
	if (g->journal)
		ret = libvirt_journal_lend(g->journal, &loan, err);
	if (ret)
		return ret;
	g->traps.counts.loans++;
	ret = rsp_set_cr3(rsp, loan.vcpu, loan.lent, err);
	if (!ret)
		ret = rsp_choose(rsp, loan.vcpu, err);
	if (!ret)
		ret = rsp_breakpoint(rsp, b->gva, on, err);
	back = give_back(g, &loan, ret ? NULL : err);
	return ret ? ret : back;
}

static int tell(struct libvirt_guest *g, const struct libvirt_break *b, bool on, struct error *err)
{
	int ret = choose_vcpu(g, b, err);

	if (ret)
		return ret;
	if (g->traps.in_memory && !g->traps.sees_kernel)
		return tell_lent(g, b, on, err);
	return rsp_breakpoint(&g->stub.rsp, b->gva, on, err);
}

static int change(struct libvirt_guest *g, struct libvirt_break *b, bool on, struct error *err)
{
	int ret = g->traps.parked ? 0 : tell(g, b, on, err);

	/* one that was asked for may be there, unless QEMU or we have said no */
	if (ret == -EFAULT || ret == -EAGAIN || (ret && !on))
		return ret;
	b->armed = on;
	g->traps.nr_armed += on ? 1 : (size_t)-1;
	return ret;
}

int libvirt_guest_set_break(struct guest *guest, uint64_t gva, uint64_t gpa, bool on,
			    struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);
	struct libvirt_break *b = get_break(&g->traps, gva, gpa, err);
	int ret;

	if (!b)
		return -ENOSPC;
	if (b->armed == on)
		return 0;
	if (b->gpa != gpa)
		return error_set_at(err, ESTALE, gva, "a breakpoint lies elsewhere now");
	ret = libvirt_guest_open_stub(g, err);
	if (!ret && on)
		ret = note(g, b, err);
	if (!ret && on && !g->traps.nr_armed && g->traps.in_memory && !atomic_load(&g->let_go))
		libvirt_traps_note_parked(g);
	return ret ? ret : change(g, b, on, err);
}

/* --- parked ---------------------------------------------------------------------------------- */

/* QEMU forgets a breakpoint also where it could not put the byte back. */
static int clear(struct libvirt_guest *g, const struct libvirt_break *b, struct error *err)
{
	uint8_t now;
	int ret = guest_phys_read(&g->guest, b->gpa, &now, sizeof(now), err);

	if (ret || now != INT3 || b->before == INT3)
		return ret;
	return rsp_write(&g->stub.rsp, b->gpa, &b->before, sizeof(b->before), err);
}

int libvirt_breaks_park(struct libvirt_guest *g, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	/* under KVM one question is for all vCPUs; somebody may be about to read the memory */
	int ret = rsp_forget_breakpoints(&g->stub.rsp, t->in_memory ? 1 : g->guest.nr_vcpus, err);

	for (size_t i = 0; !ret && t->in_memory && i < t->nr_breaks; i++)
		if (t->breaks[i].armed)
			ret = clear(g, &t->breaks[i], err);
	if (!ret)
		libvirt_traps_note_parked(g);
	return ret;
}

int libvirt_breaks_unpark(struct libvirt_guest *g, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	int ret = 0;

	for (size_t i = 0; !ret && i < t->nr_breaks; i++) {
		if (!t->breaks[i].armed)
			continue;
		ret = note(g, &t->breaks[i], err);
		if (!ret)
			ret = tell(g, &t->breaks[i], true, err);
	}
	t->parked = false;
	if (ret)
		libvirt_breaks_park(g, NULL); /* rather none than some */
	return ret;
}
