/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The journal's file: its folder, its lock, and how it stays small. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "vmm/libvirt/connection/death.h"
#include "vmm/libvirt/journal/internal.h"

enum {
	MAX_JOURNAL = 256 << 20,
	COMPACT_AT = 1 << 20, /* the size from which a journal is rewritten when it has doubled */
	FULL = 32 << 20,      /* of places: a kernel's functions, 100,000, take 4 MiB */
	WORTH_IT = 1 << 14,   /* a full one is rewritten if so many places are put back */
	OPEN_TRIES = 3,
	FOLDER_TRIES = 100,
	FOLDER_MS = 10,
};

/*
 * Root's folder does not depend on the environment, which differs between a shell, sudo and a
 * service. Otherwise a second tracer would not be refused, and recovery would find no journal.
 */
void libvirt_journal_folder(bool root, const char *runtime, char *out, size_t size)
{
	snprintf(out, size, "%s/sonde", !root && runtime && *runtime ? runtime : "/run");
}

/* A user who can write a journal can have any byte written to the guest. */
static int check_private(int fd, const char *path, mode_t type, struct error *err)
{
	struct stat st;

	if (!fstat(fd, &st) && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
	    !(st.st_mode & (S_IRWXG | S_IRWXO)))
		return 0;
	return error_set(err, EPERM,
			 "%s is not private: it must belong to you and be closed to other users; "
			 "remove it unless a sonde uses it",
			 path);
}

/* ENOENT becomes ENOTDIR: a missing folder must not look like a missing journal. A user's runtime
 * folder disappears with the last session. */
static int folder_error(const char *path, struct error *err)
{
	int code = errno;

	return error_set(err, code == ENOENT ? ENOTDIR : code, "cannot use the folder %s: %s%s",
			 path, strerror(code),
			 geteuid() ? "; set XDG_RUNTIME_DIR to a folder you own" : "");
}

static int open_folder(struct libvirt_journal *j, struct error *err)
{
	char path[sizeof(j->path) - LIBVIRT_UUID_TEXT];
	int ret;

	libvirt_journal_folder(!geteuid(), getenv("XDG_RUNTIME_DIR"), path, sizeof(path));
	if (mkdir(path, 0700) && errno != EEXIST)
		return folder_error(path, err);
	j->folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (j->folder < 0)
		return folder_error(path, err);
	snprintf(j->path, sizeof(j->path), "%s/%s", path, j->name);
	ret = check_private(j->folder, path, S_IFDIR, err);
	if (ret)
		close(j->folder);
	return ret;
}

static int open_new(const struct libvirt_journal *j, const char *name)
{
	return openat(j->folder, name,
		      O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0600);
}

/* Another sonde may create or remove it at the same time. */
static int open_file(struct libvirt_journal *j, bool create)
{
	for (int i = 0; i < OPEN_TRIES; i++) {
		j->fd = create ? open_new(j, j->name) : -1;
		if (j->fd >= 0 || (create && errno != EEXIST))
			return j->fd;
		j->fd = openat(j->folder, j->name,
			       O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (j->fd >= 0 || !create || errno != ENOENT)
			return j->fd;
	}
	return -1;
}

static int in_use(struct error *err)
{
	return error_set(err, EBUSY, "another sonde is attached to this domain, or recovers it");
}

/* The lock of a file that was removed since open() excludes no other process. */
static bool is_removed(const struct libvirt_journal *j)
{
	struct stat st;

	return fstat(j->fd, &st) || !st.st_nlink;
}

static int no_lock(const struct libvirt_journal *j, struct error *err)
{
	return error_set(err, errno, "cannot lock %s: %s", j->path, strerror(errno));
}

static int lock(struct libvirt_journal *j, struct error *err)
{
	if (flock(j->fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? in_use(err) : no_lock(j, err);
	return is_removed(j) ? in_use(err) : 0;
}

/* For a moment, of all domains' journals: while a process locks one in it that it has opened, or
 * copies it. */
static int lock_folder(const struct libvirt_journal *j, struct error *err)
{
	for (int i = 0; i < FOLDER_TRIES; i++) {
		if (!flock(j->folder, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK)
			return no_lock(j, err);
		clock_wait_ms(FOLDER_MS);
	}
	return error_set(err, EBUSY, "another sonde has locked the folder of %s for too long",
			 j->path);
}

static int open_unlocked(const char *uuid, bool create, struct libvirt_journal *j,
			 struct error *err)
{
	int ret;

	*j = (struct libvirt_journal){.fd = -1, .compact_at = COMPACT_AT};
	if (strlen(uuid) >= sizeof(j->name) || strspn(uuid, "0123456789abcdef-") != strlen(uuid) ||
	    !*uuid)
		return error_set(err, EINVAL, "'%s' is not a uuid", uuid);
	strcpy(j->name, uuid);
	ret = open_folder(j, err);
	if (ret)
		return ret;
	if (open_file(j, create) < 0) {
		ret = error_set(err, errno, "cannot open %s: %s", j->path, strerror(errno));
		close(j->folder);
		return ret;
	}
	ret = check_private(j->fd, j->path, S_IFREG, err);
	if (ret)
		libvirt_journal_close(j);
	return ret;
}

typedef int lock_fn(struct libvirt_journal *j, struct error *err);

static int open_journal(const char *uuid, bool create, lock_fn *fn, struct libvirt_journal *j,
			struct error *err)
{
	int ret = open_unlocked(uuid, create, j, err);

	if (ret)
		return ret;
	ret = lock_folder(j, err);
	if (!ret)
		ret = fn(j, err);
	if (ret)
		libvirt_journal_close(j);
	else
		flock(j->folder, LOCK_UN);
	return ret;
}

static int needs_recovery(struct error *err)
{
	return error_set(
		err, EEXIST,
		"an earlier sonde died attached to this domain: run 'sonde recover' first");
}

/* A dead one that has not ended keeps its lock. */
static int lock_as_tracer(struct libvirt_journal *j, struct error *err)
{
	struct libvirt_pid holder;
	int ret = lock(j, err);

	return ret == -EBUSY && libvirt_lock_hangs(j->fd, &holder) ? needs_recovery(err) : ret;
}

static int check_empty(struct libvirt_journal *j, struct error *err)
{
	struct stat st;

	if (!fstat(j->fd, &st) && !st.st_size)
		return 0;
	libvirt_journal_close(j);
	return needs_recovery(err);
}

int libvirt_journal_create(const char *uuid, struct libvirt_journal *out, struct error *err)
{
	int ret = open_journal(uuid, true, lock_as_tracer, out, err);

	return ret ? ret : check_empty(out, err);
}

int libvirt_journal_check(const char *uuid, struct error *err)
{
	struct libvirt_journal journal;
	int ret = open_journal(uuid, false, lock_as_tracer, &journal, err);

	if (ret == -ENOENT)
		return 0;
	if (!ret)
		ret = check_empty(&journal, err);
	libvirt_journal_close(&journal);
	return ret;
}

static int unreadable(const struct libvirt_journal *j, struct error *err)
{
	return error_set(err, EIO, "cannot read %s", j->path);
}

/* An unfinished last line would spoil the next one. The tracer made no change after it. What cannot
 * be read stays as it is: it may be all that says what to undo. */
static int drop_unfinished(struct libvirt_journal *j, struct error *err)
{
	char tail[JOURNAL_MAX_LINE];
	const off_t end = lseek(j->fd, 0, SEEK_END);
	off_t start = end > (off_t)sizeof(tail) ? end - (off_t)sizeof(tail) : 0;
	const char *newline;

	if (end < 0 || pread(j->fd, tail, (size_t)(end - start), start) != end - start)
		return unreadable(j, err);
	newline = memrchr(tail, '\n', (size_t)(end - start));
	if (!newline && start)
		return error_set(err, EPROTO, "the journal is damaged");
	if (newline)
		start += newline + 1 - tail;
	if (start < end && ftruncate(j->fd, start))
		return error_set(err, EIO, "cannot write %s: %s", j->path, strerror(errno));
	return 0;
}

void libvirt_journal_close(struct libvirt_journal *j)
{
	if (j->fd < 0)
		return;
	u64_map_deinit(&j->places);
	close(j->fd);
	close(j->folder);
	j->fd = -1;
}

void libvirt_journal_remove(struct libvirt_journal *j)
{
	if (j->fd >= 0)
		unlinkat(j->folder, j->name, 0);
	libvirt_journal_close(j);
}

int libvirt_journal_read(const struct libvirt_journal *j, struct journal_contents *out,
			 struct error *err)
{
	struct stat st;
	char *text;
	int ret;

	if (fstat(j->fd, &st) || st.st_size > MAX_JOURNAL)
		return error_set(err, EPROTO, "the journal is damaged");
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	if (pread(j->fd, text, (size_t)st.st_size, 0) != st.st_size)
		ret = unreadable(j, err);
	else
		ret = journal_parse(text, (size_t)st.st_size, out, err);
	free(text);
	return ret;
}

/* --- another file in its place --------------------------------------------------------------- */

typedef int fill_fn(int fd, const void *arg);

/* fill() writes a new file, which takes the journal's place. It is locked before it does. A sonde
 * that has opened the old one finds it removed. */
static int replace(struct libvirt_journal *j, fill_fn *fill, const void *arg)
{
	char name[LIBVIRT_UUID_TEXT + 4];
	int fd, ret;

	snprintf(name, sizeof(name), "%s.new", j->name);
	unlinkat(j->folder, name, 0);
	fd = open_new(j, name);
	if (fd < 0)
		return -errno;
	ret = flock(fd, LOCK_EX | LOCK_NB) ? -errno : fill(fd, arg);
	if (!ret && renameat(j->folder, name, j->folder, j->name))
		ret = -errno;
	if (ret) {
		unlinkat(j->folder, name, 0);
		close(fd);
		return ret;
	}
	close(j->fd);
	j->fd = fd;
	return 0;
}

/* A file that is full takes a part first, and says why with the rest. */
static int write_all(int fd, const char *text, size_t size)
{
	for (ssize_t n; size; text += n, size -= (size_t)n) {
		n = write(fd, text, size);
		if (n <= 0)
			return n ? -errno : -EIO;
	}
	return 0;
}

struct copy {
	int from;
	struct libvirt_pid holder; /* of `from` */
};

/* A journal may name no tracer, or another one: a recovery that hangs dead has the gdbstub as
 * well. */
static int fill_with_copy(int fd, const void *arg)
{
	const struct copy *copy = arg;
	char text[JOURNAL_MAX_LINE];
	off_t at = 0;
	ssize_t n;
	int ret = 0;

	while (!ret && (n = pread(copy->from, text, sizeof(text), at)) != 0) {
		ret = n < 0 ? -errno : write_all(fd, text, (size_t)n);
		at += n;
	}
	return ret ? ret : write_all(fd, text, journal_line_tracer(text, &copy->holder));
}

/* A process that is dead does not give up its lock before it ends: a copy takes the file's place.
 * Meanwhile no other process does so, or locks the file, as the folder is locked. */
static int lock_or_copy(struct libvirt_journal *j, struct error *err)
{
	struct copy copy = {.from = j->fd};
	int ret = lock(j, err), dropped;

	if (ret && (ret != -EBUSY || is_removed(j) || !libvirt_lock_hangs(j->fd, &copy.holder)))
		return ret;
	dropped = drop_unfinished(j, err);
	if (dropped || !ret)
		return dropped;
	ret = replace(j, fill_with_copy, &copy);
	return ret ? error_set(err, -ret, "cannot write a copy of the journal %s: %s", j->path,
			       strerror(-ret))
		   : 0;
}

int libvirt_journal_adopt(const char *uuid, struct libvirt_journal *out, struct error *err)
{
	return open_journal(uuid, false, lock_or_copy, out, err);
}

/* --- writing --------------------------------------------------------------------------------- */

struct shorter {
	const struct journal_contents *contents;
	size_t nr_places; /* the first ones */
};

static int fill_with_contents(int fd, const void *arg)
{
	const struct shorter *shorter = arg;

	return journal_write_contents(fd, shorter->contents, shorter->nr_places);
}

/* Without the places that are put back. */
static void rewrite_contents(struct libvirt_journal *j, struct journal_contents *contents)
{
	const size_t kept = contents->nr_places - journal_index_sort(j, contents);
	const struct shorter shorter = {contents, kept};

	if (replace(j, fill_with_contents, &shorter))
		return;
	for (size_t i = kept; i < contents->nr_places; i++)
		journal_index_set(j, contents->places[i].gpa, contents->places[i].size,
				  JOURNAL_UNKNOWN);
}

/* A journal that cannot be rewritten stays as it is. */
static void compact(struct libvirt_journal *j)
{
	struct journal_contents contents;
	off_t size;

	if (!libvirt_journal_read(j, &contents, NULL)) {
		rewrite_contents(j, &contents);
		journal_contents_deinit(&contents);
	}
	size = lseek(j->fd, 0, SEEK_END);
	j->compact_at = 2 * size > COMPACT_AT ? 2 * size : COMPACT_AT;
}

/* Removes the part of a line that was written: it would spoil the next one. */
static void cut_off(struct libvirt_journal *j, ssize_t n)
{
	off_t end = lseek(j->fd, 0, SEEK_END);

	if (n > 0 && end >= n && ftruncate(j->fd, end - n))
		return; /* the journal is damaged now, which a recovery reports */
}

int journal_take_back_line(struct libvirt_journal *j, const char *line)
{
	const off_t size = (off_t)strlen(line), start = lseek(j->fd, 0, SEEK_END) - size;
	char last[8];

	if (start < 0 || size > (off_t)sizeof(last) ||
	    pread(j->fd, last, (size_t)size, start) != size || memcmp(last, line, (size_t)size) ||
	    ftruncate(j->fd, start))
		return -ENOENT;
	return 0;
}

/* Otherwise a guest that loads other modules again and again would have it grow until it could not
 * be read any more. */
int journal_make_room(struct libvirt_journal *j, struct error *err)
{
	if (lseek(j->fd, 0, SEEK_END) >= FULL && j->nr_back >= WORTH_IT)
		compact(j);
	if (lseek(j->fd, 0, SEEK_END) < FULL)
		return 0;
	return error_set(err, EFBIG,
			 "%s has %d MiB, of what has to be undone in the domain: nothing more is "
			 "patched there",
			 j->path, FULL >> 20);
}

int journal_append(struct libvirt_journal *j, const char *line, size_t size, struct error *err)
{
	ssize_t n = write(j->fd, line, size);

	if (n != (ssize_t)size) {
		cut_off(j, n);
		return error_set(err, EIO, "cannot write %s: the domain is not changed without it",
				 j->path);
	}
	if (lseek(j->fd, 0, SEEK_CUR) > j->compact_at)
		compact(j);
	return 0;
}
