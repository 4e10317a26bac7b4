/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_CODEC_H
#define SONDE_FORMATS_CTF_CODEC_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/bit-cursor.h"
#include "formats/ctf/schema.h"

/* What precedes the events of a packet: packet header and packet context, all byte-aligned. */
enum {
	CTF_UUID_SIZE = 16,
	CTF_PACKET_HEADER_SIZE = 4 + CTF_UUID_SIZE + 4 + 6 * 8 + 4,
};
#define CTF_MAGIC UINT32_C(0xC1FC1FC1)

struct ctf_packet {
	uint64_t begin, end;     /* clock: not after the first, not before the last event */
	uint64_t content;        /* bits, from the packet's begin to the end of its last event */
	uint64_t size;           /* bytes of the packet, padding included */
	uint64_t sequence, lost; /* packets, and records lost, before its end */
	uint32_t cpu;
};

/* The identity that a trace's metadata and all its packets share. */
struct ctf_identity {
	uint8_t uuid[CTF_UUID_SIZE];
	bool big_endian;
};

/* A packet's header and context, in the identity's byte order. */
void ctf_packet_put(uint8_t out[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    const struct ctf_packet *packet);

/*
 * Returns false for what is not the header of a packet of this trace, or has impossible sizes or
 * times.
 */
bool ctf_packet_get(const uint8_t in[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    struct ctf_packet *packet);

/*
 * Append an event at the next byte boundary; `clock` is that of the event before, and not later.
 * Needs CTF_MAX_EVENT bytes. Leaves the cursor behind the event's last bit, where a packet's
 * content has to end.
 */
void ctf_event_put(struct bit_cursor *out, uint64_t clock, const struct ctf_event *event);

/*
 * Decode the event at the next byte boundary. `clock` is that of the event before, or of the
 * packet's begin. Returns 0; -EINVAL for what is not an event of this format; -ENODATA if the
 * cursor's end comes first (the cursor has then failed).
 */
int ctf_event_get(struct bit_cursor *in, uint64_t clock, struct ctf_event *event);

#endif
