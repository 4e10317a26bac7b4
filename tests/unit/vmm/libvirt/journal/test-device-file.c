/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journal's line of a file in /dev/shm. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/journal/journal.h"

static int parse(const char *text, struct journal_contents *out)
{
	return journal_parse(text, strlen(text), out, NULL);
}

static void test_read(void)
{
	struct journal_contents c;

	ok(!parse("stop\n", &c) && !c.file[0], "a journal may have no file");
	ok(!parse("file ua-sonde-1\nfile ua-sonde-2\n", &c), "'file' is read");
	is_str(c.file, "ua-sonde-2", "the last one may be there");
	ok(!parse("file 0123456789012345678901234567890\n", &c) && strlen(c.file) == 31,
	   "one of the longest name is read");
}

/* It becomes part of a path. */
static void test_damage(void)
{
	static const char *const bad[] = {
		"file\n",     "file \n",     "file ../x\n", "file a/b\n",
		"file a b\n", "file .\n",    "file A\n",    "file 01234567890123456789012345678901\n",
	};
	struct journal_contents c;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &c) == -EPROTO, "a damaged line is refused: '%.*s'",
		   (int)strlen(bad[i]) - 1, bad[i]);
}

int main(void)
{
	test_read();
	test_damage();
	return tap_done();
}
