/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Booting a bzImage, with a kernel made here: two segments, .bss, a relocation table, gzip. */
#include <asm/bootparam.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "tests/lib/tap.h"
#include "vmm/boot/boot.h"

enum {
	MIB = 0x100000,
	RAM_MIB = 64,
	SECTOR = 512,
	SETUP = 5 * SECTOR,
	PAYLOAD = 0x20, /* offset in the system's part */
	ROOM = 6 * MIB,
	LINKED_PHYS = 16 * MIB,
	TEXT_SIZE = 0x3000,
	DATA_SIZE = 0x2000,
	DATA_AT = 0x10000, /* from the text on, in memory */
	MEMORY_SIZE = 0x18000,
	POINTER_AT = 0x100, /* in the text: a word that the relocation table names */
};

static const uint64_t linked_virt = 0xffffffff81000000;

/* What the tests vary. */
struct shape {
	uint32_t text_offset, data_offset; /* in the ELF */
	uint64_t memory_size;              /* of both segments, .bss included */
	uint32_t init_size;                /* claimed by the setup header */
	uint32_t cmdline_size;
	unsigned int nr_empty; /* further segments */
	bool no_relocs, packed, fixed, damaged, late;
};

static const struct shape usual = {.text_offset = 0x200000,
				   .data_offset = 0x280000,
				   .memory_size = MEMORY_SIZE,
				   .init_size = MEMORY_SIZE,
				   .cmdline_size = 2047,
				   .packed = true};

static uint8_t text[TEXT_SIZE], data[DATA_SIZE];
static uint8_t plain[ROOM], image[SETUP + ROOM];

static void put(uint8_t *to, uint64_t value, size_t size)
{
	memcpy(to, &value, size);
}

static size_t make_elf(const struct shape *shape)
{
	const Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					       ELFDATA2LSB, EV_CURRENT},
				   .e_type = ET_EXEC,
				   .e_machine = EM_X86_64,
				   .e_version = EV_CURRENT,
				   .e_entry = LINKED_PHYS,
				   .e_phoff = sizeof(header),
				   .e_ehsize = sizeof(header),
				   .e_phentsize = sizeof(Elf64_Phdr),
				   .e_phnum = (Elf64_Half)(2 + shape->nr_empty)};
	Elf64_Phdr segments[32] = {{.p_type = PT_LOAD,
				    .p_offset = shape->text_offset,
				    .p_vaddr = linked_virt,
				    .p_paddr = LINKED_PHYS,
				    .p_filesz = TEXT_SIZE,
				    .p_memsz = TEXT_SIZE},
				   {.p_type = PT_LOAD,
				    .p_offset = shape->data_offset,
				    .p_vaddr = linked_virt + DATA_AT,
				    .p_paddr = LINKED_PHYS + DATA_AT,
				    .p_filesz = DATA_SIZE,
				    .p_memsz = shape->memory_size - DATA_AT}};
	/* As arch/x86/tools/relocs.c writes it: 64-bit, 32-bit. */
	const uint32_t relocs[] = {0, (uint32_t)linked_virt + POINTER_AT, 0};
	size_t size = shape->data_offset + DATA_SIZE;

	for (unsigned int i = 0; i < shape->nr_empty; i++)
		segments[2 + i] = (Elf64_Phdr){.p_type = PT_LOAD,
					       .p_vaddr = linked_virt,
					       .p_paddr = LINKED_PHYS,
					       .p_memsz = 1};
	memset(plain, 0, sizeof(plain));
	memcpy(plain, &header, sizeof(header));
	memcpy(plain + sizeof(header), segments, sizeof(segments));
	memcpy(plain + shape->text_offset, text, sizeof(text));
	memcpy(plain + shape->data_offset, data, sizeof(data));
	if (shape->no_relocs)
		return size;
	memcpy(plain + size, relocs, sizeof(relocs));
	return size + sizeof(relocs);
}

static size_t pack(uint8_t *to, size_t size)
{
	z_stream z = {.next_in = plain, .avail_in = (uInt)size, .next_out = to, .avail_out = ROOM};

	deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
	deflate(&z, Z_FINISH);
	deflateEnd(&z);
	return z.total_out;
}

/* Offsets: boot.rst, "The Real-Mode Kernel Header". */
static size_t make_bzimage(const struct shape *shape)
{
	size_t length = make_elf(shape), system;
	uint8_t *payload = image + SETUP + PAYLOAD;

	memset(image, 0, sizeof(image));
	if (shape->packed)
		length = pack(payload, length);
	else
		memcpy(payload, plain, length);
	if (shape->damaged)
		payload[length - 6] ^= 0x40; /* in its checksum */
	system = (PAYLOAD + length + 15) / 16 * 16;
	image[0x1f1] = SETUP / SECTOR - 1;
	put(image + 0x1f4, system / 16, 4);
	put(image + 0x1fe, 0xaa55, 2);
	image[0x201] = 0x6a; /* the header ends 0x6a behind its jump */
	memcpy(image + 0x202, "HdrS\x0f\x02", 6);
	put(image + 0x22c, 0x7fffffff, 4);
	image[0x234] = !shape->fixed;
	put(image + 0x236, XLF_KERNEL_64, 2);
	put(image + 0x238, shape->cmdline_size, 4);
	put(image + 0x248, PAYLOAD, 4);
	put(image + 0x24c, length, 4);
	put(image + 0x258, shape->late ? (RAM_MIB - 1) * MIB : LINKED_PHYS, 8);
	put(image + 0x260, shape->late ? 4 * MIB : shape->init_size, 4);
	return SETUP + system;
}

struct machine {
	struct guest_memory memory;
	struct boot_entry entry;
	struct error err;
	const struct boot_params *params;
	int ret;
};

static void boot(struct machine *m, const struct shape *shape, const struct boot_config *like)
{
	struct boot_config config = *like;
	char path[] = "/tmp/test-bzimage-XXXXXX";
	size_t size = make_bzimage(shape);
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, image, size) != (ssize_t)size)
		abort();
	close(fd);
	memset(m, 0, sizeof(*m));
	config.kernel = path;
	if (!config.cmdline)
		config.cmdline = "nokaslr";
	if (guest_memory_init(&m->memory, (uint64_t)RAM_MIB * MIB, NULL))
		abort();
	m->ret = boot_load(&config, 1, &m->memory, &m->entry, &m->err);
	m->params = guest_memory_at(&m->memory, BOOT_PARAMS_GPA, sizeof(*m->params));
	unlink(path);
	if (m->ret)
		tap_diag("%s", m->err.text);
}

static void done(struct machine *m)
{
	guest_memory_deinit(&m->memory);
}

static bool is_zero(const uint8_t *from, const uint8_t *to)
{
	while (from < to && !*from)
		from++;
	return from >= to;
}

/* Its segments are in place, and the rest of RAM from 4 MiB on is untouched. */
static bool is_loaded(const struct machine *m)
{
	const uint8_t *ram = m->memory.hva, *at = ram + m->entry.rip;

	return !memcmp(at, text, TEXT_SIZE) && !memcmp(at + DATA_AT, data, DATA_SIZE) &&
	       is_zero(ram + 4 * MIB, at) && is_zero(at + TEXT_SIZE, at + DATA_AT) &&
	       is_zero(at + DATA_AT + DATA_SIZE, ram + RAM_MIB * MIB);
}

static void test_direct(const struct shape *shape, const char *name)
{
	struct machine m;

	boot(&m, shape, &(struct boot_config){0});
	ok(!m.ret && m.entry.rip == LINKED_PHYS && m.entry.info.slide_known, "%s is loaded", name);
	ok(!m.ret && is_loaded(&m), "%s has its segments in place, and zeros everywhere else",
	   name);
	done(&m);
}

static void test_places(void)
{
	struct shape shape = usual;

	test_direct(&shape, "a compressed kernel");
	shape.packed = false;
	test_direct(&shape, "an uncompressed payload");
	shape = usual;
	shape.text_offset = 0x1000;
	test_direct(&shape, "a kernel whose text would have to move up");
	shape = usual;
	shape.data_offset = 0x200000 + TEXT_SIZE;
	test_direct(&shape, "a kernel whose data would have to move up");
	shape = usual;
	shape.memory_size = shape.init_size = 8 * MIB;
	test_direct(&shape, "a kernel with a large .bss");
	shape.init_size = MEMORY_SIZE;
	test_direct(&shape, "a kernel with more .bss than its header claims");
	shape = usual;
	shape.no_relocs = true;
	test_direct(&shape, "a kernel without relocations");
}

static void test_slide(void)
{
	const struct boot_config config = {
		.cmdline = "quiet", .has_kaslr_seed = true, .kaslr_seed = 4};
	const uint64_t linked = linked_virt + 0x1234;
	struct shape fixed = usual;
	struct machine m;
	uint64_t word = 0;

	put(text + POINTER_AT, linked, 8);
	boot(&m, &usual, &config);
	memcpy(&word, m.memory.hva + m.entry.info.phys_text + POINTER_AT, 8);
	ok(!m.ret && m.entry.info.virt_slide && m.entry.info.virt_slide % 0x200000 == 0,
	   "a kernel with relocations gets a slide");
	is_u64(word, linked + m.entry.info.virt_slide, "the slide is added to its pointers");
	is_u64(m.params->hdr.loadflags & KASLR_FLAG, KASLR_FLAG,
	       "the setup header says that the kernel is randomised");
	done(&m);
	fixed.no_relocs = true;
	boot(&m, &fixed, &config);
	ok(!m.ret && !m.entry.info.virt_slide && !(m.params->hdr.loadflags & KASLR_FLAG),
	   "a kernel without relocations gets no slide");
	done(&m);
}

static void refuses(const struct shape *shape, const struct boot_config *config, int code,
		    const char *name)
{
	struct machine m;

	boot(&m, shape, config);
	is_u64((uint64_t)-m.ret, (uint64_t)code, name);
	done(&m);
}

static void test_refused_direct(void)
{
	const struct boot_config direct = {.mode = BOOT_DIRECT};
	struct shape shape = usual;

	shape.damaged = true;
	refuses(&shape, &direct, EBADMSG, "a damaged payload is refused");
	shape = usual;
	shape.memory_size = shape.init_size = 60 * MIB;
	refuses(&shape, &direct, ENOMEM, "a kernel larger than the RAM is refused");
	shape = usual;
	shape.nr_empty = 15;
	refuses(&shape, &direct, E2BIG, "a kernel with 17 segments is refused");
	shape = usual;
	shape.cmdline_size = 6;
	refuses(&shape, &direct, E2BIG, "a command line longer than the header allows is refused");
	shape.cmdline_size = 0;
	test_direct(&shape, "a kernel whose header has no length of the command line");
}

static void test_bzimage(void)
{
	struct machine m;

	boot(&m, &usual, &(struct boot_config){.mode = BOOT_BZIMAGE});
	is_u64((uint64_t)-m.ret, 0, "a bzImage can decompress itself");
	is_u64(m.entry.rip, MIB + 0x200,
	       "a bzImage is entered 0x200 behind the beginning of its system's part");
	ok(!m.entry.info.slide_known, "the slide of a bzImage is not known");
	is_u64(m.params->hdr.code32_start, MIB,
	       "the setup header has the place of the system's part");
	ok(!memcmp(m.memory.hva + MIB, image + SETUP, 4096), "the system's part is at 1 MiB");
	done(&m);
}

static void test_refused_bzimage(void)
{
	const struct boot_config config = {.mode = BOOT_BZIMAGE};
	struct shape shape = usual;

	shape.fixed = true;
	refuses(&shape, &config, ENOTSUP, "a bzImage that cannot be relocated is refused");
	shape = usual;
	shape.late = true;
	refuses(&shape, &config, ENOMEM, "a bzImage that works beyond the end of RAM is refused");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7 + 1) | 1;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 5 + 3) | 1;
	test_places();
	test_slide();
	test_refused_direct();
	test_bzimage();
	test_refused_bzimage();
	return tap_done();
}
