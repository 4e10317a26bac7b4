/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The list of all sites of a guest, which may be as long as the guest claims. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/plan/shared-slots.h"
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

/* As many sites as the guest claims are planned for. */
static void test_sites_budget(void)
{
	struct budget budget, *const own = fs.fg.guest.budget;
	const struct patch_plan plan = {0};
	struct shared_sites sites;
	struct site_table table;
	size_t used;

	if (read_table(&table, SIZE_MAX, &budget))
		abort();
	used = budget.used;
	ok(!shared_sites_make(&sites, &table, &plan, false, NULL) &&
		   budget.used - used >= table.n * sizeof(struct shared_site),
	   "the patches of a guest's sites come out of its budget");
	shared_sites_deinit(&sites);
	is_u64(budget.used, used, "which has them back in the end");
	budget.most = used + sizeof(struct shared_site);
	ok(shared_sites_make(&sites, &table, &plan, false, NULL) == -ENOMEM,
	   "patches that do not fit into it are refused");
	shared_sites_deinit(&sites);
	site_table_deinit(&table);
	is_u64(budget.used, 0, "and take nothing");
	fs.fg.guest.budget = own;
}

static void test_slots_budget(void)
{
	struct budget budget, *const own = fs.fg.guest.budget;
	const struct module_exits modules = {0};
	const struct patch_plan plan = {0};
	struct shared_slots slots;

	fs.fg.guest.budget = &budget;
	budget_init(&budget, SIZE_MAX);
	ok(!shared_slots_make(&slots, &fs.fg.kernel, &modules, &plan, false, NULL) && budget.used,
	   "the patches of return slots come out of it, too");
	shared_slots_deinit(&slots);
	is_u64(budget.used, 0, "which has them back");
	budget_init(&budget, 1);
	ok(shared_slots_make(&slots, &fs.fg.kernel, &modules, &plan, false, NULL) == -ENOMEM,
	   "those that do not fit are refused");
	shared_slots_deinit(&slots);
	is_u64(budget.used, 0, "and take nothing");
	fs.fg.guest.budget = own;
}

static void test_exits_budget(void)
{
	struct budget budget, *const own = fs.fg.guest.budget;
	struct module_exits exits;
	struct site_table table;
	const struct address_list no_kprobes = {0};
	size_t used;

	if (read_table(&table, SIZE_MAX, &budget))
		abort();
	used = budget.used;
	ok(!module_exits_read(&exits, &fs.fg.kernel, names, &table, &no_kprobes, NULL),
	   "the exits of modules' functions are read");
	module_exits_deinit(&exits);
	is_u64(budget.used, used, "the budget has back what they needed");
	budget.most = used + table.n * sizeof(uint64_t);
	ok(module_exits_read(&exits, &fs.fg.kernel, names, &table, &no_kprobes, NULL) == -ENOMEM,
	   "without room for the functions and sites they are not");
	is_u64(budget.used, used, "and take nothing");
	site_table_deinit(&table);
	fs.fg.guest.budget = own;
}

/* Each function of the guest may be refused, for each instance. */
static void test_refusals_budget(void)
{
	const struct site_refusal refusal = site_refuse("f", 0x1000, "it is %s", "odd");
	struct site_refusals list;
	struct budget budget;
	size_t n = 0;

	list = (struct site_refusals){.budget = &budget};
	budget_init(&budget, 64 << 10);
	while (n < 1000 && !site_refusals_add(&list, &refusal))
		n++;
	ok(n > 10 && n < 1000 && n == list.n && budget.used <= budget.most,
	   "%zu refusals fit into the guest's budget", n);
	ok(!strcmp(list.v[n - 1].reason, "it is odd"), "which have their reasons");
	site_refusals_deinit(&list);
	is_u64(budget.used, 0, "it has all back");
}

int main(void)
{
	fake_session_create(&fs);
	if (kernel_names_create(&fs.fg.kernel, &names, NULL))
		abort();
	test_budget();
	test_sites_budget();
	test_slots_budget();
	test_exits_budget();
	test_refusals_budget();
	kernel_names_destroy(names);
	fake_session_destroy(&fs);
	return tap_done();
}
