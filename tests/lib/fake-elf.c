/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-elf.h"

#include <elf.h>
#include <string.h>

struct writer {
	uint8_t *out;
	size_t at, room;
};

static size_t put(struct writer *w, const void *bytes, size_t size)
{
	size_t at = w->at;

	if (size && at + size <= w->room)
		memcpy(w->out + at, bytes, size);
	w->at += size;
	return at;
}

static void put_header(struct writer *w, uint16_t nr_sections, uint64_t sections_at)
{
	Elf64_Ehdr ehdr = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(ehdr),
		.e_shoff = sections_at,
		.e_ehsize = sizeof(ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = nr_sections,
		.e_shstrndx = (uint16_t)(nr_sections - 1),
	};

	put(w, &ehdr, sizeof(ehdr));
}

static void put_segment(struct writer *w, uint64_t address, size_t size)
{
	Elf64_Phdr phdr = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_offset = FAKE_ELF_IMAGE_OFFSET,
		.p_vaddr = address,
		.p_paddr = address & 0x7fffffff,
		.p_filesz = size,
		.p_memsz = size,
	};

	put(w, &phdr, sizeof(phdr));
}

enum { MAX_SECTIONS = 16, NAMES = 512 };

size_t fake_elf(uint64_t address, const void *image, size_t image_size,
		const struct fake_section *sections, uint8_t *out, size_t room)
{
	struct writer w = {.out = out, .room = room};
	Elf64_Shdr headers[MAX_SECTIONS] = {{0}};
	char names[NAMES] = "";
	size_t names_size = 1, table;
	uint16_t n = 1;

	w.at = FAKE_ELF_IMAGE_OFFSET;
	put(&w, image, image_size);
	for (; sections && sections->name; sections++, n++) {
		headers[n] = (Elf64_Shdr){
			.sh_name = (uint32_t)names_size,
			.sh_type = sections->type,
			.sh_flags = sections->flags,
			.sh_offset = put(&w, sections->bytes, sections->size),
			.sh_size = sections->size,
			.sh_link = sections->link,
			.sh_entsize = sections->entry_size,
		};
		strcpy(names + names_size, sections->name);
		names_size += strlen(sections->name) + 1;
	}
	headers[n++] = (Elf64_Shdr){
		.sh_type = SHT_STRTAB,
		.sh_offset = put(&w, names, names_size),
		.sh_size = names_size,
	};
	table = put(&w, headers, n * sizeof(headers[0]));
	room = w.at;
	w.at = 0;
	put_header(&w, n, table);
	put_segment(&w, address, image_size);
	return room <= w.room ? room : 0;
}
