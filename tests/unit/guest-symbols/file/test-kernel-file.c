/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <lz4.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include "guest-symbols/file/bzimage.h"
#include "guest-symbols/file/kernel-file.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/tap.h"

enum { ROOM = 1 << 16, SETUP = 2 * 512, IMAGE = 4096 };
#define ADDRESS 0xffffffff81000000

/* A kernel as it is before compression: an ELF and the relocation table. */
struct plain {
	uint8_t bytes[ROOM];
	size_t size, elf_size;
};

static void make_plain(struct plain *plain, const uint32_t *relocs, size_t nr_relocs)
{
	uint8_t image[IMAGE];

	for (size_t i = 0; i < IMAGE; i++)
		image[i] = (uint8_t)(i * i >> 5);
	plain->elf_size = fake_elf(ADDRESS, image, IMAGE, NULL, plain->bytes, ROOM);
	memcpy(plain->bytes + plain->elf_size, relocs, nr_relocs * sizeof(*relocs));
	plain->size = plain->elf_size + nr_relocs * sizeof(*relocs);
}

static size_t trailer(const struct plain *plain, uint8_t *out, size_t size)
{
	memcpy(out + size, &(uint32_t){(uint32_t)plain->size}, 4);
	return size + 4;
}

static size_t make_lz4(const struct plain *plain, uint8_t *out)
{
	size_t at = 4, half = plain->size / 2;

	memcpy(out, "\x02\x21\x4c\x18", 4);
	for (size_t done = 0; done < plain->size; done += half) {
		size_t n = plain->size - done < half ? plain->size - done : half;
		int got = LZ4_compress_default((const char *)plain->bytes + done,
					       (char *)out + at + 4, (int)n, ROOM / 2);

		memcpy(out + at, &got, 4);
		at += 4 + (size_t)got;
	}
	return trailer(plain, out, at);
}

static size_t make_zstd(const struct plain *plain, uint8_t *out)
{
	return trailer(plain, out, ZSTD_compress(out, ROOM, plain->bytes, plain->size, 3));
}

static size_t make_xz(const struct plain *plain, uint8_t *out)
{
	size_t at = 0;

	lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, plain->bytes, plain->size, out, &at,
				ROOM);
	return trailer(plain, out, at);
}

static size_t make_lzma(const struct plain *plain, uint8_t *out)
{
	lzma_stream z = LZMA_STREAM_INIT;
	lzma_options_lzma options;

	lzma_lzma_preset(&options, 1);
	if (lzma_alone_encoder(&z, &options) != LZMA_OK)
		abort();
	z.next_in = plain->bytes;
	z.avail_in = plain->size;
	z.next_out = out;
	z.avail_out = ROOM;
	if (lzma_code(&z, LZMA_FINISH) != LZMA_STREAM_END)
		abort();
	lzma_end(&z);
	return trailer(plain, out, z.total_out);
}

static size_t make_gzip(const struct plain *plain, uint8_t *out)
{
	z_stream z = {
		.next_in = (Bytef *)plain->bytes,
		.avail_in = (uInt)plain->size,
		.next_out = out,
		.avail_out = ROOM,
	};

	deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
	deflate(&z, Z_FINISH);
	deflateEnd(&z);
	return z.total_out;
}

static size_t make_none(const struct plain *plain, uint8_t *out)
{
	memcpy(out, plain->bytes, plain->size);
	return plain->size;
}

static const struct {
	const char *name;
	size_t (*make)(const struct plain *plain, uint8_t *out);
} methods[] = {
	{"lz4", make_lz4},   {"zstd", make_zstd}, {"xz", make_xz},
	{"gzip", make_gzip}, {"lzma", make_lzma}, {"none", make_none},
};

/* Boot sector, setup header, and the payload 32 bytes into the protected-mode part. */
static size_t make_bzimage(const struct plain *plain, size_t method, uint8_t *out)
{
	size_t length, system;

	memset(out, 0, SETUP + 32);
	length = methods[method].make(plain, out + SETUP + 32);
	system = (32 + length + 15) / 16 * 16;
	memset(out + SETUP + 32 + length, 0, system - 32 - length);
	out[0x1f1] = SETUP / 512 - 1;
	memcpy(out + 0x1f4, &(uint32_t){(uint32_t)(system / 16)}, 4);
	memcpy(out + 0x1fe, "\x55\xaa", 2);
	memcpy(out + 0x202, "HdrS\x0f\x02", 6);
	memcpy(out + 0x248, &(uint32_t){32}, 4);
	memcpy(out + 0x24c, &(uint32_t){(uint32_t)length}, 4);
	return SETUP + system;
}

static uint8_t bzimage[3 * ROOM];
static struct plain plain;

static void test_method(size_t method)
{
	size_t size = make_bzimage(&plain, method, bzimage);
	struct kernel_file *file = NULL;
	struct error err = {0};
	const char *name = methods[method].name;

	if (!ok(!kernel_file_from_memory(bzimage, size, &file, &err),
		"a kernel compressed with %s opens (%s)", name, err.text))
		return;
	is_str(file->compression, name, "its compression is named");
	ok(file->format == KERNEL_FORMAT_BZIMAGE, "%s: the format is bzImage", name);
	is_u64(file->vmlinux_size, plain.elf_size, "the ELF ends where the relocations begin");
	ok(!memcmp(file->vmlinux, plain.bytes, plain.elf_size),
	   "%s: the ELF is what was compressed", name);
	is_u64(file->relocs_size, plain.size - plain.elf_size, "the relocations have their size");
	ok(!memcmp(file->relocs, plain.bytes + plain.elf_size, file->relocs_size),
	   "%s: the relocations are what was compressed", name);
	kernel_file_close(file);
}

static void test_truncated(size_t method)
{
	size_t size = make_bzimage(&plain, method, bzimage);
	size_t wrong = 0, executable = 0;

	for (size_t cut = 0; cut < size; cut++) {
		struct kernel_file *file = NULL;
		int ret = kernel_file_from_memory(bzimage, cut, &file, NULL);

		executable += ret == -ENOEXEC;
		wrong += ret != -EBADMSG && ret != -ENOEXEC;
	}
	is_u64(wrong, 0, "a file cut off at any byte is refused as truncated or no kernel");
	is_u64(executable, 0x206, "only a file without its whole header is taken for no kernel");
}

static void expect(int code, const char *text, const char *label)
{
	struct kernel_file *file = NULL;
	struct error err = {0};

	is_u64((uint64_t)-kernel_file_from_memory(bzimage, SETUP + ROOM, &file, &err),
	       (uint64_t)code, label);
	ok(strstr(err.text, text), "the error is \"%s\"", err.text);
	kernel_file_close(file);
}

static void test_sizes(void)
{
	size_t payload = SETUP + 32, length = 0;

	make_bzimage(&plain, 0, bzimage);
	memcpy(&length, bzimage + 0x24c, 4);
	memcpy(bzimage + payload + length - 4, &(uint32_t){DECOMPRESS_MAX_OUTPUT + 1}, 4);
	expect(E2BIG, "more than", "an output above the cap is refused");
	memcpy(bzimage + payload + length - 4, &(uint32_t){(uint32_t)plain.size - 1}, 4);
	expect(EBADMSG, "LZ4 payload is corrupt", "more output than announced is refused");
	memcpy(bzimage + payload + length - 4, &(uint32_t){(uint32_t)plain.size + 1}, 4);
	expect(EBADMSG, "LZ4 payload is corrupt", "less output than announced is refused");
	memset(bzimage + payload, 'x', 8);
	expect(EBADMSG, "not recognised", "an unknown compression is refused");
	memcpy(bzimage + payload, "BZh9", 4);
	expect(ENOTSUP, "bzip2", "a compression that is not supported is named");
	memcpy(bzimage + 0x24c, &(uint32_t){0xffffffff}, 4);
	expect(EBADMSG, "outside the file", "a payload longer than the file is refused");
	bzimage[0x206] = 7;
	expect(ENOTSUP, "2.07", "an old boot protocol is refused");
}

static uint64_t get(const uint8_t *p, size_t size)
{
	uint64_t v = 0;

	memcpy(&v, p, size);
	return v;
}

static void test_relocs(const uint32_t *table, size_t n, bool has_inverse)
{
	const uint64_t slide = 0x1200000;
	struct kernel_file file = {.relocs = (const uint8_t *)table, .relocs_size = n * 4};
	uint8_t image[64];
	struct error err = {0};

	memset(image, 0x11, sizeof(image));
	ok(!kernel_file_relocate(&file, image, sizeof(image), ADDRESS, slide, &err),
	   "an image is relocated (%s)", err.text);
	is_u64(get(image, 4), 0x11111111 + slide, "a 32-bit address is moved up");
	is_u64(get(image + 4, 4), 0x11111111, "the bytes beside it are left alone");
	is_u64(get(image + 8, 4), has_inverse ? 0x11111111 - slide : 0x11111111,
	       "an inverse 32-bit address is moved down, where there are any");
	is_u64(get(image + 16, 8), 0x1111111111111111 + slide, "a 64-bit address is moved up");
	is_u64(get(image + 56, 8), 0x1111111111111111 + slide, "so is the one in the last word");
	ok(!kernel_file_relocate(&file, image, sizeof(image), ADDRESS, 0, NULL),
	   "a slide of 0 is accepted");
	is_u64(get(image, 4), 0x11111111 + slide, "a slide of 0 changes nothing");
	is_u64(-kernel_file_relocate(&file, image, 63, ADDRESS, slide, &err), EBADMSG,
	       "an address outside of the image is refused");
	is_u64(err.address, ADDRESS + 56, "the error has the address");
}

int main(void)
{
	const uint32_t at = (uint32_t)ADDRESS;
	const uint32_t older[] = {0, at + 56, at + 16, 0, at + 8, 0, at};
	const uint32_t newer[] = {0, at + 56, at + 16, 0, at};
	const uint32_t bad[] = {at, 0, at};
	struct kernel_file none = {0};
	struct kernel_file malformed = {.relocs = (const uint8_t *)bad, .relocs_size = sizeof(bad)};
	uint8_t image[8];

	make_plain(&plain, older, sizeof(older) / sizeof(older[0]));
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		test_method(i);
		test_truncated(i);
	}
	test_sizes();
	test_relocs(older, sizeof(older) / sizeof(older[0]), true);
	test_relocs(newer, sizeof(newer) / sizeof(newer[0]), false);
	is_u64(-kernel_file_relocate(&none, image, 8, ADDRESS, 1, NULL), ENOTSUP,
	       "an image without a table cannot be relocated");
	is_u64(-kernel_file_relocate(&malformed, image, 8, ADDRESS, 1, NULL), EBADMSG,
	       "a malformed table is refused");
	return tap_done();
}
