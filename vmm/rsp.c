/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets, and what is asked with them. */
#include "vmm/rsp.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { MAX_NOISE = 64 << 10 /* bytes between a request and its reply */ };

void rsp_init(struct rsp *rsp, int fd)
{
	*rsp = (struct rsp){.fd = fd};
}

/* --- bytes ----------------------------------------------------------------------------------- */

static int fill(struct rsp *rsp, struct error *err)
{
	struct pollfd poll_fd = {.fd = rsp->fd, .events = POLLIN};
	ssize_t n;
	int rc = poll(&poll_fd, 1, RSP_TIMEOUT_MS);

	if (!rc)
		return error_set(err, ETIMEDOUT, "QEMU's gdbstub does not answer");
	n = rc < 0 ? -1 : recv(rsp->fd, rsp->buffer, sizeof(rsp->buffer), MSG_DONTWAIT);
	if (n <= 0)
		return error_set(err, ECONNRESET, "the connection to QEMU's gdbstub was lost");
	rsp->at = 0;
	rsp->end = (size_t)n;
	return 0;
}

/* The next byte, or a negative errno. */
static int take(struct rsp *rsp, struct error *err)
{
	int rc = rsp->at < rsp->end ? 0 : fill(rsp, err);

	return rc ? rc : rsp->buffer[rsp->at++];
}

static int give(struct rsp *rsp, const char *bytes, size_t size, struct error *err)
{
	while (size) {
		struct pollfd poll_fd = {.fd = rsp->fd, .events = POLLOUT};
		ssize_t n = send(rsp->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN && poll(&poll_fd, 1, RSP_TIMEOUT_MS) > 0)
			continue;
		if (n <= 0)
			return error_set(err, ECONNRESET,
					 "the connection to QEMU's gdbstub was lost");
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

/* --- packets --------------------------------------------------------------------------------- */

static int send_packet(struct rsp *rsp, const char *packet, struct error *err)
{
	char text[2 * RSP_MAX_WRITE + 64];
	uint8_t sum = 0;
	int n;

	for (const char *c = packet; *c; c++)
		sum = (uint8_t)(sum + (uint8_t)*c);
	n = snprintf(text, sizeof(text), "$%s#%02x", packet, sum);
	if (n < 0 || (size_t)n >= sizeof(text))
		return error_set(err, EMSGSIZE, "a packet for the gdbstub is too long");
	return give(rsp, text, (size_t)n, err);
}

static int hex_digit(int c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c > 0 ? memchr(digits, c | 0x20, sizeof(digits) - 1) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* From behind the '$' to the checksum. */
static int receive_body(struct rsp *rsp, char *reply, struct error *err)
{
	uint8_t sum = 0;
	size_t n = 0;
	int c, high, low;

	while ((c = take(rsp, err)) >= 0 && c != '#') {
		if (n == RSP_MAX_PACKET)
			return error_set(err, EMSGSIZE, "a packet of the gdbstub has no end");
		reply[n++] = (char)c;
		sum = (uint8_t)(sum + c);
	}
	reply[n] = '\0';
	high = c < 0 ? c : take(rsp, err);
	low = high < 0 ? high : take(rsp, err);
	if (low < 0)
		return low;
	if (hex_digit(high) * 16 + hex_digit(low) != sum)
		return error_set(err, EPROTO, "a packet of the gdbstub is damaged");
	return give(rsp, "+", 1, err);
}

static int receive_packet(struct rsp *rsp, char *reply, struct error *err)
{
	for (int i = 0; i < MAX_NOISE; i++) {
		int c = take(rsp, err);

		if (c < 0)
			return c;
		if (c == '$')
			return receive_body(rsp, reply, err);
	}
	return error_set(err, EPROTO, "the gdbstub talks nonsense");
}

/* That the guest has stopped is told whenever it does, also between a request and its reply. */
static bool is_stop_notice(const char *reply)
{
	return reply[0] == 'T' || reply[0] == 'S' || reply[0] == 'W';
}

int rsp_request(struct rsp *rsp, const char *packet, char reply[static RSP_MAX_PACKET + 1],
		struct error *err)
{
	enum { MAX_NOTICES = 16 };
	int rc = send_packet(rsp, packet, err);

	for (int i = 0; !rc && i < MAX_NOTICES; i++) {
		rc = receive_packet(rsp, reply, err);
		if (!rc && !is_stop_notice(reply))
			return 0;
	}
	return rc ? rc : error_set(err, EPROTO, "the gdbstub tells nothing but stops");
}

/* --- requests -------------------------------------------------------------------------------- */

static int expect_ok(struct rsp *rsp, const char *packet, struct error *err)
{
	char reply[RSP_MAX_PACKET + 1];
	int rc = rsp_request(rsp, packet, reply, err);

	if (rc || !strcmp(reply, "OK"))
		return rc;
	if (reply[0] == 'E')
		return error_set(err, EFAULT, "the gdbstub refuses %.8s: %.4s", packet, reply);
	return error_set(err, EPROTO, "the gdbstub does not know %.24s", packet);
}

int rsp_set_physical(struct rsp *rsp, bool physical, struct error *err)
{
	return expect_ok(rsp, physical ? "Qqemu.PhyMemMode:1" : "Qqemu.PhyMemMode:0", err);
}

static void to_hex(char *out, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		sprintf(out + 2 * i, "%02x", bytes[i]);
}

static bool from_hex(uint8_t *out, const char *hex, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		int high = hex_digit(hex[2 * i]);
		int low = high < 0 ? -1 : hex_digit(hex[2 * i + 1]);

		if (low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

int rsp_write(struct rsp *rsp, uint64_t address, const void *from, size_t size, struct error *err)
{
	char packet[2 * RSP_MAX_WRITE + 48];
	const uint8_t *bytes = from;

	while (size) {
		size_t n = size < RSP_MAX_WRITE ? size : RSP_MAX_WRITE;
		int used = snprintf(packet, sizeof(packet), "M%" PRIx64 ",%zx:", address, n);
		int rc;

		to_hex(packet + used, bytes, n);
		rc = expect_ok(rsp, packet, err);
		if (rc)
			return rc;
		address += n;
		bytes += n;
		size -= n;
	}
	return 0;
}

int rsp_read(struct rsp *rsp, uint64_t address, void *to, size_t size, struct error *err)
{
	char packet[48], reply[RSP_MAX_PACKET + 1];
	uint8_t *bytes = to;

	while (size) {
		size_t n = size < RSP_MAX_WRITE ? size : RSP_MAX_WRITE;
		int rc;

		snprintf(packet, sizeof(packet), "m%" PRIx64 ",%zx", address, n);
		rc = rsp_request(rsp, packet, reply, err);
		if (rc)
			return rc;
		if (strlen(reply) != 2 * n || !from_hex(bytes, reply, n))
			return error_set_at(err, EFAULT, address, "the gdbstub cannot read there");
		address += n;
		bytes += n;
		size -= n;
	}
	return 0;
}

int rsp_registers(struct rsp *rsp, unsigned int vcpu, struct rsp_registers *out, struct error *err)
{
	char packet[32], reply[RSP_MAX_PACKET + 1];
	int rc;

	/* Processes of a machine are its clusters, of which x86 has one. */
	snprintf(packet, sizeof(packet), "Hg%x", vcpu + 1);
	rc = expect_ok(rsp, packet, err);
	if (!rc)
		rc = rsp_request(rsp, "g", reply, err);
	return rc ? rc : rsp_parse_registers(reply, out, err);
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

	if (r->failed || strnlen(r->at, 2 * size) < 2 * size || !from_hex(bytes, r->at, size)) {
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
	s->cpl = read_little(&r, 4) & CPL_MASK;
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
	return r.failed ? error_set(err, EPROTO, "the gdbstub tells no x86-64 registers") : 0;
}
