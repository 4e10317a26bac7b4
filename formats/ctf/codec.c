/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/codec.h"

#include <string.h>
#include "formats/base/bit-cursor.h"
#include "formats/base/crc32c.h"
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
	bit_put(&c, packet->stream, 32);
	bit_put(&c, packet->begin, 64);
	bit_put(&c, packet->end, 64);
	bit_put(&c, packet->content, 64);
	bit_put(&c, packet->size * 8, 64);
	bit_put(&c, packet->sequence, 64);
	bit_put(&c, packet->lost, 64);
	bit_put(&c, packet->cpu, 32);
	bit_put(&c, packet->tables, 32);
	bit_put(&c, packet->crc, 32);
}

static bool get(struct cursor *c, const struct ctf_identity *identity, struct ctf_packet *packet)
{
	uint64_t size_bits;

	c->swap = identity->big_endian;
	if (cursor_u32(c) != CTF_MAGIC ||
	    memcmp(cursor_bytes(c, CTF_UUID_SIZE), identity->uuid, CTF_UUID_SIZE))
		return false;
	packet->stream = cursor_u32(c);
	packet->begin = cursor_u64(c);
	packet->end = cursor_u64(c);
	packet->content = cursor_u64(c);
	size_bits = cursor_u64(c);
	packet->sequence = cursor_u64(c);
	packet->lost = cursor_u64(c);
	packet->cpu = cursor_u32(c);
	packet->size = size_bits / 8;
	return size_bits % 8 == 0 && packet->content >= c->size * 8 &&
	       packet->content <= size_bits && packet->begin <= packet->end &&
	       packet->end <= CTF_CLOCK_MAX;
}

bool ctf_v2_packet_get(const uint8_t in[CTF_V2_PACKET_HEADER_SIZE],
		       const struct ctf_identity *identity, struct ctf_packet *packet)
{
	struct cursor c = cursor_make(in, CTF_V2_PACKET_HEADER_SIZE);

	return get(&c, identity, packet) && packet->stream == 0;
}

bool ctf_packet_get(const uint8_t in[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    struct ctf_packet *packet)
{
	struct cursor c = cursor_make(in, CTF_PACKET_HEADER_SIZE);

	if (!get(&c, identity, packet))
		return false;
	packet->tables = cursor_u32(&c);
	packet->crc = cursor_u32(&c);
	return packet->tables >= CTF_PACKET_HEADER_SIZE && packet->tables < packet->content / 8;
}

uint32_t ctf_packet_crc(const uint8_t *packet, size_t size)
{
	static const uint8_t zero[sizeof(uint32_t)];
	const size_t before = CTF_PACKET_HEADER_SIZE - sizeof(zero);
	uint32_t crc = crc32c(0, packet, before);

	crc = crc32c(crc, zero, sizeof(zero));
	return crc32c(crc, packet + CTF_PACKET_HEADER_SIZE, size - CTF_PACKET_HEADER_SIZE);
}
