/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include "guest-symbols/elf-view.h"
#include "guest-symbols/symbol-table.h"

/* .symtab and its string table (System V gABI, chapter 4, "Symbol Table"), wholly in the file. */
struct symtab {
	const struct elf_view *view;
	const uint8_t *symbols;
	size_t nr_symbols;
	const char *strings;
	size_t strings_size;
};

static bool in_file(const struct elf_view *view, const Elf64_Shdr *shdr)
{
	return shdr->sh_offset <= view->size && shdr->sh_size <= view->size - shdr->sh_offset;
}

static int symtab_open(const struct elf_view *view, struct symtab *out, struct error *err)
{
	Elf64_Shdr symbols, strings;

	if (!elf_view_find_section(view, ".symtab", &symbols))
		return error_set(err, ENOENT, "no symbol table");
	if (symbols.sh_link >= view->nr_sections || symbols.sh_entsize != sizeof(Elf64_Sym))
		return error_set_at(err, EBADMSG, symbols.sh_offset, "symbol table is malformed");
	strings = elf_view_section(view, symbols.sh_link);
	if (!in_file(view, &strings) || !strings.sh_size)
		return error_set_at(err, EBADMSG, strings.sh_offset,
				    "symbol table's strings are outside the file");
	*out = (struct symtab){
		.view = view,
		.symbols = view->bytes + symbols.sh_offset,
		.nr_symbols = symbols.sh_size / sizeof(Elf64_Sym),
		.strings = (const char *)view->bytes + strings.sh_offset,
		.strings_size = strings.sh_size,
	};
	return 0;
}

/* The letter that nm(1) shows. */
static char type_letter(const struct symtab *symtab, const Elf64_Sym *sym)
{
	bool local = ELF64_ST_BIND(sym->st_info) == STB_LOCAL;
	char letter = 'a';

	if (ELF64_ST_BIND(sym->st_info) == STB_WEAK)
		return ELF64_ST_TYPE(sym->st_info) == STT_OBJECT ? 'V' : 'W';
	if (sym->st_shndx < symtab->view->nr_sections) {
		Elf64_Shdr shdr = elf_view_section(symtab->view, sym->st_shndx);

		if (shdr.sh_flags & SHF_EXECINSTR)
			letter = 't';
		else if (shdr.sh_type == SHT_NOBITS)
			letter = 'b';
		else
			letter = shdr.sh_flags & SHF_WRITE ? 'd' : 'r';
	}
	return local ? letter : (char)toupper((unsigned char)letter);
}

/* Symbol i if it names an address, with its name's length. */
static bool symtab_get(const struct symtab *symtab, size_t i, Elf64_Sym *sym, size_t *length)
{
	unsigned int type;

	memcpy(sym, symtab->symbols + i * sizeof(*sym), sizeof(*sym));
	type = ELF64_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || type == STT_SECTION || type == STT_FILE ||
	    sym->st_name >= symtab->strings_size)
		return false;
	*length = strnlen(symtab->strings + sym->st_name, symtab->strings_size - sym->st_name);
	return *length && *length < symtab->strings_size - sym->st_name;
}

static int symtab_read(const struct symtab *symtab, struct symbol_builder *builder,
		       struct error *err)
{
	size_t n = 0, names = 0, length;
	Elf64_Sym sym;
	int ret;

	for (size_t i = 0; i < symtab->nr_symbols; i++) {
		if (!symtab_get(symtab, i, &sym, &length))
			continue;
		n++;
		names += length + 1;
		/* Only overlapping names, which no linker makes for so many symbols, exceed the
		 * file. */
		if (names > symtab->view->size)
			return error_set(err, EBADMSG, "symbol table's names overlap");
	}
	ret = symbol_builder_init(builder, n, names, err);
	if (ret)
		return ret;
	for (size_t i = 0; i < symtab->nr_symbols; i++) {
		char *name;

		if (!symtab_get(symtab, i, &sym, &length))
			continue;
		name = symbol_builder_add(builder, sym.st_value, sym.st_size,
					  type_letter(symtab, &sym), length);
		memcpy(name, symtab->strings + sym.st_name, length);
	}
	return 0;
}

int symbols_from_elf(const uint8_t *elf, size_t size, struct symbol_table **out, struct error *err)
{
	struct symbol_builder builder;
	struct symtab symtab = {0};
	struct elf_view view;
	int ret = elf_view_init(&view, elf, size, err);

	if (!ret)
		ret = symtab_open(&view, &symtab, err);
	if (!ret)
		ret = symtab_read(&symtab, &builder, err);
	return ret ? ret : symbol_builder_finish(&builder, out, err);
}
