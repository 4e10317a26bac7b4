/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journal of what must be undone in a domain. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/journal/journal.h"
#include "vmm/libvirt/recovery/places.h"

static const char uuid[] = "096ac222-3dde-4d48-89b6-8842d1b1d526";

static void test_file(void)
{
	struct libvirt_journal journal, other;
	struct journal_contents contents;

	ok(libvirt_journal_adopt(uuid, &journal, NULL) == -ENOENT,
	   "without a journal there is none to adopt");
	ok(!libvirt_journal_check(uuid, NULL), "without a journal the check passes");
	ok(!libvirt_journal_create(uuid, &journal, NULL), "a journal is created");
	ok(libvirt_journal_check(uuid, NULL) == -EBUSY, "the check fails while a tracer has it");
	ok(libvirt_journal_create(uuid, &other, NULL) == -EBUSY, "a second tracer is refused");
	ok(libvirt_journal_adopt(uuid, &other, NULL) == -EBUSY,
	   "a living tracer's journal cannot be adopted");
	ok(!libvirt_journal_stop(&journal, true, NULL) &&
		   !libvirt_journal_write(&journal, 0x1000, (const uint8_t *)"\x0f\x1f",
					  (const uint8_t *)"\xe9\x01", 2, NULL),
	   "lines are written");
	libvirt_journal_close(&journal);
	ok(libvirt_journal_create(uuid, &other, NULL) == -EEXIST,
	   "a dead tracer's journal is not overwritten");
	ok(libvirt_journal_check(uuid, NULL) == -EEXIST,
	   "the check fails for a dead tracer's journal");
	ok(!libvirt_journal_adopt(uuid, &journal, NULL), "a dead tracer's journal is adopted");
	ok(!libvirt_journal_read(&journal, &contents, NULL), "an adopted journal is read");
	ok(contents.stopped && contents.nr_places == 1 && contents.places[0].gpa == 0x1000 &&
		   contents.places[0].size == 2 &&
		   !memcmp(contents.places[0].original, "\x0f\x1f", 2),
	   "an adopted journal has the stop and the write");
	journal_contents_deinit(&contents);
	libvirt_journal_remove(&journal);
	ok(libvirt_journal_adopt(uuid, &journal, NULL) == -ENOENT, "a removed journal is gone");
	ok(libvirt_journal_adopt("../x", &journal, NULL) == -EINVAL,
	   "a name that is not a uuid is refused");
}

static void test_taken(void)
{
	struct libvirt_journal dead, journal, other;
	struct journal_contents contents;
	uint64_t number;

	ok(libvirt_journal_take(uuid, &journal, NULL) == -ENOENT, "there is no journal to take");
	is_u64(libvirt_journal_number(uuid), 0, "it has no number");
	if (libvirt_journal_create(uuid, &dead, NULL) || libvirt_journal_stop(&dead, true, NULL))
		abort();
	number = libvirt_journal_number(uuid);
	ok(number, "one that is there has a number");
	ok(write(dead.fd, "write 10", 8) == 8 && !libvirt_journal_take(uuid, &journal, NULL),
	   "a journal is taken from a tracer that is dead, but still has the lock");
	ok(!libvirt_journal_read(&journal, &contents, NULL) && contents.stopped,
	   "with what it says");
	journal_contents_deinit(&contents);
	ok(libvirt_journal_number(uuid) && libvirt_journal_number(uuid) != number,
	   "it has another number then");
	ok(libvirt_journal_adopt(uuid, &other, NULL) == -EBUSY, "no other process may have it");
	libvirt_journal_close(&dead);
	libvirt_journal_close(&journal);
	ok(!libvirt_journal_take(uuid, &journal, NULL), "one without a lock is adopted");
	libvirt_journal_remove(&journal);
}

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
	struct libvirt_journal journal, other;
	struct journal_contents c;
	bool written = true;
	off_t largest = 0;

	ok(!libvirt_journal_create(uuid, &journal, NULL), "compaction: a journal is created");
	libvirt_journal_instance(&journal, &qemu, NULL);
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
		   c.instance.start == qemu.start && !strcmp(c.instance.boot, qemu.boot),
	   "compaction: instance, stop, breakpoints and loan are kept");
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
						 .stack_bytes = 32768};
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
	   "'tasks' is written");
	ok(c.knows_tasks && !memcmp(&c.tasks, &tasks, sizeof(tasks)),
	   "'tasks' is read as it was written");
	journal_contents_deinit(&c);
	libvirt_journal_remove(&journal);
	ok(!parse("tasks 1000 ffffffff82a1b4c0 0 0 4 0 1 1 1 1 1 1 1 1 1 1 1\n", &c) &&
		   c.tasks.stack_bytes == TASK_STACK_BYTES,
	   "'tasks' of an older version is read, whose stacks have 16 KiB");
	journal_contents_deinit(&c);
	ok(!parse("stop\n", &c) && !c.knows_tasks, "a journal without 'tasks' knows none");
	journal_contents_deinit(&c);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_damaged(bad[i]);
}

static void test_folder(void)
{
	char folder[64];

	libvirt_journal_folder(true, "/run/user/0", folder, sizeof(folder));
	is_str(folder, "/run/sonde", "root's journals do not depend on the environment");
	libvirt_journal_folder(false, "/run/user/1000", folder, sizeof(folder));
	is_str(folder, "/run/user/1000/sonde", "a user's journals are in the runtime folder");
}

/* A missing folder must not look like a missing journal, which means that there is nothing to undo.
 */
static void test_no_folder(const char *runtime)
{
	struct libvirt_journal journal;
	struct error err;

	if (setenv("XDG_RUNTIME_DIR", "/nonexistent", 1))
		abort();
	ok(libvirt_journal_adopt("2a167d84", &journal, &err) == -ENOTDIR,
	   "without a folder a journal cannot be adopted: %s", err.text);
	ok(libvirt_journal_check("2a167d84", NULL) == -ENOTDIR, "without a folder the check fails");
	if (setenv("XDG_RUNTIME_DIR", runtime, 1))
		abort();
	ok(libvirt_journal_adopt("2a167d84", &journal, NULL) == -ENOENT,
	   "in an empty folder there is no journal to adopt");
}

static void is_refused(const char *what)
{
	struct libvirt_journal journal;
	struct error err = {0};

	ok(libvirt_journal_create(uuid, &journal, &err) == -EPERM, "%s is refused: %s", what,
	   err.text);
	ok(libvirt_journal_check(uuid, NULL) == -EPERM &&
		   libvirt_journal_adopt(uuid, &journal, NULL) == -EPERM,
	   "%s is refused by the check and for a recovery, too", what);
}

/* Another user's folder or file would have his bytes written to the guest. */
static void test_private(const char *runtime)
{
	struct libvirt_journal journal;
	char folder[64], real[64], file[128];

	snprintf(folder, sizeof(folder), "%s/sonde", runtime);
	snprintf(real, sizeof(real), "%s/real", runtime);
	snprintf(file, sizeof(file), "%s/%s", folder, uuid);
	chmod(folder, 0770);
	is_refused("a folder that the group may write");
	chmod(folder, 0705);
	is_refused("a folder that others may read");
	chmod(folder, 0700);
	if (rename(folder, real) || symlink(real, folder))
		abort();
	ok(libvirt_journal_create(uuid, &journal, NULL) == -ENOTDIR ||
		   libvirt_journal_create(uuid, &journal, NULL) == -ELOOP,
	   "a folder that is a symbolic link is refused");
	if (unlink(folder) || rename(real, folder))
		abort();
	close(open(file, O_CREAT | O_WRONLY, 0600));
	chmod(file, 0660);
	is_refused("a journal that the group may write");
	unlink(file);
	if (mkfifo(file, 0600))
		abort();
	is_refused("a journal that is a FIFO");
	unlink(file);
	if (symlink("/dev/null", file))
		abort();
	ok(libvirt_journal_create(uuid, &journal, NULL) < 0 &&
		   libvirt_journal_adopt(uuid, &journal, NULL) < 0,
	   "a journal that is a symbolic link is refused");
	unlink(file);
}

enum { NOBODY = 65534 };

/* As root may, but with journals that are not in /run: another user, who may open all files. */
static void become_nobody_who_may(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{.effective = 1u << CAP_DAC_OVERRIDE, .permitted = 1u << CAP_DAC_OVERRIDE}};

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setgid(NOBODY) || setuid(NOBODY) ||
	    syscall(SYS_capset, &header, data))
		abort();
}

/* What a journal's creation says to that user. */
static int create_as_nobody(void)
{
	struct libvirt_journal journal;
	int status = 0;
	pid_t child = fork();

	if (!child) {
		become_nobody_who_may();
		_exit(-libvirt_journal_create(uuid, &journal, NULL));
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		abort();
	return WEXITSTATUS(status);
}

static void test_owner(const char *runtime)
{
	char folder[64], file[128];

	if (geteuid()) {
		tap_skip("the owner of a journal is checked", "only root has files of two users");
		return;
	}
	snprintf(folder, sizeof(folder), "%s/sonde", runtime);
	snprintf(file, sizeof(file), "%s/%s", folder, uuid);
	if (mkdir(folder, 0700))
		abort();
	is_u64((uint64_t)create_as_nobody(), EPERM, "a folder of another user's is refused");
	if (chown(folder, NOBODY, NOBODY) || close(open(file, O_CREAT | O_WRONLY, 0600)))
		abort();
	is_u64((uint64_t)create_as_nobody(), EPERM, "so is another user's journal in an own one");
	unlink(file);
	is_u64((uint64_t)create_as_nobody(), 0, "without it the folder is used");
	unlink(file);
	rmdir(folder);
}

/* As root, the journals would be in /run. */
static void become_nobody(const char *folder)
{
	if (!geteuid() && (chown(folder, NOBODY, NOBODY) || setgid(NOBODY) || setuid(NOBODY)))
		abort();
}

int main(void)
{
	char folder[] = "/tmp/sonde-journal-XXXXXX", sub[64];

	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		abort();
	test_folder();
	test_owner(folder);
	become_nobody(folder);
	test_no_folder(folder);
	test_file();
	test_taken();
	test_unfinished();
	test_long_line();
	test_pending();
	test_long();
	test_compact();
	test_compact_tasks();
	test_compact_full();
	test_many_places();
	test_private(folder);
	test_contents();
	test_instance();
	test_damage();
	test_tasks();
	snprintf(sub, sizeof(sub), "%s/sonde", folder);
	rmdir(sub);
	rmdir(folder);
	test_breaks();
	return tap_done();
}
