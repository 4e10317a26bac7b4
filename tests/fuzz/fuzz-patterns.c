/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of function patterns, and what their globs match. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "guest-symbols/functions/patterns.h"

static const char *const names[] = {"", "vfs_read", "ext4_file_write_iter.isra.0", "a]b-c^d"};

static void check(const struct function_pattern *p)
{
	if (!*p->name || glob_fault(p->name) ||
	    (p->module && (!*p->module || glob_fault(p->module))))
		abort();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool found = glob_matches(p->name, names[i]);

		if (glob_prefix(p->name) == strlen(p->name) && found != !strcmp(p->name, names[i]))
			abort(); /* a literal matches itself only */
		if (found && strncmp(p->name, names[i], glob_prefix(p->name)) != 0)
			abort();
		if (p->module)
			glob_matches(p->module, names[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct function_patterns patterns = {0};
	struct error err = {0};

	if (!function_patterns_add_lines(&patterns, "f", (const char *)data, size, &err))
		for (size_t i = 0; i < patterns.n; i++)
			check(&patterns.v[i]);
	else if (strncmp(err.text, "f:", 2) != 0 && err.code == EINVAL)
		abort(); /* each error says where */
	function_patterns_deinit(&patterns);
	return 0;
}
