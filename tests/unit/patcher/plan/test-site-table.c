/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The list of all sites of a guest, which may be as long as the guest claims. */
#include <errno.h>
#include <stdlib.h>
#include "patcher/plan/site-table.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

static struct fake_session fs;
static struct kernel_names *names;

static int read_table(struct site_table *table, size_t most, struct budget *budget)
{
	budget_init(budget, most);
	fs.fg.guest.budget = budget;
	return site_table_read(table, &fs.fg.kernel, names, NULL);
}

static void test_budget(void)
{
	struct budget budget, *const own = fs.fg.guest.budget;
	struct site_table table;
	size_t used;

	ok(!read_table(&table, SIZE_MAX, &budget) && table.n == FAKE_NR_SITES,
	   "the list of a kernel's sites is read");
	used = budget.used;
	ok(used >= table.n * sizeof(struct site), "it comes out of the guest's budget: %zu bytes",
	   used);
	site_table_deinit(&table);
	is_u64(budget.used, 0, "which has it back in the end");
	for (size_t most = 1; most < used; most += used / 8) {
		if (read_table(&table, most, &budget) == -ENOMEM && budget.refused && !budget.used)
			continue;
		ok(false, "a list that does not fit into %zu bytes is refused", most);
	}
	fs.fg.guest.budget = own;
}

int main(void)
{
	fake_session_create(&fs);
	if (kernel_names_create(&fs.fg.kernel, &names, NULL))
		abort();
	test_budget();
	kernel_names_destroy(names);
	fake_session_destroy(&fs);
	return tap_done();
}
