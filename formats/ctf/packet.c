/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/packet.h"

#include <string.h>
#include "formats/base/bit-cursor.h"
#include "formats/base/cursor.h"

void ctf_packet_put(uint8_t out[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    const struct ctf_packet *packet)
{
	struct bit_cursor c = {.bytes = out,
			       .end = CTF_PACKET_HEADER_SIZE * 8,
			       .big_endian = identity->big_endian};

	bit_put(&c, CTF_MAGIC, 32);
	for (int i = 0; i < CTF_UUID_SIZE; i++)
		bit_put(&c, identity->uuid[i], 8);
	bit_put(&c, 0, 32); /* stream_id: there is one class of streams */
	bit_put(&c, packet->begin, 64);
	bit_put(&c, packet->end, 64);
	bit_put(&c, packet->content, 64);
	bit_put(&c, packet->size * 8, 64);
	bit_put(&c, packet->sequence, 64);
	bit_put(&c, packet->discarded, 64);
	bit_put(&c, packet->cpu, 32);
}

bool ctf_packet_get(const uint8_t in[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    struct ctf_packet *packet)
{
	struct cursor c = cursor_make(in, CTF_PACKET_HEADER_SIZE);
	uint64_t size_bits;

	c.swap = identity->big_endian;
	if (cursor_u32(&c) != CTF_MAGIC ||
	    memcmp(cursor_bytes(&c, CTF_UUID_SIZE), identity->uuid, CTF_UUID_SIZE) ||
	    cursor_u32(&c) != 0)
		return false;
	packet->begin = cursor_u64(&c);
	packet->end = cursor_u64(&c);
	packet->content = cursor_u64(&c);
	size_bits = cursor_u64(&c);
	packet->sequence = cursor_u64(&c);
	packet->discarded = cursor_u64(&c);
	packet->cpu = cursor_u32(&c);
	packet->size = size_bits / 8;
	return size_bits % 8 == 0 && packet->content >= CTF_PACKET_HEADER_SIZE * 8 &&
	       packet->content <= size_bits && packet->begin <= packet->end &&
	       packet->end <= CTF_CLOCK_MAX;
}
