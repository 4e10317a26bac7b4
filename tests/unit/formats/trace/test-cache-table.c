/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The slab caches of a trace: ids, and the memory that a guest with ever other caches can take. */
#include <stdio.h>
#include <string.h>
#include "formats/trace/cache-table.h"
#include "tests/lib/tap.h"

static void test_ids(void)
{
	const struct sidecar_cache adopted = {.id = 7, .name = (char[]){"old"}, .size = 8};
	struct cache_table table;
	struct sidecar_cache found;

	cache_table_init(&table, NULL);
	is_u64(cache_table_id(&table, "dentry", 190, 192), 1, "the first cache has id 1");
	is_u64(cache_table_id(&table, "dentry", 190, 192), 1, "and keeps it");
	is_u64(cache_table_id(&table, "dentry", 190, 256), 2, "another size is another cache");
	is_u64(cache_table_id(&table, "dentry", 192, 192), 1, "one that was merged is the same");
	ok(cache_table_find(&table, 1, &found) && found.object_size == 192,
	   "its objects are as large as the largest");
	is_u64(cache_table_id(&table, "dentry", 190, 192), 1, "smaller ones change nothing");
	ok(!cache_table_adopt(&table, &adopted) && cache_table_find(&table, 7, &found) &&
		   !strcmp(found.name, "old"),
	   "a cache of another trace keeps its id");
	is_u64(cache_table_id(&table, "inode", 600, 640), 8, "the next one comes behind it");
	cache_table_deinit(&table);
}

/* A guest that creates caches with ever other names. */
static void test_budget(void)
{
	enum { MOST = 64 << 10, CACHES = 10000 };
	struct cache_table table;
	struct sidecar_cache found;
	struct budget budget;
	unsigned int known = 0, again = 0;
	char name[32];

	budget_init(&budget, MOST);
	cache_table_init(&table, &budget);
	for (int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "cache %d", i);
		known += cache_table_id(&table, name, 8, 8) != 0;
	}
	ok(known > 100 && known < CACHES && budget.refused && budget.used <= MOST,
	   "%u caches fit into the guest's budget", known);
	for (unsigned int i = 0; i < known; i++) {
		snprintf(name, sizeof(name), "cache %u", i);
		again += cache_table_id(&table, name, 8, 8) == i + 1 &&
			 cache_table_find(&table, (uint16_t)(i + 1), &found) &&
			 !strcmp(found.name, name);
	}
	is_u64(again, known, "those keep their ids and names");
	cache_table_deinit(&table);
	is_u64(budget.used, 0, "all is given back");
}

int main(void)
{
	test_ids();
	test_budget();
	return tap_done();
}
