/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt-journal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_JOURNAL = 256 << 20, JOURNAL_MAX_LINE = 4 * JOURNAL_MAX_WRITE + 64 };

/*
 * Root's is the same whatever its environment, which differs between a shell, sudo and a service:
 * or a second tracer would not be refused, and nothing found to recover.
 */
void libvirt_journal_folder(bool root, const char *runtime, char *out, size_t size)
{
	snprintf(out, size, "%s/sonde", !root && runtime && *runtime ? runtime : "/run");
}

static int make_folder(char *path, size_t size, struct error *err)
{
	libvirt_journal_folder(!geteuid(), getenv("XDG_RUNTIME_DIR"), path, size);
	if (mkdir(path, 0700) && errno != EEXIST)
		return error_set(err, errno, "cannot make %s: %s%s", path, strerror(errno),
				 geteuid() ? "; set XDG_RUNTIME_DIR to a folder of yours" : "");
	return 0;
}

static int lock(struct libvirt_journal *journal, struct error *err)
{
	struct stat st;

	/* one that was removed between open() and here is not where others look for it */
	if (!flock(journal->fd, LOCK_EX | LOCK_NB) && !fstat(journal->fd, &st) && st.st_nlink)
		return 0;
	libvirt_journal_close(journal);
	return error_set(err, EBUSY,
			 "another sonde is attached to this domain, or cleans up behind one");
}

static int open_journal(const char *uuid, int flags, struct libvirt_journal *out, struct error *err)
{
	char folder[128];
	int rc = make_folder(folder, sizeof(folder), err);

	out->fd = -1;
	if (rc)
		return rc;
	if (strspn(uuid, "0123456789abcdef-") != strlen(uuid))
		return error_set(err, EINVAL, "'%s' is no uuid", uuid);
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
	int rc = open_journal(uuid, O_CREAT, out, err);

	return rc ? rc : check_empty(out, err);
}

int libvirt_journal_check(const char *uuid, struct error *err)
{
	struct libvirt_journal journal;
	int rc = open_journal(uuid, 0, &journal, err);

	if (rc == -ENOENT)
		return 0;
	if (!rc)
		rc = check_empty(&journal, err);
	libvirt_journal_close(&journal);
	return rc;
}

/* A last line without its end was never acted on, and would spoil what is written behind it. */
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
		return; /* it can be read all the same */
}

int libvirt_journal_adopt(const char *uuid, struct libvirt_journal *out, struct error *err)
{
	int rc = open_journal(uuid, 0, out, err);

	if (!rc)
		drop_unfinished(out);
	return rc;
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

/* A part of a line would spoil the next one. */
static void cut_off(struct libvirt_journal *journal, ssize_t n)
{
	off_t end = lseek(journal->fd, 0, SEEK_END);

	if (n > 0 && end >= n && ftruncate(journal->fd, end - n))
		return; /* then it cannot be read any more, which whoever recovers is told */
}

static int append(struct libvirt_journal *journal, const char *line, size_t size, struct error *err)
{
	ssize_t n = write(journal->fd, line, size);

	if (n == (ssize_t)size)
		return 0;
	cut_off(journal, n);
	return error_set(err, EIO, "cannot write %s: nothing is done to the domain without it",
			 journal->path);
}

static size_t put_hex(char *to, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		sprintf(to + 2 * i, "%02x", bytes[i]);
	return 2 * size;
}

int libvirt_journal_write(struct libvirt_journal *journal, uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size, struct error *err)
{
	char line[JOURNAL_MAX_LINE];
	size_t n;

	if (size > JOURNAL_MAX_WRITE)
		return error_set_at(err, E2BIG, gpa, "%zu bytes are too many at once", size);
	n = (size_t)snprintf(line, sizeof(line), "write %" PRIx64 " ", gpa);
	n += put_hex(line + n, before, size);
	line[n++] = ' ';
	n += put_hex(line + n, after, size);
	line[n++] = '\n';
	return append(journal, line, n, err);
}

int libvirt_journal_stop(struct libvirt_journal *journal, bool stopped, struct error *err)
{
	const char *line = stopped ? "stop\n" : "go\n";

	return append(journal, line, strlen(line), err);
}

int libvirt_journal_breaks(struct libvirt_journal *journal, struct error *err)
{
	static const char line[] = "breaks\n";

	return append(journal, line, sizeof(line) - 1, err);
}

int libvirt_journal_lend(struct libvirt_journal *journal, unsigned int vcpu, uint64_t cr3,
			 uint64_t lent, struct error *err)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "lend %u %" PRIx64 " %" PRIx64 "\n", vcpu, cr3, lent);

	return append(journal, line, (size_t)n, err);
}

int libvirt_journal_lent(struct libvirt_journal *journal, struct error *err)
{
	static const char line[] = "lent\n";

	return append(journal, line, sizeof(line) - 1, err);
}

int libvirt_journal_reset(struct libvirt_journal *journal, struct error *err)
{
	static const char line[] = "reset\n";

	return append(journal, line, sizeof(line) - 1, err);
}

/* What a line of tasks says, in its order. */
enum { TASK_WIDE = 4, TASK_NARROW = 13 };

static void task_numbers(struct task_stacks *t, uint64_t **wide, uint32_t **narrow)
{
	uint64_t *const w[TASK_WIDE] = {&t->root, &t->first, &t->cpu_bases, &t->runqueues};
	uint32_t *const n[TASK_NARROW] = {&t->levels,  &t->cpus,       &t->tasks,     &t->signal,
					  &t->threads, &t->thread,     &t->stack,     &t->sp,
					  &t->on_cpu,  &t->fair_tasks, &t->fair_task, &t->rt_queues,
					  &t->rt_task};

	memcpy(wide, w, sizeof(w));
	memcpy(narrow, n, sizeof(n));
}

int libvirt_journal_tasks(struct libvirt_journal *journal, const struct task_stacks *tasks,
			  struct error *err)
{
	struct task_stacks copy = *tasks;
	char line[32 * (TASK_WIDE + TASK_NARROW)] = "tasks";
	size_t n = strlen(line);
	uint64_t *wide[TASK_WIDE];
	uint32_t *narrow[TASK_NARROW];

	task_numbers(&copy, wide, narrow);
	for (size_t i = 0; i < TASK_WIDE; i++)
		n += (size_t)sprintf(line + n, " %" PRIx64, *wide[i]);
	for (size_t i = 0; i < TASK_NARROW; i++)
		n += (size_t)sprintf(line + n, " %" PRIx32, *narrow[i]);
	line[n++] = '\n';
	return append(journal, line, n, err);
}

/* --- reading --------------------------------------------------------------------------------- */

static int not_ours(struct error *err)
{
	return error_set(err, EPROTO, "the journal is damaged");
}

static bool get_hex(uint8_t *to, const char *hex, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &to[i]) != 1)
			return false;
	return true;
}

static struct journal_place *find_place(struct journal_contents *c, uint64_t gpa, size_t size)
{
	for (size_t i = 0; i < c->nr_places; i++)
		if (c->places[i].gpa == gpa && c->places[i].size == size)
			return &c->places[i];
	return NULL;
}

static struct journal_place *add_place(struct journal_contents *c, uint64_t gpa, size_t size,
				       const char *before)
{
	struct journal_place *p = realloc(c->places, (c->nr_places + 1) * sizeof(*c->places));

	if (!p)
		return NULL;
	c->places = p;
	p += c->nr_places;
	*p = (struct journal_place){.gpa = gpa, .size = size, .original = malloc(size)};
	if (!p->original || !get_hex(p->original, before, size)) {
		free(p->original);
		return NULL;
	}
	c->nr_places++;
	return p;
}

static int add_ours(struct journal_place *p, const char *after)
{
	uint8_t *ours = realloc(p->ours, (p->nr_ours + 1) * p->size);
	uint8_t *last;

	if (!ours)
		return -ENOMEM;
	p->ours = ours;
	last = ours + p->nr_ours * p->size;
	if (!get_hex(last, after, p->size))
		return -EPROTO;
	for (size_t i = 0; i < p->nr_ours; i++)
		if (!memcmp(ours + i * p->size, last, p->size))
			return 0;
	p->nr_ours++;
	return 0;
}

static bool is_hex(const char *text, size_t size)
{
	return strspn(text, "0123456789abcdef") >= size;
}

/* "GPA BEFORE AFTER" */
static int parse_write(struct journal_contents *c, char *line, struct error *err)
{
	char *before = strchr(line, ' '), *after = before ? strchr(before + 1, ' ') : NULL, *end;
	struct journal_place *place;
	uint64_t gpa;
	size_t size;

	if (!after)
		return not_ours(err);
	gpa = strtoull(line, &end, 16);
	size = (size_t)(after - before - 1) / 2;
	before++;
	after++;
	if (end != before - 1 || !size || size > JOURNAL_MAX_WRITE || strlen(after) != 2 * size ||
	    !is_hex(before, 2 * size) || !is_hex(after, 2 * size))
		return not_ours(err);
	place = find_place(c, gpa, size);
	if (!place)
		place = add_place(c, gpa, size, before);
	if (!place || add_ours(place, after))
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* "VCPU CR3 LENT" */
static int parse_loan(struct journal_contents *c, const char *line, struct error *err)
{
	struct journal_loan *loan = &c->loan;
	int n = 0;

	if (sscanf(line, "%u %" SCNx64 " %" SCNx64 "%n", &loan->vcpu, &loan->cr3, &loan->lent,
		   &n) != 3 ||
	    line[n])
		return not_ours(err);
	c->lent = true;
	return 0;
}

static int parse_word(struct journal_contents *c, const char *word, struct error *err)
{
	if (!strcmp(word, "stop") || !strcmp(word, "go"))
		c->stopped = word[0] == 's';
	else if (!strcmp(word, "breaks"))
		c->breaks = true;
	else if (!strcmp(word, "reset"))
		c->reset = true;
	else if (!strcmp(word, "lent"))
		c->lent = false;
	else
		return not_ours(err);
	return 0;
}

/* The next number of a line, as printed above: no sign, no spaces but one before it. */
static bool next_number(char **at, uint64_t max, uint64_t *out)
{
	char *end;

	if (**at != ' ' || !isxdigit((unsigned char)(*at)[1]))
		return false;
	errno = 0;
	*out = strtoull(*at + 1, &end, 16);
	*at = end;
	return !errno && *out <= max;
}

/* " ROOT FIRST ..." */
static int parse_tasks(struct journal_contents *c, char *line, struct error *err)
{
	uint64_t *wide[TASK_WIDE], number;
	uint32_t *narrow[TASK_NARROW];

	task_numbers(&c->tasks, wide, narrow);
	for (size_t i = 0; i < TASK_WIDE; i++)
		if (!next_number(&line, UINT64_MAX, wide[i]))
			return not_ours(err);
	for (size_t i = 0; i < TASK_NARROW; i++) {
		if (!next_number(&line, UINT32_MAX, &number))
			return not_ours(err);
		*narrow[i] = (uint32_t)number;
	}
	c->knows_tasks = true;
	return *line || !task_stacks_valid(&c->tasks) ? not_ours(err) : 0;
}

static int parse_line(struct journal_contents *c, char *line, struct error *err)
{
	if (!strncmp(line, "tasks", 5))
		return parse_tasks(c, line + 5, err);
	if (!strncmp(line, "write ", 6))
		return parse_write(c, line + 6, err);
	if (!strncmp(line, "lend ", 5))
		return parse_loan(c, line + 5, err);
	return parse_word(c, line, err);
}

int journal_parse(const char *text, size_t size, struct journal_contents *out, struct error *err)
{
	char line[JOURNAL_MAX_LINE];
	const char *at = text, *end = text + size, *newline;
	int rc = 0;

	*out = (struct journal_contents){0};
	while (!rc && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t n = (size_t)(newline - at);

		if (n >= sizeof(line) || memchr(at, 0, n)) {
			rc = not_ours(err);
			break;
		}
		memcpy(line, at, n);
		line[n] = '\0';
		rc = parse_line(out, line, err);
		at = newline + 1;
	}
	if (rc)
		journal_contents_deinit(out);
	return rc;
}

int libvirt_journal_read(const struct libvirt_journal *journal, struct journal_contents *out,
			 struct error *err)
{
	struct stat st;
	char *text;
	int rc;

	if (fstat(journal->fd, &st) || st.st_size > MAX_JOURNAL)
		return not_ours(err);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	if (pread(journal->fd, text, (size_t)st.st_size, 0) != st.st_size)
		rc = error_set(err, EIO, "cannot read %s", journal->path);
	else
		rc = journal_parse(text, (size_t)st.st_size, out, err);
	free(text);
	return rc;
}

void journal_contents_deinit(struct journal_contents *c)
{
	for (size_t i = 0; i < c->nr_places; i++) {
		free(c->places[i].original);
		free(c->places[i].ours);
	}
	free(c->places);
	*c = (struct journal_contents){0};
}
