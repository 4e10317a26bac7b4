/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include "guest-symbols/symbols/symbol-table.h"

/* .symtab (System V gABI, chapter 4, "Symbol Table"), read through libelf. */
struct symtab {
	Elf *elf;
	Elf_Data *symbols;
	size_t nr_symbols;
	size_t strings; /* section index of their names */
	size_t size;    /* of the file */
};

static int symtab_find(struct symtab *symtab, struct error *err)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(symtab->elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		symtab->symbols = elf_getdata(section, NULL);
		if (!symtab->symbols || header.sh_entsize != sizeof(Elf64_Sym))
			return error_set_at(err, EBADMSG, header.sh_offset,
					    "symbol table is malformed");
		symtab->nr_symbols = symtab->symbols->d_size / sizeof(Elf64_Sym);
		symtab->strings = header.sh_link;
		return 0;
	}
	return error_set(err, ENOENT, "no symbol table");
}

static int symtab_open(struct symtab *symtab, const uint8_t *elf, size_t size, struct error *err)
{
	elf_version(EV_CURRENT);
	symtab->size = size;
	/* libelf takes a writable pointer, but does not write to a native file. */
	symtab->elf = elf_memory((char *)elf, size);
	if (!symtab->elf || gelf_getclass(symtab->elf) != ELFCLASS64)
		return error_set(err, ENOEXEC, "not a 64-bit ELF file");
	return symtab_find(symtab, err);
}

/* The letter that nm(1) shows. */
static char type_letter(const struct symtab *symtab, const GElf_Sym *sym)
{
	bool local = GELF_ST_BIND(sym->st_info) == STB_LOCAL;
	char letter = 'a';
	GElf_Shdr header;

	if (GELF_ST_BIND(sym->st_info) == STB_WEAK)
		return GELF_ST_TYPE(sym->st_info) == STT_OBJECT ? 'V' : 'W';
	if (sym->st_shndx < SHN_LORESERVE &&
	    gelf_getshdr(elf_getscn(symtab->elf, sym->st_shndx), &header)) {
		if (header.sh_flags & SHF_EXECINSTR)
			letter = 't';
		else if (header.sh_type == SHT_NOBITS)
			letter = 'b';
		else
			letter = header.sh_flags & SHF_WRITE ? 'd' : 'r';
	}
	return local ? letter : (char)toupper((unsigned char)letter);
}

/* The name of symbol i if it names an address, else NULL. */
static const char *symtab_get(const struct symtab *symtab, size_t i, GElf_Sym *sym)
{
	const char *name;
	unsigned int type;

	if (i > INT32_MAX || !gelf_getsym(symtab->symbols, (int)i, sym))
		return NULL;
	type = GELF_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || type == STT_SECTION || type == STT_FILE)
		return NULL;
	name = elf_strptr(symtab->elf, symtab->strings, sym->st_name);
	return name && *name ? name : NULL;
}

static int symtab_read(const struct symtab *symtab, struct symbol_builder *builder,
		       struct error *err)
{
	size_t n = 0, names = 0;
	const char *name;
	GElf_Sym sym;
	int ret;

	for (size_t i = 0; i < symtab->nr_symbols; i++) {
		name = symtab_get(symtab, i, &sym);
		if (!name)
			continue;
		n++;
		names += strlen(name) + 1;
		/* Only overlapping names, which no linker makes for so many symbols, exceed the
		 * file. */
		if (names > symtab->size)
			return error_set(err, EBADMSG, "symbol table's names overlap");
	}
	ret = symbol_builder_init(builder, n, names, err);
	if (ret)
		return ret;
	for (size_t i = 0; i < symtab->nr_symbols; i++) {
		size_t length;
		char *to;

		name = symtab_get(symtab, i, &sym);
		if (!name)
			continue;
		length = strlen(name);
		to = symbol_builder_add(builder, sym.st_value, sym.st_size,
					type_letter(symtab, &sym), length);
		/* Another process may be writing to the file. */
		if (!to)
			return error_set(err, EBADMSG, "symbol table changes while it is read");
		memcpy(to, name, length);
	}
	return 0;
}

int symbols_from_elf(const uint8_t *elf, size_t size, struct symbol_table **out, struct error *err)
{
	struct symbol_builder builder = {0};
	struct symtab symtab = {0};
	int ret = symtab_open(&symtab, elf, size, err);

	if (!ret)
		ret = symtab_read(&symtab, &builder, err);
	elf_end(symtab.elf);
	if (ret) {
		symbol_builder_deinit(&builder);
		return ret;
	}
	return symbol_builder_finish(&builder, out, err);
}
