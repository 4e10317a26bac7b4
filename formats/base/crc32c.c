/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78) /* 0x1edc6f41, lowest bit first */

static pthread_once_t table_once = PTHREAD_ONCE_INIT;
static uint32_t table[256];

static void make_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[byte] = crc;
	}
}

uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	pthread_once(&table_once, make_table);
	crc = ~crc;
	while (size--)
		crc = crc >> 8 ^ table[(crc ^ *at++) & 0xff];
	return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t start, const void *bytes,
								 size_t size)
{
	const uint8_t *at = bytes;
	uint64_t crc = (uint32_t)~start;

#pragma GCC unroll 4
	for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	while (size--)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *at++);
	return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
	return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, bytes, size)
						: crc32c_by_table(crc, bytes, size);
}
#else
uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
	return crc32c_by_table(crc, bytes, size);
}
#endif
