/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Function patterns as users write them, alone and in files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "guest-symbols/functions/patterns.h"
#include "tests/lib/tap.h"

static const struct {
	const char *text, *name, *module;
	bool negated, module_negated;
} good[] = {
	{"vfs_read", "vfs_read", NULL, false, false},
	{"vfs_*", "vfs_*", NULL, false, false},
	{"!vfs_stat", "vfs_stat", NULL, true, false},
	{"*:mod:ext4", "*", "ext4", false, false},
	{":mod:ext4", "*", "ext4", false, false},
	{"!:mod:ext4", "*", "ext4", true, false},
	{"ext4_*:mod:ext4", "ext4_*", "ext4", false, false},
	{"!*:mod:!ext3", "*", "ext3", true, true},
	{"*write*:mod:!*", "*write*", "*", false, true},
	{"*write*:mod:*snd*", "*write*", "*snd*", false, false},
	{"*:mod:snd-hda-*", "*", "snd_hda_*", false, false},
	{"*:mod:a-[a-c]", "*", "a_[a-c]", false, false},
	{"do_[a-z]?_x.isra.0", "do_[a-z]?_x.isra.0", NULL, false, false},
	{"!c_stop.llvm.17132674095431275852:mod:ext4", "c_stop", "ext4", true, false},
	{"c_*.llvm.1f.cold", "c_*.llvm.1f.cold", NULL, false, false},
	{"*.llvm.*", "*.llvm.*", NULL, false, false},
};

static const struct {
	const char *text;
	unsigned int column;
	const char *says;
} bad[] = {
	{"", 1, "a function's name is missing"},
	{"!", 2, "a function's name is missing"},
	{"!!vfs_read", 2, "one '!' is enough"},
	{"vfs_read()", 9, "a name has no '(': 'vfs_read()'"},
	{"a/b", 2, "a name has no '/': 'a/b'"},
	{"vfs_[a", 5, "'[' has no ']': 'vfs_[a'"},
	{"vfs_\\", 5, "nothing follows the backslash: 'vfs_\\'"},
	{"mod:ext4", 1, "a module's functions are ':mod:ext4', not 'mod:ext4'"},
	{"a:ext4", 2, "only ':mod:MODULE' may follow a function's name"},
	{"a:mod:", 7, "a module's name is missing"},
	{"!a:mod:!", 9, "a module's name is missing"},
	{"a:mod:b:mod:c", 8, "a name has no ':': 'a:mod:b:mod:c'"},
	{"a:mod:b[", 8, "'[' has no ']': 'a:mod:b['"},
	{"a\x01", 2, "a name has no '?': 'a\x01'"},
};

static void test_good(void)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct function_patterns patterns = {0};
		struct error err = {0};
		const struct function_pattern *p;

		ok(!function_patterns_add(&patterns, good[i].text, strlen(good[i].text), &err) &&
			   patterns.n == 1,
		   "'%s' is a pattern %s", good[i].text, err.text);
		p = patterns.v;
		if (p) {
			is_str(p->text, good[i].text, "its text is kept");
			is_str(p->name, good[i].name, "its name");
			is_str(p->module ? p->module : "-", good[i].module ? good[i].module : "-",
			       "its module");
			ok(p->negated == good[i].negated &&
				   p->module_negated == good[i].module_negated,
			   "what it negates");
		}
		function_patterns_deinit(&patterns);
	}
}

static void test_bad(void)
{
	struct function_patterns patterns = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = {0};
		const char *text = bad[i].text;

		ok(function_patterns_add(&patterns, text, strlen(text), &err) == -EINVAL &&
			   err.column == bad[i].column,
		   "'%s' is wrong at %u", text, bad[i].column);
		is_str(err.text, bad[i].says, "the error says why");
		ok(function_patterns_add(&patterns, text, strlen(text), NULL) == -EINVAL,
		   "it is refused without an error object, too");
	}
	is_u64(patterns.n, 0, "none of them is in the list");
	function_patterns_deinit(&patterns);
}

/* The patterns' texts, joined by blanks, each with the place it is from. */
static const char *joined(const struct function_patterns *patterns)
{
	static char out[1000];
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < patterns->n; i++)
		used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%s(%s)", i ? " " : "",
					 patterns->v[i].text,
					 patterns->v[i].where ? patterns->v[i].where : "");
	return out;
}

static const struct {
	const char *text, *want;
} files[] = {
	{"", ""},
	{"\n\n# none\n", ""},
	{"vfs_read\n", "vfs_read(f:1)"},
	{"vfs_read", "vfs_read(f:1)"},
	{"# list\n  vfs_* # all\r\n\t!vfs_stat\t\n", "vfs_*(f:2) !vfs_stat(f:3)"},
	{"ext4_read [ext4]\next4_* \t[ext4]", "ext4_read:mod:ext4(f:1) ext4_*:mod:ext4(f:2)"},
	{"*:mod:ext4", "*:mod:ext4(f:1)"},
};

static const struct {
	const char *text, *says;
	size_t size;
} bad_files[] = {
	{"a\nb c\n", "f:2: a name has no ' ': 'b c'", 6},
	{"a\n\n@b\n", "f:3: a name has no '@': '@b'", 6},
	{"a\0b\n", "f:1: the line has a NUL character", 4},
	{"ext4_read [ext4] x", "f:1: a name has no ' ': 'ext4_read [ext4] x'", 18},
};

static void test_lines(void)
{
	struct error err = {0};
	char *text = malloc(2000);

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct function_patterns patterns = {0};

		ok(!function_patterns_add_lines(&patterns, "f", files[i].text,
						strlen(files[i].text), &err),
		   "file %zu is read", i);
		is_str(joined(&patterns), files[i].want, "its patterns and places");
		function_patterns_deinit(&patterns);
	}
	for (size_t i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
		struct function_patterns patterns = {0};

		ok(function_patterns_add_lines(&patterns, "f", bad_files[i].text, bad_files[i].size,
					       &err) == -EINVAL,
		   "wrong file %zu is refused", i);
		is_str(err.text, bad_files[i].says, "the error has file and line");
		is_u64(err.column, 0, "and no column");
		function_patterns_deinit(&patterns);
	}
	for (size_t size = FUNCTION_PATTERN_MAX - 8; size < FUNCTION_PATTERN_MAX + 2; size++) {
		struct function_patterns patterns = {0};

		memset(text, 'a', size);
		memcpy(text + 10, " [", 2);
		text[size - 1] = ']';
		function_patterns_add_lines(&patterns, "f", text, size, &err);
		function_patterns_deinit(&patterns);
	}
	ok(err.code, "a line that is too long is refused");
	free(text);
}

static void test_file(void)
{
	struct function_patterns patterns = {0};
	char dir[] = "/tmp/patterns-XXXXXX", path[64], want[200];
	struct error err = {0};
	FILE *out;

	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof(path), "%s/list", dir);
	ok(function_patterns_add_file(&patterns, path, &err) == -ENOENT &&
		   strstr(err.text, "cannot open"),
	   "a missing file is named: %s", err.text);
	ok(function_patterns_add_file(&patterns, dir, &err) == -EINVAL &&
		   strstr(err.text, "is not a file"),
	   "a directory is no list: %s", err.text);
	if (!mkfifo(path, 0600))
		ok(function_patterns_add_file(&patterns, path, &err) == -EINVAL,
		   "a FIFO does not hold the reader");
	unlink(path);
	out = fopen(path, "w");
	fputs("# none\n", out);
	fclose(out);
	ok(function_patterns_add_file(&patterns, path, &err) == -EINVAL && !patterns.n,
	   "a list of nothing is refused: %s", err.text);
	out = fopen(path, "w");
	fputs("vfs_*\n!vfs_stat\n", out);
	fclose(out);
	snprintf(want, sizeof(want), "vfs_*(%s:1) !vfs_stat(%s:2)", path, path);
	ok(!function_patterns_add_file(&patterns, path, &err), "a file is read");
	is_str(joined(&patterns), want, "with its patterns");
	if (truncate(path, FUNCTION_FILE_MAX + 1))
		abort();
	ok(function_patterns_add_file(&patterns, path, &err) == -E2BIG, "a huge file is refused");
	function_patterns_deinit(&patterns);
	unlink(path);
	rmdir(dir);
}

static void test_cap(void)
{
	struct function_patterns patterns = {0};
	size_t n = 0;

	while (n <= FUNCTION_PATTERNS_MAX && !function_patterns_add(&patterns, "a", 1, NULL))
		n++;
	is_u64(n, FUNCTION_PATTERNS_MAX, "the number of patterns has a cap");
	function_patterns_deinit(&patterns);
}

int main(void)
{
	test_good();
	test_bad();
	test_lines();
	test_file();
	test_cap();
	return tap_done();
}
