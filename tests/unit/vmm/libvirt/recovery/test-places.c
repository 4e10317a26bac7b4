/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The places that a journal names: which are put back, when, and which are left alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "introspect/guest/guest.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/recovery/places.h"

enum { RAM = 0x10000, TEXT = 0x1000, OTHER = 0x2000, ENTRY = 0x3000, BYTE = 0x4000, BEYOND = RAM };

static uint8_t ram[RAM];
static const struct guest_region region = {.size = RAM};
static unsigned int writes;

static int regions(struct guest *guest, const struct guest_region **out, size_t *n,
		   struct error *err)
{
	(void)guest;
	(void)err;
	*out = &region;
	*n = 1;
	return 0;
}

static int read_ram(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err)
{
	(void)guest;
	(void)err;
	memcpy(to, ram + gpa, size);
	return 0;
}

static int write_ram(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		     struct error *err)
{
	(void)guest;
	(void)err;
	writes++;
	memcpy(ram + gpa, from, size);
	return 0;
}

static const struct guest_memory_ops memory = {
	.regions = regions, .read = read_ram, .write = write_ram};
static struct guest guest = {.memory = &memory, .caps = GUEST_CAP_WRITE};

static struct libvirt_journal journal;
static struct journal_contents contents;

static void note(uint64_t gpa, const char *before, const char *after, size_t size)
{
	if (libvirt_journal_write(&journal, gpa, (const uint8_t *)before, (const uint8_t *)after,
				  size, NULL))
		abort();
	if (gpa < RAM)
		memcpy(ram + gpa, after, size);
}

/* Text at two places, an entry of a page table, a breakpoint; all of them written by the tracer. */
static void begin(bool reset)
{
	memset(ram, 0, sizeof(ram));
	writes = 0;
	journal = (struct libvirt_journal){
		.folder = -1, .fd = memfd_create("journal", MFD_CLOEXEC), .compact_at = 1 << 20};
	note(TEXT, "guest", "first", 5);
	note(TEXT, "first", "again", 5);
	note(OTHER, "12345678", "abcdefgh", 8);
	note(ENTRY, "\0\0\0\0\0\0\0\0", "pmdentry", 8);
	note(BYTE, "g", "\xcc", 1);
	if (reset)
		libvirt_journal_reset(&journal, NULL);
	if (libvirt_journal_read(&journal, &contents, NULL))
		abort();
}

static void end(void)
{
	journal_contents_deinit(&contents);
	libvirt_journal_close(&journal);
}

static bool holds(uint64_t gpa, const char *text, size_t size)
{
	return !memcmp(ram + gpa, text, size);
}

static size_t pending(void)
{
	struct error err;
	size_t n;

	if (libvirt_journal_pending(&journal, &guest, &n, &err))
		return SIZE_MAX;
	return n;
}

static bool mapped(void)
{
	bool is;

	if (libvirt_places_mapped(&contents, &guest, &is, NULL))
		abort();
	return is;
}

static struct patch_outcome restore(bool mappings)
{
	struct patch_outcome outcome = {0};

	if (libvirt_places_restore(&contents, &guest, mappings, &outcome, NULL))
		abort();
	return outcome;
}

static void test_restore(void)
{
	struct patch_outcome outcome;

	begin(false);
	is_u64(pending(), 4, "all places with a tracer's bytes are pending");
	ok(mapped(), "an entry of a page table maps scratch memory");
	outcome = restore(false);
	ok(outcome.restored == 3 && !outcome.foreign && writes == 3, "text is put back first");
	ok(holds(TEXT, "guest", 5) && holds(OTHER, "12345678", 8) && holds(BYTE, "g", 1),
	   "with the bytes from before the first write");
	ok(holds(ENTRY, "pmdentry", 8) && mapped(), "the mapping stays, as code may be in it");
	is_u64(pending(), 1, "it is pending");
	outcome = restore(true);
	ok(outcome.restored == 1 && holds(ENTRY, "\0\0\0\0\0\0\0\0", 8) && !mapped() && !pending(),
	   "then the mapping goes");
	outcome = restore(false);
	ok(outcome.unchanged == 3 && !outcome.restored && writes == 4,
	   "what is put back is not written again");
	end();
}

static void test_earlier_write(void)
{
	begin(false);
	memcpy(ram + TEXT, "first", 5);
	ok(pending() == 4 && restore(false).restored == 3 && holds(TEXT, "guest", 5),
	   "bytes of an earlier write of the tracer's are the tracer's");
	end();
}

static void test_foreign(void)
{
	struct patch_outcome outcome;

	begin(false);
	memcpy(ram + OTHER, "new code", 8);
	memcpy(ram + ENTRY, "otherpmd", 8);
	ok(!mapped(), "an entry that the guest has changed maps no scratch memory");
	is_u64(pending(), 2, "what the guest has changed is not pending");
	outcome = restore(false);
	ok(outcome.restored == 2 && outcome.foreign == 1 && outcome.first_foreign == OTHER,
	   "what the guest has changed is left alone, and counted");
	outcome = restore(true);
	ok(outcome.foreign == 1 && holds(ENTRY, "otherpmd", 8) && holds(OTHER, "new code", 8),
	   "also an entry of its page tables");
	end();
}

/* After a reset the memory is another guest's. */
static void test_reset(void)
{
	begin(true);
	is_u64(restore(false).restored, 2, "after a reset only places of several bytes are sure");
	ok(holds(BYTE, "\xcc", 1) && holds(TEXT, "guest", 5),
	   "a single byte may be the next guest's own");
	is_u64(restore(true).restored, 1, "a mapping is taken away after a reset, too");
	end();
}

static void test_unreadable(void)
{
	struct patch_outcome outcome = {0};
	struct error err;
	size_t n;
	bool is;

	begin(false);
	journal_contents_deinit(&contents);
	note(BEYOND, "\0\0\0\0\0\0\0\0", "pmdentry", 8);
	if (libvirt_journal_read(&journal, &contents, NULL))
		abort();
	ok(libvirt_places_mapped(&contents, &guest, &is, &err) == -EFAULT,
	   "a place that cannot be read is an error: %s", err.text);
	ok(libvirt_journal_pending(&journal, &guest, &n, &err) == -EFAULT, "likewise");
	ok(libvirt_places_restore(&contents, &guest, true, &outcome, &err) == -EFAULT &&
		   holds(ENTRY, "pmdentry", 8),
	   "nothing behind it is put back");
	end();
}

static void test_running(void)
{
	begin(false);
	ok(!libvirt_journal_check_running(&journal, NULL), "a guest that runs is as it was");
	libvirt_journal_stop(&journal, true, NULL);
	ok(libvirt_journal_check_running(&journal, NULL) == -EBUSY,
	   "one that the tracer has stopped is not");
	libvirt_journal_stop(&journal, false, NULL);
	ok(!libvirt_journal_check_running(&journal, NULL), "until it is resumed");
	end();
}

int main(void)
{
	test_restore();
	test_earlier_write();
	test_foreign();
	test_reset();
	test_unreadable();
	test_running();
	return tap_done();
}
