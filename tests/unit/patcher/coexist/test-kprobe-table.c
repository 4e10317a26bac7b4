/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's table of kprobes: which are read, what they reach, and tables that are damaged. */
#include <stdlib.h>
#include <unistd.h>
#include "patcher/coexist/kprobe-table.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { PLACE = FAKE_KFREE + 8, GONE = 1 << 0, SECONDS = 60 };

static struct fake_session fs;

static size_t count(void)
{
	struct kprobe_table table;
	size_t n;

	if (kprobe_table_read(&fs.fg.kernel, &table, NULL))
		abort();
	n = table.list.n;
	kprobe_table_deinit(&table);
	return n;
}

static bool reaches(uint64_t offset, size_t size)
{
	struct kprobe_table table;
	bool reached;

	fake_session_put_kprobe(&fs, PLACE, FAKE_KPROBE_DISABLED);
	if (kprobe_table_read(&fs.fg.kernel, &table, NULL))
		abort();
	reached = kprobe_table_reaches(&table, fake_gva(offset), size);
	kprobe_table_deinit(&table);
	return reached;
}

static void test_reach(void)
{
	ok(reaches(PLACE, 5) && reaches(PLACE - 4, 5) && reaches(PLACE + 4, 5),
	   "a kprobe reaches what begins, or ends, in its five bytes");
	ok(!reaches(PLACE - 5, 5) && !reaches(PLACE + 5, 5), "and nothing else");
}

static void test_kinds(void)
{
	fake_session_put_kprobe(&fs, 0, 0);
	is_u64(count(), 0, "an empty table");
	fake_session_put_kprobe(&fs, PLACE, 0);
	is_u64(count(), 1, "a kprobe that is enabled");
	fake_session_put_kprobe(&fs, PLACE, FAKE_KPROBE_DISABLED);
	is_u64(count(), 1, "one that is not");
	fake_session_put_kprobe(&fs, PLACE, FAKE_KPROBE_FTRACE);
	is_u64(count(), 0, "one that ftrace calls writes no text");
	fake_session_put_kprobe(&fs, PLACE, GONE);
	is_u64(count(), 0, "nor does one whose text is gone");
}

static void test_current(void)
{
	struct kprobe_table table;
	bool same, other;

	fake_session_put_kprobe(&fs, PLACE, 0);
	if (kprobe_table_read(&fs.fg.kernel, &table, NULL) ||
	    kprobe_table_is_current(&table, &fs.fg.kernel, &same, NULL))
		abort();
	fake_session_put_kprobe(&fs, PLACE + 1, 0);
	if (kprobe_table_is_current(&table, &fs.fg.kernel, &other, NULL))
		abort();
	ok(same && !other, "a table with another address is not the same");
	kprobe_table_deinit(&table);
}

/* None of these may hang, or fail. */
static void test_damage(void)
{
	fake_session_put_kprobe(&fs, PLACE, 0);
	fake_put64(&fs.fg.base, FAKE_KPROBE_GPA, 0x1000);
	is_u64(count(), 1, "a list that leads nowhere has the kprobes in front of that");
	fake_put64(&fs.fg.base, FAKE_KPROBE_GPA, fake_direct(FAKE_KPROBE_GPA));
	alarm(SECONDS);
	is_u64(count(), 1,
	       "a list without an end is not read to its end, and names each kprobe once");
	alarm(0);
	fake_put64(&fs.fg.base, FAKE_KPROBE_GPA, 0);
}

int main(void)
{
	fake_session_create(&fs);
	test_reach();
	test_kinds();
	test_current();
	test_damage();
	fake_session_destroy(&fs);
	return tap_done();
}
