/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest sees of the ring engine: how much memory, what is where, and that it goes. */
#include <errno.h>
#include "tests/lib/fake-exitless.h"
#include "tests/lib/tap.h"

static struct fake_exitless f;

static void begin(void)
{
	fake_exitless_init(&f, TRAMPOLINE_BLOCK);
}

static void end(void)
{
	fake_exitless_deinit(&f);
}

static const struct guest_memory_ops *memory_ops;
static uint64_t table_gpa;
static int entries_left;

static int write_entry(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		       struct error *err)
{
	if (gpa - table_gpa < KERNEL_MAP_PAGE && --entries_left < 0)
		return error_set(err, EIO, "fake entry failure");
	return memory_ops->write(guest, gpa, from, size, err);
}

/* The table cannot be written any more. */
static void test_half_mapped(void)
{
	struct guest_memory_ops failing;

	begin();
	memory_ops = f.fs.fg.guest.memory;
	failing = *memory_ops;
	failing.write = write_entry;
	f.fs.fg.guest.memory = &failing;
	table_gpa = fake_session_pmd(&f.fs);
	entries_left = 1;
	is_u64((uint64_t)-fake_exitless_install(&f, NULL), EIO,
	       "the second entry of a mapping cannot be written, nor the first one cleared");
	is_u64(f.fs.fg.nr_regions, 2, "the memory stays, as the guest maps some of it");
	f.fs.fg.guest.memory = memory_ops;
	end();
}

int main(void)
{
	test_half_mapped();
	return tap_done();
}
