/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Of things with names, those that --name chooses. */
#include <errno.h>
#include <stdio.h>
#include "formats/base/text.h"
#include "tests/lib/tap.h"

enum { MANY = 1000 };

struct item {
	char name[32];
	int number;
};

static int freed;

static void deinit(void *item)
{
	(void)item;
	freed++;
}

static void test_keep(void)
{
	struct item items[] = {{"a", 1}, {"b", 2}, {"a", 3}};
	struct error err = {0};
	size_t n = 3;

	ok(!named_keep(items, &n, sizeof(*items), deinit, "a", &err) && n == 2 && freed == 1 &&
		   items[0].number == 1 && items[1].number == 3,
	   "all of one name are kept, in their order");
	ok(named_keep(items, &n, sizeof(*items), deinit, "b", &err) == -ENOENT && !n && freed == 3,
	   "of a name that is not there, nothing");
	is_str(err.text, "--name takes a or a, not 'b'", "the error names those that there were");
	ok(named_keep(NULL, &n, sizeof(*items), deinit, "b", &err) == -ENOENT, "nor of nothing");
	is_str(err.text, "--name takes nothing, not 'b'", "which the error says");
}

static void test_many(void)
{
	static struct item items[MANY];
	struct error err = {0};
	size_t n = MANY;

	for (int i = 0; i < MANY; i++)
		snprintf(items[i].name, sizeof(items[i].name), "item %d", i);
	ok(!named_keep(items, &n, sizeof(*items), deinit, "item 999", &err) && n == 1,
	   "one of many is found");
}

int main(void)
{
	test_keep();
	test_many();
	return tap_done();
}
