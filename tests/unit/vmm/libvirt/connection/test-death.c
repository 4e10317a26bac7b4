/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a process is dead that may not have ended. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "tests/lib/dead-process.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/connection/death.h"

static const char *const words[] = {[LIBVIRT_LIVES] = "lives",
				    [LIBVIRT_HANGS_DEAD] = "hangs dead",
				    [LIBVIRT_ENDED] = "has ended"};

static void test_threads_of_one(void)
{
	static const struct {
		char state;
		unsigned int flags;
		unsigned long pending; /* signals */
		enum libvirt_life life;
		const char *what;
	} cases[] = {
		{'S', 0x400140, 0, LIBVIRT_LIVES, "one that sleeps"},
		{'R', 0x400140, 0, LIBVIRT_LIVES, "one that runs"},
		{'D', 0x400140, 0, LIBVIRT_LIVES, "one that hangs"},
		{'T', 0x400140, 0, LIBVIRT_LIVES, "one that is stopped"},
		{'t', 0x400140, 0, LIBVIRT_LIVES, "one that a debugger has stopped"},
		{'D', 0x400140, 0x4000, LIBVIRT_LIVES, "one that hangs before a SIGTERM"},
		{'D', 0x400140, 0x100, LIBVIRT_HANGS_DEAD, "one that hangs before a SIGKILL"},
		{'R', 0x400140, 0x100, LIBVIRT_LIVES, "one that runs before a SIGKILL"},
		{'D', 0x400144, 0, LIBVIRT_HANGS_DEAD, "one that hangs on its way out"},
		{'S', 0x400540, 0, LIBVIRT_HANGS_DEAD, "one that dumps core"},
		{'Z', 0x40844c, 0, LIBVIRT_ENDED, "a zombie"},
		{'X', 0x40844c, 0, LIBVIRT_ENDED, "one that is being reaped"},
	};
	char text[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(
			text, sizeof(text),
			"815 (a) Z 1 ) %c 1 2 3 0 -1 %u 37 0 0 0 0 0 0 0 20 0 1 0 4711 25 24 184 9 "
			"9 14 0 0 %lu 0 0 0 1 0 0 17 1 0 0 0 0 0\n",
			cases[i].state, cases[i].flags, cases[i].pending);
		ok(libvirt_parse_life(text) == cases[i].life, "a thread, %s: it %s", cases[i].what,
		   words[cases[i].life]);
	}
}

static void test_malformed(void)
{
	static const char *const bad[] = {
		"",
		"1 (x",
		"1 (x)",
		"1 (x) Z",
		"1 (x) Z 1 2 3 0 -1 4",
		"1 (x) Z 1 2 3 0 -1 x 5 6 7 8 9 10 11 12 13 20 0 1 0 4711"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(libvirt_parse_life(bad[i]) == LIBVIRT_LIVES, "of '%s' nothing is known", bad[i]);
}

static int question[2], answer[2];

/* Another process is asked how this one is. */
static void be_watched(void)
{
	const int threads = libvirt_threads_open();
	char c;

	if (fork())
		return;
	close(question[1]);
	while (read(question[0], &c, 1) == 1) {
		c = (char)libvirt_threads_life(threads);
		if (write(answer[1], &c, 1) != 1)
			break;
	}
	_exit(0);
}

static const char *ask(void)
{
	char c = 0;

	if (write(question[1], &c, 1) != 1 || read(answer[0], &c, 1) != 1)
		abort();
	return words[(int)c];
}

static void *leave(void *arg)
{
	(void)arg;
	/* the process that tests waits for this one, which is a child: it finds no result then */
	if (strcmp(ask(), "lives") != 0)
		_exit(99);
	return NULL;
}

static void have_a_thread(void)
{
	pthread_t thread;

	be_watched();
	if (pthread_create(&thread, NULL, leave, NULL))
		_exit(99);
	pthread_join(thread, NULL);
}

static void test_process(void)
{
	pid_t pid;

	if (pipe(question) || pipe(answer))
		abort();
	pid = dead_process_start(have_a_thread);
	is_str(ask(), "hangs dead", "one that is killed, and hangs, too");
	dead_process_end(pid);
	is_str(ask(), "has ended", "so is a zombie");
	dead_process_reap(pid);
	is_str(ask(), "has ended", "and one that was waited for");
	ok(libvirt_threads_life(-1) == LIBVIRT_LIVES, "without a descriptor nothing is known");
	close(question[1]);
}

static int mine[2];

static void tell_pid(void)
{
	struct libvirt_pid self;

	libvirt_pid_self(&self);
	if (write(mine[1], &self, sizeof(self)) != sizeof(self))
		_exit(99);
}

static void test_pid(void)
{
	const struct libvirt_pid unknown = {0};
	struct libvirt_pid self, dead, later;
	pid_t pid;

	if (pipe(mine))
		abort();
	libvirt_pid_self(&self);
	ok(self.pid && self.start && !libvirt_pid_hangs(&self), "this process lives");
	ok(!libvirt_pid_hangs(&unknown), "of an unknown process nothing is known");
	pid = dead_process_start(tell_pid);
	if (read(mine[0], &dead, sizeof(dead)) != sizeof(dead))
		abort();
	later = dead;
	later.start++;
	ok(libvirt_pid_hangs(&dead), "a process that is dead and has not ended is found");
	ok(!libvirt_pid_hangs(&later), "one of another start with the same number is not it");
	dead_process_end(pid);
	ok(!libvirt_pid_hangs(&dead), "a zombie has ended");
	dead_process_reap(pid);
	ok(!libvirt_pid_hangs(&dead), "one that was waited for has, too");
}

static char path[] = "/tmp/test-death-XXXXXX";

static void lock_file(void)
{
	if (flock(open(path, O_RDWR | O_CLOEXEC), LOCK_EX))
		_exit(99);
}

static void test_lock(void)
{
	const int fd = mkstemp(path);
	struct libvirt_pid holder;
	int other;
	pid_t pid;

	ok(fd >= 0 && !libvirt_lock_hangs(fd, &holder) && !holder.pid, "a file has no lock");
	pid = dead_process_start(lock_file);
	ok(libvirt_lock_hangs(fd, &holder) && holder.pid == pid && libvirt_pid_hangs(&holder),
	   "the lock of a dead process is found, and whose it is");
	dead_process_end(pid);
	dead_process_reap(pid);
	ok(!libvirt_lock_hangs(fd, &holder), "it is gone when that has ended");
	other = open(path, O_RDWR | O_CLOEXEC);
	ok(!flock(other, LOCK_EX) && !libvirt_lock_hangs(fd, &holder),
	   "a process that lives may have it");
	close(other);
	close(fd);
	unlink(path);
}

/* As of a file on btrfs, whose device is another one than its mount's. */
static void test_lock_device(void)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const dev_t seen = makedev(0, 40), locked = makedev(8, 17);
	char mounts[] = "/tmp/test-death-XXXXXX";
	unsigned long long id;
	struct statx st;
	int list;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) || !(st.stx_mask & STATX_MNT_ID)) {
		tap_skip("a file's mount", "needs Linux 5.8");
		return;
	}
	id = st.stx_mnt_id;
	list = mkstemp(mounts);
	dprintf(list,
		"%llu 1 0:5 / /before rw - x x rw\nnonsense\n%llu %llu 8:17 / / rw - x x rw\n",
		id + 1, id, id + 1);
	ok(libvirt_lock_device(fd, seen, mounts) == locked,
	   "a lock's device is that of the file's mount");
	if (ftruncate(list, 0))
		abort();
	dprintf(list, "%llu 1 0:5 / /before rw - x x rw\n%llu 1 8 / /\n", id + 1, id);
	ok(libvirt_lock_device(fd, seen, mounts) == seen,
	   "if that is not listed it is what stat() says");
	unlink(mounts);
	ok(libvirt_lock_device(fd, seen, mounts) == seen, "so it is without a list");
	close(list);
	close(fd);
}

int main(void)
{
	test_threads_of_one();
	test_malformed();
	test_process();
	test_pid();
	test_lock();
	test_lock_device();
	return tap_done();
}
