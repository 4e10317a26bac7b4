/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/bzimage.h"

#include <errno.h>
#include <string.h>
#include "formats/cursor.h"

/* Offsets of setup header fields in the file (boot.rst, "The Real-Mode Kernel Header"). */
enum {
	SETUP_SECTS = 0x1f1,
	SYSSIZE = 0x1f4,
	BOOT_FLAG = 0x1fe,
	HEADER_MAGIC = 0x202,
	VERSION = 0x206,
	PAYLOAD_OFFSET = 0x248,
};

enum {
	SECTOR = 512,
	PARAGRAPH = 16,
	DEFAULT_SETUP_SECTS = 4, /* what 0 stands for, for historical reasons */
	VERSION_WITH_PAYLOAD = 0x208,
};

bool bzimage_probe(const uint8_t *file, size_t size)
{
	return size >= VERSION && file[BOOT_FLAG] == 0x55 && file[BOOT_FLAG + 1] == 0xaa &&
	       !memcmp(file + HEADER_MAGIC, "HdrS", 4);
}

int bzimage_payload(const uint8_t *file, size_t size, size_t *offset, size_t *length,
		    struct error *err)
{
	struct cursor c = cursor_make(file, size);
	uint64_t setup, system, payload, bytes;
	unsigned int version;

	cursor_seek(&c, SETUP_SECTS);
	setup = cursor_u8(&c);
	setup = ((setup ? setup : DEFAULT_SETUP_SECTS) + 1) * SECTOR;
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
