/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/module-btf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/module-list.h"

enum {
	MAX_LISTED = 2048,
	MAX_BYTES = 16 << 20, /* of one module; the kernel takes no more, either */
};

static const char list_symbol[] = "btf_modules";

/* Offsets in struct btf_module and struct btf. */
struct btf_layout {
	uint32_t list, module, btf;
	uint32_t data, data_size, start_id, start_string;
};

static bool get_layout(const struct btf_types *types, struct btf_layout *out)
{
	const struct {
		const char *structure, *member;
		uint32_t size; /* 0: any */
		uint32_t *offset;
	} members[] = {
		{"btf_module", "list", 0, &out->list},
		{"btf_module", "module", 8, &out->module},
		{"btf_module", "btf", 8, &out->btf},
		{"btf", "data", 8, &out->data},
		{"btf", "data_size", 4, &out->data_size},
		{"btf", "start_id", 4, &out->start_id},
		{"btf", "start_str_off", 4, &out->start_string},
	};
	struct btf_field field;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (btf_field(types, members[i].structure, members[i].member, &field, NULL) ||
		    (members[i].size && field.size != members[i].size))
			return false;
		*members[i].offset = field.offset;
	}
	return true;
}

static int check(const struct kernel_image *image, struct btf_layout *layout, struct error *err)
{
	int ret = kernel_image_check_btf(image, err);

	if (ret)
		return ret;
	if (!symbols_address(image->symbols, list_symbol) || !get_layout(image->btf, layout))
		return error_set(err, ENOTSUP,
				 "the kernel keeps no types of its modules: it was built without "
				 "CONFIG_DEBUG_INFO_BTF_MODULES");
	return 0;
}

int module_btf_check(const struct kernel_image *image, struct error *err)
{
	struct btf_layout layout;

	return check(image, &layout, err);
}

/* --- where they are -------------------------------------------------------------------------- */

struct named_module {
	const char *name;
	uint64_t gva; /* of its struct module */
};

static int find_name(void *arg, const struct kernel *kernel, const struct module_view *module)
{
	struct named_module *wanted = arg;

	(void)kernel;
	if (strcmp(module->name, wanted->name) != 0)
		return 0;
	wanted->gva = module->gva;
	return 1;
}

/* The struct btf of a module, by the kernel's list. */
static int find_btf(const struct kernel *kernel, const struct btf_layout *layout, uint64_t module,
		    uint64_t *btf, struct error *err)
{
	const uint64_t head = kernel_symbol(kernel, list_symbol);
	uint64_t link = head, entry, listed = 0;
	int ret = 0;

	for (size_t n = 0; !ret && n < MAX_LISTED; n++) {
		ret = kernel_get_u64(kernel, link, &link, err);
		if (ret || link == head)
			break;
		entry = link - layout->list;
		ret = kernel_get_u64(kernel, entry + layout->module, &listed, err);
		if (!ret && listed == module)
			return kernel_get_u64(kernel, entry + layout->btf, btf, err);
	}
	return ret ? ret : error_set(err, ENODATA, "the kernel has no types of it");
}

/* Ids and strings have to go on where those of the kernel end. */
static int check_base(const struct kernel *kernel, const struct btf_layout *layout, uint64_t btf,
		      struct error *err)
{
	const struct btf_types *base = kernel->image->btf;
	uint32_t id = 0, string = 0;
	int ret = kernel_get_u32(kernel, btf + layout->start_id, &id, err);

	if (!ret)
		ret = kernel_get_u32(kernel, btf + layout->start_string, &string, err);
	if (!ret && (id != btf_end_id(base) || string != btf_end_string(base)))
		ret = error_set_at(err, EBADMSG, btf,
				   "its types go on from id %u and string %u, and the kernel's end "
				   "at %u and %u",
				   id, string, btf_end_id(base), btf_end_string(base));
	return ret;
}

/* --- the types ------------------------------------------------------------------------------- */

/* Where their bytes are. */
struct place {
	uint64_t gva;
	uint32_t size;
};

static int find_place(const struct kernel *kernel, const char *name, struct place *out,
		      struct error *err)
{
	struct named_module module = {.name = name};
	struct btf_layout layout;
	uint64_t btf = 0;
	int ret = check(kernel->image, &layout, err);

	if (ret)
		return ret;
	if (modules_for_each(kernel, find_name, &module) != 1)
		return error_set(err, ENOENT, "it is not loaded");
	ret = find_btf(kernel, &layout, module.gva, &btf, err);
	if (!ret)
		ret = check_base(kernel, &layout, btf, err);
	if (!ret)
		ret = kernel_get_u64(kernel, btf + layout.data, &out->gva, err);
	if (!ret)
		ret = kernel_get_u32(kernel, btf + layout.data_size, &out->size, err);
	if (!ret && out->size > MAX_BYTES)
		ret = error_set_at(err, E2BIG, btf, "its types have %u bytes, more than %u",
				   out->size, MAX_BYTES);
	return ret;
}

static int parse(const struct kernel *kernel, const struct place *place, uint8_t *bytes,
		 struct btf_types **out, struct error *err)
{
	int ret = kernel_read(kernel, place->gva, bytes, place->size, err);

	return ret ? ret : btf_parse_split(kernel->image->btf, bytes, place->size, out, err);
}

static int read_types(const struct kernel *kernel, const struct place *place,
		      struct module_btf *out, struct error *err)
{
	uint8_t *bytes = budget_malloc(out->budget, place->size);
	int ret = -ENOMEM;

	out->taken = (size_t)BTF_MEMORY * place->size;
	if (bytes && budget_take(out->budget, out->taken)) {
		ret = parse(kernel, place, bytes, &out->types, err);
		if (ret)
			budget_give(out->budget, out->taken);
	} else {
		error_set(err, ENOMEM, "no memory for its %u bytes of types", place->size);
	}
	budget_free(out->budget, bytes, place->size);
	return ret;
}

int module_btf_read(const struct kernel *kernel, const char *module, struct module_btf *out,
		    struct error *err)
{
	struct place place;
	int ret;

	*out = (struct module_btf){.budget = kernel->guest->budget};
	ret = find_place(kernel, module, &place, err);
	if (!ret)
		ret = read_types(kernel, &place, out, err);
	if (ret && ret != -ENOTSUP)
		error_prefix(err, "module '%s': ", module);
	return ret;
}

void module_btf_deinit(struct module_btf *btf)
{
	if (btf->types)
		budget_give(btf->budget, btf->taken);
	btf_destroy(btf->types);
	*btf = (struct module_btf){0};
}
