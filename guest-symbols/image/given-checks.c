/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/image/given-checks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_text(const struct symbol *symbol)
{
	return symbol->type == 't' || symbol->type == 'T' || symbol->type == 'W';
}

/* --- symbols ---------------------------------------------------------------------------------- */

static int check_banner(const struct symbol_table *given, const struct elf_view *view,
			struct error *err)
{
	static const char banner[] = "Linux version ";
	const uint64_t address = symbols_address(given, "linux_banner");
	const uint8_t *bytes = elf_view_range(view, address, sizeof(banner) - 1);

	if (bytes && !memcmp(bytes, banner, sizeof(banner) - 1))
		return 0;
	return error_set(err, ESTALE,
			 "not the symbols of this kernel: its banner is not at their linux_banner");
}

/* The two are made of the same symbols, but for a few names that either leaves out. */
int given_check_symbols(const struct symbol_table *given, const struct symbol_table *own,
			const struct elf_view *view, struct error *err)
{
	size_t compared = 0, moved = 0;

	if (!own)
		return check_banner(given, view, err);
	for (size_t i = 0; i < symbols_count(own); i++) {
		const struct symbol *symbol = symbols_at(own, i);

		if (!is_text(symbol) || !symbols_find(given, symbol->name))
			continue;
		compared++;
		moved += !symbols_have(given, symbol->name, symbol->address);
	}
	if (!compared)
		return check_banner(given, view, err);
	if (!moved)
		return 0;
	return error_set(err, ESTALE,
			 "not the symbols of this kernel: it has %zu of %zu functions elsewhere",
			 moved, compared);
}

/* --- types ------------------------------------------------------------------------------------ */

enum {
	KNOWN_PER_UNKNOWN = 200, /* pahole names a few functions that the compiler has left out */
	TEXT_PER_FUNCTION = 10,  /* symbols of text for each function; real kernels have up to 3 */
};

/* The functions of an image. A part of one has a suffix ("fn.isra.0"), and its type has none. */
struct functions {
	const struct symbol_table *symbols;
	size_t n;
	const char **parts; /* names with a suffix, sorted by what is in front of it */
	size_t nr_parts;
};

static int compare_whole(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	const size_t n = strcspn(x, "."), m = strcspn(y, ".");
	const int order = memcmp(x, y, n < m ? n : m);

	return order ? order : (n > m) - (n < m);
}

static int functions_init(struct functions *functions, const struct symbol_table *symbols,
			  struct error *err)
{
	*functions = (struct functions){.symbols = symbols};
	functions->parts = calloc(symbols_count(symbols), sizeof(*functions->parts));
	if (!functions->parts)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < symbols_count(symbols); i++) {
		const struct symbol *symbol = symbols_at(symbols, i);

		if (!is_text(symbol))
			continue;
		functions->n++;
		if (strchr(symbol->name, '.'))
			functions->parts[functions->nr_parts++] = symbol->name;
	}
	qsort(functions->parts, functions->nr_parts, sizeof(*functions->parts), compare_whole);
	return 0;
}

static bool is_known(const void *arg, const char *name)
{
	const struct functions *functions = arg;

	return symbols_find(functions->symbols, name) ||
	       bsearch(&name, functions->parts, functions->nr_parts, sizeof(*functions->parts),
		       compare_whole);
}

static int check_functions(const struct kernel_image *image, struct error *err)
{
	struct btf_functions named;
	struct functions functions;
	int ret = functions_init(&functions, image->symbols, err);

	if (ret)
		return ret;
	named = btf_count_functions(image->btf, is_known, &functions);
	free(functions.parts);
	if (named.n < functions.n / TEXT_PER_FUNCTION || !named.n)
		return error_set(err, ESTALE,
				 "not the types of this kernel: they name %u functions, and it has "
				 "%zu",
				 named.n, functions.n);
	if (named.unknown <= named.n / KNOWN_PER_UNKNOWN)
		return 0;
	return error_set(err, ESTALE,
			 "not the types of this kernel: it lacks %u of %u functions that they name",
			 named.unknown, named.n);
}

/* A variable that the kernel initialises begins, at this member, with the text. */
static int check_member(const struct kernel_image *image, const char *variable,
			const char *structure, const char *member, const char *text,
			struct error *err)
{
	const uint64_t address = symbols_address(image->symbols, variable);
	struct btf_field field;
	const uint8_t *bytes;
	int ret = btf_field(image->btf, structure, member, &field, err);

	if (ret == -ENOENT)
		return error_set(err, ESTALE,
				 "not the types of this kernel: they have no %s in struct %s",
				 member, structure);
	if (ret)
		return ret;
	bytes = kernel_image_bytes(image, address + field.offset, strlen(text));
	if (bytes && !memcmp(bytes, text, strlen(text)))
		return 0;
	return error_set(err, ESTALE, "not the types of this kernel: the %s of its %s is not %s",
			 member, variable, text);
}

/* Another build has other functions; and of both structures many options change the members in
 * front. */
int given_check_types(const struct kernel_image *image, struct error *err)
{
	int ret = check_functions(image, err);

	if (!ret)
		ret = check_member(image, "init_task", "task_struct", "comm", "swapper", err);
	return ret ? ret
		   : check_member(image, "init_uts_ns", "uts_namespace", "name.release",
				  image->release, err);
}
