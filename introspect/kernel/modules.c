/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/modules.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"

enum {
	MAX_MODULES = 1024,
	MAX_MODULE_SYMBOLS = 1 << 17, /* in one module */
	MAX_SYMBOLS = 1 << 20,        /* in all of them */
	MODULE_NAME_SIZE = 56,        /* MODULE_NAME_LEN on 64-bit */
	SYMBOL_NAME_SIZE = 512,       /* KSYM_NAME_LEN since 6.1 */
	NR_TEXTS = 2,                 /* of a module: its text, and init text while it has some */
};
#define MAX_TEXT (256u << 20)

/* Offsets in struct module and struct mod_kallsyms. */
struct module_layout {
	uint32_t list, name, kallsyms;
	uint32_t text_base[NR_TEXTS], text_size[NR_TEXTS];
	unsigned int nr_texts;
	uint32_t symtab, num_symtab, strtab;
};

struct module_symbol {
	uint64_t start, end;
	char *name; /* "fn [module]" */
};

struct kernel_names {
	const struct kernel *kernel;
	struct budget *budget;
	struct module_symbol *symbols; /* sorted by start */
	size_t n, room;
};

/* A module's texts and its symbol table. */
struct module_view {
	char name[MODULE_NAME_SIZE];
	uint64_t text[NR_TEXTS], text_end[NR_TEXTS];
	uint64_t symtab, strtab;
	uint32_t nr_symbols;
};

static bool get_offset(const struct btf_types *btf, const char *structure, const char *member,
		       uint32_t *out)
{
	struct btf_field field;

	if (btf_field(btf, structure, member, &field, NULL))
		return false;
	*out = field.offset;
	return true;
}

/* core_layout and init_layout to 6.3 ... */
static bool add_layout(const struct btf_types *btf, const char *base, const char *size,
		       struct module_layout *out)
{
	return get_offset(btf, "module", base, &out->text_base[out->nr_texts]) &&
	       get_offset(btf, "module", size, &out->text_size[out->nr_texts]) && ++out->nr_texts;
}

/* ... then mem[MOD_TEXT] and mem[MOD_INIT_TEXT]. */
static bool add_memory(const struct btf_types *btf, const char *type, struct module_layout *out)
{
	uint32_t mem, base, size, stride = btf_struct_size(btf, "module_memory");
	bool found;
	int64_t index = btf_enumerator(btf, type, &found);

	if (!found || index < 0 || index > 15 || !get_offset(btf, "module", "mem", &mem) ||
	    !get_offset(btf, "module_memory", "base", &base) ||
	    !get_offset(btf, "module_memory", "size", &size))
		return false;
	out->text_base[out->nr_texts] = mem + (uint32_t)index * stride + base;
	out->text_size[out->nr_texts++] = mem + (uint32_t)index * stride + size;
	return true;
}

static bool get_text_layout(const struct btf_types *btf, struct module_layout *out)
{
	out->nr_texts = 0;
	if (add_memory(btf, "MOD_TEXT", out)) {
		add_memory(btf, "MOD_INIT_TEXT", out);
		return true;
	}
	if (!add_layout(btf, "core_layout.base", "core_layout.text_size", out))
		return false;
	add_layout(btf, "init_layout.base", "init_layout.text_size", out);
	return true;
}

static bool get_layout(const struct btf_types *btf, struct module_layout *out)
{
	return btf && get_text_layout(btf, out) && get_offset(btf, "module", "list", &out->list) &&
	       get_offset(btf, "module", "name", &out->name) &&
	       get_offset(btf, "module", "kallsyms", &out->kallsyms) &&
	       get_offset(btf, "mod_kallsyms", "symtab", &out->symtab) &&
	       get_offset(btf, "mod_kallsyms", "num_symtab", &out->num_symtab) &&
	       get_offset(btf, "mod_kallsyms", "strtab", &out->strtab);
}

static int read_u64(const struct kernel *kernel, uint64_t gva, uint64_t *out)
{
	return kernel_read(kernel, gva, out, sizeof(*out), NULL);
}

static int read_u32(const struct kernel *kernel, uint64_t gva, uint32_t *out)
{
	return kernel_read(kernel, gva, out, sizeof(*out), NULL);
}

static int read_texts(const struct kernel *kernel, const struct module_layout *layout,
		      uint64_t module, struct module_view *out)
{
	for (unsigned int i = 0; i < NR_TEXTS; i++) {
		uint32_t size = 0;

		out->text[i] = 0;
		if (i < layout->nr_texts &&
		    (read_u64(kernel, module + layout->text_base[i], &out->text[i]) ||
		     read_u32(kernel, module + layout->text_size[i], &size)))
			return -EFAULT;
		out->text_end[i] = out->text[i] + size;
		if (size > MAX_TEXT || out->text_end[i] < out->text[i])
			return -EINVAL;
	}
	return 0;
}

static int read_module(const struct kernel *kernel, const struct module_layout *layout,
		       uint64_t module, struct module_view *out)
{
	uint64_t kallsyms;

	if (kernel_read_string(kernel, module + layout->name, out->name, sizeof(out->name), NULL) ||
	    read_texts(kernel, layout, module, out) ||
	    read_u64(kernel, module + layout->kallsyms, &kallsyms) ||
	    read_u64(kernel, kallsyms + layout->symtab, &out->symtab) ||
	    read_u32(kernel, kallsyms + layout->num_symtab, &out->nr_symbols) ||
	    read_u64(kernel, kallsyms + layout->strtab, &out->strtab))
		return -EFAULT;
	return out->nr_symbols > MAX_MODULE_SYMBOLS ? -EINVAL : 0;
}

static int grow(struct kernel_names *names)
{
	if (names->n >= MAX_SYMBOLS ||
	    !budget_grow(names->budget, &names->symbols, sizeof(*names->symbols), names->n,
			 &names->room))
		return -E2BIG;
	return 0;
}

/* The end of the text that an address is in; 0: in none. */
static uint64_t text_end(const struct module_view *module, uint64_t address)
{
	for (unsigned int i = 0; i < NR_TEXTS; i++)
		if (address >= module->text[i] && address < module->text_end[i])
			return module->text_end[i];
	return 0;
}

static int add_symbol(struct kernel_names *names, const struct module_view *module,
		      const Elf64_Sym *sym)
{
	const uint64_t end = text_end(module, sym->st_value);
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
	snprintf(text, sizeof(text), "%s [%s]", name, module->name);
	out->name = budget_strdup(names->budget, text);
	if (!out->name)
		return -E2BIG;
	out->start = sym->st_value;
	out->end = end;
	names->n++;
	return 0;
}

static int add_module(struct kernel_names *names, const struct module_view *module)
{
	for (uint32_t i = 0; i < module->nr_symbols; i++) {
		Elf64_Sym sym;
		int ret;

		if (kernel_read(names->kernel, module->symtab + i * sizeof(sym), &sym, sizeof(sym),
				NULL))
			return 0;
		ret = add_symbol(names, module, &sym);
		if (ret)
			return ret;
	}
	return 0;
}

static bool seen_before(const uint64_t *modules, size_t n, uint64_t module)
{
	for (size_t i = 0; i < n; i++)
		if (modules[i] == module)
			return true;
	return false;
}

static int add_all_modules(struct kernel_names *names, const struct module_layout *layout,
			   uint64_t head)
{
	uint64_t modules[MAX_MODULES];
	uint64_t link = head;

	for (size_t n = 0; n < MAX_MODULES; n++) {
		struct module_view module;
		int ret;

		if (read_u64(names->kernel, link, &link) || link == head)
			return 0;
		modules[n] = link - layout->list;
		if (seen_before(modules, n, modules[n]) ||
		    read_module(names->kernel, layout, modules[n], &module))
			return 0;
		ret = add_module(names, &module);
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
	uint64_t head = kernel_symbol(kernel, "modules");
	struct module_layout layout;
	int ret = 0;

	if (!names)
		return error_set(err, ENOMEM, "out of memory");
	names->kernel = kernel;
	names->budget = kernel->guest->budget;
	if (head && get_layout(kernel->image->btf, &layout))
		ret = add_all_modules(names, &layout, head);
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
