/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journal's file: its folder, its owner and its lock. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "tests/lib/dead-process.h"
#include "tests/unit/vmm/libvirt/journal/journal-fixture.h"

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

static void have_journal(void)
{
	struct libvirt_journal mine;

	if (libvirt_journal_create(uuid, &mine, NULL) || libvirt_journal_stop(&mine, true, NULL) ||
	    write(mine.fd, "write 10", 8) != 8)
		_exit(99);
}

static bool has_file(const char *suffix)
{
	char file[128];

	snprintf(file, sizeof(file), "%s/sonde/%s%s", runtime, uuid, suffix);
	return !access(file, F_OK);
}

/* There is room for a part of the copy. */
static void test_no_room(void)
{
	struct libvirt_journal journal;
	struct rlimit before, few = {.rlim_cur = 3};
	struct error err = {0};

	getrlimit(RLIMIT_FSIZE, &before);
	few.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &few);
	ok(libvirt_journal_adopt(uuid, &journal, &err) == -EFBIG, "a copy without room says so: %s",
	   err.text);
	setrlimit(RLIMIT_FSIZE, &before);
	ok(has_file("") && !has_file(".new"), "nothing of it is left, and the journal stays");
}

static void test_taken(void)
{
	struct libvirt_journal journal, other;
	struct journal_contents contents;
	pid_t dead = dead_process_start(have_journal);

	ok(libvirt_journal_create(uuid, &other, NULL) == -EEXIST &&
		   libvirt_journal_check(uuid, NULL) == -EEXIST,
	   "a tracer that is dead, but has not ended, has its journal: a recovery is due");
	test_no_room();
	ok(!libvirt_journal_adopt(uuid, &journal, NULL), "a recovery takes it");
	ok(!libvirt_journal_read(&journal, &contents, NULL) && contents.stopped &&
		   !contents.nr_places,
	   "with what it says in whole lines");
	ok(contents.tracer.pid == dead && libvirt_pid_hangs(&contents.tracer),
	   "and whose it was, though it did not say that");
	journal_contents_deinit(&contents);
	ok(libvirt_journal_adopt(uuid, &other, NULL) == -EBUSY,
	   "from the recovery, which lives, it is not taken");
	libvirt_journal_close(&journal);
	ok(!libvirt_journal_adopt(uuid, &journal, NULL), "the next recovery has it");
	dead_process_end(dead);
	ok(libvirt_journal_adopt(uuid, &other, NULL) == -EBUSY,
	   "and keeps it when the tracer ends");
	dead_process_reap(dead);
	libvirt_journal_remove(&journal);
	ok(!has_file(""), "it can be removed");
}

/* Another process opens a journal in it, and is stopped. */
static void test_locked_folder(void)
{
	struct libvirt_journal journal;
	struct error err = {0};
	char folder[64];
	int fd;

	snprintf(folder, sizeof(folder), "%s/sonde", runtime);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ok(!flock(fd, LOCK_EX) && libvirt_journal_create(uuid, &journal, &err) == -EBUSY &&
		   strstr(err.text, "locked the folder"),
	   "a folder that stays locked is not waited for without end: %s", err.text);
	close(fd);
	ok(!libvirt_journal_create(uuid, &journal, NULL), "later it can be used");
	libvirt_journal_remove(&journal);
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
static void test_no_folder(void)
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
static void test_private(void)
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

static void test_owner(void)
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

int main(void)
{
	make_folder();
	test_folder();
	test_owner();
	become_nobody();
	test_no_folder();
	test_file();
	test_taken();
	test_locked_folder();
	test_private();
	remove_folder();
	return tap_done();
}
