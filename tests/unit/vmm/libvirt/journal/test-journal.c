/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journal of what must be undone in a domain. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/journal/journal.h"
#include "vmm/libvirt/recovery/places.h"

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

/* A full disk, and a tracer that dies in the middle of a line. */
static void test_unfinished(void)
{
	struct libvirt_journal journal;
	struct journal_contents contents;
	struct rlimit before, few = {.rlim_cur = 12};
	int stopped;

	getrlimit(RLIMIT_FSIZE, &before);
	few.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	ok(!libvirt_journal_create(uuid, &journal, NULL), "create");
	ok(!libvirt_journal_stop(&journal, true, NULL), "a line");
	setrlimit(RLIMIT_FSIZE, &few);
	ok(libvirt_journal_write(&journal, 0x1000, (const uint8_t *)"a", (const uint8_t *)"b", 1,
				 NULL) == -EIO,
	   "no room for another one");
	setrlimit(RLIMIT_FSIZE, &before);
	ok(!libvirt_journal_stop(&journal, false, NULL), "then there is");
	ok(!libvirt_journal_read(&journal, &contents, NULL) && !contents.stopped &&
		   !contents.nr_places,
	   "and it can be read");
	journal_contents_deinit(&contents);
	ok(write(journal.fd, "write 10", 8) == 8, "part of a line");
	libvirt_journal_close(&journal);
	ok(!libvirt_journal_adopt(uuid, &journal, NULL), "adopt it");
	stopped = libvirt_journal_stop(&journal, true, NULL);
	ok(!stopped && !libvirt_journal_read(&journal, &contents, NULL) && contents.stopped,
	   "what is noted behind that can be read");
	journal_contents_deinit(&contents);
	libvirt_journal_remove(&journal);
}

static void test_pending(void)
{
	struct libvirt_journal journal;
	size_t pending = 1;

	ok(!libvirt_journal_create(uuid, &journal, NULL), "create");
	libvirt_journal_stop(&journal, true, NULL);
	ok(libvirt_journal_check_running(&journal, NULL) == -EBUSY,
	   "a stop that is not over is something to undo");
	libvirt_journal_stop(&journal, false, NULL);
	ok(!libvirt_journal_check_running(&journal, NULL) &&
		   !libvirt_journal_pending(&journal, NULL, &pending, NULL) && !pending,
	   "one that is over is not");
	libvirt_journal_remove(&journal);
}

/* As a tracer by breakpoints writes it, which stops its domain each second. */
static void test_long(void)
{
	enum { STOPS = 1 << 20, LINES_BYTES = 8 };
	char *text = malloc(STOPS * LINES_BYTES);
	struct journal_contents contents;

	for (size_t i = 0; text && i < STOPS; i++)
		memcpy(text + i * LINES_BYTES, "stop\ngo\n", LINES_BYTES);
	ok(text && !journal_parse(text, STOPS * LINES_BYTES, &contents, NULL) && !contents.stopped,
	   "a journal of many days");
	free(text);
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

static void test_loan(void)
{
	struct journal_contents c;

	ok(!parse("breaks\nlend 3 12345800 12344000\n", &c) && c.breaks && c.lent,
	   "page tables are lent");
	ok(c.loan.vcpu == 3 && c.loan.cr3 == 0x12345800 && c.loan.lent == 0x12344000,
	   "to whom, and its own");
	ok(!parse("lend 3 12345800 12344000\nlent\n", &c) && !c.lent, "and given back");
	ok(!parse("reset\n", &c) && c.reset, "the guest is gone");
}

static void test_instance(void)
{
	static const struct libvirt_instance unknown,
		qemu = {.boot = "3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e", .start = 0xabcdef0123};
	static const char *const bad[] = {
		"qemu\n",
		"qemu 1 2\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e 1 2\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e -1\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e 10000000000000000\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9X 1\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e0 1\n",
	};
	struct libvirt_journal journal;
	struct journal_contents c;

	ok(!libvirt_journal_create(uuid, &journal, NULL) &&
		   !libvirt_journal_instance(&journal, &unknown, NULL) &&
		   !libvirt_journal_read(&journal, &c, NULL) && !c.instance.boot[0],
	   "a QEMU that is not known is not noted");
	ok(!libvirt_journal_instance(&journal, &qemu, NULL) &&
		   !libvirt_journal_read(&journal, &c, NULL),
	   "one that is");
	ok(!strcmp(c.instance.boot, qemu.boot) && c.instance.start == qemu.start, "and read");
	libvirt_journal_remove(&journal);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &c) == -EPROTO, "damaged: %.*s", (int)strlen(bad[i]) - 1, bad[i]);
}

static void test_damage(void)
{
	static const char *const bad[] = {
		"nonsense\n",       "write\n",          "write 10\n",         "write 10 aa\n",
		"write 10 aa b\n",  "write 10 a b\n",   "write 10 aa bbcc\n", "write x aa bb\n",
		"write 10 gg bb\n", "write 10 aa xx\n", "write 10  \n",       "go on\n",
		"lend 3\n",         "lend 3 1 2 3\n",   "lend x 1 2\n",
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

/* As a tracer notes it, and as somebody may have damaged it. */
static void test_tasks(void)
{
	static const struct task_stacks tasks = {.root = 0x2810000,
						 .first = 0xffffffff82a1b4c0,
						 .cpu_bases = 0xffffffff82557aa0,
						 .runqueues = 0x32a40,
						 .levels = 5,
						 .cpus = 64,
						 .tasks = 0x8a0,
						 .signal = 0xb78,
						 .threads = 0x10,
						 .thread = 0xa00,
						 .stack = 0x20,
						 .sp = 0x1518,
						 .on_cpu = 0x34,
						 .fair_tasks = 0xb00,
						 .fair_task = 0xb0,
						 .rt_queues = 0x1f0,
						 .rt_task = 0x1c0};
	static const char *const bad[] = {
		"tasks\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1 1\n",
		"tasks 1001 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1\n",
		"tasks 1000 2a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 6 0 1 1 1 1 1 1 1 1 1 1 1\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 -1\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1  1\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 100000001\n",
		"tasks 1000 1ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1\n",
	};
	struct libvirt_journal journal;
	struct journal_contents c;

	ok(!libvirt_journal_create(uuid, &journal, NULL) &&
		   !libvirt_journal_tasks(&journal, &tasks, NULL) &&
		   !libvirt_journal_read(&journal, &c, NULL),
	   "note how tasks are found");
	ok(c.knows_tasks && !memcmp(&c.tasks, &tasks, sizeof(tasks)), "and read it");
	journal_contents_deinit(&c);
	libvirt_journal_remove(&journal);
	ok(!parse("stop\n", &c) && !c.knows_tasks, "a journal that does not tell");
	journal_contents_deinit(&c);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &c) == -EPROTO, "damaged: %.*s", (int)strlen(bad[i]) - 1, bad[i]);
}

static void test_folder(void)
{
	char folder[64];

	libvirt_journal_folder(true, "/run/user/0", folder, sizeof(folder));
	is_str(folder, "/run/sonde", "root's journals are in one place, whatever its environment");
	libvirt_journal_folder(false, "/run/user/1000", folder, sizeof(folder));
	is_str(folder, "/run/user/1000/sonde", "a user's in that user's folder");
}

/* A journal that could be nowhere is not one that does not exist, which is nothing to undo. */
static void test_no_folder(const char *runtime)
{
	struct libvirt_journal journal;
	struct error err;

	if (setenv("XDG_RUNTIME_DIR", "/nonexistent", 1))
		abort();
	ok(libvirt_journal_adopt("2a167d84", &journal, &err) == -ENOTDIR, "no folder: %s",
	   err.text);
	ok(libvirt_journal_check("2a167d84", NULL) == -ENOTDIR, "nor is that none to wait for");
	if (setenv("XDG_RUNTIME_DIR", runtime, 1))
		abort();
	ok(libvirt_journal_adopt("2a167d84", &journal, NULL) == -ENOENT,
	   "a folder, and no journal");
}

/* Root's journals are in a folder of the machine. */
static void become_nobody(const char *folder)
{
	enum { NOBODY = 65534 };

	if (!geteuid() && (chown(folder, NOBODY, NOBODY) || setgid(NOBODY) || setuid(NOBODY)))
		abort();
}

int main(void)
{
	char folder[] = "/tmp/sonde-journal-XXXXXX", sub[64];

	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		abort();
	test_folder();
	become_nobody(folder);
	test_no_folder(folder);
	test_file();
	test_unfinished();
	test_pending();
	test_long();
	test_contents();
	test_loan();
	test_instance();
	test_damage();
	test_tasks();
	snprintf(sub, sizeof(sub), "%s/sonde", folder);
	rmdir(sub);
	rmdir(folder);
	test_breaks();
	return tap_done();
}
