/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/modules.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "introspect/kernel/module-list.h"

enum {
	MAX_SYMBOLS = 1 << 20,  /* in all modules */
	SYMBOL_NAME_SIZE = 512, /* KSYM_NAME_LEN since 6.1 */
};

struct module_symbol {
	uint64_t start, end;
	char *name; /* "fn [module]" */
	struct sidecar_build_id build_id;
};

struct kernel_names {
	const struct kernel *kernel;
	struct budget *budget;
	struct module_symbol *symbols; /* sorted by start */
	size_t n, room;
	struct section_layout sections;
	bool has_sections;
	struct sidecar_build_id build_id; /* of the module that is added */
};

static int grow(struct kernel_names *names)
{
	if (names->n >= MAX_SYMBOLS ||
	    !budget_grow(names->budget, &names->symbols, sizeof(*names->symbols), names->n,
			 &names->room))
		return -E2BIG;
	return 0;
}

static int add_symbol(struct kernel_names *names, const struct module_view *module,
		      const Elf64_Sym *sym)
{
	const uint64_t end = module_text_end(module, sym->st_value);
	char name[SYMBOL_NAME_SIZE], text[SYMBOL_NAME_SIZE + MODULE_NAME_SIZE + 4];
	struct module_symbol *out;
	int ret;

	if (sym->st_shndx == SHN_UNDEF || !end)
		return 0;
	if (kernel_read_string(names->kernel, module->strtab + sym->st_name, name, sizeof(name),
			       NULL) ||
	    !name[0])
		return 0;
	ret = grow(names);
	if (ret)
		return ret;
	out = &names->symbols[names->n];
	symbol_clean_name(name);
	snprintf(text, sizeof(text), "%s [%s]", name, module->name);
	out->name = budget_strdup(names->budget, text);
	if (!out->name)
		return -E2BIG;
	out->start = sym->st_value;
	out->end = end;
	out->build_id = names->build_id;
	names->n++;
	return 0;
}

static int add_module(void *arg, const struct kernel *kernel, const struct module_view *module)
{
	struct kernel_names *names = arg;

	names->build_id.size = 0;
	if (names->has_sections)
		module_read_build_id(kernel, &names->sections, module->gva, &names->build_id);
	for (uint32_t i = 0; i < module->nr_symbols; i++) {
		Elf64_Sym sym;
		int ret;

		if (kernel_read(kernel, module->symtab + i * sizeof(sym), &sym, sizeof(sym), NULL))
			return 0;
		ret = add_symbol(names, module, &sym);
		if (ret)
			return ret;
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct module_symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* A function ends where the next one of its module starts. */
static void finish(struct kernel_names *names)
{
	if (!names->n)
		return;
	qsort(names->symbols, names->n, sizeof(*names->symbols), by_start);
	for (size_t i = names->n - 1; i--;) {
		struct module_symbol *this = &names->symbols[i], *next = this + 1;

		if (next->start == this->start)
			this->end = next->end;
		else if (next->start < this->end)
			this->end = next->start;
	}
}

int kernel_names_create(const struct kernel *kernel, struct kernel_names **out, struct error *err)
{
	struct kernel_names *names = calloc(1, sizeof(*names));
	int ret;

	if (!names)
		return error_set(err, ENOMEM, "out of memory");
	names->kernel = kernel;
	names->budget = kernel->guest->budget;
	names->has_sections = module_sections_layout(kernel->image->btf, &names->sections);
	ret = modules_for_each(kernel, add_module, names);
	if (ret && ret != -E2BIG) {
		kernel_names_destroy(names);
		return error_set(err, -ret, "cannot keep the module symbols: %s", strerror(-ret));
	}
	finish(names);
	*out = names;
	return 0;
}

static uint64_t start_at(const void *names, size_t i)
{
	return ((const struct kernel_names *)names)->symbols[i].start;
}

/* Whether any symbol of `names` lies in the place of `old`. */
static bool is_replaced(const struct kernel_names *names, const struct module_symbol *old)
{
	size_t above = search_above(names->n, old->end - 1, start_at, names);

	return above && names->symbols[above - 1].end > old->start;
}

void kernel_names_keep(struct kernel_names *names, struct kernel_names *older)
{
	size_t n = names->n;

	for (size_t i = 0; older && i < older->n; i++) {
		struct module_symbol *old = &older->symbols[i];
		struct kernel_names now = {.symbols = names->symbols, .n = n};

		if (is_replaced(&now, old))
			continue;
		if (grow(names))
			break;
		names->symbols[names->n++] = *old;
		old->name = NULL;
	}
	if (names->n > n)
		qsort(names->symbols, names->n, sizeof(*names->symbols), by_start);
	kernel_names_destroy(older);
}

void kernel_names_destroy(struct kernel_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->n; i++)
		budget_free_text(names->budget, names->symbols[i].name);
	budget_free(names->budget, names->symbols, names->room * sizeof(*names->symbols));
	free(names);
}

static const struct module_symbol *find_module_symbol(const struct kernel_names *names,
						      uint64_t gva)
{
	size_t above = search_above(names->n, gva, start_at, names);

	if (!above || gva >= names->symbols[above - 1].end)
		return NULL;
	return &names->symbols[above - 1];
}

struct sidecar_build_id kernel_names_build_id(const struct kernel_names *names, uint64_t gva)
{
	const struct module_symbol *found = find_module_symbol(names, gva);

	return found ? found->build_id : (struct sidecar_build_id){.size = 0};
}

size_t kernel_names_count(const struct kernel_names *names)
{
	return names->n;
}

const char *kernel_names_at(const struct kernel_names *names, size_t i, uint64_t *start,
			    uint64_t *end)
{
	*start = names->symbols[i].start;
	*end = names->symbols[i].end;
	return names->symbols[i].name;
}

int kernel_image_lookup(const struct kernel *kernel, uint64_t gva, char *name, size_t name_size,
			uint64_t *start, uint64_t *size)
{
	const uint64_t link = kernel_link(kernel, gva);
	const struct symbol *symbol = symbols_covering(kernel->image->symbols, link);

	if (!symbol || !kernel_in_image(kernel, gva) || !kernel_image_is_text(kernel->image, link))
		return -ENOENT;
	snprintf(name, name_size, "%s", symbol->name);
	*start = kernel_gva(kernel, symbol->address);
	*size = symbol->size;
	return 0;
}

int kernel_names_lookup(void *arg, uint64_t gva, char *name, size_t name_size, uint64_t *start,
			uint64_t *size)
{
	const struct kernel_names *names = arg;
	const struct module_symbol *found;

	if (kernel_in_image(names->kernel, gva))
		return kernel_image_lookup(names->kernel, gva, name, name_size, start, size);
	found = find_module_symbol(names, gva);
	if (!found)
		return -ENOENT;
	snprintf(name, name_size, "%s", found->name);
	*start = found->start;
	*size = found->end - found->start;
	return 0;
}
