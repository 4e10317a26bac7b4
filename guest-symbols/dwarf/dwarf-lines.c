/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/dwarf/dwarf-lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "guest-symbols/dwarf/units.h"

/* A function of a module's symbol table. */
struct function {
	const char *name;
	uint64_t address, size;
};

struct dwarf_lines {
	int fd;
	Elf *elf;
	Dwarf *dwarf; /* libdwfl's, if there is one */
	struct dwarf_units *units;
	/* Of a module: */
	Dwfl *dwfl;
	Dwarf_Addr bias;            /* of the symbols' addresses over those of the DWARF */
	struct function *functions; /* sorted by name */
	size_t nr_functions;
};

void dwarf_lines_close(struct dwarf_lines *lines)
{
	if (!lines)
		return;
	dwarf_units_destroy(lines->units);
	free(lines->functions);
	if (lines->dwfl)
		dwfl_end(lines->dwfl);
	else
		dwarf_end(lines->dwarf);
	elf_end(lines->elf);
	if (lines->fd >= 0)
		close(lines->fd);
	free(lines);
}

static int load_units(struct dwarf_lines *lines, struct error *err)
{
	lines->units = dwarf_units_create(lines->dwarf);
	if (!lines->units)
		return error_set(err, ENOMEM, "out of memory");
	if (!dwarf_units_count(lines->units))
		return error_set(err, EINVAL, "it has no debug information of code");
	return 0;
}

static int load(struct dwarf_lines *lines, int fd, struct error *err)
{
	elf_version(EV_CURRENT);
	/* Mapped: of the 600 MB of a kernel, what is looked at is read. */
	lines->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!lines->elf || elf_kind(lines->elf) != ELF_K_ELF)
		return error_set(err, EINVAL, "not an ELF file");
	lines->dwarf = dwarf_begin_elf(lines->elf, DWARF_C_READ, NULL);
	if (!lines->dwarf)
		return error_set(err, EINVAL, "it has no debug information: %s", dwarf_errmsg(-1));
	return load_units(lines, err);
}

int dwarf_lines_open(int fd, struct dwarf_lines **out, struct error *err)
{
	struct dwarf_lines *lines = calloc(1, sizeof(*lines));
	int ret;

	if (!lines)
		return error_set(err, ENOMEM, "out of memory");
	lines->fd = -1;
	ret = load(lines, fd, err);
	if (ret) {
		dwarf_lines_close(lines);
		return ret;
	}
	lines->fd = fd;
	*out = lines;
	return 0;
}

/* --- modules --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct function *)a)->name, ((const struct function *)b)->name);
}

static int read_functions(struct dwarf_lines *lines, Dwfl_Module *module, struct error *err)
{
	const int n = dwfl_module_getsymtab(module);

	lines->functions = calloc(n > 0 ? (size_t)n : 1, sizeof(*lines->functions));
	if (!lines->functions)
		return error_set(err, ENOMEM, "out of memory");
	for (int i = 0; i < n; i++) {
		GElf_Addr address;
		GElf_Sym symbol;
		const char *name =
			dwfl_module_getsym_info(module, i, &symbol, &address, NULL, NULL, NULL);

		if (name && *name && GELF_ST_TYPE(symbol.st_info) == STT_FUNC &&
		    symbol.st_shndx != SHN_UNDEF)
			lines->functions[lines->nr_functions++] =
				(struct function){name, address, symbol.st_size};
	}
	qsort(lines->functions, lines->nr_functions, sizeof(*lines->functions), by_name);
	return 0;
}

/* Debug information is in the file itself. */
static int find_none(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		     const char *file, const char *link, GElf_Word crc, char **out)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc;
	*out = NULL;
	return -1;
}

/* libdwfl gives sections addresses, and relocates the debug information. */
static int load_module(struct dwarf_lines *lines, int fd, struct error *err)
{
	static const Dwfl_Callbacks callbacks = {.find_debuginfo = find_none,
						 .section_address = dwfl_offline_section_address};
	Dwfl_Module *module;

	lines->dwfl = dwfl_begin(&callbacks);
	module = lines->dwfl ? dwfl_report_offline(lines->dwfl, "module", "module", fd) : NULL;
	if (!module) {
		close(fd);
		return error_set(err, EINVAL, "not an ELF file: %s", dwfl_errmsg(-1));
	}
	dwfl_report_end(lines->dwfl, NULL, NULL);
	lines->dwarf = dwfl_module_getdwarf(module, &lines->bias);
	if (!lines->dwarf)
		return error_set(err, EINVAL, "it has no debug information: %s", dwfl_errmsg(-1));
	return read_functions(lines, module, err);
}

int dwarf_lines_open_module(int fd, struct dwarf_lines **out, struct error *err)
{
	struct dwarf_lines *lines = calloc(1, sizeof(*lines));
	int ret;

	if (!lines) {
		close(fd);
		return error_set(err, ENOMEM, "out of memory");
	}
	lines->fd = -1;
	ret = load_module(lines, fd, err);
	if (!ret)
		ret = load_units(lines, err);
	if (ret)
		dwarf_lines_close(lines);
	else
		*out = lines;
	return ret;
}

/* `slack`: how far its end may be from the next function. */
static bool may_be(const struct function *function, uint64_t offset, uint64_t size, uint64_t slack)
{
	return !function->size || (offset < function->size && function->size <= size &&
				   size - function->size <= slack);
}

/* Returns how many there are; the last one's address. */
static unsigned int count_functions(const struct dwarf_lines *lines, const struct function *first,
				    uint64_t offset, uint64_t size, uint64_t slack,
				    uint64_t *address)
{
	const struct function *end = lines->functions + lines->nr_functions;
	unsigned int n = 0;

	for (const struct function *at = first; at < end && !by_name(at, first); at++) {
		if (!may_be(at, offset, size, slack) || (n && *address == at->address))
			continue;
		*address = at->address;
		n++;
	}
	return n;
}

/* Static functions may have the same name. From the end of one to the next function it is less than
 * functions are aligned to, which is mostly 16 bytes, unless it is the last one. */
bool dwarf_lines_function(const struct dwarf_lines *lines, const char *name, uint64_t offset,
			  uint64_t size, uint64_t *address)
{
	static const uint64_t slacks[] = {15, 63, UINT64_MAX};
	const struct function wanted = {.name = name};
	const struct function *first =
		bsearch(&wanted, lines->functions, lines->nr_functions, sizeof(wanted), by_name);
	unsigned int n = 0;

	while (first && first > lines->functions && !by_name(first - 1, &wanted))
		first--;
	for (size_t i = 0; first && !n && i < sizeof(slacks) / sizeof(slacks[0]); i++)
		n = count_functions(lines, first, offset, size, slacks[i], address);
	if (n != 1)
		return false;
	*address += offset - lines->bias;
	return true;
}

/* --- texts ----------------------------------------------------------------------------------- */

/* A name that is not printable ASCII says nothing, and terminals obey it. */
static const char *printable(const char *text)
{
	for (const char *c = text; c && *c; c++) {
		if (*c < ' ' || *c > '~')
			return "?";
	}
	return text ? text : "";
}

/* Without the folder that the unit was compiled in, so as the kernel's tree names it. */
static const char *file_in_tree(Dwarf_Die *unit, const char *file)
{
	Dwarf_Attribute attribute;
	const char *folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
	const size_t n = folder ? strlen(folder) : 0;

	if (file && n && !strncmp(file, folder, n) && file[n] == '/')
		file += n + 1;
	while (file && !strncmp(file, "./", 2))
		file += 2;
	return printable(file);
}

/* --- places ---------------------------------------------------------------------------------- */

static unsigned int number_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_formudata(dwarf_attr(die, name, &attribute), &value) || value > INT32_MAX)
		return 0;
	return (unsigned int)value;
}

/* Where the caller of an inlined function calls it. */
static void place_of_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct source_frame *caller)
{
	Dwarf_Files *files;
	size_t n;
	const unsigned int file = number_of(inlined, DW_AT_call_file);

	caller->line = number_of(inlined, DW_AT_call_line);
	caller->file = "";
	if (!dwarf_getsrcfiles(unit, &files, &n) && file < n)
		caller->file = file_in_tree(unit, dwarf_filesrc(files, file, NULL, NULL));
}

static void place_of_code(Dwarf_Die *unit, uint64_t address, struct source_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	int number = 0;

	frame->file = "";
	frame->line = 0;
	if (!line)
		return;
	frame->file = file_in_tree(unit, dwarf_linesrc(line, NULL, NULL));
	if (!dwarf_lineno(line, &number) && number > 0)
		frame->line = (unsigned int)number;
}

/* *left as in find_inlined(). */
static bool has_address(Dwarf_Die *die, uint64_t address, unsigned int *left)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while (*left && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		--*left;
		if (address >= low && address < high)
			return true;
	}
	return false;
}

/* The inlined function, or block, inside `die` that has the address. */
static bool find_inner(Dwarf_Die *die, uint64_t address, unsigned int *left, Dwarf_Die *out)
{
	int ret = dwarf_child(die, out);

	for (; !ret && *left; ret = dwarf_siblingof(out, out)) {
		const int tag = dwarf_tag(out);

		--*left;
		if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
		    has_address(out, address, left))
			return true;
	}
	return false;
}

/* Returns how many frames there are. The entries and ranges that are looked at are bounded: files
 * may be damaged, and entries can share a long list of ranges. */
static size_t find_inlined(Dwarf_Die *unit, Dwarf_Die *function, uint64_t address,
			   struct source_frame *out)
{
	unsigned int left = 1 << 16;
	Dwarf_Die die = *function, inner;
	size_t n = 1;

	while (n < SOURCE_MAX_FRAMES) {
		if (!find_inner(&die, address, &left, &inner))
			break;
		die = inner;
		if (dwarf_tag(&die) != DW_TAG_inlined_subroutine)
			continue;
		place_of_call(unit, &die, &out[n - 1]);
		out[n++].function = printable(dwarf_diename(&die));
	}
	return n;
}

size_t dwarf_lines_find(struct dwarf_lines *lines, uint64_t address, struct source_frame *out)
{
	struct dwarf_place place;
	size_t n = 1;

	if (!dwarf_units_find(lines->units, address, &place))
		return 0;
	out[0] = (struct source_frame){"", "", 0};
	if (place.has_function) {
		out[0].function = printable(dwarf_diename(&place.function));
		n = find_inlined(&place.unit, &place.function, address, out);
	}
	place_of_code(&place.unit, address, &out[n - 1]);
	return n > 1 || *out[0].file ? n : 0;
}
