/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include "guest-symbols/symbols/symbols.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/tap.h"

static const char map[] = "0000000000000000 A absolute\n"
			  "ffffffff81000000 T _text\n"
			  "ffffffff81000000 T _stext\n"
			  "ffffffff81000100 t helper\n"
			  "ffffffff810000f0 t __pfx_both\n"
			  "ffffffff81000200 t both_local\n"
			  "ffffffff81000200 T both\n"
			  "ffffffff81000200 W both_weak\n"
			  "ffffffff81000300 t helper\n";

static void test_system_map(void)
{
	struct symbol_table *table = NULL;
	struct error err = {0};

	ok(!symbols_from_system_map(map, strlen(map), &table, &err), "a System.map is read (%s)",
	   err.text);
	is_u64(symbols_count(table), 9, "all names of an address are kept");
	is_u64(symbols_address(table, "_stext"), 0xffffffff81000000,
	       "the second name of an address is found");
	is_u64(symbols_address(table, "helper"), 0xffffffff81000100,
	       "of two symbols of one name the first is found");
	is_u64(symbols_address(table, "help"), 0, "the beginning of a name is no name");
	ok(!symbols_find(table, ""), "there is no empty name");
	is_str(symbols_covering(table, 0xffffffff81000210)->name, "both",
	       "a global function is shown before local and weak ones");
	is_str(symbols_covering(table, 0xffffffff810000ff)->name, "__pfx_both",
	       "an alias is shown where there is nothing else");
	is_str(symbols_covering(table, UINT64_MAX)->name, "helper",
	       "the last symbol covers all that follows");
	is_u64(symbols_find(table, "both_local")->size, 0x100,
	       "a symbol reaches up to the next address");
	is_u64(symbols_find(table, "__pfx_both")->size, 0x10,
	       "the table is sorted, though the file is not");
	is_u64(symbols_covering(table, UINT64_MAX)->size, 0,
	       "the size of the last symbol is unknown");
	ok(!symbols_at(table, 9), "there is no symbol beyond the last");
	symbols_destroy(table);
}

static void test_bad_map(const char *label, const char *text, uint64_t offset)
{
	struct symbol_table *table;
	struct error err = {0};

	is_u64(-symbols_from_system_map(text, strlen(text), &table, &err), EBADMSG, label);
	is_u64(err.address, offset, "the error has the offset");
}

/* As nm(1) prints a symbol of an empty section. */
static void test_unknown_type(void)
{
	static const char text[] = "ffffffff81000000 T _text\nffffffff81001000 ? __nosave_begin\n";
	struct symbol_table *table = NULL;
	struct error err = {0};

	if (ok(!symbols_from_system_map(text, strlen(text), &table, &err),
	       "a symbol may have no known type (%s)", err.text))
		is_u64(symbols_address(table, "__nosave_begin"), 0xffffffff81001000,
		       "it is found by its name");
	symbols_destroy(table);
}

/* Those of a kernel built with clang's LTO. */
static void test_promoted(void)
{
	static const char text[] = "ffffffff81000000 T _text\n"
				   "ffffffff81000100 t c_stop.llvm.17132674095431275852\n"
				   "ffffffff81000200 t c_stop.llvm.9c\n"
				   "ffffffff81000300 t c_next.llvm.9c.cold.1\n"
				   "ffffffff81000400 t c_show.isra.0\n"
				   "ffffffff81000500 t odd.llvm.name\n"
				   "ffffffff81000600 t .llvm.1\n";
	static const char *const shown[] = {"_text",         "c_stop",        "c_stop",
					    "c_next.cold.1", "c_show.isra.0", "odd.llvm.name",
					    ".llvm.1"};
	struct symbol_table *table = NULL;

	ok(!symbols_from_system_map(text, strlen(text), &table, NULL), "a kernel has such names");
	for (size_t i = 0; i < symbols_count(table); i++)
		is_str(symbols_at(table, i)->name, shown[i], "a name is the source's");
	is_u64(symbols_address(table, "c_stop"), 0xffffffff81000100,
	       "a promoted function is found by its own name");
	is_u64(symbols_address(table, "c_stop.llvm.5"), 0xffffffff81000100,
	       "and by a name with such a suffix");
	is_u64(symbols_address(table, "c_show"), 0, "another suffix is part of the name");
	symbols_destroy(table);
}

static const char strings[] = "\0local\0global\0data\0weak\0source.c";
static const Elf64_Sym elf_symbols[] = {
	{0},
	{.st_name = 24, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FILE), .st_shndx = SHN_ABS},
	{.st_name = 1,
	 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
	 .st_shndx = 1,
	 .st_value = 0x10,
	 .st_size = 5},
	{.st_name = 7,
	 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	 .st_shndx = 1,
	 .st_value = 0x20},
	{.st_name = 14,
	 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
	 .st_shndx = 2,
	 .st_value = 0x30},
	{.st_name = 19,
	 .st_info = ELF64_ST_INFO(STB_WEAK, STT_FUNC),
	 .st_shndx = 1,
	 .st_value = 0x40},
	{.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = SHN_UNDEF},
	{.st_name = 4000, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1},
};

static void test_elf(void)
{
	const struct fake_section sections[] = {
		{".text", "code", 4, SHT_PROGBITS, 0, SHF_ALLOC | SHF_EXECINSTR, 0},
		{".data", "data", 4, SHT_PROGBITS, 0, SHF_ALLOC | SHF_WRITE, 0},
		{".symtab", elf_symbols, sizeof(elf_symbols), SHT_SYMTAB, 4, 0, sizeof(Elf64_Sym)},
		{".strtab", strings, sizeof(strings), SHT_STRTAB, 0, 0, 0},
		{0},
	};
	uint8_t elf[4096];
	size_t size = fake_elf(0x1000, "x", 1, sections, elf, sizeof(elf));
	struct symbol_table *table = NULL;
	struct error err = {0};

	ok(!symbols_from_elf(elf, size, &table, &err), "the symbol table of an ELF is read (%s)",
	   err.text);
	is_u64(symbols_count(table), 4, "files, undefined and unnamed symbols are left out");
	ok(symbols_find(table, "local")->type == 't', "a local function is a t");
	is_u64(symbols_find(table, "local")->size, 5, "a symbol has the size that the table says");
	ok(symbols_find(table, "global")->type == 'T', "a global function is a T");
	ok(symbols_find(table, "data")->type == 'D', "global data is a D");
	ok(symbols_find(table, "weak")->type == 'W', "a weak function is a W");
	symbols_destroy(table);
	size = fake_elf(0x1000, "x", 1, sections + 4, elf, sizeof(elf));
	is_u64(-symbols_from_elf(elf, size, &table, &err), ENOENT,
	       "an ELF without a symbol table is not read");
}

int main(void)
{
	test_system_map();
	test_bad_map("a line that is not hexadecimal is refused", "ffffffff81000000 T _text\nxyz\n",
		     25);
	test_bad_map("a line without a space is refused", "ffffffff81000000T _text\n", 0);
	test_bad_map("an address of 17 digits is refused", "1ffffffff81000000 T _text\n", 0);
	test_bad_map("a name with a space is refused", "ffffffff81000000 T two words\n", 0);
	test_bad_map("a line without a name is refused", "ffffffff81000000 T\n", 0);
	test_bad_map("a type that nm has not is refused", "ffffffff81000000 ! _text\n", 0);
	test_unknown_type();
	test_promoted();
	test_elf();
	return tap_done();
}
