/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of functions of which others take the place. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "patcher/ring/profile.h"
#include "patcher/ring/layout.h"
#include "tests/lib/tap.h"

enum { DATA_BYTES = 64 << 10, NR_CPUS = 2, SITE = 0x1000, IP = SITE + 5 };

static _Alignas(64) uint8_t memory[NR_CPUS][DATA_BYTES];
static struct profile *profile;

static void attach(void)
{
	const struct profile_memory m = {
		.data = memory, .data_bytes = DATA_BYTES, .stride = DATA_BYTES, .nr_cpus = NR_CPUS};

	if (profile_attach(profile, &m, NULL))
		tap_diag("no memory");
}

static void call(uint32_t cpu, uint64_t ticks)
{
	const struct call_counts_layout layout = profile_layout(profile);
	struct call_count *count =
		(void *)(memory[cpu] + layout.counts_at + profile_offset(profile, SITE));

	count->hits++;
	count->timed++;
	count->ticks += ticks;
	count->longest = ticks > count->longest ? ticks : count->longest;
}

static void is_row(size_t i, const char *name, uint64_t hits, uint64_t timed)
{
	struct profile_rows rows;

	if (profile_read(profile, &rows, NULL))
		return;
	ok(i < rows.n && !strcmp(rows.v[i].name, name) && rows.v[i].hits == hits &&
		   rows.v[i].timed == timed,
	   "%s has %llu calls", name, (unsigned long long)hits);
	profile_rows_deinit(&rows);
}

static bool is_timed(size_t i)
{
	struct profile_rows rows = {0};
	bool timed;

	timed = !profile_read(profile, &rows, NULL) && i < rows.n && rows.v[i].returns;
	profile_rows_deinit(&rows);
	return timed;
}

static int add(const char *name)
{
	return profile_add(profile, IP, SITE, name, true, NULL);
}

static void test_replaced(bool histogram)
{
	if (profile_create(histogram, false, NULL, &profile, NULL))
		return;
	attach();
	ok(!add("old"), "a function is added%s", histogram ? ", with a histogram" : "");
	call(0, 10);
	call(1, 20);
	ok(!add("old"), "it may come again at its place");
	call(1, 30);
	is_row(0, "old", 3, 3);
	ok(!profile_add(profile, IP, SITE, "old", false, NULL) && !is_timed(0),
	   "or with hits only");
	ok(!add("old") && is_timed(0), "and be timed again");
	ok(!add("new"), "another function comes to this place");
	is_row(0, "old", 3, 3);
	is_row(1, "new", 0, 0);
	call(0, 5);
	is_row(0, "old", 3, 3);
	is_row(1, "new", 1, 1);
	profile_detach(profile);
	attach();
	call(1, 5);
	is_row(0, "old", 3, 3);
	is_row(1, "new", 2, 2);
	ok(!add("old"), "the former one comes again");
	call(0, 5);
	is_row(0, "old", 4, 4);
	is_row(1, "new", 2, 2);
	profile_clear(profile);
	is_row(0, "old", 0, 0);
	is_row(1, "new", 0, 0);
	profile_detach(profile);
	profile_put(profile);
}

/* A guest that loads modules with ever other names at one place. */
static void test_budget(bool histogram)
{
	enum { MOST = 16 << 10, TIMES = 10000 };
	struct budget budget;
	char name[32];
	int ret = 0, n = 0;

	budget_init(&budget, MOST);
	if (profile_create(histogram, false, &budget, &profile, NULL))
		return;
	attach();
	for (; !ret && n < TIMES; n++) {
		snprintf(name, sizeof(name), "function %d", n);
		ret = add(name);
	}
	ok(ret == -ENOMEM && n > 5 && budget.used && budget.used <= MOST,
	   "%d functions%s fit into the guest's budget", n - 1,
	   histogram ? " with a histogram" : "");
	is_row(0, "function 0", 0, 0);
	profile_put(profile);
	is_u64(budget.used, 0, "all is given back");
}

int main(void)
{
	test_budget(false);
	test_budget(true);
	test_replaced(false);
	test_replaced(true);
	return tap_done();
}
