/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Places that are put back: the journal forgets them, and takes no line for that. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/unit/vmm/libvirt/journal/journal-fixture.h"

enum { SITE = 5, BOUND = 3 << 20, MANY = 1 << 17, FULL = 32 << 20 };

static const char original[] = "\x0f\x1f\x44\x00\x00", ours[] = "\xe8\x01\x02\x03\x04";
static struct libvirt_journal journal;
static struct error why;

static off_t size_of(void)
{
	struct stat st;

	return fstat(journal.fd, &st) ? -1 : st.st_size;
}

static void begin(void)
{
	if (libvirt_journal_create(uuid, &journal, NULL))
		abort();
}

static int note(uint64_t gpa, const char *before, const char *after, size_t size)
{
	return libvirt_journal_write(&journal, gpa, (const uint8_t *)before, (const uint8_t *)after,
				     size, &why);
}

/* It is noted, and then made. */
static int write_place(uint64_t gpa, const char *before, const char *after, size_t size)
{
	int ret = note(gpa, before, after, size);

	if (!ret)
		libvirt_journal_written(&journal, gpa, (const uint8_t *)after, size);
	return ret;
}

static int patch(uint64_t gpa)
{
	return write_place(gpa, original, ours, SITE);
}

static int put_back(uint64_t gpa)
{
	return write_place(gpa, ours, original, SITE);
}

/* Lines that change nothing, until the journal is rewritten. */
static void rewrite(void)
{
	off_t before;

	do {
		before = size_of();
		libvirt_journal_stop(&journal, true, NULL);
		libvirt_journal_stop(&journal, false, NULL);
	} while (size_of() > before);
}

static bool has_place(uint64_t gpa, size_t size, const char *first)
{
	struct journal_contents c;
	bool has = false;

	if (libvirt_journal_read(&journal, &c, NULL))
		abort();
	for (size_t i = 0; i < c.nr_places; i++)
		has |= c.places[i].gpa == gpa && c.places[i].size == size &&
		       !memcmp(c.places[i].original, first, size);
	journal_contents_deinit(&c);
	return has;
}

static bool has_file(const char *name)
{
	struct journal_contents c;
	bool has;

	if (libvirt_journal_read(&journal, &c, NULL))
		abort();
	has = !strcmp(c.file, name);
	journal_contents_deinit(&c);
	return has;
}

static size_t count_places(void)
{
	struct journal_contents c;
	size_t n;

	if (libvirt_journal_read(&journal, &c, NULL))
		abort();
	n = c.nr_places;
	journal_contents_deinit(&c);
	return n;
}

/* As a guest does that loads and unloads modules, whose functions are patched at other places. */
static void test_modules(void)
{
	enum { MODULES = 40, FUNCTIONS = 10000 };
	off_t largest = 0;
	bool written = true;

	begin();
	patch(0x1000);
	for (uint64_t m = 0; m < MODULES; m++) {
		for (uint64_t i = 0; i < FUNCTIONS; i++)
			written &= !patch(0x100000 + (m * FUNCTIONS + i) * 16);
		for (uint64_t i = 0; i < FUNCTIONS; i++)
			written &= !put_back(0x100000 + (m * FUNCTIONS + i) * 16);
		largest = size_of() > largest ? size_of() : largest;
	}
	ok(written && largest < BOUND,
	   "%d modules of %d functions, one after the other, take at most %ld bytes", MODULES,
	   FUNCTIONS, (long)largest);
	ok(has_place(0x1000, SITE, original), "a place that is not put back stays in the journal");
	libvirt_journal_remove(&journal);
}

static void test_which(void)
{
	begin();
	patch(0x1000);
	put_back(0x1000);
	patch(0x2000);
	patch(0x3000);
	note(0x3000, ours, original, SITE);
	patch(0x4000);
	put_back(0x4000);
	patch(0x4000);
	write_place(0x5000, "first", "other", SITE);
	write_place(0x5000, "other", "third", SITE);
	libvirt_journal_file(&journal, "ua-sonde-1", NULL);
	rewrite();
	ok(has_file("ua-sonde-1"), "a device's file is not forgotten");
	ok(!has_place(0x1000, SITE, original), "a place that is put back is forgotten");
	ok(has_place(0x2000, SITE, original), "one that is not put back stays");
	ok(has_place(0x3000, SITE, original), "so does one whose putting back has not succeeded");
	ok(has_place(0x4000, SITE, original), "and one that is patched again");
	ok(has_place(0x5000, SITE, "first"), "and one that was written twice");
	write_place(0x1000, "later", ours, SITE);
	ok(has_place(0x1000, SITE, "later"),
	   "a forgotten place that is written again is put back to what it holds then");
	libvirt_journal_remove(&journal);
}

/* A module is unloaded, and another one takes its place, whose bytes are others. */
static void test_other_text(void)
{
	begin();
	patch(0x1000);
	put_back(0x1000);
	write_place(0x1000, "other", "OURS2", SITE);
	ok(has_place(0x1000, SITE, "other"),
	   "a place that the guest changed when it was put back has the guest's later bytes");
	write_place(0x1000, "OURS2", "other", SITE);
	patch(0x2000);
	write_place(0x2000, "other", ours, SITE);
	ok(has_place(0x2000, SITE, "other"), "so has one that it freed with the patch in it");
	rewrite();
	ok(!has_place(0x1000, SITE, "other"), "when they are put back it is forgotten");
	ok(has_place(0x2000, SITE, "other"), "and otherwise kept");
	libvirt_journal_remove(&journal);
}

/* A byte within a site that is patched: its original is the tracer's. */
static void test_overlaps(void)
{
	begin();
	patch(0x1000);
	write_place(0x1002, "\x02", "\xcc", 1);
	put_back(0x1000);
	patch(0x2000);
	write_place(0x2002, "\x02", "\xcc", 1);
	write_place(0x2002, "\xcc", "\x02", 1);
	put_back(0x2000);
	patch(0x3000);
	patch(0x3000 + SITE);
	put_back(0x3000);
	write_place(0x4000, "abcdefgh", "ABCDEFGH", 8);
	write_place(0x4002, "C", "x", 1);
	write_place(0x4006, "GH", "yz", 2);
	write_place(0x4002, "x", "C", 1);
	write_place(0x4000, "ABCDEFGH", "abcdefgh", 8);
	patch(0x6000);
	patch(0x5000);
	put_back(0x5000);
	rewrite();
	ok(has_place(0x1000, SITE, original) && has_place(0x1002, 1, "\x02"),
	   "of places that overlap none is forgotten while one is not put back");
	ok(!has_place(0x2000, SITE, original) && !has_place(0x2002, 1, "\x02"),
	   "they are when all are put back");
	ok(has_place(0x4000, 8, "abcdefgh") && has_place(0x4002, 1, "C") &&
		   has_place(0x4006, 2, "GH"),
	   "nor is one that overlaps such a place with another one's end between");
	ok(!has_place(0x5000, SITE, original) && has_place(0x6000, SITE, original),
	   "in whatever order they were written");
	ok(!has_place(0x3000, SITE, original) && has_place(0x3000 + SITE, SITE, original),
	   "places next to each other are forgotten on their own");
	libvirt_journal_remove(&journal);
}

/* The whole file system is full: it has room for `bytes` more. */
static void leave_room(off_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)(size_of() + bytes);
	setrlimit(RLIMIT_FSIZE, &limit);
}

static void test_no_room(void)
{
	begin();
	patch(0x1000);
	patch(0x2000);
	put_back(0x2000);
	leave_room(0);
	ok(!put_back(0x1000), "without room for a line what is patched is put back");
	ok(patch(0x2000) == -EIO && patch(0x3000) == -EIO, "nothing is patched: %s", why.text);
	leave_room(-1);
	rewrite();
	is_u64(count_places(), 0, "what was put back, and what was not patched, is forgotten");
	libvirt_journal_remove(&journal);
}

static bool is_stopped(void)
{
	struct journal_contents c;
	bool stopped;

	if (libvirt_journal_read(&journal, &c, NULL))
		abort();
	stopped = c.stopped;
	journal_contents_deinit(&c);
	return stopped;
}

/* The guest has to be stopped before anything is put back. */
static void test_stop_without_room(bool breaks)
{
	const char *what = breaks ? "breakpoints" : "patches";

	begin();
	leave_room(0);
	why = (struct error){0};
	ok(libvirt_journal_stop(&journal, true, &why) == -EIO && strlen(why.text),
	   "without room for a line a guest without %s is not stopped: %s", what, why.text);
	leave_room(5);
	ok(!libvirt_journal_stop(&journal, true, NULL) && is_stopped() &&
		   !libvirt_journal_stop(&journal, false, NULL) && !is_stopped(),
	   "one that was stopped is resumed: the stop's line is taken back");
	leave_room(-1);
	if (breaks ? libvirt_journal_breaks(&journal, NULL) : patch(0x1000))
		abort();
	leave_room(5);
	ok(!libvirt_journal_stop(&journal, true, NULL) && is_stopped(),
	   "with %s it is: there is room for the stop", what);
	ok(!libvirt_journal_stop(&journal, false, NULL) && !is_stopped(),
	   "and, without any room, it is resumed");
	leave_room(0);
	ok(!libvirt_journal_stop(&journal, true, NULL) && !is_stopped(),
	   "without room it is stopped without a line");
	ok(!libvirt_journal_stop(&journal, false, NULL), "and resumed");
	put_back(0x1000);
	ok(!libvirt_journal_stop(&journal, true, NULL) == breaks, "%s",
	   breaks ? "breakpoints may be left to the end"
		  : "when no patch is left it is not stopped");
	leave_room(-1);
	libvirt_journal_remove(&journal);
}

static void test_full(void)
{
	enum { STEP = 16 };
	uint64_t n = 0;

	begin();
	while (!patch(n * STEP))
		n++;
	ok(patch(n * STEP) == -EFBIG && size_of() < FULL + 4096 && n > 700000,
	   "%lu places fill the journal: %s", (unsigned long)n, why.text);
	ok(!libvirt_journal_stop(&journal, true, NULL) && count_places() == n,
	   "a stop is noted, and it can be read");
	for (uint64_t i = 0; i < MANY; i++)
		put_back(i * STEP);
	ok(!patch(n * STEP) && count_places() == n - MANY + 1,
	   "when some are put back, another one has room");
	libvirt_journal_remove(&journal);
}

int main(void)
{
	make_folder();
	become_nobody();
	signal(SIGXFSZ, SIG_IGN);
	test_modules();
	test_which();
	test_other_text();
	test_overlaps();
	test_no_room();
	test_stop_without_room(false);
	test_stop_without_room(true);
	test_full();
	remove_folder();
	return tap_done();
}
