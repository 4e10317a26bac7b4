/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/trap-table.h"

#include <errno.h>

void trap_table_init(struct trap_table *table)
{
	u64_map_init(&table->by_gva, sizeof(struct trap));
}

void trap_table_deinit(struct trap_table *table)
{
	u64_map_deinit(&table->by_gva);
}

int trap_table_put(struct trap_table *table, const struct trap *trap, struct error *err)
{
	struct trap *slot = u64_map_insert(&table->by_gva, trap->gva, NULL);

	if (!slot)
		return error_set(err, ENOMEM, "out of memory");
	*slot = *trap;
	return 0;
}

void trap_table_remove(struct trap_table *table, uint64_t gva)
{
	u64_map_remove(&table->by_gva, gva);
}

struct trap *trap_table_find(const struct trap_table *table, uint64_t gva)
{
	return u64_map_find(&table->by_gva, gva);
}
