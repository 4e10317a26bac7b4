/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests on vCPUs: registers, breakpoints, running. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "vmm/libvirt/gdb/internal.h"

/* For registers. QEMU maps clusters to processes; an x86 machine has one. */
static int choose_for_registers(struct rsp *rsp, unsigned int vcpu, struct error *err)
{
	char packet[16];

	snprintf(packet, sizeof(packet), "Hg%x", vcpu + 1);
	return rsp_expect_ok(rsp, packet, err);
}

/* Of the chosen vCPU. */
static int get_registers(struct rsp *rsp, struct rsp_registers *out, struct error *err)
{
	char reply[RSP_MAX_PACKET + 1];
	int ret = rsp_request(rsp, "g", reply, err);

	if (ret || !rsp_parse_registers(reply, out, NULL))
		return ret;
	return rsp_lose(rsp, err, EBADMSG, "malformed x86-64 registers", reply);
}

int rsp_registers(struct rsp *rsp, unsigned int vcpu, struct rsp_registers *out, struct error *err)
{
	int ret = choose_for_registers(rsp, vcpu, err);

	return ret ? ret : get_registers(rsp, out, err);
}

/* --- registers ------------------------------------------------------------------------------- */

struct hex_reader {
	const char *at;
	bool failed;
};

static uint64_t read_little(struct hex_reader *r, size_t size)
{
	uint8_t bytes[8] = {0};
	uint64_t value;

	if (r->failed || strnlen(r->at, 2 * size) < 2 * size || !hex_decode(bytes, r->at, size)) {
		r->failed = true;
		return 0;
	}
	r->at += 2 * size;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

int rsp_parse_registers(const char *hex, struct rsp_registers *out, struct error *err)
{
	enum { SEGMENTS_AFTER_CS = 5, CPL_MASK = 3 };
	struct hex_reader r = {.at = hex};
	struct guest_regs *g = &out->regs;
	struct guest_sregs *s = &out->sregs;
	uint64_t *const general[] = {&g->rax, &g->rbx, &g->rcx, &g->rdx, &g->rsi, &g->rdi,
				     &g->rbp, &g->rsp, &g->r8,  &g->r9,  &g->r10, &g->r11,
				     &g->r12, &g->r13, &g->r14, &g->r15, &g->rip};

	*out = (struct rsp_registers){0};
	for (size_t i = 0; i < sizeof(general) / sizeof(general[0]); i++)
		*general[i] = read_little(&r, 8);
	g->rflags = read_little(&r, 4);
	out->cs = (uint16_t)read_little(&r, 4);
	s->cpl = out->cs & CPL_MASK;
	for (int i = 0; i < SEGMENTS_AFTER_CS; i++)
		read_little(&r, 4);
	read_little(&r, 8); /* FS base */
	s->gs_base = read_little(&r, 8);
	s->kernel_gs_base = read_little(&r, 8);
	s->cr0 = read_little(&r, 8);
	read_little(&r, 8); /* CR2 */
	s->cr3 = read_little(&r, 8);
	s->cr4 = read_little(&r, 8);
	read_little(&r, 8); /* CR8 */
	s->efer = read_little(&r, 8);
	return r.failed ? error_set(err, EBADMSG, "malformed x86-64 registers") : 0;
}

/*
 * A `G` packet starts with the general registers and RIP. It may end after them: segment and
 * control registers then keep their values.
 */
int rsp_set_registers(struct rsp *rsp, unsigned int vcpu, const struct guest_regs *regs,
		      struct rsp_registers *after, struct error *err)
{
	const uint64_t values[] = {regs->rax, regs->rbx, regs->rcx, regs->rdx, regs->rsi, regs->rdi,
				   regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
				   regs->r12, regs->r13, regs->r14, regs->r15, regs->rip};
	char packet[2 * sizeof(values) + 2] = "G";
	int ret = choose_for_registers(rsp, vcpu, err);

	hex_encode(packet + 1, values, sizeof(values));
	if (!ret)
		ret = rsp_expect_ok(rsp, packet, err);
	return ret ? ret : get_registers(rsp, after, err);
}

/*
 * The register's number is its place in gdb-xml/i386-64bit.xml. QEMU accepts `P` only after the
 * client has read the target description.
 */
int rsp_set_cr3(struct rsp *rsp, unsigned int vcpu, uint64_t cr3, struct error *err)
{
	enum { CR3 = 29 };
	char packet[48], reply[RSP_MAX_PACKET + 1];
	int ret = rsp_request(rsp, "qXfer:features:read:target.xml:0,1", reply, err), n;

	if (!ret)
		ret = choose_for_registers(rsp, vcpu, err);
	n = snprintf(packet, sizeof(packet), "P%x=", CR3);
	hex_encode(packet + n, &cr3, sizeof(cr3));
	return ret ? ret : rsp_expect_ok(rsp, packet, err);
}

/* --- breakpoints ----------------------------------------------------------------------------- */

int rsp_choose(struct rsp *rsp, unsigned int vcpu, struct error *err)
{
	char packet[16];

	snprintf(packet, sizeof(packet), "Hc%x", vcpu + 1);
	return rsp_expect_ok(rsp, packet, err);
}

int rsp_breakpoint(struct rsp *rsp, uint64_t gva, bool on, struct error *err)
{
	char packet[32];

	snprintf(packet, sizeof(packet), "%c0,%" PRIx64 ",1", on ? 'Z' : 'z', gva);
	return rsp_expect_ok(rsp, packet, err);
}

/* The reply to `?` looks like a stop notice. One that comes before the acknowledgement is one. */
static int request_stop_notice(struct rsp *rsp, char reply[static RSP_MAX_PACKET + 1],
			       struct error *err)
{
	int ret = rsp_send(rsp, "?", err);
	bool is_reply = false;

	while (!ret && !is_reply) {
		ret = rsp_await_reply(rsp, reply, err);
		is_reply = !rsp->unacked;
	}
	return ret;
}

/* QEMU takes `?` as the start of a new debugger and removes all breakpoints; under emulation, those
 * of the chosen vCPU only. */
int rsp_forget_breakpoints(struct rsp *rsp, unsigned int nr_vcpus, struct error *err)
{
	char reply[RSP_MAX_PACKET + 1];
	int ret = 0;

	for (unsigned int i = 0; !ret && i < nr_vcpus; i++) {
		ret = rsp_choose(rsp, i, err);
		if (!ret)
			ret = request_stop_notice(rsp, reply, err);
		if (ret == -EFAULT) /* an empty vCPU slot */
			ret = 0;
	}
	return ret;
}

/* --- running --------------------------------------------------------------------------------- */

/*
 * Everything that was received is acknowledged before, and the request's own acknowledgement is
 * waited for: a byte that is sent later would stop the guest.
 */
int rsp_continue(struct rsp *rsp, struct error *err)
{
	int ret = rsp_drop_notices(rsp, err);

	if (!ret)
		ret = rsp_send(rsp, "c", err);
	return ret ? ret : rsp_await_acknowledgement(rsp, err);
}

int rsp_interrupt(struct rsp *rsp, struct error *err)
{
	return rsp_give(rsp, "\x03", 1, err);
}

bool rsp_has_more(const struct rsp *rsp)
{
	return rsp->at < rsp->end;
}

/* "T05thread:p01.02;" or "T05thread:02;". QEMU counts threads from 1. */
int rsp_parse_stop(const char *packet, struct rsp_stop *out, struct error *err)
{
	static const char key[] = "thread:";
	const char *at;
	uint8_t signal;
	char *end;
	unsigned long thread;

	*out = (struct rsp_stop){0};
	if (packet[0] == 'W' || packet[0] == 'X')
		return error_set(err, ECONNRESET, "the domain has ended");
	if (packet[0] != 'T' || strlen(packet) < 3 || !hex_decode(&signal, packet + 1, 1))
		return error_set(err, EBADMSG, "malformed stop notice");
	out->trap = signal == RSP_SIGNAL_TRAP;
	out->interrupt = signal == RSP_SIGNAL_INT;
	at = strstr(packet, key);
	if (!at)
		return 0;
	at += sizeof(key) - 1;
	if (*at == 'p' && strchr(at, '.'))
		at = strchr(at, '.') + 1;
	thread = strtoul(at, &end, 16);
	if (end == at || !thread || thread > UINT16_MAX)
		return error_set(err, EBADMSG, "malformed stop notice");
	out->known = true;
	out->vcpu = (unsigned int)thread - 1;
	return 0;
}

int rsp_await_stop(struct rsp *rsp, struct rsp_stop *out, struct error *err)
{
	char packet[RSP_MAX_PACKET + 1];
	int ret = rsp_receive(rsp, packet, err);

	if (!ret)
		ret = rsp_parse_stop(packet, out, err);
	return ret == -EBADMSG ? rsp_lose(rsp, err, EBADMSG, "malformed stop notice", packet) : ret;
}
