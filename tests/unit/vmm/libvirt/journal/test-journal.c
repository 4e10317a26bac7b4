/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journal of what must be undone in a domain. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/unit/vmm/libvirt/journal/journal-fixture.h"
#include "vmm/libvirt/recovery/places.h"

/* A full disk, and a tracer that dies while it writes a line. */
static void test_unfinished(void)
{
	struct libvirt_journal journal;
	struct journal_contents contents;
	struct rlimit before, few = {.rlim_cur = 12};
	int stopped;

	getrlimit(RLIMIT_FSIZE, &before);
	few.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	ok(!libvirt_journal_create(uuid, &journal, NULL), "full disk: a journal is created");
	ok(!libvirt_journal_stop(&journal, true, NULL), "full disk: a line that fits is written");
	setrlimit(RLIMIT_FSIZE, &few);
	ok(libvirt_journal_write(&journal, 0x1000, (const uint8_t *)"a", (const uint8_t *)"b", 1,
				 NULL) == -EIO,
	   "full disk: a line that does not fit is an error");
	setrlimit(RLIMIT_FSIZE, &before);
	ok(!libvirt_journal_stop(&journal, false, NULL),
	   "full disk: a line is written when there is room again");
	ok(!libvirt_journal_read(&journal, &contents, NULL) && !contents.stopped &&
		   !contents.nr_places,
	   "full disk: the journal has no part of the line that did not fit");
	journal_contents_deinit(&contents);
	ok(write(journal.fd, "write 10", 8) == 8, "unfinished line: its part is written");
	libvirt_journal_close(&journal);
	ok(!libvirt_journal_adopt(uuid, &journal, NULL), "unfinished line: the journal is adopted");
	stopped = libvirt_journal_stop(&journal, true, NULL);
	ok(!stopped && !libvirt_journal_read(&journal, &contents, NULL) && contents.stopped,
	   "unfinished line: the next line can be read");
	journal_contents_deinit(&contents);
	libvirt_journal_remove(&journal);
}

static off_t size_of(const struct libvirt_journal *journal)
{
	struct stat st;

	return fstat(journal->fd, &st) ? -1 : st.st_size;
}

/* A tracer's last line may be unfinished, but has a length that lines have. */
static void test_long_line(void)
{
	static char line[20000];
	struct libvirt_journal journal, other;

	memset(line, '0', sizeof(line));
	if (libvirt_journal_create(uuid, &journal, NULL) ||
	    libvirt_journal_stop(&journal, true, NULL) ||
	    write(journal.fd, line, sizeof(line)) != sizeof(line))
		abort();
	flock(journal.fd, LOCK_UN);
	ok(libvirt_journal_adopt(uuid, &other, NULL) == -EPROTO &&
		   size_of(&journal) > (off_t)sizeof(line),
	   "a journal whose last line is too long is damaged, and left as it is");
	libvirt_journal_remove(&journal);
}

static void test_pending(void)
{
	struct libvirt_journal journal;
	size_t pending = 1;

	ok(!libvirt_journal_create(uuid, &journal, NULL), "a journal is created for stops");
	libvirt_journal_stop(&journal, true, NULL);
	ok(libvirt_journal_check_running(&journal, NULL) == -EBUSY,
	   "a stop without a resume is something to undo");
	libvirt_journal_stop(&journal, false, NULL);
	ok(!libvirt_journal_check_running(&journal, NULL) &&
		   !libvirt_journal_pending(&journal, NULL, &pending, NULL) && !pending,
	   "a stop with a resume is nothing to undo");
	libvirt_journal_remove(&journal);
}

/* As in trap mode with isolated page tables, for a day. */
static void test_compact(void)
{
	enum { LOANS = 200000, BOUND = 3 << 20 };
	const struct journal_loan loan = {.vcpu = 1, .cr3 = 0x123456800, .lent = 0x123456000};
	static const struct libvirt_instance qemu = {.boot = "3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e",
						     .start = 4711};
	static const struct libvirt_pid tracer = {.pid = 815, .start = 42};
	struct libvirt_journal journal, other;
	struct journal_contents c;
	bool written = true;
	off_t largest = 0;

	ok(!libvirt_journal_create(uuid, &journal, NULL), "compaction: a journal is created");
	libvirt_journal_instance(&journal, &qemu, NULL);
	libvirt_journal_tracer(&journal, &tracer, NULL);
	libvirt_journal_breaks(&journal, NULL);
	libvirt_journal_write(&journal, 0x1000, (const uint8_t *)"a", (const uint8_t *)"b", 1,
			      NULL);
	libvirt_journal_write(&journal, 0x1000, (const uint8_t *)"b", (const uint8_t *)"c", 1,
			      NULL);
	for (int i = 0; i < LOANS; i++) {
		written &= !libvirt_journal_lend(&journal, &loan, NULL) &&
			   (i == LOANS - 1 || !libvirt_journal_lent(&journal, NULL));
		largest = size_of(&journal) > largest ? size_of(&journal) : largest;
	}
	libvirt_journal_stop(&journal, true, NULL);
	ok(written && largest < BOUND, "compaction: %d loans take at most %ld bytes", LOANS,
	   (long)largest);
	ok(libvirt_journal_check(uuid, NULL) == -EBUSY,
	   "compaction: a second tracer is still refused");
	ok(libvirt_journal_adopt(uuid, &other, NULL) == -EBUSY,
	   "compaction: a living tracer's journal still cannot be adopted");
	libvirt_journal_close(&journal);
	ok(!libvirt_journal_adopt(uuid, &journal, NULL) &&
		   !libvirt_journal_read(&journal, &c, NULL),
	   "compaction: the journal can be adopted and read");
	ok(c.stopped && c.breaks && c.lent && c.loan.cr3 == loan.cr3 && c.loan.lent == loan.lent &&
		   c.instance.start == qemu.start && !strcmp(c.instance.boot, qemu.boot) &&
		   c.tracer.pid == tracer.pid && c.tracer.start == tracer.start,
	   "compaction: instance, tracer, stop, breakpoints and loan are kept");
	ok(c.nr_places == 1 && c.places[0].original[0] == 'a' && c.places[0].nr_ours == 2 &&
		   !memcmp(c.places[0].ours, "bc", 2),
	   "compaction: a place keeps its original and all writes");
	journal_contents_deinit(&c);
	libvirt_journal_remove(&journal);
	ok(libvirt_journal_adopt(uuid, &journal, NULL) == -ENOENT,
	   "compaction: the journal can be removed");
}

/* What a compacted journal is read as is what it was before. */
static void test_compact_tasks(void)
{
	static const struct task_stacks tasks = {.root = 0x2810000,
						 .first = 0xffffffff82a1b4c0,
						 .cpu_bases = 1,
						 .levels = 4,
						 .tasks = 1,
						 .signal = 1,
						 .threads = 1,
						 .thread = 1,
						 .stack = 1,
						 .sp = 1,
						 .on_cpu = 1,
						 .stack_bytes = 2 * TASK_STACK_BYTES};
	struct libvirt_journal journal;
	struct journal_contents c;
	off_t before;

	if (libvirt_journal_create(uuid, &journal, NULL))
		abort();
	libvirt_journal_tasks(&journal, &tasks, NULL);
	libvirt_journal_reset(&journal, NULL);
	do {
		before = size_of(&journal);
		libvirt_journal_stop(&journal, true, NULL);
	} while (size_of(&journal) > before);
	libvirt_journal_stop(&journal, false, NULL);
	ok(size_of(&journal) < 4096 && !libvirt_journal_read(&journal, &c, NULL) && !c.stopped &&
		   c.reset && !c.lent && !c.breaks && c.knows_tasks &&
		   !memcmp(&c.tasks, &tasks, sizeof(tasks)),
	   "compaction: tasks with stacks of 32 KiB, a reset and a resume are kept");
	journal_contents_deinit(&c);
	libvirt_journal_remove(&journal);
}

/* Without room the journal stays as it is, and is still written. */
static void test_compact_full(void)
{
	struct libvirt_journal journal;
	struct journal_contents c;
	char blocker[300];
	bool written = true;

	if (libvirt_journal_create(uuid, &journal, NULL))
		abort();
	snprintf(blocker, sizeof(blocker), "%s.new", journal.path);
	if (mkdir(blocker, 0700))
		abort();
	for (int i = 0; i < 1 << 19; i++)
		written &= !libvirt_journal_stop(&journal, i % 2, NULL);
	ok(written && size_of(&journal) > 1 << 20 && !libvirt_journal_read(&journal, &c, NULL) &&
		   c.stopped,
	   "a journal that cannot be compacted is still written");
	rmdir(blocker);
	libvirt_journal_remove(&journal);
}

/* A patch set of all functions of a kernel. */
static void test_many_places(void)
{
	enum { PLACES = 200000, LINE = 40 };
	char *text = malloc(PLACES * LINE);
	struct journal_contents c = {0};
	size_t n = 0;

	for (unsigned int i = 0; text && i < PLACES; i++)
		n += (size_t)sprintf(text + n, "write %x 0f1f440000 e800000000\n", 16 * i);
	ok(text && !journal_parse(text, n, &c, NULL) && c.nr_places == PLACES &&
		   c.places[PLACES - 1].gpa == 16 * (PLACES - 1),
	   "a journal of 200,000 places is read");
	journal_contents_deinit(&c);
	free(text);
}

/* As in trap mode, which stops its domain each second. */
static void test_long(void)
{
	enum { STOPS = 1 << 20, LINES_BYTES = 8 };
	char *text = malloc(STOPS * LINES_BYTES);
	struct journal_contents contents;

	for (size_t i = 0; text && i < STOPS; i++)
		memcpy(text + i * LINES_BYTES, "stop\ngo\n", LINES_BYTES);
	ok(text && !journal_parse(text, STOPS * LINES_BYTES, &contents, NULL) && !contents.stopped,
	   "a journal of a million stops is read");
	free(text);
}

static int parse(const char *text, struct journal_contents *out)
{
	return journal_parse(text, strlen(text), out, NULL);
}

static void is_damaged(const char *text)
{
	struct journal_contents c;

	ok(parse(text, &c) == -EPROTO, "a damaged line is refused: '%.*s'", (int)strlen(text) - 1,
	   text);
}

static void test_contents(void)
{
	struct journal_contents c;

	ok(!parse("stop\nwrite 10 aa bb\nwrite 20 00 11\ngo\nwrite 10 bb aa\nwrite 10 aa cc\nwri",
		  &c),
	   "a journal with an unfinished last line is read");
	ok(!c.stopped, "after 'go' the guest is not stopped");
	is_u64(c.nr_places, 2, "writes to two addresses are two places");
	ok(c.places[0].original[0] == 0xaa, "a place's original is that of its first write");
	ok(c.places[0].nr_ours == 3 && !memcmp(c.places[0].ours, "\xbb\xaa\xcc", 3),
	   "a place keeps the bytes of all writes");
	journal_contents_deinit(&c);
}

static void test_instance(void)
{
	static const struct libvirt_instance unknown,
		qemu = {.boot = "3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e",
			.start = 0xabcdef0123,
			.has_user = true,
			.user = 64055};
	static const char *const bad[] = {
		"qemu\n",
		"qemu 1 2\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e\n",
		"qemu 3c7e8d21-9f3a-4c55-8a0e-0f6d2b7a1c9e 1 2 3\n",
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
	   "an unknown instance is not written");
	ok(!libvirt_journal_instance(&journal, &qemu, NULL) &&
		   !libvirt_journal_read(&journal, &c, NULL),
	   "an instance is written");
	ok(!strcmp(c.instance.boot, qemu.boot) && c.instance.start == qemu.start &&
		   c.instance.has_user && c.instance.user == qemu.user,
	   "an instance that was written is read");
	libvirt_journal_remove(&journal);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_damaged(bad[i]);
}

static void test_damage(void)
{
	static const char *const bad[] = {
		"nonsense\n",
		"write\n",
		"write 10\n",
		"write 10 aa\n",
		"write 10 aa b\n",
		"write 10 a b\n",
		"write 10 aa bbcc\n",
		"write x aa bb\n",
		"write 10 gg bb\n",
		"write 10 aa xx\n",
		"write 10  \n",
		"write 10000000000000 aa bb\n",
		"go on\n",
		"lend 3\n",
		"lend 3 1 2 3\n",
		"lend x 1 2\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_damaged(bad[i]);
}

/* A breakpoint may be a byte in the guest (KVM), or be known to QEMU only. */
static void test_breaks(void)
{
	static const char text[] = "breaks\nwrite 1000 0f cc\nstop\n";
	struct journal_contents contents;

	ok(!journal_parse(text, sizeof(text) - 1, &contents, NULL) && contents.breaks &&
		   contents.stopped && contents.nr_places == 1,
	   "'breaks' is read");
	journal_contents_deinit(&contents);
	ok(!journal_parse("stop\n", 5, &contents, NULL) && !contents.breaks,
	   "a journal without 'breaks' has no breakpoints");
	journal_contents_deinit(&contents);
	is_damaged("breaks \n");
}

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
						 .rt_task = 0x1c0,
						 .stack_bytes = 32768,
						 .ext_tasks = 0xa40,
						 .ext_task = 0x318};
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
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1 8000 1\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1 8000 1 100000\n",
		"tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1 8000 1 1 1\n",
		"tasks 1000 1ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1\n",
	};
	struct libvirt_journal journal;
	struct journal_contents c;

	ok(!libvirt_journal_create(uuid, &journal, NULL) &&
		   !libvirt_journal_tasks(&journal, &tasks, NULL) &&
		   !libvirt_journal_read(&journal, &c, NULL),
	   "'tasks' is written");
	ok(c.knows_tasks && !memcmp(&c.tasks, &tasks, sizeof(tasks)),
	   "'tasks' is read as it was written");
	journal_contents_deinit(&c);
	libvirt_journal_remove(&journal);
	ok(!parse("tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1\n", &c) &&
		   c.tasks.stack_bytes == TASK_STACK_BYTES,
	   "'tasks' of an older version is read, whose stacks have 16 KiB");
	journal_contents_deinit(&c);
	ok(!parse("tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1 8000 1 2\n"
		  "tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1 8000\n",
		  &c) &&
		   c.tasks.stack_bytes == 32768 && !c.tasks.ext_tasks && !c.tasks.ext_task,
	   "so is that of one which knows nothing of sched_ext");
	journal_contents_deinit(&c);
	ok(!parse("stop\n", &c) && !c.knows_tasks, "a journal without 'tasks' knows none");
	journal_contents_deinit(&c);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_damaged(bad[i]);
}

int main(void)
{
	make_folder();
	become_nobody();
	test_unfinished();
	test_long_line();
	test_pending();
	test_long();
	test_compact();
	test_compact_tasks();
	test_compact_full();
	test_many_places();
	test_contents();
	test_instance();
	test_damage();
	test_tasks();
	remove_folder();
	test_breaks();
	return tap_done();
}
