/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/module-list.h"

#include <errno.h>

enum {
	MAX_MODULES = 1024,
	MAX_MODULE_SYMBOLS = 1 << 17, /* in one module */
};
#define MAX_TEXT (256u << 20)

/* Offsets in struct module and struct mod_kallsyms. */
struct module_layout {
	uint32_t list, name, kallsyms;
	uint32_t text_base[MODULE_TEXTS], text_size[MODULE_TEXTS];
	unsigned int nr_texts;
	uint32_t symtab, num_symtab, strtab;
	bool has_orc;
	uint32_t orc_ips, orc_entries, nr_orc;
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

/* Kernels with CONFIG_UNWINDER_ORC (arch/x86/include/asm/module.h). */
static void get_orc_layout(const struct btf_types *btf, struct module_layout *out)
{
	out->has_orc = get_offset(btf, "module", "arch.orc_unwind_ip", &out->orc_ips) &&
		       get_offset(btf, "module", "arch.orc_unwind", &out->orc_entries) &&
		       get_offset(btf, "module", "arch.num_orcs", &out->nr_orc);
}

static bool get_layout(const struct btf_types *btf, struct module_layout *out)
{
	if (btf)
		get_orc_layout(btf, out);
	return btf && get_text_layout(btf, out) && get_offset(btf, "module", "list", &out->list) &&
	       get_offset(btf, "module", "name", &out->name) &&
	       get_offset(btf, "module", "kallsyms", &out->kallsyms) &&
	       get_offset(btf, "mod_kallsyms", "symtab", &out->symtab) &&
	       get_offset(btf, "mod_kallsyms", "num_symtab", &out->num_symtab) &&
	       get_offset(btf, "mod_kallsyms", "strtab", &out->strtab);
}

static int read_texts(const struct kernel *kernel, const struct module_layout *layout,
		      uint64_t module, struct module_view *out)
{
	for (unsigned int i = 0; i < MODULE_TEXTS; i++) {
		uint32_t size = 0;

		out->text[i] = 0;
		if (i < layout->nr_texts &&
		    (kernel_get_u64(kernel, module + layout->text_base[i], &out->text[i], NULL) ||
		     kernel_get_u32(kernel, module + layout->text_size[i], &size, NULL)))
			return -EFAULT;
		out->text_end[i] = out->text[i] + size;
		if (size > MAX_TEXT || out->text_end[i] < out->text[i])
			return -EINVAL;
	}
	return 0;
}

static int read_orc(const struct kernel *kernel, const struct module_layout *layout,
		    uint64_t module, struct module_view *out)
{
	out->orc_ips = out->orc_entries = out->nr_orc = 0;
	if (!layout->has_orc)
		return 0;
	if (kernel_get_u64(kernel, module + layout->orc_ips, &out->orc_ips, NULL) ||
	    kernel_get_u64(kernel, module + layout->orc_entries, &out->orc_entries, NULL) ||
	    kernel_get_u32(kernel, module + layout->nr_orc, &out->nr_orc, NULL))
		return -EFAULT;
	return 0;
}

static int read_module(const struct kernel *kernel, const struct module_layout *layout,
		       uint64_t module, struct module_view *out)
{
	uint64_t kallsyms;

	out->gva = module;
	if (kernel_read_string(kernel, module + layout->name, out->name, sizeof(out->name), NULL) ||
	    read_texts(kernel, layout, module, out) || read_orc(kernel, layout, module, out) ||
	    kernel_get_u64(kernel, module + layout->kallsyms, &kallsyms, NULL) ||
	    kernel_get_u64(kernel, kallsyms + layout->symtab, &out->symtab, NULL) ||
	    kernel_get_u32(kernel, kallsyms + layout->num_symtab, &out->nr_symbols, NULL) ||
	    kernel_get_u64(kernel, kallsyms + layout->strtab, &out->strtab, NULL))
		return -EFAULT;
	return out->nr_symbols > MAX_MODULE_SYMBOLS ? -EINVAL : 0;
}

uint64_t module_text_end(const struct module_view *module, uint64_t gva)
{
	for (unsigned int i = 0; i < MODULE_TEXTS; i++)
		if (gva >= module->text[i] && gva < module->text_end[i])
			return module->text_end[i];
	return 0;
}

static bool seen_before(const uint64_t *modules, size_t n, uint64_t module)
{
	for (size_t i = 0; i < n; i++)
		if (modules[i] == module)
			return true;
	return false;
}

/* One that is being loaded may be in the list, and not be readable yet. */
int modules_for_each(const struct kernel *kernel, module_fn *fn, void *arg)
{
	const uint64_t head = kernel_symbol(kernel, "modules");
	uint64_t modules[MAX_MODULES];
	struct module_layout layout;
	uint64_t link = head;

	if (!head || !get_layout(kernel->image->btf, &layout))
		return 0;
	for (size_t n = 0; n < MAX_MODULES; n++) {
		struct module_view module;
		int ret;

		if (kernel_get_u64(kernel, link, &link, NULL) || link == head)
			return 0;
		modules[n] = link - layout.list;
		if (seen_before(modules, n, modules[n]))
			return 0;
		if (read_module(kernel, &layout, modules[n], &module))
			continue;
		ret = fn(arg, kernel, &module);
		if (ret)
			return ret;
	}
	return 0;
}
