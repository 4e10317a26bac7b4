/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of function patterns, what their globs match, and what they stand for as a list. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "guest-symbols/functions/function-set.h"

static const struct traceable functions[] = {
	{"vfs_read", NULL, 0x10, 0x10, false},
	{"vfs_write", NULL, 0x20, 0x20, false},
	{"a", NULL, 0x20, 0x20, true},
	{"ext4_file_write_iter.isra.0", "ext4", 0x50, 0x54, false},
	{"vfs_read", "ext4", 0x40, 0x44, false},
};

enum { NR_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

static bool matches(const struct function_pattern *p, const struct traceable *t)
{
	bool in_module = !p->module || (t->module && glob_matches(p->module, t->module));

	return glob_matches(p->name, t->name) && in_module != (p->module && p->module_negated);
}

static void check_pattern(const struct function_pattern *p)
{
	size_t prefix = glob_prefix(p->name);

	if (!*p->name || glob_fault(p->name) ||
	    (p->module && (!*p->module || glob_fault(p->module))))
		abort();
	for (size_t i = 0; i < NR_FUNCTIONS; i++) {
		bool found = glob_matches(p->name, functions[i].name);

		if (prefix == strlen(p->name) && found != !strcmp(p->name, functions[i].name))
			abort(); /* a name matches itself only */
		if (found && strncmp(p->name, functions[i].name, prefix) != 0)
			abort();
	}
}

/* The rule of patterns.h, word by word. */
static void check_rule(const struct function_patterns *patterns, const struct function_set *set)
{
	for (size_t i = 0; i < NR_FUNCTIONS; i++) {
		bool wanted = !patterns->n || patterns->v[0].negated;

		for (size_t k = 0; k < patterns->n; k++)
			if (matches(&patterns->v[k], &functions[i]))
				wanted = !patterns->v[k].negated;
		if (function_set_has(set, functions[i].name, functions[i].module) != wanted)
			abort();
	}
}

static void check_list(const struct function_patterns *patterns)
{
	struct traceable_list list = {0};
	struct function_selection selection;
	struct function_set *set;

	for (size_t i = 0; i < NR_FUNCTIONS; i++)
		if (traceable_list_add(&list, &functions[i], NULL))
			abort();
	if (function_set_create(patterns, &set, NULL))
		abort();
	check_rule(patterns, set);
	if (!function_set_resolve(set, &list, &selection, NULL)) {
		for (size_t i = 1; i < selection.n; i++)
			if (selection.v[i - 1].site >= selection.v[i].site)
				abort();
		function_selection_deinit(&selection);
	}
	function_set_destroy(set);
	traceable_list_deinit(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct function_patterns patterns = {0};
	struct error err = {0};

	if (!function_patterns_add_lines(&patterns, "f", (const char *)data, size, &err)) {
		for (size_t i = 0; i < patterns.n; i++)
			check_pattern(&patterns.v[i]);
		check_list(&patterns);
	} else if (strncmp(err.text, "f:", 2) != 0 && err.code == EINVAL) {
		abort(); /* each error says where */
	}
	function_patterns_deinit(&patterns);
	return 0;
}
