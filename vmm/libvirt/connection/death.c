/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/connection/death.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "vmm/libvirt/connection/process.h"

enum {
	MAX_STAT = 2048,
	FLAGS_FIELD = 9,
	PENDING_FIELD = 31, /* signals of this thread */
	/* Linux, include/linux/sched.h: PF_EXITING, and PF_SIGNALED, which a thread has from when
	 * it begins to die of a signal: a core dump comes before the other one */
	EXITING = 0x4 | 0x400,
};

/* SIGKILL is pending while the thread is in a system call that nothing interrupts. One that is on a
 * CPU may be about to leave it. */
enum libvirt_life libvirt_parse_life(const char *stat)
{
	const uint64_t kill_bit = UINT64_C(1) << (SIGKILL - 1);
	const char *name_end = strrchr(stat, ')');
	uint64_t flags, pending;
	char state;

	if (!libvirt_parse_stat(stat, FLAGS_FIELD, &flags) ||
	    !libvirt_parse_stat(stat, PENDING_FIELD, &pending))
		return LIBVIRT_LIVES;
	state = name_end[2];
	if (state == 'Z' || state == 'X')
		return LIBVIRT_ENDED;
	return flags & EXITING || (pending & kill_bit && state != 'R') ? LIBVIRT_HANGS_DEAD
								       : LIBVIRT_LIVES;
}

/* "": it has ended. */
static void read_stat(int threads, const char *tid, char text[static MAX_STAT])
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/stat", tid);
	fd = openat(threads, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, MAX_STAT - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
}

/* One that has ended in this moment may have started another one: it counts as one that lives. */
static enum libvirt_life thread_life(int threads, const char *tid)
{
	char text[MAX_STAT];

	read_stat(threads, tid, text);
	return libvirt_parse_life(text);
}

static enum libvirt_life folder_life(DIR *folder)
{
	enum libvirt_life life = LIBVIRT_ENDED, one;
	struct dirent *entry;

	while (errno = 0, entry = readdir(folder)) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		one = thread_life(dirfd(folder), entry->d_name);
		if (one == LIBVIRT_LIVES)
			return LIBVIRT_LIVES;
		life = one == LIBVIRT_HANGS_DEAD ? LIBVIRT_HANGS_DEAD : life;
	}
	return errno ? LIBVIRT_LIVES : life;
}

enum libvirt_life libvirt_threads_life(int threads)
{
	int fd = openat(threads, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	enum libvirt_life life;

	/* it was waited for */
	if (fd < 0)
		return errno == ESRCH ? LIBVIRT_ENDED : LIBVIRT_LIVES;
	if (!folder) {
		close(fd);
		return LIBVIRT_LIVES;
	}
	life = folder_life(folder);
	closedir(folder);
	return life;
}

int libvirt_threads_try(int threads)
{
	const int fd = openat(threads, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int open_threads(const char *process)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/task", process);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int libvirt_threads_open(void)
{
	return open_threads("self");
}

/* --- another process ------------------------------------------------------------------------- */

/* Its first thread has its number. 0: unknown. */
static uint64_t start_of(int threads, const char *number)
{
	char text[MAX_STAT];
	uint64_t start;

	read_stat(threads, number, text);
	return libvirt_parse_stat(text, LIBVIRT_STAT_START, &start) ? start : 0;
}

/* /proc may count processes otherwise than getpid(). */
void libvirt_pid_self(struct libvirt_pid *out)
{
	char number[16] = "";
	const int threads = libvirt_threads_open();

	*out = (struct libvirt_pid){0};
	if (threads < 0)
		return;
	if (readlink("/proc/self", number, sizeof(number) - 1) > 0)
		out->start = start_of(threads, number);
	if (out->start)
		out->pid = (pid_t)atoi(number);
	close(threads);
}

/* Its start is written if that is not known yet. */
static bool hangs(struct libvirt_pid *p)
{
	char number[16];
	uint64_t start;
	int threads;
	bool dead;

	snprintf(number, sizeof(number), "%d", p->pid);
	threads = open_threads(number);
	if (threads < 0)
		return false;
	start = start_of(threads, number);
	p->start = p->start ? p->start : start;
	dead = start == p->start && libvirt_threads_life(threads) == LIBVIRT_HANGS_DEAD;
	close(threads);
	return dead;
}

bool libvirt_pid_hangs(const struct libvirt_pid *process)
{
	struct libvirt_pid p = *process;

	return p.pid && hangs(&p);
}

dev_t libvirt_lock_device(int fd, dev_t device, const char *mountinfo)
{
	FILE *mounts = fopen(mountinfo, "re");
	unsigned int major_number, minor_number;
	unsigned long long id;
	struct statx st = {0};
	char line[4096];

	if (!mounts)
		return device;
	statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st);
	while (st.stx_mask & STATX_MNT_ID && fgets(line, sizeof(line), mounts)) {
		if (sscanf(line, "%llu %*u %u:%u ", &id, &major_number, &minor_number) == 3 &&
		    id == st.stx_mnt_id)
			device = makedev(major_number, minor_number);
	}
	fclose(mounts);
	return device;
}

/* A line of /proc/locks (proc(5)): the process that has locked this file. 0: another file's. */
static pid_t holder_of(const char *line, dev_t device, ino_t file)
{
	unsigned int major_number, minor_number;
	unsigned long inode;
	pid_t pid;

	if (sscanf(line, "%*d: FLOCK ADVISORY WRITE %d %x:%x:%lu ", &pid, &major_number,
		   &minor_number, &inode) != 4 ||
	    makedev(major_number, minor_number) != device || inode != file)
		return 0;
	return pid;
}

bool libvirt_lock_hangs(int fd, struct libvirt_pid *holder)
{
	FILE *locks = fopen("/proc/locks", "re");
	struct stat file;
	char line[256];
	dev_t device;

	*holder = (struct libvirt_pid){0};
	if (!locks)
		return false;
	if (!fstat(fd, &file)) {
		device = libvirt_lock_device(fd, file.st_dev, "/proc/self/mountinfo");
		while (!holder->pid && fgets(line, sizeof(line), locks))
			holder->pid = holder_of(line, device, file.st_ino);
	}
	fclose(locks);
	return holder->pid > 0 && hangs(holder);
}
