/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/image/memory-image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEADERS_SIZE = 4096 };

/* An ELF file with one segment, which is the memory. */
static void write_headers(uint8_t *elf, uint64_t gva, size_t size)
{
	const Elf64_Ehdr ehdr = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
	};
	const Elf64_Phdr phdr = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W | PF_X,
		.p_offset = HEADERS_SIZE,
		.p_vaddr = gva,
		.p_filesz = size,
		.p_memsz = size,
	};

	memcpy(elf, &ehdr, sizeof(ehdr));
	memcpy(elf + sizeof(ehdr), &phdr, sizeof(phdr));
}

int memory_copy_init(struct memory_copy *memory, uint64_t gva, size_t size, struct error *err)
{
	*memory = (struct memory_copy){.gva = gva, .size = size};
	if (size <= SIZE_MAX - HEADERS_SIZE)
		memory->elf = calloc(1, HEADERS_SIZE + size);
	if (!memory->elf)
		return error_set(err, ENOMEM, "no memory for %zu bytes of kernel", size);
	memory->bytes = memory->elf + HEADERS_SIZE;
	write_headers(memory->elf, gva, size);
	return 0;
}

void memory_copy_deinit(struct memory_copy *memory)
{
	free(memory->elf);
	*memory = (struct memory_copy){0};
}

int memory_image_load(const struct memory_copy *memory, const struct kernel_given *given,
		      struct kernel_image **out, struct error *err)
{
	int ret = kernel_image_load_without_sites(memory->elf, HEADERS_SIZE + memory->size, given,
						  out, err);

	if (ret)
		return ret;
	(*out)->symbol_source = "kallsyms in memory";
	(*out)->in_memory = true;
	return 0;
}

static int rebase(struct kernel_image *image, uint64_t slide, struct error *err)
{
	int ret = symbols_rebase(image->symbols, slide, err);

	if (ret)
		return ret;
	image->text -= slide;
	image->stext -= slide;
	image->etext -= slide;
	image->end -= slide;
	image->bytes_slide = slide;
	return 0;
}

int memory_image_finish(struct kernel_image *image, uint64_t slide, uint64_t *sites,
			size_t nr_sites, struct error *err)
{
	image->mcount_sites = sites;
	image->nr_mcount_sites = nr_sites;
	return rebase(image, slide, err);
}
