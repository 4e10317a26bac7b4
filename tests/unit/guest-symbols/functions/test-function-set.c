/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which functions patterns stand for, and what is said of those that stand for none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/function-set.h"
#include "guest-symbols/symbols/symbol-table.h"
#include "tests/lib/tap.h"

static const struct traceable functions[] = {
	{"vfs_read", NULL, 0x1000, 0x1000, false},
	{"vfs_write", NULL, 0x1100, 0x1104, false},
	{"vfs_stat", NULL, 0x1200, 0x1200, false},
	{"do_exit", NULL, 0x1300, 0x1300, false},
	{"vfs_alias", NULL, 0x1300, 0x1300, true},
	{"cleanup", NULL, 0x1400, 0x1400, false},
	{"cleanup", NULL, 0x1500, 0x1500, false},
	{"ext4_read", "ext4", 0x9000, 0x9000, false},
	{"ext4_write", "ext4", 0x8000, 0x8000, false},
	{"cleanup", "jbd2", 0x7000, 0x7000, false},
	{"snd_write", "snd_hda", 0x7100, 0x7100, false},
};

struct fixture {
	struct kernel_image image;
	struct traceable_list list;
};

static void add_symbol(struct symbol_builder *b, uint64_t address, char type, const char *name)
{
	memcpy(symbol_builder_add(b, address, 0, type, strlen(name)), name, strlen(name));
}

static void fixture_init(struct fixture *f)
{
	static uint64_t site = 0x1000;
	struct symbol_builder b;

	*f = (struct fixture){0};
	if (symbol_builder_init(&b, 20, 1000, NULL))
		abort();
	add_symbol(&b, 0x1000, 'T', "vfs_read");
	add_symbol(&b, 0x2000, 'T', "memcpy");
	add_symbol(&b, 0x3000, 'D', "jiffies");
	add_symbol(&b, 0x3100, 't', "tiny_helper.isra.0");
	add_symbol(&b, 0x4000, 'T', "__init_begin");
	add_symbol(&b, 0x4010, 'T', "start_kernel");
	add_symbol(&b, 0x5000, 'T', "__init_end");
	if (symbol_builder_finish(&b, &f->image.symbols, NULL))
		abort();
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (traceable_list_add(&f->list, &functions[i], NULL))
			abort();
	f->image.mcount_sites = &site;
	f->image.nr_mcount_sites = 1;
	f->list.image = &f->image;
}

static void fixture_deinit(struct fixture *f)
{
	traceable_list_deinit(&f->list);
	symbols_destroy(f->image.symbols);
}

/* `text`: patterns, joined by commas. */
static void read_patterns(struct function_patterns *patterns, const char *text)
{
	*patterns = (struct function_patterns){0};
	while (*text) {
		size_t length = strcspn(text, ",");

		if (function_patterns_add(patterns, text, length, NULL))
			abort();
		text += length + (text[length] == ',');
	}
}

/* "NAME NAME (NOTE)", or the error. */
static const char *resolve(const struct traceable_list *list, const char *text)
{
	static char out[1000];
	struct function_selection s;
	struct function_patterns patterns;
	struct function_set *set;
	struct error err;
	size_t used = 0;

	read_patterns(&patterns, text);
	if (function_set_create(&patterns, &set, NULL))
		abort();
	out[0] = '\0';
	if (function_set_resolve(set, list, &s, &err)) {
		snprintf(out, sizeof(out), "%s", err.text);
	} else {
		for (size_t i = 0; i < s.n; i++)
			used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%s",
						 i ? " " : "", s.v[i].name);
		for (size_t i = 0; i < s.notes.n; i++)
			used += (size_t)snprintf(out + used, sizeof(out) - used, " (%s)",
						 s.notes.v[i]);
		function_selection_deinit(&s);
	}
	function_set_destroy(set);
	function_patterns_deinit(&patterns);
	return out;
}

static const struct {
	const char *patterns, *want, *label;
} rows[] = {
	{"vfs_read", "vfs_read", "a name is that function"},
	{"do_exit,vfs_read", "vfs_read do_exit", "functions come in the order of their sites"},
	{"vfs_read,vfs_read,vfs_r*", "vfs_read", "each comes once"},
	{"vfs_*,!vfs_stat", "vfs_read vfs_write do_exit", "! takes a function out"},
	{"vfs_*,!vfs_*,vfs_read", "vfs_read", "the last pattern that matches decides"},
	{"vfs_*,!*_write", "vfs_read vfs_stat do_exit", "a glob may begin with *"},
	{"!*write,!cleanup,!ext4*", "vfs_read vfs_stat do_exit",
	 "without a pattern that adds, all others are wanted"},
	{"",
	 "vfs_read vfs_write vfs_stat do_exit cleanup cleanup cleanup snd_write ext4_write "
	 "ext4_read",
	 "no pattern is all functions, those of modules, too"},
	{"vfs_alias", "do_exit", "any name of a function will do, the best one is shown"},
	{"do_exit,!vfs_alias,vfs_read", "vfs_read", "any name of a function takes it out"},
	{"*:mod:ext4", "ext4_write ext4_read", "a module's functions"},
	{":mod:ext4,!*_read", "ext4_write", "an empty name is all of them"},
	{"*write:mod:!*", "vfs_write", ":mod:!* is the kernel itself"},
	{"*write:mod:*", "snd_write ext4_write", ":mod:* is all modules"},
	{"*write:mod:!ext4", "vfs_write snd_write", "all but one module"},
	{"*:mod:snd-hda", "snd_write", "the kernel calls module snd-hda snd_hda"},
	{"cleanup",
	 "cleanup cleanup cleanup (3 functions are named 'cleanup'; all of them are "
	 "traced)",
	 "a name of several functions is all of them, and this is said"},
	{"cleanup:mod:jbd2", "cleanup", "a module tells them apart"},
	{"vfs_*,!nfs_*",
	 "vfs_read vfs_write vfs_stat do_exit (no function matches '!nfs_*': did you mean "
	 "'vfs_*'?)",
	 "what takes nothing out is a note"},
	{"vfs_read,*:mod:xfs",
	 "vfs_read (no function matches '*:mod:xfs': module 'xfs' is not "
	 "loaded; if it is built in, leave it out)",
	 "a module that is missing is a note"},
	{"vfs_raed", "no function matches 'vfs_raed': did you mean 'vfs_read'?",
	 "a misspelt name is an error with the nearest one"},
	{"vsf_*", "no function matches 'vsf_*': did you mean 'vfs_*'?",
	 "so is a misspelt beginning"},
	{"*qqqq", "no function matches '*qqqq'", "there need not be a nearest one"},
	{"memcpy",
	 "no function matches 'memcpy': it has no mcount site: it is assembly, or built "
	 "with notrace",
	 "a function without a site"},
	{"jiffies", "no function matches 'jiffies': it is not a function", "data"},
	{"start_kernel",
	 "no function matches 'start_kernel': the kernel frees its memory after boot", "init text"},
	{"tiny_helper",
	 "no function matches 'tiny_helper': the compiler has split or copied it: try "
	 "'tiny_helper.*'",
	 "a function that is there in parts"},
};

static void test_rows(const struct traceable_list *list)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_str(resolve(list, rows[i].patterns), rows[i].want, rows[i].label);
	is_str(resolve(list, "do_exit,vfs_read:mod:ext4"),
	       "do_exit (no function matches 'vfs_read:mod:ext4': those that do are elsewhere)",
	       "a function that another module has is named");
}

static void test_files(const struct traceable_list *list)
{
	static const char text[] = "vfs_*\nvfs_raed\n";
	struct function_patterns patterns = {0};
	struct function_selection s;
	struct function_set *set;
	struct error err;

	if (function_patterns_add_lines(&patterns, "list", text, strlen(text), NULL) ||
	    function_set_create(&patterns, &set, NULL))
		abort();
	ok(function_set_resolve(set, list, &s, &err) == -ENOENT, "a pattern of a file is wrong");
	is_str(err.text, "list:2: no function matches 'vfs_raed': did you mean 'vfs_read'?",
	       "the error has file and line");
	ok(function_set_resolve(set, list, &s, NULL) == -ENOENT, "so without an error object");
	function_set_destroy(set);
	function_patterns_deinit(&patterns);
}

/* What may have been meant instead: a word, or a function of a module. */
static void test_hints(const struct traceable_list *list)
{
	static const char *const words[] = {"parent", "pid", NULL};
	struct traceable_list image = *list;
	struct function_patterns patterns;
	struct function_selection s;
	struct function_set *set;
	struct error err;

	read_patterns(&patterns, "pdi");
	patterns.v[0].words = words;
	patterns.v[0].column = 7;
	image.no_modules = true;
	if (function_set_create(&patterns, &set, NULL))
		abort();
	ok(function_set_resolve(set, list, &s, &err) == -ENOENT && err.column == 7,
	   "an error says where the pattern stands");
	is_str(err.text, "no function matches 'pdi': did you mean the word 'pid'?",
	       "a word may have been meant");
	function_set_resolve(set, &image, &s, &err);
	is_str(err.text,
	       "no function matches 'pdi': did you mean the word 'pid'? Or those of a module are "
	       "'pdi:mod:MODULE'",
	       "or a function of a module that is not known yet");
	function_set_destroy(set);
	patterns.v[0].is_foreign_word = true;
	if (function_set_create(&patterns, &set, NULL))
		abort();
	function_set_resolve(set, list, &s, &err);
	is_str(err.text,
	       "no function matches 'pdi': it is a word of other tracers, which this one does not "
	       "take",
	       "or what is a word elsewhere");
	function_set_destroy(set);
	function_patterns_deinit(&patterns);
}

/* For a module that is loaded later. */
static void test_has(void)
{
	struct function_patterns patterns;
	struct function_set *set;

	read_patterns(&patterns, "vfs_read,ext4_*:mod:ext4,!ext4_w*");
	if (function_set_create(&patterns, &set, NULL))
		abort();
	ok(function_set_has(set, "vfs_read", NULL) && !function_set_has(set, "vfs_write", NULL),
	   "a single function is asked for");
	ok(function_set_has(set, "ext4_read", "ext4") &&
		   !function_set_has(set, "ext4_write", "ext4") &&
		   !function_set_has(set, "ext4_read", "xfs") &&
		   !function_set_has(set, "ext4_read", NULL) && !function_set_has(set, "", NULL),
	   "with its module");
	function_set_destroy(set);
	function_patterns_deinit(&patterns);
}

/* From an image: which symbols have a site. */
static void test_image(void)
{
	static uint64_t sites[] = {0x1000, 0x1104, 0x1208, 0x1300, 0x4010};
	struct kernel_image image = {.mcount_sites = sites, .nr_mcount_sites = 5};
	struct traceable_list list = {0};
	struct symbol_builder b;

	if (symbol_builder_init(&b, 20, 1000, NULL))
		abort();
	add_symbol(&b, 0xff0, 't', "__pfx_first");
	add_symbol(&b, 0x1000, 'T', "first");
	add_symbol(&b, 0x1000, 't', "first_alias");
	add_symbol(&b, 0x1000, 'D', "first_data");
	add_symbol(&b, 0x1100, 'W', "with_endbr");
	add_symbol(&b, 0x1200, 't', "replaced_weak");
	add_symbol(&b, 0x1250, 't', "without_site");
	add_symbol(&b, 0x12f0, 't', "__pfx_last");
	add_symbol(&b, 0x12fc, 'T', "__noinstr_text_end");
	add_symbol(&b, 0x1300, 't', "last");
	add_symbol(&b, 0x4000, 'T', "__init_begin");
	add_symbol(&b, 0x4010, 'T', "start_kernel");
	add_symbol(&b, 0x5000, 'T', "__init_end");
	if (symbol_builder_finish(&b, &image.symbols, NULL) ||
	    traceable_list_add_image(&list, &image, 0x100000, NULL))
		abort();
	is_str(resolve(&list, "*"), "first with_endbr last",
	       "functions are those with a site at their beginning, and not freed after boot; a "
	       "mark "
	       "in front of one is none");
	is_str(resolve(&list, "first_alias"), "first", "an alias is known");
	ok(list.v[0].address == 0x101000 && list.v[2].address == 0x101100 &&
		   list.v[2].site == 0x101104,
	   "addresses are moved by the slide");
	traceable_list_deinit(&list);
	image.nr_mcount_sites = 0;
	if (traceable_list_add_image(&list, &image, 0, NULL))
		abort();
	is_str(resolve(&list, "first"),
	       "no function matches 'first': the kernel has no mcount sites "
	       "(CONFIG_DYNAMIC_FTRACE)",
	       "a kernel without ftrace has no function with a site");
	traceable_list_deinit(&list);
	symbols_destroy(image.symbols);
}

int main(void)
{
	struct fixture f;

	fixture_init(&f);
	test_rows(&f.list);
	test_files(&f.list);
	test_hints(&f.list);
	fixture_deinit(&f);
	test_has();
	test_image();
	return tap_done();
}
