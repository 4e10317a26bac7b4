/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/file/bzimage.h"

#include <errno.h>
#include <limits.h>
#include <lz4.h>
#include <lzma.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
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

/* --- the payload ----------------------------------------------------------------------------- */

enum { TRAILER = 4 };

/* The compressed bytes and where they go. Decoders must fill exactly `to_size` bytes. */
struct job {
	const uint8_t *from;
	size_t from_size;
	uint8_t *to;
	size_t to_size;
};

static int corrupt(struct error *err, const char *what, size_t offset)
{
	return error_set_at(err, EBADMSG, offset, "%s payload is corrupt", what);
}

/* LZ4 "legacy frame" (lz4_Frame_format.md): magic, then blocks of at most 8 MiB of output, each
 * preceded by its compressed size. The kernel's own tool writes several such frames at times. */
static int decode_lz4(const struct job *job, struct error *err)
{
	const uint32_t magic = 0x184c2102;
	struct cursor c = cursor_make(job->from, job->from_size);
	size_t done = 0;

	while (cursor_left(&c)) {
		uint32_t block = cursor_u32(&c);
		size_t room = job->to_size - done;
		size_t at = c.pos;
		const uint8_t *bytes;
		int got;

		if (block == magic)
			continue;
		bytes = cursor_bytes(&c, block);
		if (!bytes || block > INT_MAX)
			return corrupt(err, "LZ4", at);
		got = LZ4_decompress_safe((const char *)bytes, (char *)job->to + done, (int)block,
					  (int)room);
		if (got < 0 || (!got && block > 1))
			return corrupt(err, "LZ4", at);
		done += (size_t)got;
	}
	return c.failed || done != job->to_size ? corrupt(err, "LZ4", c.pos) : 0;
}

static int decode_zstd(const struct job *job, struct error *err)
{
	size_t got = ZSTD_decompress(job->to, job->to_size, job->from, job->from_size);

	return got == job->to_size ? 0 : corrupt(err, "zstd", 0);
}

static int decode_xz(const struct job *job, struct error *err)
{
	uint64_t memory = DECOMPRESS_MAX_OUTPUT;
	size_t in = 0, out = 0;
	lzma_ret ret = lzma_stream_buffer_decode(&memory, 0, NULL, job->from, &in, job->from_size,
						 job->to, &out, job->to_size);

	return ret == LZMA_OK && out == job->to_size ? 0 : corrupt(err, "xz", in);
}

/* The format before xz: `lzma -9`. */
static int decode_lzma(const struct job *job, struct error *err)
{
	lzma_stream z = LZMA_STREAM_INIT;
	lzma_ret ret = lzma_alone_decoder(&z, DECOMPRESS_MAX_OUTPUT);

	if (ret != LZMA_OK)
		return error_set(err, ENOMEM, "out of memory");
	z.next_in = job->from;
	z.avail_in = job->from_size;
	z.next_out = job->to;
	z.avail_out = job->to_size;
	ret = lzma_code(&z, LZMA_FINISH);
	lzma_end(&z);
	if (ret != LZMA_STREAM_END || z.avail_out)
		return corrupt(err, "lzma", z.total_in);
	return 0;
}

static int decode_gzip(const struct job *job, struct error *err)
{
	const int gzip_only = 16 + MAX_WBITS;
	z_stream z = {
		.next_in = (Bytef *)job->from,
		.avail_in = (uInt)job->from_size,
		.next_out = job->to,
		.avail_out = (uInt)job->to_size,
	};
	int ret;

	if (inflateInit2(&z, gzip_only) != Z_OK)
		return error_set(err, ENOMEM, "out of memory");
	ret = inflate(&z, Z_FINISH);
	inflateEnd(&z);
	if (ret != Z_STREAM_END || z.avail_out)
		return corrupt(err, "gzip", z.total_in);
	return 0;
}

static const struct format {
	const char *name;
	const char *magic;
	uint8_t magic_size;
	uint8_t trailer; /* bytes behind the compressed data that are not part of it */
	int (*decode)(const struct job *job, struct error *err); /* NULL: known, not supported */
} formats[] = {
	{"lz4", "\x02\x21\x4c\x18", 4, TRAILER, decode_lz4},
	{"zstd", "\x28\xb5\x2f\xfd", 4, TRAILER, decode_zstd},
	{"xz", "\xfd\x37\x7aXZ\0", 6, TRAILER, decode_xz},
	{"gzip", "\x1f\x8b\x08", 3, 0, decode_gzip},
	{"bzip2", "BZh", 3, TRAILER, NULL},
	{"lzo", "\x89LZO", 4, TRAILER, NULL},
	{"lzma", "\x5d\0\0", 3, TRAILER, decode_lzma},
};

static const struct format *find_format(const uint8_t *payload, size_t size)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (size >= formats[i].magic_size + (size_t)TRAILER &&
		    !memcmp(payload, formats[i].magic, formats[i].magic_size))
			return &formats[i];
	return NULL;
}

static int probe(const uint8_t *payload, size_t size, const struct format **format,
		 size_t *out_size, struct error *err)
{
	uint32_t expected;

	*format = find_format(payload, size);
	if (!*format)
		return error_set_at(err, EBADMSG, 0, "payload's compression is not recognised");
	if (!(*format)->decode)
		return error_set(err, ENOTSUP,
				 "payload is compressed with %s, not supported: use its vmlinux",
				 (*format)->name);
	memcpy(&expected, payload + size - TRAILER, sizeof(expected));
	if (!expected)
		return error_set_at(err, EBADMSG, size - TRAILER, "payload says it is empty");
	if (expected > DECOMPRESS_MAX_OUTPUT)
		return error_set_at(err, E2BIG, size - TRAILER,
				    "payload would decompress to %u bytes, more than %u allowed",
				    expected, (unsigned int)DECOMPRESS_MAX_OUTPUT);
	*out_size = expected;
	return 0;
}

int decompress_probe(const uint8_t *payload, size_t size, size_t *out_size,
		     const char **compression, struct error *err)
{
	const struct format *format;
	int ret = probe(payload, size, &format, out_size, err);

	if (!ret)
		*compression = format->name;
	return ret;
}

int decompress_payload(const uint8_t *payload, size_t size, uint8_t *to, struct error *err)
{
	struct job job = {.from = payload, .to = to};
	const struct format *format;
	int ret = probe(payload, size, &format, &job.to_size, err);

	if (ret)
		return ret;
	job.from_size = size - format->trailer;
	return format->decode(&job, err);
}
