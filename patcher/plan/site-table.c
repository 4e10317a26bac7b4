/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/plan/site-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "introspect/kernel/identify.h"

enum {
	PAGE_BYTES = 4096,
	NAME_SIZE = 600,   /* KSYM_NAME_LEN is 512, and a module's name is up to 56 */
	MAX_DISTANCE = 16, /* of a site from its function's first byte: an ENDBR, a `push`, a NOP */
};

/* Kernel text and modules lie in the last 2 GiB (Documentation/arch/x86/x86_64/mm.rst). */
#define KERNEL_AREA 0xffffffff80000000ull

static int keep_name(struct site_table *table, const char *text, const char **out,
		     struct error *err)
{
	char *copy = budget_strdup(table->budget, text);

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	table->names[table->nr_names++] = copy;
	*out = copy;
	return 0;
}

/* "fn [module]" */
static int keep_module_name(struct site_table *table, struct site *site, char *name,
			    struct error *err)
{
	char *bracket = strstr(name, " [");
	int ret;

	if (bracket) {
		*bracket = '\0';
		bracket[strcspn(bracket + 2, "]") + 2] = '\0';
	}
	ret = keep_name(table, name, &site->name, err);
	if (ret || !bracket)
		return ret;
	return keep_name(table, bracket + 2, &site->module, err);
}

static bool begins_near(uint64_t function, uint64_t site)
{
	return site - function <= MAX_DISTANCE;
}

/* Where names come from. */
struct naming {
	const struct kernel *kernel;
	struct kernel_names *names;
	uint64_t init_begin, init_end; /* of the kernel's init text */
};

static int name_site(struct site_table *table, struct site *site, const struct naming *from,
		     struct error *err)
{
	const struct kernel *kernel = from->kernel;
	const struct symbol *symbol;
	uint64_t start, size;
	char name[NAME_SIZE];

	if (kernel_in_image(kernel, site->gva)) {
		site->transient = site->gva - from->init_begin < from->init_end - from->init_begin;
		symbol = symbols_covering(kernel->image->symbols, kernel_link(kernel, site->gva));
		if (symbol && begins_near(kernel_gva(kernel, symbol->address), site->gva))
			site->name = symbol->name;
		return 0;
	}
	site->transient = true;
	if (kernel_names_lookup(from->names, site->gva, name, sizeof(name), &start, &size) ||
	    !begins_near(start, site->gva))
		return 0;
	return keep_module_name(table, site, name, err);
}

/* Sites that overlap, or lie outside of text, come from a damaged list. */
static void keep_possible(struct site_table *table)
{
	uint64_t free_from = KERNEL_AREA;
	size_t n = 0;

	for (size_t i = 0; i < table->n; i++) {
		uint64_t gva = table->v[i].gva;

		if (gva < free_from || gva > UINT64_MAX - SITE_SIZE)
			continue;
		table->v[n++] = table->v[i];
		free_from = gva + SITE_SIZE;
	}
	table->n = n;
}

/* Text that the guest frees meanwhile is no error. */
static void take_bytes(struct site_table *table, size_t begin, size_t end, const uint8_t *page,
		       uint64_t fentry)
{
	for (size_t i = begin; i < end; i++) {
		struct site *site = &table->v[i];

		if (!page) {
			site->state = SITE_UNREADABLE;
			continue;
		}
		memcpy(site->bytes, page + (site->gva - table->v[begin].gva), SITE_SIZE);
		site->state = (uint8_t)site_classify(site->bytes, site->gva, fentry);
	}
}

/* The bytes of all sites that begin in one page are read at once. */
static int read_bytes(struct site_table *table, const struct kernel *kernel, struct error *err)
{
	const uint64_t fentry = kernel_symbol(kernel, "__fentry__");
	uint8_t page[PAGE_BYTES + SITE_SIZE];

	for (size_t i = 0, end; i < table->n; i = end) {
		const uint64_t from = table->v[i].gva;
		int ret;

		for (end = i + 1; end < table->n && table->v[end].gva - from < PAGE_BYTES &&
				  table->v[end].gva / PAGE_BYTES == from / PAGE_BYTES;)
			end++;
		ret = kernel_read(kernel, from, page, table->v[end - 1].gva + SITE_SIZE - from,
				  err);
		if (ret && (ret != -EFAULT || !table->v[i].transient))
			return ret;
		take_bytes(table, i, end, ret ? NULL : page, fentry);
	}
	return 0;
}

static size_t names_bytes(const struct site_table *table)
{
	return table->names_room * sizeof(*table->names);
}

/* A site has two names at most: its function's and its module's. */
static int make_room(struct site_table *table, size_t n, struct error *err)
{
	table->room = n + 1;
	table->names_room = 2 * table->room;
	table->v = budget_malloc(table->budget, table->room * sizeof(*table->v));
	table->names = budget_malloc(table->budget, names_bytes(table));
	if (!table->v || !table->names)
		return error_set(err, ENOMEM, "no memory for a list of %zu functions", n);
	memset(table->v, 0, table->room * sizeof(*table->v));
	return 0;
}

static int fill(struct site_table *table, const struct address_list *gvas,
		const struct naming *from, struct error *err)
{
	int ret = make_room(table, gvas->n, err);

	if (ret)
		return ret;
	for (size_t i = 0; i < gvas->n; i++)
		table->v[table->n++].gva = gvas->v[i];
	keep_possible(table);
	for (size_t i = 0; !ret && i < table->n; i++)
		ret = name_site(table, &table->v[i], from, err);
	return ret ? ret : read_bytes(table, from->kernel, err);
}

static int fill_all(struct site_table *table, const struct naming *from, struct error *err)
{
	struct address_list gvas;
	int ret = ftrace_sites_read_all(from->kernel, &gvas, err);

	if (ret)
		return ret;
	ret = fill(table, &gvas, from, err);
	address_list_deinit(&gvas);
	return ret;
}

static int read_table(struct site_table *table, const struct kernel *kernel,
		      struct kernel_names *names, bool no_image, struct error *err)
{
	const struct naming from = {.kernel = kernel,
				    .names = names,
				    .init_begin = kernel_symbol(kernel, "_sinittext"),
				    .init_end = kernel_symbol(kernel, "_einittext")};
	int ret;

	*table = (struct site_table){.budget = kernel->guest->budget, .no_image = no_image};
	/* the census first: if the sites change meanwhile, it is out of date */
	ret = ftrace_census_take(&table->census, kernel, err);
	if (ret)
		return ret;
	ret = no_image ? fill(table, &table->census.modules, &from, err)
		       : fill_all(table, &from, err);
	if (ret)
		site_table_deinit(table);
	return ret;
}

int site_table_read(struct site_table *table, const struct kernel *kernel,
		    struct kernel_names *names, struct error *err)
{
	return read_table(table, kernel, names, false, err);
}

int site_table_read_modules(struct site_table *table, const struct kernel *kernel,
			    struct kernel_names *names, struct error *err)
{
	return read_table(table, kernel, names, true, err);
}

int site_table_is_current(const struct site_table *table, const struct kernel *kernel,
			  bool *current, struct error *err)
{
	struct ftrace_census now;
	int ret = ftrace_census_take(&now, kernel, err);

	*current = !ret && ftrace_census_is_same(&table->census, &now);
	ftrace_census_deinit(&now);
	return ret;
}

void site_table_deinit(struct site_table *table)
{
	for (size_t i = 0; i < table->nr_names; i++)
		budget_free_text(table->budget, table->names[i]);
	budget_free(table->budget, table->names, names_bytes(table));
	budget_free(table->budget, table->v, table->room * sizeof(*table->v));
	ftrace_census_deinit(&table->census);
	*table = (struct site_table){0};
}

static uint64_t gva_at(const void *sites, size_t i)
{
	return ((const struct site *)sites)[i].gva;
}

size_t site_table_find(const struct site_table *table, uint64_t gva)
{
	return search_from(table->n, gva, gva_at, table->v);
}

/* Names of the image's functions are the image's own: those that a table has are of the others. */
int site_table_join(struct site_table *modules, const struct site_table *whole,
		    const struct kernel *kernel, struct site_join *join, struct error *err)
{
	const uint64_t begin = kernel_gva(kernel, kernel->image->text);
	const uint64_t end = kernel_gva(kernel, kernel->image->end);
	struct site *v;
	size_t room;

	join->below = site_table_find(modules, begin);
	join->first = site_table_find(whole, begin);
	join->kept = site_table_find(whole, end) - join->first;
	room = modules->n + join->kept + 1;
	v = budget_malloc(modules->budget, room * sizeof(*v));
	if (!v)
		return error_set(err, ENOMEM, "no memory for a list of %zu functions", room);
	memcpy(v, modules->v, join->below * sizeof(*v));
	memcpy(v + join->below, whole->v + join->first, join->kept * sizeof(*v));
	memcpy(v + join->below + join->kept, modules->v + join->below,
	       (modules->n - join->below) * sizeof(*v));
	budget_free(modules->budget, modules->v, modules->room * sizeof(*v));
	modules->v = v;
	modules->n += join->kept;
	modules->room = room;
	modules->no_image = false;
	return 0;
}

const char *site_table_refusal(const struct site *site)
{
	if (!site->name)
		return "site belongs to no function";
	if (site->state == SITE_NOP || site->state == SITE_CALL_FENTRY)
		return NULL;
	return site_state_text(site->state);
}
