/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/plan/shared-slots.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/budget.h"
#include "introspect/kernel/identify.h"
#include "introspect/kernel/module-list.h"

struct reader {
	const struct kernel *kernel;
	size_t left; /* bytes of text that may still be read */
	const struct address_list *kprobes;
	uint8_t bytes[MODULE_EXITS_MAX_FUNCTION];
};

static const uint8_t *read_bytes(void *arg, uint64_t address, size_t size)
{
	struct reader *reader = arg;
	const uint64_t gva = kernel_gva(reader->kernel, address);

	if (size > sizeof(reader->bytes) || size > reader->left)
		return NULL;
	reader->left -= size;
	if (kernel_read(reader->kernel, gva, reader->bytes, size, NULL))
		return NULL;
	if (guest_kprobes_reach(reader->kprobes, gva, size))
		guest_kprobes_restore(reader->kernel, gva, reader->bytes, size);
	return reader->bytes;
}

/* Modules lie behind the image; what lies elsewhere comes from a damaged list. */
static bool is_module_text(const struct kernel *kernel, uint64_t gva)
{
	return gva >= kernel_gva(kernel, kernel->image->end) && gva <= UINT64_MAX - SITE_SIZE;
}

/* In place. */
static size_t to_links(const struct kernel *kernel, uint64_t *gvas, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (is_module_text(kernel, gvas[i]))
			gvas[kept++] = kernel_link(kernel, gvas[i]);
	return kept;
}

static bool is_apart(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) >= SITE_SIZE;
}

/* Slots that overlap each other, or sites, come from a damaged list. */
static size_t without_overlaps(uint64_t *slots, size_t n, const uint64_t *sites, size_t nr_sites)
{
	size_t kept = 0, site = 0;

	for (size_t i = 0; i < n; i++) {
		while (site < nr_sites && sites[site] + SITE_SIZE <= slots[i])
			site++;
		if (site < nr_sites && !is_apart(sites[site], slots[i]))
			continue;
		if (!kept || is_apart(slots[kept - 1], slots[i]))
			slots[kept++] = slots[i];
	}
	return kept;
}

static int list_functions(const struct kernel *kernel, const struct kernel_names *names,
			  struct exit_function **out, size_t *n, struct error *err)
{
	*n = 0;
	*out = budget_calloc(kernel->guest->budget, kernel_names_count(names) + 1, sizeof(**out));
	if (!*out)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < kernel_names_count(names); i++) {
		uint64_t start, end;
		const char *name = kernel_names_at(names, i, &start, &end);

		if (is_module_text(kernel, start))
			(*out)[(*n)++] = (struct exit_function){kernel_link(kernel, start),
								kernel_link(kernel, end), name};
	}
	return 0;
}

static int list_sites(const struct kernel *kernel, const struct site_table *sites, uint64_t **out,
		      size_t *n, struct error *err)
{
	*out = budget_calloc(kernel->guest->budget, sites->n + 1, sizeof(**out));
	if (!*out)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < sites->n; i++)
		(*out)[i] = sites->v[i].gva;
	*n = to_links(kernel, *out, sites->n);
	return 0;
}

static int find_exits(struct module_exits *exits, const struct kernel *kernel,
		      const struct address_list *kprobes, struct exit_text *text, struct error *err)
{
	struct reader *reader = malloc(sizeof(*reader));
	int ret;

	if (!reader)
		return error_set(err, ENOMEM, "out of memory");
	reader->kernel = kernel;
	reader->kprobes = kprobes;
	reader->left = MODULE_EXITS_MAX_TEXT;
	text->slots = exits->slots.v;
	text->nr_slots = exits->slots.n;
	text->first_slot = kernel->image->nr_return_sites;
	text->bytes = read_bytes;
	text->arg = reader;
	ret = function_exits_create(kernel->image, text, &exits->exits, err);
	free(reader);
	return ret;
}

int module_exits_read(struct module_exits *exits, const struct kernel *kernel,
		      const struct kernel_names *names, const struct site_table *sites,
		      const struct address_list *kprobes, struct error *err)
{
	struct exit_function *functions = NULL;
	struct exit_text text = {0};
	struct module_returns returns;
	uint64_t *links = NULL;
	int ret;

	*exits = (struct module_exits){0};
	ret = module_returns_read(kernel, &returns, err);
	if (ret)
		return ret;
	exits->slots = returns.slots;
	exits->seen = (struct module_slots_seen){returns.slots.n, returns.complete};
	ret = list_functions(kernel, names, &functions, &text.nr_functions, err);
	if (!ret)
		ret = list_sites(kernel, sites, &links, &text.nr_sites, err);
	exits->slots.n = to_links(kernel, exits->slots.v, exits->slots.n);
	exits->slots.n = without_overlaps(exits->slots.v, exits->slots.n, links, text.nr_sites);
	text.functions = functions;
	text.sites = links;
	if (!ret)
		ret = find_exits(exits, kernel, kprobes, &text, err);
	budget_free(kernel->guest->budget, links, (sites->n + 1) * sizeof(*links));
	budget_free(kernel->guest->budget, functions,
		    (kernel_names_count(names) + 1) * sizeof(*functions));
	if (ret)
		module_exits_deinit(exits);
	return ret;
}

void module_exits_deinit(struct module_exits *exits)
{
	function_exits_destroy(exits->exits);
	address_list_deinit(&exits->slots);
	*exits = (struct module_exits){0};
}

bool module_slots_have_come(const struct module_slots_seen *seen, const struct kernel *kernel)
{
	struct module_returns now;
	bool differs;

	if (seen->complete || module_returns_read(kernel, &now, NULL))
		return false;
	differs = now.slots.n != seen->n;
	address_list_deinit(&now.slots);
	return differs;
}
