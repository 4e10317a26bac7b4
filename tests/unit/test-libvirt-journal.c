/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journal of what must be undone in a domain. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt-journal.h"

static const char uuid[] = "096ac222-3dde-4d48-89b6-8842d1b1d526";

static void test_file(void)
{
	struct libvirt_journal journal, other;
	struct journal_contents contents;

	ok(libvirt_journal_adopt(uuid, &journal, NULL) == -ENOENT, "none to adopt");
	ok(!libvirt_journal_check(uuid, NULL), "so there could be a new one");
	ok(!libvirt_journal_create(uuid, &journal, NULL), "create");
	ok(libvirt_journal_check(uuid, NULL) == -EBUSY, "now there could not");
	ok(libvirt_journal_create(uuid, &other, NULL) == -EBUSY, "a second one is refused");
	ok(libvirt_journal_adopt(uuid, &other, NULL) == -EBUSY, "nor may it be adopted");
	ok(!libvirt_journal_stop(&journal, true, NULL) &&
		   !libvirt_journal_write(&journal, 0x1000, (const uint8_t *)"\x0f\x1f",
					  (const uint8_t *)"\xe9\x01", 2, NULL),
	   "note");
	libvirt_journal_close(&journal);
	ok(libvirt_journal_create(uuid, &other, NULL) == -EEXIST, "what a dead one left is kept");
	ok(libvirt_journal_check(uuid, NULL) == -EEXIST, "and told");
	ok(!libvirt_journal_adopt(uuid, &journal, NULL), "and can be adopted");
	ok(!libvirt_journal_read(&journal, &contents, NULL), "read");
	ok(contents.stopped && contents.nr_places == 1 && contents.places[0].gpa == 0x1000 &&
		   contents.places[0].size == 2 &&
		   !memcmp(contents.places[0].original, "\x0f\x1f", 2),
	   "what was noted");
	journal_contents_deinit(&contents);
	libvirt_journal_remove(&journal);
	ok(libvirt_journal_adopt(uuid, &journal, NULL) == -ENOENT, "removed");
	ok(libvirt_journal_adopt("../x", &journal, NULL) == -EINVAL, "no uuid");
}

static int parse(const char *text, struct journal_contents *out)
{
	return journal_parse(text, strlen(text), out, NULL);
}

static void test_contents(void)
{
	struct journal_contents c;

	ok(!parse("stop\nwrite 10 aa bb\nwrite 20 00 11\ngo\nwrite 10 bb aa\nwrite 10 aa cc\nwri",
		  &c),
	   "a journal that was cut off");
	ok(!c.stopped, "the guest was let go");
	is_u64(c.nr_places, 2, "two places");
	ok(c.places[0].original[0] == 0xaa, "the first bytes are the original ones");
	ok(c.places[0].nr_ours == 3 && !memcmp(c.places[0].ours, "\xbb\xaa\xcc", 3),
	   "all that was ever written is ours");
	journal_contents_deinit(&c);
}

static void test_damage(void)
{
	static const char *const bad[] = {
		"nonsense\n",       "write\n",          "write 10\n",         "write 10 aa\n",
		"write 10 aa b\n",  "write 10 a b\n",   "write 10 aa bbcc\n", "write x aa bb\n",
		"write 10 gg bb\n", "write 10 aa xx\n", "write 10  \n",       "go on\n",
	};
	struct journal_contents c;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &c) == -EPROTO, "damaged: %.*s", (int)strlen(bad[i]) - 1, bad[i]);
}

/* Breakpoints are no bytes of ours, but may be. */
static void test_breaks(void)
{
	static const char text[] = "breaks\nwrite 1000 0f cc\nstop\n";
	struct journal_contents contents;

	ok(!journal_parse(text, sizeof(text) - 1, &contents, NULL) && contents.breaks &&
		   contents.stopped && contents.nr_places == 1,
	   "breakpoints are told");
	journal_contents_deinit(&contents);
	ok(!journal_parse("stop\n", 5, &contents, NULL) && !contents.breaks, "none otherwise");
	journal_contents_deinit(&contents);
	ok(journal_parse("breaks \n", 8, &contents, NULL) == -EPROTO, "nothing like it");
}

int main(void)
{
	char folder[] = "/tmp/sonde-journal-XXXXXX", sub[64];

	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		abort();
	test_file();
	test_contents();
	test_damage();
	snprintf(sub, sizeof(sub), "%s/sonde", folder);
	rmdir(sub);
	rmdir(folder);
	test_breaks();
	return tap_done();
}
