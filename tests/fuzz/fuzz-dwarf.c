/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Debug information: that of a function with a block and two functions inlined into each other,
 * with changes. Each three bytes of the data are one: where, in 16 bits, and the byte to put there.
 */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "guest-symbols/dwarf/dwarf-lines.h"
#include "tests/lib/fake-elf.h"

enum { ADDRESS = 0x1000, CODE = 64, ELF_ROOM = 8192, MAX_CHANGES = 64 };

/* DWARF 4. Forms: 0x01 addr, 0x06 data4, 0x08 string, 0x0b data1, 0x13 ref4, 0x17 sec_offset. */
__asm__(".pushsection .rodata\n"
	"abbrev_begin:\n"
	".byte 1, 0x11, 1, 0x03, 0x08, 0x1b, 0x08, 0x10, 0x17, 0x55, 0x17, 0x11, 0x01, 0, 0\n"
	".byte 2, 0x2e, 0, 0x03, 0x08, 0x20, 0x0b, 0, 0\n"
	".byte 3, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0\n"
	".byte 4, 0x0b, 1, 0x55, 0x17, 0, 0\n"
	".byte 5, 0x1d, 1, 0x31, 0x13, 0x55, 0x17, 0x58, 0x0b, 0x59, 0x0b, 0, 0, 0\n"
	"abbrev_end:\n"
	"info_begin:\n"
	".long info_end - info_begin - 4\n"
	".short 4\n"
	".long 0\n"
	".byte 8\n"
	".byte 1; .asciz \"a.c\"; .asciz \"/src\"; .long 0; .long 0; .quad 0\n"
	"inlined: .byte 2; .asciz \"in\"; .byte 1\n"
	".byte 3; .asciz \"out\"; .quad 0x1000; .long 64\n"
	".byte 4; .long 32\n"
	".byte 5; .long inlined - info_begin; .long 32; .byte 1, 20\n"
	".byte 5; .long inlined - info_begin; .long 64; .byte 2, 30\n"
	".byte 0, 0, 0, 0, 0\n"
	"info_end:\n"
	"ranges_begin:\n"
	".quad 0x1000, 0x1040, 0, 0\n"
	".quad 0x1008, 0x1030, 0, 0\n"
	".quad 0x1010, 0x1020, 0x1028, 0x1030, 0, 0\n"
	"ranges_end:\n"
	"line_begin:\n"
	".long line_end - line_begin - 4\n"
	".short 4\n"
	".long line_program - line_header\n"
	"line_header:\n"
	".byte 1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1\n"
	".asciz \"/src/dir\"; .byte 0\n"
	".asciz \"a.c\"; .byte 0, 0, 0; .asciz \"b.h\"; .byte 1, 0, 0; .byte 0\n"
	"line_program:\n"
	".byte 0, 9, 2; .quad 0x1000; .byte 3, 10, 1, 0x83, 4, 2, 0x83, 0x91, 2, 32, 0, 1, 1\n"
	"line_end:\n"
	".popsection\n");

extern const uint8_t abbrev_begin[], abbrev_end[], info_begin[], info_end[];
extern const uint8_t ranges_begin[], ranges_end[], line_begin[], line_end[];

static size_t make_file(const uint8_t *data, size_t size, uint8_t file[ELF_ROOM])
{
#define SECTION(name_)                                                              \
	{                                                                           \
		.name = ".debug_" #name_, .bytes = name_##_begin,                   \
		.size = (size_t)(name_##_end - name_##_begin), .type = SHT_PROGBITS \
	}
	static const uint8_t code[CODE];
	const struct fake_section sections[] = {
		SECTION(abbrev), SECTION(info), SECTION(ranges), SECTION(line), {0}};
	const size_t bytes = fake_elf(ADDRESS, code, sizeof(code), sections, file, ELF_ROOM);

	if (!bytes)
		abort();
	for (size_t i = 0; size >= 3 && i < MAX_CHANGES; i++, data += 3, size -= 3)
		file[(data[0] | data[1] << 8) % bytes] = data[2];
	return bytes;
}

static void check_text(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			abort();
}

static void look_up(struct dwarf_lines *lines, uint64_t address)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	const size_t n = dwarf_lines_find(lines, address, frames);

	if (n > SOURCE_MAX_FRAMES)
		abort();
	for (size_t i = 0; i < n; i++) {
		check_text(frames[i].function);
		check_text(frames[i].file);
	}
}

/* Without changes all of it is found. */
static void check_itself(void)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	struct dwarf_lines *lines;
	uint8_t file[ELF_ROOM];
	const size_t bytes = make_file(NULL, 0, file);
	const int fd = memfd_create("dwarf", MFD_CLOEXEC);

	if (write(fd, file, bytes) != (ssize_t)bytes || dwarf_lines_open(fd, &lines, NULL) ||
	    dwarf_lines_find(lines, ADDRESS + 0x18, frames) != 3 ||
	    strcmp(frames[2].function, "in") || strcmp(frames[2].file, "dir/b.h"))
		abort();
	dwarf_lines_close(lines);
}

/* The same file as that of a module: its sections get addresses, and its symbols are looked up. */
static void read_module(uint8_t *file, size_t bytes)
{
	const uint16_t relocatable = ET_REL;
	const int fd = memfd_create("module", MFD_CLOEXEC);
	struct dwarf_lines *lines;
	uint64_t address;

	memcpy(file + offsetof(Elf64_Ehdr, e_type), &relocatable, sizeof(relocatable));
	if (write(fd, file, bytes) != (ssize_t)bytes)
		abort();
	if (dwarf_lines_open_module(fd, &lines, NULL))
		return;
	for (uint64_t i = 0; i < CODE; i += 4)
		look_up(lines, ADDRESS + i);
	if (dwarf_lines_function(lines, "out", 4, CODE, &address))
		look_up(lines, address);
	dwarf_lines_close(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool is_checked;
	uint8_t file[ELF_ROOM];
	const size_t bytes = make_file(data, size, file);
	const int fd = memfd_create("dwarf", MFD_CLOEXEC);
	struct dwarf_lines *lines;

	if (!is_checked)
		check_itself();
	is_checked = true;
	if (write(fd, file, bytes) != (ssize_t)bytes)
		abort();
	if (dwarf_lines_open(fd, &lines, NULL)) {
		close(fd);
	} else {
		for (uint64_t i = 0; i < CODE; i += 4)
			look_up(lines, ADDRESS + i);
		dwarf_lines_close(lines);
	}
	read_module(file, bytes);
	return 0;
}
