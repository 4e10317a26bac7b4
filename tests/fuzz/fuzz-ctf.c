/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/ctf/ctf.h"
#include "formats/trace/reader.h"
#include "tests/lib/consume.h"

/*
 * First byte: 0 for a metadata text; 1 for a stream as it is, little-endian; 2 and 3 for packets,
 * in either byte order: for each a length byte, a byte that says which number in its header to put
 * wrong, and that many bytes of content, so that decoding gets past the header.
 */
enum { MAX_STREAM = 64 << 10 };

static char *metadata(bool big_endian)
{
	static char *texts[2];
	static const struct sidecar none;
	struct ctf_metadata all = {.identity.big_endian = big_endian, .sidecar = &none};

	if (!texts[big_endian])
		texts[big_endian] = ctf_metadata_text(&all);
	if (!texts[big_endian])
		abort();
	return texts[big_endian];
}

static void read_stream(const uint8_t *bytes, size_t size, bool big_endian)
{
	const struct trace_memory_file files[] = {
		{"metadata", metadata(big_endian), strlen(metadata(big_endian))},
		{"cpu0", bytes, size}};
	struct trace_reader *reader;

	if (trace_reader_open_memory(files, 2, &reader, NULL))
		abort();
	consume_trace(reader);
	trace_reader_close(reader);
}

static void spoil(struct ctf_packet *packet, uint8_t how)
{
	uint64_t *const numbers[] = {&packet->begin, &packet->end,      &packet->content,
				     &packet->size,  &packet->sequence, &packet->lost};

	if (how % 16 < sizeof(numbers) / sizeof(numbers[0]))
		*numbers[how % 16] += (uint64_t)(how / 16) - 8;
}

static void read_packets(const uint8_t *data, size_t size, bool big_endian)
{
	const struct ctf_identity identity = {.big_endian = big_endian};
	uint8_t *stream = malloc(MAX_STREAM);
	struct ctf_packet packet = {0};
	size_t used = 0;

	if (!stream)
		abort();
	while (size > 2 && used < MAX_STREAM - 512) {
		size_t length = data[0] < size - 2 ? data[0] : size - 2;

		packet.begin = packet.end;
		packet.end += 1u << 28;
		packet.size = CTF_PACKET_HEADER_SIZE + length;
		packet.content = packet.size * 8;
		spoil(&packet, data[1]);
		ctf_packet_put(stream + used, &identity, &packet);
		used += CTF_PACKET_HEADER_SIZE;
		memcpy(stream + used, data + 2, length);
		used += length;
		data += 2 + length;
		size -= 2 + length;
	}
	read_stream(stream, used, big_endian);
	free(stream);
}

static void read_metadata(const uint8_t *data, size_t size)
{
	struct ctf_identity identity;
	struct error err;

	ctf_metadata_parse(data, size, &identity, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] % 4) {
	case 0:
		read_metadata(data + 1, size - 1);
		break;
	case 1:
		read_stream(data + 1, size - 1, false);
		break;
	default:
		read_packets(data + 1, size - 1, data[0] % 4 == 3);
	}
	return 0;
}
