/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "formats/base/glob.h"
#include "tests/lib/tap.h"

static void test_matches(void)
{
	static const struct {
		const char *glob, *text;
		bool matches;
	} rows[] = {
		{"vfs_read", "vfs_read", true},
		{"vfs_read", "vfs_readv", false},
		{"vfs_readv", "vfs_read", false},
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "vfs_read", true},
		{"vfs_*", "vfs_", true},
		{"vfs_*", "xvfs_", false},
		{"*_read", "vfs_read", true},
		{"*_read", "vfs_ready", false},
		{"*rea*", "vfs_read", true},
		{"v*s*d", "vfs_read", true},
		{"v*s*x", "vfs_read", false},
		{"*ab*ab", "abab", true},
		{"*aab", "aaaab", true},
		{"**", "x", true},
		{"?", "", false},
		{"vfs_????", "vfs_read", true},
		{"vfs_???", "vfs_read", false},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[abc]", "c", true},
		{"[!a-c]", "d", true},
		{"[^a-c]", "d", true},
		{"[!a-c]", "a", false},
		{"[]]", "]", true},
		{"[!]]", "]", false},
		{"[a-]", "-", true},
		{"[]-a]", "^", true},
		{"*[0-9]", "kmalloc-192", true},
		{"[\\]x]", "]", true},
		{"\\*", "*", true},
		{"\\*", "x", false},
		{"a\\[b", "a[b", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(glob_matches(rows[i].glob, rows[i].text) == rows[i].matches, "'%s' %s '%s'",
		   rows[i].glob, rows[i].matches ? "matches" : "does not match", rows[i].text);
}

static void test_parts(void)
{
	static const struct {
		const char *glob;
		int fault; /* -1: none */
		size_t prefix;
	} rows[] = {
		{"vfs_read", -1, 8}, {"vfs_*", -1, 4}, {"*x", -1, 0},    {"a?", -1, 1},
		{"a[b]", -1, 1},     {"ab[b", 2, 2},   {"[", 0, 0},      {"[]", 0, 0},
		{"[!]", 0, 0},       {"[]]", -1, 0},   {"[a]x[b", 4, 0}, {"a\\", 1, 1},
		{"a\\\\", -1, 1},    {"\\[a", -1, 0},  {"[a\\]", 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *fault = glob_fault(rows[i].glob);

		ok((fault ? (int)(fault - rows[i].glob) : -1) == rows[i].fault,
		   "the fault of '%s' is at %d", rows[i].glob, rows[i].fault);
		is_u64(glob_prefix(rows[i].glob), rows[i].prefix, rows[i].glob);
	}
}

/* What takes exponential time in a matcher that tries all ways to divide the text among the stars.
 */
static void test_time(void)
{
	char glob[202] = "", text[501];
	clock_t from = clock();

	for (int i = 0; i < 100; i++)
		strcat(glob, "*a");
	strcat(glob, "b");
	memset(text, 'a', 500);
	text[500] = '\0';
	ok(!glob_matches(glob, text) && clock() - from < CLOCKS_PER_SEC,
	   "100 stars take less than a second");
}

int main(void)
{
	test_matches();
	test_parts();
	test_time();
	return tap_done();
}
