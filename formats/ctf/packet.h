/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_PACKET_H
#define SONDE_FORMATS_CTF_PACKET_H

#include <stdbool.h>
#include <stdint.h>

/* What precedes the events of a packet: packet header and packet context, all byte-aligned. */
enum {
	CTF_UUID_SIZE = 16,
	CTF_PACKET_HEADER_SIZE = 4 + CTF_UUID_SIZE + 4 + 6 * 8 + 4,
};
#define CTF_MAGIC UINT32_C(0xC1FC1FC1)
/* The clock's last value, ns. Readers add the time of day and count that in 63 bits. */
#define CTF_CLOCK_MAX (INT64_C(1) << 62)

struct ctf_packet {
	uint64_t begin, end; /* clock: not after the first, not before the last event */
	uint64_t content;    /* bits, from the packet's begin to the end of its last event */
	uint64_t size;       /* bytes of the packet, padding included */
	uint64_t sequence, discarded; /* packets, and records dropped, before its end */
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

/* Returns false for what is not the header of a packet of this trace, or has impossible sizes or
 * times. */
bool ctf_packet_get(const uint8_t in[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    struct ctf_packet *packet);

#endif
