/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/module-orc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/module-list.h"

enum {
	MAX_TABLES = 2048,
	MAX_ENTRIES = 1 << 19,     /* of one module; i915 has some 60,000 */
	MAX_ALL_ENTRIES = 1 << 22, /* of all, and that an update reads */
	IP_BYTES = 4,
	ENTRY_BYTES = 6,
};

struct module_table {
	struct module_view module;
	struct orc_table orc; /* its bytes are `bytes` */
	uint8_t *bytes;       /* addresses, then entries */
};

struct module_orcs {
	struct budget *budget;
	pthread_mutex_t lock; /* of the tables */
	struct module_table *v;
	size_t n, room, nr_entries;
	size_t left; /* entries that the update may read yet */
	_Atomic bool wanted, due;
};

int module_orcs_create(struct budget *budget, struct module_orcs **out, struct error *err)
{
	struct module_orcs *orcs = calloc(1, sizeof(*orcs));

	if (!orcs)
		return error_set(err, ENOMEM, "out of memory");
	orcs->budget = budget;
	pthread_mutex_init(&orcs->lock, NULL);
	*out = orcs;
	return 0;
}

static size_t bytes_of(const struct module_view *module)
{
	return (size_t)module->nr_orc * (IP_BYTES + ENTRY_BYTES);
}

static void free_table(struct module_orcs *orcs, struct module_table *table)
{
	orcs->nr_entries -= table->module.nr_orc;
	budget_free(orcs->budget, table->bytes, bytes_of(&table->module));
}

void module_orcs_destroy(struct module_orcs *orcs)
{
	if (!orcs)
		return;
	for (size_t i = 0; i < orcs->n; i++)
		free_table(orcs, &orcs->v[i]);
	budget_free(orcs->budget, orcs->v, orcs->room * sizeof(*orcs->v));
	pthread_mutex_destroy(&orcs->lock);
	free(orcs);
}

void module_orcs_want(struct module_orcs *orcs)
{
	if (!atomic_exchange(&orcs->wanted, true))
		atomic_store(&orcs->due, true);
}

bool module_orcs_are_wanted(const struct module_orcs *orcs)
{
	return atomic_load(&orcs->wanted);
}

bool module_orcs_are_due(const struct module_orcs *orcs)
{
	return atomic_load(&orcs->due);
}

/* --- reading --------------------------------------------------------------------------------- */

/* Init text goes when it has run: then less is there of the same module. */
static bool is_same(const struct module_view *known, const struct module_view *module)
{
	return known->gva == module->gva && known->text[0] == module->text[0] &&
	       known->text_end[0] == module->text_end[0] && known->orc_ips == module->orc_ips &&
	       known->orc_entries == module->orc_entries && known->nr_orc == module->nr_orc &&
	       (!module->text[1] || known->text[1] == module->text[1]) &&
	       !strcmp(known->name, module->name);
}

static bool overlaps(const struct module_view *a, const struct module_view *b)
{
	for (int i = 0; i < MODULE_TEXTS; i++)
		for (int k = 0; k < MODULE_TEXTS; k++)
			if (a->text[i] < b->text_end[k] && b->text[k] < a->text_end[i])
				return true;
	return false;
}

static bool is_known(const struct module_orcs *orcs, const struct module_view *module)
{
	for (size_t i = 0; i < orcs->n; i++)
		if (is_same(&orcs->v[i].module, module))
			return true;
	return false;
}

/* False: it cannot be read, or is none. */
static bool read_table(const struct module_orcs *orcs, const struct kernel *kernel,
		       const struct module_view *module, struct module_table *out)
{
	const size_t ips = (size_t)module->nr_orc * IP_BYTES, bytes = bytes_of(module);

	out->module = *module;
	out->bytes = budget_malloc(orcs->budget, bytes);
	if (!out->bytes)
		return false;
	if (!kernel_read(kernel, module->orc_ips, out->bytes, ips, NULL) &&
	    !kernel_read(kernel, module->orc_entries, out->bytes + ips, bytes - ips, NULL) &&
	    orc_table_init_module(&kernel->known.orc, out->bytes, module->orc_ips, out->bytes + ips,
				  module->nr_orc, &out->orc))
		return true;
	budget_free(orcs->budget, out->bytes, bytes);
	return false;
}

/* In the place of those whose text it takes. */
static void keep_table(struct module_orcs *orcs, struct module_table *table)
{
	size_t kept = 0;

	pthread_mutex_lock(&orcs->lock);
	orcs->nr_entries += table->module.nr_orc;
	for (size_t i = 0; i < orcs->n; i++)
		if (overlaps(&orcs->v[i].module, &table->module))
			free_table(orcs, &orcs->v[i]);
		else
			orcs->v[kept++] = orcs->v[i];
	orcs->n = kept;
	if (orcs->n < MAX_TABLES && orcs->nr_entries <= MAX_ALL_ENTRIES &&
	    budget_grow(orcs->budget, &orcs->v, sizeof(*orcs->v), orcs->n, &orcs->room))
		orcs->v[orcs->n++] = *table;
	else
		free_table(orcs, table);
	pthread_mutex_unlock(&orcs->lock);
}

static int add_module(void *arg, const struct kernel *kernel, const struct module_view *module)
{
	struct module_orcs *orcs = arg;
	struct module_table table;

	if (!module->nr_orc || module->nr_orc > MAX_ENTRIES || module->nr_orc > orcs->left ||
	    is_known(orcs, module))
		return 0;
	orcs->left -= module->nr_orc;
	if (read_table(orcs, kernel, module, &table))
		keep_table(orcs, &table);
	return 0;
}

/* Only one thread updates: it alone changes the tables, and reads them without the lock. */
void module_orcs_update(struct module_orcs *orcs, const struct kernel *kernel)
{
	atomic_store(&orcs->due, false);
	orcs->left = MAX_ALL_ENTRIES;
	if (orc_table_is_usable(&kernel->known.orc))
		modules_for_each(kernel, add_module, orcs);
}

/* --- looking up ------------------------------------------------------------------------------ */

bool module_orcs_find(void *arg, uint64_t gva, struct orc_entry *out)
{
	struct module_orcs *orcs = arg;
	bool covered = false, found = false;

	pthread_mutex_lock(&orcs->lock);
	for (size_t i = 0; !covered && i < orcs->n; i++) {
		covered = module_text_end(&orcs->v[i].module, gva);
		found = covered && orc_table_find(&orcs->v[i].orc, gva, out);
	}
	pthread_mutex_unlock(&orcs->lock);
	if (!covered && atomic_load(&orcs->wanted))
		atomic_store(&orcs->due, true);
	return found;
}
