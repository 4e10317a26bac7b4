/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/file/elf-view.h"

#include <errno.h>
#include <string.h>

static bool in_file(const struct elf_view *view, uint64_t offset, uint64_t size)
{
	return offset <= view->size && size <= view->size - offset;
}

int elf_view_init(struct elf_view *view, const void *bytes, size_t size, struct error *err)
{
	Elf64_Ehdr ehdr;

	*view = (struct elf_view){.bytes = bytes, .size = size};
	if (size < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG))
		return error_set(err, ENOEXEC, "not an ELF file");
	if (size < sizeof(ehdr))
		return error_set_at(err, EBADMSG, size, "ELF header is truncated");
	memcpy(&ehdr, bytes, sizeof(ehdr));
	if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr.e_machine != EM_X86_64)
		return error_set(err, ENOEXEC, "not an x86-64 ELF file");
	if (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN)
		return error_set(err, ENOEXEC, "ELF file is not an executable");
	if (ehdr.e_phentsize != sizeof(Elf64_Phdr) || !ehdr.e_phnum)
		return error_set(err, EBADMSG, "ELF file has no program headers");
	if (!in_file(view, ehdr.e_phoff, (uint64_t)ehdr.e_phnum * sizeof(Elf64_Phdr)))
		return error_set_at(err, EBADMSG, size, "ELF file ends before its program headers");
	view->segments_offset = ehdr.e_phoff;
	view->nr_segments = ehdr.e_phnum;
	if (!ehdr.e_shnum)
		return 0;
	if (ehdr.e_shentsize != sizeof(Elf64_Shdr) ||
	    !in_file(view, ehdr.e_shoff, (uint64_t)ehdr.e_shnum * sizeof(Elf64_Shdr)))
		return error_set_at(err, EBADMSG, size, "ELF file ends before its section headers");
	view->sections_offset = ehdr.e_shoff;
	view->nr_sections = ehdr.e_shnum;
	view->names_section = ehdr.e_shstrndx;
	return 0;
}

Elf64_Phdr elf_view_segment(const struct elf_view *view, unsigned int i)
{
	Elf64_Phdr phdr;

	memcpy(&phdr, view->bytes + view->segments_offset + i * sizeof(phdr), sizeof(phdr));
	return phdr;
}

static Elf64_Shdr section_at(const struct elf_view *view, unsigned int i)
{
	Elf64_Shdr shdr;

	memcpy(&shdr, view->bytes + view->sections_offset + i * sizeof(shdr), sizeof(shdr));
	return shdr;
}

static bool name_is(const struct elf_view *view, const Elf64_Shdr *names, uint64_t offset,
		    const char *name)
{
	size_t size = strlen(name) + 1;

	return offset < names->sh_size && size <= names->sh_size - offset &&
	       !memcmp(view->bytes + names->sh_offset + offset, name, size);
}

bool elf_view_find_section(const struct elf_view *view, const char *name, Elf64_Shdr *out)
{
	Elf64_Shdr names;

	if (view->names_section >= view->nr_sections)
		return false;
	names = section_at(view, view->names_section);
	if (!in_file(view, names.sh_offset, names.sh_size))
		return false;
	for (unsigned int i = 0; i < view->nr_sections; i++) {
		*out = section_at(view, i);
		if (out->sh_type != SHT_NULL && out->sh_type != SHT_NOBITS &&
		    in_file(view, out->sh_offset, out->sh_size) &&
		    name_is(view, &names, out->sh_name, name))
			return true;
	}
	return false;
}

static void extend(const struct elf_view *view, uint64_t offset, uint64_t size, size_t *end)
{
	if (in_file(view, offset, size) && offset + size > *end)
		*end = offset + size;
}

size_t elf_view_end(const struct elf_view *view)
{
	size_t end = sizeof(Elf64_Ehdr);

	extend(view, view->segments_offset, view->nr_segments * sizeof(Elf64_Phdr), &end);
	extend(view, view->sections_offset, view->nr_sections * sizeof(Elf64_Shdr), &end);
	for (unsigned int i = 0; i < view->nr_segments; i++) {
		Elf64_Phdr phdr = elf_view_segment(view, i);

		extend(view, phdr.p_offset, phdr.p_filesz, &end);
	}
	for (unsigned int i = 0; i < view->nr_sections; i++) {
		Elf64_Shdr shdr = section_at(view, i);

		if (shdr.sh_type != SHT_NULL && shdr.sh_type != SHT_NOBITS)
			extend(view, shdr.sh_offset, shdr.sh_size, &end);
	}
	return end;
}

/* What the file has for an address, and in *left how many bytes follow within its segment (at least
 * 1). */
static const uint8_t *bytes_at(const struct elf_view *view, uint64_t address, size_t *left)
{
	for (unsigned int i = 0; i < view->nr_segments; i++) {
		Elf64_Phdr phdr = elf_view_segment(view, i);
		uint64_t into = address - phdr.p_vaddr;

		if (phdr.p_type != PT_LOAD || address < phdr.p_vaddr || into >= phdr.p_filesz ||
		    !in_file(view, phdr.p_offset, phdr.p_filesz))
			continue;
		*left = phdr.p_filesz - into;
		return view->bytes + phdr.p_offset + into;
	}
	return NULL;
}

const uint8_t *elf_view_range(const struct elf_view *view, uint64_t address, size_t size)
{
	size_t left = 0;
	const uint8_t *bytes = bytes_at(view, address, &left);

	return bytes && size <= left ? bytes : NULL;
}
