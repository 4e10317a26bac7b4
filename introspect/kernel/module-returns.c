/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/module-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_SECTIONS = 1024, /* of one module */
	MAX_SLOTS = 1 << 20, /* entries that are read, of all modules */
	PAGE_BYTES = 4096,
};

static const char list_name[] = ".return_sites";

struct slots {
	struct section_layout layout;
	struct module_returns *out;
	size_t left; /* entries that may still be read */
};

/* --- where a module's list is ---------------------------------------------------------------- */

struct range {
	uint64_t begin, end;
};

/* False: it has none. */
static bool find_list(const struct kernel *kernel, const struct section_layout *layout,
		      uint64_t link, struct range *list)
{
	uint64_t sections[MAX_SECTIONS], name;
	size_t n = 0;

	*list = (struct range){0, UINT64_MAX};
	while (n < MAX_SECTIONS && module_sections_next(kernel, layout, &link, &sections[n], &name))
		if (!list->begin && module_section_is(kernel, name, list_name))
			list->begin = sections[n];
		else
			n++;
	for (size_t i = 0; i < n; i++)
		if (sections[i] > list->begin && sections[i] < list->end)
			list->end = sections[i];
	return list->begin;
}

/* --- its entries ----------------------------------------------------------------------------- */

/* Slots of init text that was freed are passed over. *more: there may be more entries. */
static int add_entries(struct slots *slots, const struct module_view *module,
		       const struct range *list, const int32_t *entries, size_t n, bool *more)
{
	int ret = 0;

	for (size_t i = 0; *more && !ret && i < n; i++) {
		const uint64_t at = list->begin + i * sizeof(*entries);
		const uint64_t slot = at + (uint64_t)(int64_t)entries[i];

		*more = entries[i] != 0;
		if (*more && module_text_end(module, slot))
			ret = address_list_add(&slots->out->slots, slot);
	}
	return ret;
}

/* Entries that one read gets: a page may be mapped, and the next one not. */
static size_t at_once(const struct slots *slots, const struct range *list)
{
	const uint64_t in_list = (list->end - list->begin) / sizeof(int32_t);
	const uint64_t in_page = (PAGE_BYTES - list->begin % PAGE_BYTES) / sizeof(int32_t);
	const uint64_t n = in_list < in_page ? in_list : in_page;

	return n < slots->left ? (size_t)n : slots->left;
}

static int add_list(struct slots *slots, const struct kernel *kernel,
		    const struct module_view *module, struct range list)
{
	bool more = true;
	int ret = 0;

	while (!ret && more && list.begin < list.end) {
		const size_t n = at_once(slots, &list);
		int32_t entries[PAGE_BYTES / sizeof(int32_t)];

		if (!n || kernel_read(kernel, list.begin, entries, n * sizeof(*entries), NULL))
			break;
		slots->left -= n;
		ret = add_entries(slots, module, &list, entries, n, &more);
		list.begin += n * sizeof(*entries);
	}
	return ret;
}

static int add_module(void *arg, const struct kernel *kernel, const struct module_view *module)
{
	struct slots *slots = arg;
	const uint64_t sections = module_sections_find(kernel, &slots->layout, module->gva);
	struct range list;

	slots->out->complete &= sections != 0;
	if (!find_list(kernel, &slots->layout, sections, &list))
		return 0;
	return add_list(slots, kernel, module, list);
}

int module_returns_read(const struct kernel *kernel, struct module_returns *out, struct error *err)
{
	struct slots slots = {.out = out, .left = MAX_SLOTS};
	int ret = 0;

	*out = (struct module_returns){.slots.budget = kernel->guest->budget, .complete = true};
	if (module_sections_layout(kernel->image->btf, &slots.layout))
		ret = modules_for_each(kernel, add_module, &slots);
	if (ret) {
		address_list_deinit(&out->slots);
		return error_set(err, -ret, "no memory for the return slots of modules");
	}
	address_list_sort(&out->slots);
	return 0;
}
