/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/journal/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_JOURNAL = 256 << 20 };

/*
 * Root's folder does not depend on the environment, which differs between a shell, sudo and a
 * service. Otherwise a second tracer would not be refused, and recovery would find no journal.
 */
void libvirt_journal_folder(bool root, const char *runtime, char *out, size_t size)
{
	snprintf(out, size, "%s/sonde", !root && runtime && *runtime ? runtime : "/run");
}

/* ENOENT becomes ENOTDIR: a missing folder must not look like a missing journal. A user's runtime
 * folder disappears with the last session. */
static int make_folder(char *path, size_t size, struct error *err)
{
	libvirt_journal_folder(!geteuid(), getenv("XDG_RUNTIME_DIR"), path, size);
	if (mkdir(path, 0700) && errno != EEXIST)
		return error_set(err, errno == ENOENT ? ENOTDIR : errno, "cannot make %s: %s%s",
				 path, strerror(errno),
				 geteuid() ? "; set XDG_RUNTIME_DIR to a folder you own" : "");
	return 0;
}

static int lock(struct libvirt_journal *journal, struct error *err)
{
	struct stat st;

	/* the lock of a file that was removed since open() excludes no other process */
	if (!flock(journal->fd, LOCK_EX | LOCK_NB) && !fstat(journal->fd, &st) && st.st_nlink)
		return 0;
	libvirt_journal_close(journal);
	return error_set(err, EBUSY, "another sonde is attached to this domain, or recovers it");
}

static int open_journal(const char *uuid, int flags, struct libvirt_journal *out, struct error *err)
{
	char folder[128];
	int ret = make_folder(folder, sizeof(folder), err);

	out->fd = -1;
	if (ret)
		return ret;
	if (strspn(uuid, "0123456789abcdef-") != strlen(uuid))
		return error_set(err, EINVAL, "'%s' is not a uuid", uuid);
	snprintf(out->path, sizeof(out->path), "%s/%s", folder, uuid);
	out->fd = open(out->path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (out->fd < 0)
		return error_set(err, errno, "cannot open %s: %s", out->path, strerror(errno));
	return lock(out, err);
}

static int check_empty(struct libvirt_journal *journal, struct error *err)
{
	struct stat st;

	if (!fstat(journal->fd, &st) && !st.st_size)
		return 0;
	libvirt_journal_close(journal);
	return error_set(
		err, EEXIST,
		"an earlier sonde died attached to this domain: run 'sonde recover' first");
}

int libvirt_journal_create(const char *uuid, struct libvirt_journal *out, struct error *err)
{
	int ret = open_journal(uuid, O_CREAT, out, err);

	return ret ? ret : check_empty(out, err);
}

int libvirt_journal_check(const char *uuid, struct error *err)
{
	struct libvirt_journal journal;
	int ret = open_journal(uuid, 0, &journal, err);

	if (ret == -ENOENT)
		return 0;
	if (!ret)
		ret = check_empty(&journal, err);
	libvirt_journal_close(&journal);
	return ret;
}

/* An unfinished last line would spoil the next one. The tracer made no change after it. */
static void drop_unfinished(struct libvirt_journal *journal)
{
	char tail[JOURNAL_MAX_LINE];
	off_t end = lseek(journal->fd, 0, SEEK_END);
	off_t start = end > (off_t)sizeof(tail) ? end - (off_t)sizeof(tail) : 0;
	ssize_t n = pread(journal->fd, tail, sizeof(tail), start);
	const char *newline = n > 0 ? memrchr(tail, '\n', (size_t)n) : NULL;

	if (newline)
		start += newline + 1 - tail;
	if (end > 0 && (newline || !start) && start < end && ftruncate(journal->fd, start))
		return; /* reading ignores the line, too */
}

int libvirt_journal_adopt(const char *uuid, struct libvirt_journal *out, struct error *err)
{
	int ret = open_journal(uuid, 0, out, err);

	if (!ret)
		drop_unfinished(out);
	return ret;
}

void libvirt_journal_close(struct libvirt_journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}

void libvirt_journal_remove(struct libvirt_journal *journal)
{
	if (journal->fd >= 0)
		unlink(journal->path);
	libvirt_journal_close(journal);
}

/* --- writing --------------------------------------------------------------------------------- */

/* Removes the part of a line that was written: it would spoil the next one. */
static void cut_off(struct libvirt_journal *journal, ssize_t n)
{
	off_t end = lseek(journal->fd, 0, SEEK_END);

	if (n > 0 && end >= n && ftruncate(journal->fd, end - n))
		return; /* the journal is damaged now, which a recovery reports */
}

static int append(struct libvirt_journal *journal, const char *line, size_t size, struct error *err)
{
	ssize_t n = write(journal->fd, line, size);

	if (n == (ssize_t)size)
		return 0;
	cut_off(journal, n);
	return error_set(err, EIO, "cannot write %s: the domain is not changed without it",
			 journal->path);
}

int libvirt_journal_instance(struct libvirt_journal *journal,
			     const struct libvirt_instance *instance, struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	if (!instance->boot[0])
		return 0;
	return append(journal, line, journal_line_instance(line, instance), err);
}

int libvirt_journal_write(struct libvirt_journal *journal, uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size, struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	if (size > JOURNAL_MAX_WRITE)
		return error_set_at(err, E2BIG, gpa, "%zu bytes are too many at once", size);
	return append(journal, line, journal_line_write(line, gpa, before, after, size), err);
}

static int append_word(struct libvirt_journal *journal, const char *word, struct error *err)
{
	return append(journal, word, strlen(word), err);
}

int libvirt_journal_stop(struct libvirt_journal *journal, bool stopped, struct error *err)
{
	return append_word(journal, stopped ? "stop\n" : "go\n", err);
}

int libvirt_journal_breaks(struct libvirt_journal *journal, struct error *err)
{
	return append_word(journal, "breaks\n", err);
}

int libvirt_journal_lend(struct libvirt_journal *journal, const struct journal_loan *loan,
			 struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	return append(journal, line, journal_line_loan(line, loan), err);
}

int libvirt_journal_lent(struct libvirt_journal *journal, struct error *err)
{
	return append_word(journal, "lent\n", err);
}

int libvirt_journal_reset(struct libvirt_journal *journal, struct error *err)
{
	return append_word(journal, "reset\n", err);
}

int libvirt_journal_tasks(struct libvirt_journal *journal, const struct task_stacks *tasks,
			  struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	return append(journal, line, journal_line_tasks(line, tasks), err);
}

/* --- reading --------------------------------------------------------------------------------- */

int libvirt_journal_read(const struct libvirt_journal *journal, struct journal_contents *out,
			 struct error *err)
{
	struct stat st;
	char *text;
	int ret;

	if (fstat(journal->fd, &st) || st.st_size > MAX_JOURNAL)
		return error_set(err, EPROTO, "the journal is damaged");
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	if (pread(journal->fd, text, (size_t)st.st_size, 0) != st.st_size)
		ret = error_set(err, EIO, "cannot read %s", journal->path);
	else
		ret = journal_parse(text, (size_t)st.st_size, out, err);
	free(text);
	return ret;
}
