/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/file/bzimage.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>
#include "formats/base/cursor.h"

/* Offsets of setup header fields in the file (boot.rst, "The Real-Mode Kernel Header"). */
enum {
	SETUP_SECTS = 0x1f1,
	SYSSIZE = 0x1f4,
	BOOT_FLAG = 0x1fe,
	HEADER_MAGIC = 0x202,
	VERSION = 0x206,
	PAYLOAD_OFFSET = 0x248,
};

/* PE format: the offset of its header, and fields in that (PE32+). */
enum {
	PE_OFFSET = 0x3c,
	PE_CHECKSUM = 88,
	PE_CERTIFICATES = 168, /* data directory 4, address and size */
	PE_CERTIFICATES_SIZE = 8,
};

enum {
	SECTOR = 512,
	PARAGRAPH = 16,
	DEFAULT_SETUP_SECTS = 4, /* what 0 stands for, for historical reasons */
	VERSION_WITH_PAYLOAD = 0x208,
	CRC_SIZE = 4,
};

/* Over an image with its own CRC-32 behind it, as zlib gives it (inverted). */
#define CRC_REMAINDER 0xfffffffful

bool bzimage_probe(const uint8_t *file, size_t size)
{
	return size >= VERSION && file[BOOT_FLAG] == 0x55 && file[BOOT_FLAG + 1] == 0xaa &&
	       !memcmp(file + HEADER_MAGIC, "HdrS", 4);
}

static uint64_t setup_size(const uint8_t *file, size_t size)
{
	struct cursor c = cursor_make(file, size);
	uint64_t sectors;

	cursor_seek(&c, SETUP_SECTS);
	sectors = cursor_u8(&c);
	return ((sectors ? sectors : DEFAULT_SETUP_SECTS) + 1) * SECTOR;
}

static uint32_t read_u32(const uint8_t *file, size_t size, uint64_t at)
{
	struct cursor c = cursor_make(file, size);

	cursor_seek(&c, at);
	return cursor_u32(&c);
}

/* Goes on with the CRC from *at to `from`, then over `n` bytes taken for 0. */
static uLong crc_up_to(uLong crc, const uint8_t *file, size_t *at, size_t from, size_t n)
{
	static const uint8_t zeros[PE_CERTIFICATES_SIZE];

	crc = crc32_z(crc, file + *at, from - *at);
	*at = from + n;
	return n ? crc32(crc, zeros, (uInt)n) : crc;
}

int bzimage_verify(const uint8_t *file, size_t size, struct error *err)
{
	uint64_t end = setup_size(file, size) + (uint64_t)read_u32(file, size, SYSSIZE) * PARAGRAPH;
	uint64_t pe = read_u32(file, size, PE_OFFSET);
	uLong crc = crc32(0, NULL, 0);
	size_t at = 0;

	if (end > size || end < CRC_SIZE || !read_u32(file, size, end - CRC_SIZE))
		return 0;
	if (pe < SECTOR && pe + PE_CERTIFICATES + PE_CERTIFICATES_SIZE <= end) {
		crc = crc_up_to(crc, file, &at, pe + PE_CHECKSUM, CRC_SIZE);
		crc = crc_up_to(crc, file, &at, pe + PE_CERTIFICATES, PE_CERTIFICATES_SIZE);
	}
	crc = crc_up_to(crc, file, &at, end, 0);
	if (crc != CRC_REMAINDER)
		return error_set(err, EBADMSG, "bzImage is corrupt: its checksum is wrong");
	return 0;
}

int bzimage_payload(const uint8_t *file, size_t size, size_t *offset, size_t *length,
		    struct error *err)
{
	struct cursor c = cursor_make(file, size);
	uint64_t setup = setup_size(file, size), system, payload, bytes;
	unsigned int version;

	cursor_seek(&c, SYSSIZE);
	system = (uint64_t)cursor_u32(&c) * PARAGRAPH;
	cursor_seek(&c, VERSION);
	version = cursor_u16(&c);
	cursor_seek(&c, PAYLOAD_OFFSET);
	payload = cursor_u32(&c);
	bytes = cursor_u32(&c);
	if (c.failed)
		return error_set_at(err, EBADMSG, size, "bzImage is truncated in its header");
	if (version < VERSION_WITH_PAYLOAD)
		return error_set(err, ENOTSUP, "bzImage has boot protocol %u.%02u, need 2.08",
				 version >> 8, version & 0xff);
	if (setup + system > size)
		return error_set_at(err, EBADMSG, size,
				    "bzImage is truncated: has %zu bytes, its header says %llu",
				    size, (unsigned long long)(setup + system));
	if (!bytes || payload > system || bytes > system - payload)
		return error_set_at(err, EBADMSG, PAYLOAD_OFFSET,
				    "bzImage header places the payload outside the file");
	*offset = setup + payload;
	*length = bytes;
	return 0;
}
