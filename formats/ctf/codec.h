/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_CODEC_H
#define SONDE_FORMATS_CTF_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What precedes the events of a packet: packet header and packet context, all byte-aligned. Format
 * version 2 has no more than the first CTF_V2_PACKET_HEADER_SIZE bytes of it.
 */
enum {
	CTF_UUID_SIZE = 16,
	CTF_V2_PACKET_HEADER_SIZE = 4 + CTF_UUID_SIZE + 4 + 6 * 8 + 4,
	CTF_PACKET_HEADER_SIZE = CTF_V2_PACKET_HEADER_SIZE + 4 + 4,
};
#define CTF_MAGIC UINT32_C(0xC1FC1FC1)

/* The clock's last value, ns. Readers add the time of day and count that in 63 bits. */
#define CTF_CLOCK_MAX (INT64_C(1) << 62)

/* Whether the clock of events can have a time stamp. */
static inline bool ctf_clock_holds(int64_t timestamp)
{
	return timestamp >= 0 && timestamp <= CTF_CLOCK_MAX;
}

struct ctf_packet {
	uint32_t stream;         /* number of the instance */
	uint64_t begin, end;     /* clock: not after the first, not before the last event */
	uint64_t content;        /* bits, from the packet's begin to the end of its last event */
	uint64_t size;           /* bytes of the packet, padding included */
	uint64_t sequence, lost; /* packets, and events lost, before its end */
	uint32_t cpu;
	uint32_t tables; /* where the event CTF_TABLES begins, bytes from the packet's begin */
	uint32_t crc;    /* CRC-32C of all the packet, with 0 in this place */
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
 * times. ctf_v2_packet_get() leaves `tables` and `crc` alone.
 */
bool ctf_packet_get(const uint8_t in[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    struct ctf_packet *packet);
bool ctf_v2_packet_get(const uint8_t in[CTF_V2_PACKET_HEADER_SIZE],
		       const struct ctf_identity *identity, struct ctf_packet *packet);

/* The CRC-32C of a whole packet. */
uint32_t ctf_packet_crc(const uint8_t *packet, size_t size);

/* The clock whose low bits are `low`, the next time after `clock`. */
static inline uint64_t ctf_next_clock(uint64_t clock, uint64_t low, unsigned int bits)
{
	const uint64_t mask = (UINT64_C(1) << bits) - 1;
	const uint64_t next = (clock & ~mask) | low;

	return next < clock ? next + mask + 1 : next;
}

#endif
