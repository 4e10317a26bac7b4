/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/probe.h"

#include <errno.h>
#include "introspect/slab/slab.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

enum { AT = FAKE_HEAP_GPA, MAX = 4, LINK = 8 };

static struct fake_kernel fake;
static struct slab_view *slab;
static struct object_iter source;
static uint64_t items[MAX];
static size_t n;

static int init(const struct capture_items *what, uint64_t arg0, uint64_t arg1)
{
	const uint64_t args[6] = {arg0, arg1};

	return object_iter_init(&source, &fake.kernel, what, args, NULL);
}

static int page_order(void *arg, uint64_t page, unsigned int *order, struct error *err)
{
	return slab_page_order(arg, page, order, err);
}

static int more(void)
{
	const struct page_lookup pages = {.arg = slab, .order = page_order};

	return object_iter_read(&source, &fake.kernel, &pages, items, MAX, &n, NULL);
}

static void test_array(void)
{
	static const struct capture_items what = {
		.from = ITEMS_ARRAY, .pointer = 0, .count = 1, .count_size = 4};

	for (unsigned int i = 0; i < 6; i++)
		fake_put64(&fake, AT + i * 8, 100 + i);
	ok(!init(&what, fake_direct(AT), 6ull | 1ull << 32),
	   "an array's int count is taken from 32 bits");
	ok(!more() && n == MAX && items[0] == 100 && items[3] == 103,
	   "a read returns as many items as there is room for");
	ok(!more() && n == 2 && items[1] == 105, "a second read returns the rest");
	ok(!more() && !n, "a read at the end returns none");
	init(&what, 0x1234, 3);
	ok(more() == -EFAULT && !n && source.count == 3, "an array that is not mapped is an error");
}

static void test_counted(void)
{
	static const struct capture_items what = {
		.from = ITEMS_COUNTED, .count_size = 1, .words_offset = 8};

	fake_put64(&fake, AT, 0xffffff02);
	ok(!init(&what, fake_direct(AT), 0) && !more() && n == 2 && items[0] == 101,
	   "words in a structure are counted by it");
	ok(init(&what, 8, 0) == -EFAULT, "a structure that is not mapped is an error");
}

static void test_list(void)
{
	static const struct capture_items what = {
		.from = ITEMS_LISTED, .link = LINK, .page_orders = true};
	uint64_t head = fake_direct(AT), first = fake_page(500) + LINK,
		 second = fake_page(900) + LINK;

	fake_put64(&fake, AT, first);
	fake_put64(&fake, fake_page_gpa(500) + LINK, second);
	fake_put64(&fake, fake_page_gpa(900) + LINK, head);
	ok(!init(&what, head, 0) && !more() && n == 2, "two pages in a list are read");
	ok(items[0] == page_item(fake_page(500), 0) &&
		   items[1] == page_item(fake_page(900), 0),
	   "pages of a list are read in order, of order 0");
	ok(!more() && !n, "a list ends at its head");
	fake_put64(&fake, fake_page_gpa(900) + LINK, first);
	init(&what, head, 0);
	ok(!more() && n == MAX && !more() && n == MAX, "a cyclic list goes on");
	init(&what, head, 0);
	source.count = 1;
	ok(!more() && n == 1 && !more() && !n, "a cyclic list ends at its limit");
	fake_put64(&fake, AT, head);
	ok(!init(&what, head, 0) && !more() && !n, "an empty list has no items");
	fake_put64(&fake, AT, 0xdead000000000100ull);
	init(&what, head, 0);
	ok(more() == -EFAULT && !n,
	   "a list with a poisoned link is an error, and where it leads there is no page");
}

/* Order and list are the guest's: what cannot be read is told, and not taken for something else. */
static void test_damage(void)
{
	static const struct capture_items list = {.from = ITEMS_LISTED, .link = LINK};
	static const struct capture_items array = {.from = ITEMS_ARRAY,
						   .pointer = 0,
						   .count = 1,
						   .count_size = 4,
						   .page_orders = true};
	const uint64_t first = fake_page(500) + LINK;

	fake_put64(&fake, AT, first);
	fake_put64(&fake, fake_page_gpa(500) + LINK, 0);
	init(&list, fake_direct(AT), 0);
	ok(more() == -EFAULT && n == 1, "a list that does not lead back to its head is an error");
	fake_put64(&fake, AT, fake_page(500));
	fake_put64(&fake, AT + 8, 0xdead000000000100);
	fake_put64(&fake, AT + 16, fake_page(900));
	init(&array, fake_direct(AT), 3);
	ok(more() == -EFAULT && n == 2 && items[1] == page_item(fake_page(900), 0),
	   "a page whose order cannot be read is left out");
	is_u64(source.count, 1, "and counts as not read");
}

static void test_holes(void)
{
	static const struct capture_items what = {
		.from = ITEMS_SAVED, .pointer = 0, .count = 1, .skip_filled = true};
	static const uint64_t words[] = {1, 2, 0, 3, 0, 0, 4, 5, 6, 0, 7, 8};
	enum { COUNT = sizeof(words) / sizeof(words[0]) };

	for (unsigned int i = 0; i < COUNT; i++)
		fake_put64(&fake, AT + i * 8, words[i]);
	ok(!init(&what, fake_direct(AT), COUNT - 1) && !more() && n == MAX && items[0] == 3 &&
		   items[3] == 6,
	   "words that are filled behind a hole are read");
	ok(!more() && n == 1 && items[0] == 7, "up to the end of the array");
	ok(!more() && !n, "and no more");
	ok(!init(&what, fake_direct(AT), 2) && !more() && !n, "an array without holes has none");
	ok(!init(&what, 0, 3) && !more() && !n, "nor has a call without an array");
}

static void test_last(void)
{
	static const struct capture_items what = {
		.from = ITEMS_LAST, .count_offset = 4, .page_orders = true};

	fake_put64(&fake, fake_page_gpa(500), UINT64_C(1) << 32);
	ok(!init(&what, fake_page(500), 0) && !more() && n == 1 &&
		   page_item_page(items[0]) == fake_page(500) && !page_item_order(items[0]),
	   "the last reference to a page makes it an item");
	ok(!more() && !n, "it is the only one");
	fake_put64(&fake, fake_page_gpa(500), UINT64_C(2) << 32);
	ok(!init(&what, fake_page(500), 0) && !more() && !n, "another reference does not");
	ok(init(&what, 8, 0) == -EFAULT, "what is not mapped is an error");
	fake_put64(&fake, fake_page_gpa(500), 0);
}

int main(void)
{
	if (fake_kernel_create(&fake, FAKE_6_12, 4) || slab_view_create(&fake.kernel, &slab, NULL))
		return 1;
	test_array();
	test_counted();
	test_list();
	test_damage();
	test_holes();
	test_last();
	init(&(struct capture_items){0}, 0, 0);
	ok(!more() && !n, "a capture without items has none");
	slab_view_destroy(slab);
	fake_kernel_destroy(&fake);
	return tap_done();
}
