/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A domain's breakpoints: which there are, and how QEMU gets them.
 *
 * Under emulation QEMU keeps them beside the guest's memory. Under KVM it writes INT3 (QEMU 7.2,
 * target/i386/kvm/kvm.c, kvm_arch_insert_sw_breakpoint()), with two consequences.
 *
 * - QEMU finds the place with a vCPU's page tables. With page table isolation those of a vCPU in
 * user mode do not map the kernel. If that holds for all vCPUs, one borrows the kernel's page
 * tables for the moment: its CR3 is replaced and restored (a loan).
 * - An INT3 would become part of a memory that is saved. So when another user of libvirt stops the
 *   domain, the breakpoints are taken out, and put back when it runs again (they are parked).
 */
#include <errno.h>
#include <string.h>
#include "introspect/guest/page-walk.h"
#include "introspect/guest/control.h"
#include "vmm/libvirt/backend/internal.h"

enum { INT3 = 0xcc };

/* --- which breakpoints there are ------------------------------------------------------------- */

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
		error_set_at(err, ENOSPC, gva, "no room for another breakpoint: there are %d",
			     LIBVIRT_MAX_BREAKS);
		return NULL;
	}
	b = &t->breaks[t->nr_breaks++];
	*b = (struct libvirt_break){.gva = gva, .gpa = gpa};
	return b;
}

/* Once for each breakpoint. Later the guest's own byte must still be there. */
static int journal_break(struct libvirt_guest *g, struct libvirt_break *b, struct error *err)
{
	static const uint8_t after = INT3;
	uint8_t before;
	int ret = guest_phys_read(&g->guest, b->gpa, &before, sizeof(before), err);

	if (!ret && b->journaled && before != b->before)
		ret = error_set_at(err, ESTALE, b->gva,
				   "the guest has changed the code at a breakpoint");
	if (ret || b->journaled)
		return ret;
	b->before = before;
	if (g->journal && !g->traps.journaled)
		ret = libvirt_journal_breaks(g->journal, err);
	g->traps.journaled |= !ret;
	if (g->journal && !ret && g->traps.in_memory)
		ret = libvirt_journal_write(g->journal, b->gpa, &before, &after, sizeof(after),
					    err);
	b->journaled = !ret;
	return ret;
}

/* --- page tables ----------------------------------------------------------------------------- */

enum {
	USER_CS = 0x33, /* __USER_CS: 64-bit code (arch/x86/include/asm/segment.h) */
	USER_CPL = 3,
};

static bool maps(struct libvirt_guest *g, const struct guest_sregs *sregs, uint64_t cr3,
		 const struct libvirt_break *b)
{
	struct page_walk walk;

	return vcpu_in_long_mode(sregs) &&
	       !page_walk(&g->guest, cr3, vcpu_paging_levels(sregs), b->gva, &walk, NULL) &&
	       walk.gpa == b->gpa;
}

/* A vCPU whose page tables map the kernel, if there is one. */
static int choose_vcpu(struct libvirt_guest *g, const struct libvirt_break *b, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	int ret = 0;

	for (unsigned int i = 0; !ret && !t->chosen && i < g->guest.nr_vcpus; i++) {
		ret = libvirt_guest_read_registers(g, i, err);
		if (ret || !maps(g, &g->registers[i].sregs, g->registers[i].sregs.cr3, b))
			continue;
		ret = rsp_choose(&g->stub.rsp, i, err);
		t->chosen = t->sees_kernel = !ret;
	}
	t->chosen = !ret;
	return ret;
}

/*
 * Only in user mode the kernel's page tables show a loan: a vCPU in the kernel may have got them by
 * itself. Of a vCPU in 32-bit code the gdbstub sets only 32 bits of CR3.
 */
static bool may_lend(struct libvirt_guest *g, unsigned int vcpu, const struct libvirt_break *b,
		     struct journal_loan *loan)
{
	const struct rsp_registers *r = &g->registers[vcpu];

	*loan = (struct journal_loan){
		.vcpu = vcpu, .cr3 = r->sregs.cr3, .lent = vcpu_kernel_cr3(r->sregs.cr3)};
	return r->sregs.cpl == USER_CPL && (r->cs == USER_CS || !(loan->cr3 >> 32)) &&
	       loan->lent != loan->cr3 && maps(g, &r->sregs, loan->lent, b);
}

static bool find_loan(struct libvirt_guest *g, const struct libvirt_break *b,
		      struct journal_loan *loan)
{
	for (unsigned int i = 0; i < g->guest.nr_vcpus; i++)
		if (may_lend(g, i, b, loan))
			return true;
	return false;
}

static bool is_lent(const struct guest_sregs *sregs, const struct journal_loan *loan)
{
	return sregs->cr3 == loan->lent && sregs->cpl == USER_CPL;
}

int libvirt_guest_end_loan(struct libvirt_guest *g, const struct journal_loan *loan,
			   struct error *err)
{
	int ret = loan->vcpu < g->guest.nr_vcpus
			  ? libvirt_guest_read_registers(g, loan->vcpu, err)
			  : error_set(err, EPROTO, "the journal is of another domain");

	if (ret || !is_lent(&g->registers[loan->vcpu].sregs, loan))
		return ret;
	g->have_registers[loan->vcpu] = false;
	return rsp_set_cr3(&g->stub.rsp, loan->vcpu, loan->cr3, err);
}

static int end_loan(struct libvirt_guest *g, struct error *err)
{
	const struct journal_loan *loan = &g->traps.loan;
	int ret = rsp_set_cr3(&g->stub.rsp, loan->vcpu, loan->cr3, err);

	/* -EFAULT would say that QEMU does not have the breakpoint */
	if (ret == -EFAULT)
		ret = error_set(err, EIO, "the gdbstub does not give vCPU %u its page tables back",
				loan->vcpu);
	g->traps.lent = ret != 0;
	if (!ret && g->journal)
		ret = libvirt_journal_lent(g->journal, err);
	return ret;
}

/*
 * The gdbstub's connection may have been lost with the loan, at any packet. A full disk must not
 * keep the guest stopped: a recovery looks at the vCPU, too, before it ends a loan.
 */
int libvirt_breaks_end_loan(struct libvirt_guest *g, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	int ret;

	if (!t->lent)
		return 0;
	g->have_registers[t->loan.vcpu] = false;
	ret = libvirt_guest_end_loan(g, &t->loan, err);
	t->lent = ret != 0;
	if (!ret && g->journal)
		libvirt_journal_lent(g->journal, NULL);
	return ret;
}

/* --- in QEMU --------------------------------------------------------------------------------- */

static int set_with_loan(struct libvirt_guest *g, const struct libvirt_break *b, bool on,
			 struct error *err)
{
	struct rsp *rsp = &g->stub.rsp;
	struct libvirt_traps *t = &g->traps;
	int ret = 0, back;

	if (!find_loan(g, b, &t->loan))
		return error_set_at(err, EAGAIN, b->gva, "no vCPU's page tables map the kernel");
	if (g->journal)
		ret = libvirt_journal_lend(g->journal, &t->loan, err);
	if (ret)
		return ret;
	t->counts.loans++;
	t->lent = true;
	ret = rsp_set_cr3(rsp, t->loan.vcpu, t->loan.lent, err);
	if (!ret)
		ret = rsp_choose(rsp, t->loan.vcpu, err);
	if (!ret)
		ret = rsp_breakpoint(rsp, b->gva, on, err);
	back = end_loan(g, ret ? NULL : err);
	return ret ? ret : back;
}

static int set_in_qemu(struct libvirt_guest *g, const struct libvirt_break *b, bool on,
		       struct error *err)
{
	int ret = choose_vcpu(g, b, err);

	if (ret)
		return ret;
	if (g->traps.in_memory && !g->traps.sees_kernel)
		return set_with_loan(g, b, on, err);
	return rsp_breakpoint(&g->stub.rsp, b->gva, on, err);
}

/* The gdbstub is closed, and stays so: few stops set a breakpoint. That a vCPU may lend in 64-bit
 * code only is left to set_in_qemu(). */
static bool in_reach_of_first(struct libvirt_guest *g)
{
	const struct libvirt_break *text = &g->traps.text;

	if (libvirt_guest_read_states(g, NULL))
		return true;
	for (unsigned int i = 0; i < g->guest.nr_vcpus; i++) {
		const struct guest_sregs *sregs = &g->states[i];

		if (maps(g, sregs, sregs->cr3, text) ||
		    (sregs->cpl == USER_CPL && maps(g, sregs, vcpu_kernel_cr3(sregs->cr3), text)))
			return true;
	}
	return false;
}

bool libvirt_breaks_in_reach(struct libvirt_guest *g)
{
	const struct libvirt_traps *t = &g->traps;
	struct journal_loan loan;

	if (!t->enabled || !t->in_memory)
		return true;
	if (!t->nr_armed)
		return in_reach_of_first(g);
	if (libvirt_guest_open_stub(g, NULL) || choose_vcpu(g, &t->text, NULL))
		return true;
	return t->sees_kernel || find_loan(g, &t->text, &loan);
}

static int set_armed(struct libvirt_guest *g, struct libvirt_break *b, bool on, struct error *err)
{
	int ret = g->traps.parked ? 0 : set_in_qemu(g, b, on, err);

	/* after other errors QEMU may have set it: count it as armed */
	if (ret == -EFAULT || ret == -EAGAIN || (ret && !on))
		return ret;
	b->armed = on;
	g->traps.nr_armed += on ? 1 : (size_t)-1;
	libvirt_traps_changed(&g->traps);
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
		return error_set_at(err, ESTALE, gva,
				    "a breakpoint's guest-physical address has changed");
	ret = libvirt_guest_open_stub(g, err);
	if (!ret && on)
		ret = journal_break(g, b, err);
	if (!ret && on && !g->traps.nr_armed && g->traps.in_memory && !atomic_load(&g->will_run))
		libvirt_traps_note_parked(g);
	return ret ? ret : set_armed(g, b, on, err);
}

/* --- parked ---------------------------------------------------------------------------------- */

/* QEMU forgets a breakpoint even if it could not put the guest's byte back. */
static int restore_byte(struct libvirt_guest *g, const struct libvirt_break *b, struct error *err)
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
	/* under KVM one '?' is enough for all vCPUs; QEMU may be about to save the memory */
	int ret = rsp_forget_breakpoints(&g->stub.rsp, t->in_memory ? 1 : g->guest.nr_vcpus, err);

	for (size_t i = 0; !ret && t->in_memory && i < t->nr_breaks; i++)
		if (t->breaks[i].armed)
			ret = restore_byte(g, &t->breaks[i], err);
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
		ret = journal_break(g, &t->breaks[i], err);
		if (!ret)
			ret = set_in_qemu(g, &t->breaks[i], true, err);
	}
	t->parked = false;
	libvirt_traps_changed(t);
	if (ret)
		libvirt_breaks_park(g, NULL); /* all or none */
	return ret;
}
