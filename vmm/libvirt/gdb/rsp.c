/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets, and requests on memory. */
#include "vmm/libvirt/gdb/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"

enum { MAX_SHOWN = 40 /* characters of a packet in an error's text, with the NUL */ };

void rsp_init(struct rsp *rsp, int fd)
{
	*rsp = (struct rsp){.fd = fd, .timeout_ms = RSP_TIMEOUT_MS};
}

bool rsp_is_lost(const struct rsp *rsp)
{
	return rsp->lost.code;
}

/* --- a lost connection ----------------------------------------------------------------------- */

static int return_lost(const struct rsp *rsp, struct error *err)
{
	if (err)
		*err = rsp->lost;
	return -rsp->lost.code;
}

static int lose(struct rsp *rsp, struct error *err, int code, const char *why)
{
	if (!rsp->lost.code)
		error_set(&rsp->lost, code, "%s", why);
	return return_lost(rsp, err);
}

int rsp_lose(struct rsp *rsp, struct error *err, int code, const char *what, const char *packet)
{
	char shown[MAX_SHOWN], why[sizeof(rsp->lost.text)];

	clean_text(shown, sizeof(shown), packet);
	snprintf(why, sizeof(why), "%s in a gdbstub packet: '%s'%s", what, shown,
		 strlen(packet) >= sizeof(shown) ? " and more" : "");
	return lose(rsp, err, code, why);
}

static int lose_peer(struct rsp *rsp, struct error *err)
{
	return lose(rsp, err, ECONNRESET, "the connection to QEMU's gdbstub was lost");
}

/* --- bytes ----------------------------------------------------------------------------------- */

/* 1: it is so, or the peer has closed. 0: not within `ms`. -errno. */
static int wait_for(const struct rsp *rsp, short events, int ms)
{
	struct pollfd poll_fd = {.fd = rsp->fd, .events = events};
	const uint64_t end = clock_monotonic_ms() + (uint64_t)ms;
	int n = poll(&poll_fd, 1, ms);

	while (n < 0 && errno == EINTR) {
		const uint64_t now = clock_monotonic_ms();

		n = poll(&poll_fd, 1, now < end ? (int)(end - now) : 0);
	}
	return n < 0 ? -errno : n;
}

static int fill(struct rsp *rsp, struct error *err)
{
	ssize_t n;

	if (!wait_for(rsp, POLLIN, rsp->timeout_ms))
		return lose(rsp, err, ETIMEDOUT, "QEMU's gdbstub does not answer");
	n = recv(rsp->fd, rsp->buffer, sizeof(rsp->buffer), MSG_DONTWAIT);
	if (n <= 0)
		return lose_peer(rsp, err);
	rsp->at = 0;
	rsp->end = (size_t)n;
	return 0;
}

/* The next byte, or a negative errno. */
static int take(struct rsp *rsp, struct error *err)
{
	int ret = rsp->lost.code ? return_lost(rsp, err) : 0;

	if (!ret && rsp->at == rsp->end)
		ret = fill(rsp, err);
	return ret ? ret : rsp->buffer[rsp->at++];
}

int rsp_give(struct rsp *rsp, const char *bytes, size_t size, struct error *err)
{
	if (rsp->lost.code)
		return return_lost(rsp, err);
	while (size) {
		ssize_t n = send(rsp->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN && wait_for(rsp, POLLOUT, rsp->timeout_ms) > 0)
			continue;
		if (n <= 0)
			return lose_peer(rsp, err);
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
	int n, ret;

	for (const char *c = packet; *c; c++)
		sum = (uint8_t)(sum + (uint8_t)*c);
	n = snprintf(text, sizeof(text), "$%s#%02x", packet, sum);
	if (n < 0 || (size_t)n >= sizeof(text))
		return error_set(err, EMSGSIZE, "packet for the gdbstub is too long");
	ret = rsp_give(rsp, text, (size_t)n, err);
	if (!ret)
		rsp->unacked++;
	return ret;
}

/* The packet after its '$', checksum included. */
static int receive_body(struct rsp *rsp, char *reply, struct error *err)
{
	uint8_t sum = 0, sent;
	char digits[2];
	size_t n = 0;
	int c;

	while ((c = take(rsp, err)) >= 0 && c != '#' && n < RSP_MAX_PACKET) {
		reply[n++] = (char)c;
		sum = (uint8_t)(sum + c);
	}
	reply[n] = '\0';
	if (c >= 0 && c != '#')
		return rsp_lose(rsp, err, EBADMSG, "too many bytes", reply);
	for (size_t i = 0; c >= 0 && i < sizeof(digits); i++) {
		c = take(rsp, err);
		digits[i] = (char)c;
	}
	if (c < 0)
		return c;
	if (!hex_decode(&sent, digits, 1) || sent != sum)
		return rsp_lose(rsp, err, EBADMSG, "wrong checksum", reply);
	return rsp_give(rsp, "+", 1, err);
}

enum received { ACKNOWLEDGEMENT, PACKET };

/* enum received, or a negative errno. An acknowledgement must be due. */
static int receive_next(struct rsp *rsp, char *reply, struct error *err)
{
	int c = take(rsp, err), ret;

	if (c < 0)
		return c;
	if (c == '$') {
		ret = receive_body(rsp, reply, err);
		return ret ? ret : PACKET;
	}
	if (c == '+' && rsp->unacked) {
		rsp->unacked--;
		return ACKNOWLEDGEMENT;
	}
	return rsp_lose(rsp, err, EBADMSG, "unexpected byte instead of '$'",
			(char[]){(char)c, '\0'});
}

int rsp_receive(struct rsp *rsp, char reply[static RSP_MAX_PACKET + 1], struct error *err)
{
	int ret;

	do
		ret = receive_next(rsp, reply, err);
	while (ret == ACKNOWLEDGEMENT);
	return ret < 0 ? ret : 0;
}

/* QEMU sends a stop notice at any time, also between a request and its reply. */
static bool is_stop_notice(const char *reply)
{
	return reply[0] && strchr("TSWX", reply[0]);
}

/* A reply before the acknowledgement of its request is that to an earlier one. */
int rsp_await_reply(struct rsp *rsp, char reply[static RSP_MAX_PACKET + 1], struct error *err)
{
	int ret = rsp_receive(rsp, reply, err);

	if (!ret && rsp->unacked && !is_stop_notice(reply))
		return rsp_lose(rsp, err, EBADMSG, "late or second reply", reply);
	return ret;
}

int rsp_request(struct rsp *rsp, const char *packet, char reply[static RSP_MAX_PACKET + 1],
		struct error *err)
{
	enum { MAX_NOTICES = 16 };
	int ret = rsp_send(rsp, packet, err);

	for (int i = 0; !ret && i < MAX_NOTICES; i++) {
		ret = rsp_await_reply(rsp, reply, err);
		if (!ret && !is_stop_notice(reply))
			return 0;
	}
	return ret ? ret : rsp_lose(rsp, err, EBADMSG, "only stop notices, no reply", reply);
}

/* The next packet, which has to be a stop notice, or an acknowledgement. */
static int drop_next(struct rsp *rsp, struct error *err)
{
	char packet[RSP_MAX_PACKET + 1];
	int ret = receive_next(rsp, packet, err);

	if (ret == PACKET && !is_stop_notice(packet))
		return rsp_lose(rsp, err, EBADMSG, "late or second reply", packet);
	return ret < 0 ? ret : 0;
}

int rsp_await_acknowledgement(struct rsp *rsp, struct error *err)
{
	int ret = 0;

	while (!ret && rsp->unacked)
		ret = drop_next(rsp, err);
	return ret;
}

int rsp_drop_notices(struct rsp *rsp, struct error *err)
{
	int ret = 0;

	while (!ret && (rsp_has_more(rsp) || wait_for(rsp, POLLIN, 0)))
		ret = drop_next(rsp, err);
	return ret;
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
	if (!reply[0])
		return error_set(err, EOPNOTSUPP, "the gdbstub does not know %.24s", packet);
	return rsp_lose(rsp, err, EBADMSG, "something else than OK", reply);
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
		if (reply[0] == 'E')
			return error_set_at(err, EFAULT, address,
					    "the gdbstub cannot read this address");
		if (strlen(reply) != 2 * n || !hex_decode(bytes, reply, n))
			return rsp_lose(rsp, err, EBADMSG, "malformed memory", reply);
		address += n;
		bytes += n;
		size -= n;
	}
	return 0;
}
