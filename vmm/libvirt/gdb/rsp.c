/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets, and requests on memory. */
#include "vmm/libvirt/gdb/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "formats/base/text.h"

enum { MAX_NOISE = 64 << 10 /* bytes outside packets */ };

void rsp_init(struct rsp *rsp, int fd)
{
	*rsp = (struct rsp){.fd = fd};
}

/* --- bytes ----------------------------------------------------------------------------------- */

static int fill(struct rsp *rsp, struct error *err)
{
	struct pollfd poll_fd = {.fd = rsp->fd, .events = POLLIN};
	ssize_t n;
	int ret = poll(&poll_fd, 1, RSP_TIMEOUT_MS);

	if (!ret)
		return error_set(err, ETIMEDOUT, "QEMU's gdbstub does not answer");
	n = ret < 0 ? -1 : recv(rsp->fd, rsp->buffer, sizeof(rsp->buffer), MSG_DONTWAIT);
	if (n <= 0)
		return error_set(err, ECONNRESET, "the connection to QEMU's gdbstub was lost");
	rsp->at = 0;
	rsp->end = (size_t)n;
	return 0;
}

int rsp_take(struct rsp *rsp, struct error *err)
{
	int ret = rsp->at < rsp->end ? 0 : fill(rsp, err);

	return ret ? ret : rsp->buffer[rsp->at++];
}

int rsp_give(struct rsp *rsp, const char *bytes, size_t size, struct error *err)
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

int rsp_send(struct rsp *rsp, const char *packet, struct error *err)
{
	char text[2 * RSP_MAX_WRITE + 64];
	uint8_t sum = 0;
	int n;

	for (const char *c = packet; *c; c++)
		sum = (uint8_t)(sum + (uint8_t)*c);
	n = snprintf(text, sizeof(text), "$%s#%02x", packet, sum);
	if (n < 0 || (size_t)n >= sizeof(text))
		return error_set(err, EMSGSIZE, "packet for the gdbstub is too long");
	return rsp_give(rsp, text, (size_t)n, err);
}

/* The packet after its '$', checksum included. */
static int receive_body(struct rsp *rsp, char *reply, struct error *err)
{
	uint8_t sum = 0, sent;
	char digits[2];
	size_t n = 0;
	int c;

	while ((c = rsp_take(rsp, err)) >= 0 && c != '#') {
		if (n == RSP_MAX_PACKET)
			return error_set(err, EMSGSIZE, "gdbstub packet is too long");
		reply[n++] = (char)c;
		sum = (uint8_t)(sum + c);
	}
	reply[n] = '\0';
	for (size_t i = 0; c >= 0 && i < sizeof(digits); i++) {
		c = rsp_take(rsp, err);
		digits[i] = (char)c;
	}
	if (c < 0)
		return c;
	if (!hex_decode(&sent, digits, 1) || sent != sum)
		return error_set(err, EPROTO, "wrong checksum in a gdbstub packet");
	return rsp_give(rsp, "+", 1, err);
}

int rsp_receive(struct rsp *rsp, char reply[static RSP_MAX_PACKET + 1], struct error *err)
{
	for (int i = 0; i < MAX_NOISE; i++) {
		int c = rsp_take(rsp, err);

		if (c < 0)
			return c;
		if (c == '$')
			return receive_body(rsp, reply, err);
	}
	return error_set(err, EPROTO, "no packet in the gdbstub's stream");
}

/* QEMU sends a stop notice at any time, also between a request and its reply. */
static bool is_stop_notice(const char *reply)
{
	return reply[0] == 'T' || reply[0] == 'S' || reply[0] == 'W';
}

int rsp_request(struct rsp *rsp, const char *packet, char reply[static RSP_MAX_PACKET + 1],
		struct error *err)
{
	enum { MAX_NOTICES = 16 };
	int ret = rsp_send(rsp, packet, err);

	for (int i = 0; !ret && i < MAX_NOTICES; i++) {
		ret = rsp_receive(rsp, reply, err);
		if (!ret && !is_stop_notice(reply))
			return 0;
	}
	return ret ? ret : error_set(err, EPROTO, "the gdbstub sends only stop notices");
}

/* --- requests -------------------------------------------------------------------------------- */

int rsp_expect_ok(struct rsp *rsp, const char *packet, struct error *err)
{
	char reply[RSP_MAX_PACKET + 1];
	int ret = rsp_request(rsp, packet, reply, err);

	if (ret || !strcmp(reply, "OK"))
		return ret;
	if (reply[0] == 'E')
		return error_set(err, EFAULT, "the gdbstub refuses %.8s: %.4s", packet, reply);
	return error_set(err, EPROTO, "malformed gdbstub reply to %.24s", packet);
}

int rsp_set_physical(struct rsp *rsp, bool physical, struct error *err)
{
	return rsp_expect_ok(rsp, physical ? "Qqemu.PhyMemMode:1" : "Qqemu.PhyMemMode:0", err);
}

int rsp_write(struct rsp *rsp, uint64_t address, const void *from, size_t size, struct error *err)
{
	char packet[2 * RSP_MAX_WRITE + 48];
	const uint8_t *bytes = from;

	while (size) {
		size_t n = size < RSP_MAX_WRITE ? size : RSP_MAX_WRITE;
		int used = snprintf(packet, sizeof(packet), "M%" PRIx64 ",%zx:", address, n);
		int ret;

		hex_encode(packet + used, bytes, n);
		ret = rsp_expect_ok(rsp, packet, err);
		if (ret)
			return ret;
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
		int ret;

		snprintf(packet, sizeof(packet), "m%" PRIx64 ",%zx", address, n);
		ret = rsp_request(rsp, packet, reply, err);
		if (ret)
			return ret;
		if (strlen(reply) != 2 * n || !hex_decode(bytes, reply, n))
			return error_set_at(err, EFAULT, address,
					    "the gdbstub cannot read this address");
		address += n;
		bytes += n;
		size -= n;
	}
	return 0;
}
