/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ORC tables of Debian's kernels. Needs tests/testbed/fetch-kernel to have run; $KERNELS_DIR
 * names another directory than build/kernels.
 */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/orc/orc-table.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { MAX_OTHERS = 20 /* functions that align their stack first */ };

static const struct kernel_image *image;
static struct orc_table table;

/* A return address in this function whose entry is of this kind; 0: there is none. */
static uint64_t address_of_kind(const char *function, enum orc_kind kind)
{
	const struct symbol *symbol = symbols_find(image->symbols, function);
	struct orc_entry entry;

	for (uint64_t i = 1; symbol && i < symbol->size; i++)
		if (orc_table_find(&table, symbol->address + i - 1, &entry) && entry.kind == kind)
			return symbol->address + i;
	return 0;
}

static bool has_bases(const char *function, enum orc_base sp, enum orc_base bp)
{
	const struct symbol *symbol = symbols_find(image->symbols, function);
	struct orc_entry entry;

	for (uint64_t i = 0; symbol && i < symbol->size; i++)
		if (orc_table_find(&table, symbol->address + i, &entry) && entry.sp_base == sp &&
		    entry.bp_base == bp)
			return true;
	return false;
}

/* At the first instruction of nearly each function nothing but its return address is on the stack.
 */
static void test_entries(const char *version)
{
	size_t good = 0;

	for (size_t i = 0; i < image->nr_mcount_sites; i++) {
		struct orc_entry entry;

		good += orc_table_find(&table, image->mcount_sites[i], &entry) &&
			entry.kind == ORC_KIND_CALL && entry.sp_base == ORC_BASE_SP &&
			entry.sp_offset == 8;
	}
	ok(good > 30000 && image->nr_mcount_sites - good < MAX_OTHERS,
	   "%s: at %zu of %zu mcount sites the frame begins behind the return address", version,
	   good, image->nr_mcount_sites);
}

static void test_known(const char *version)
{
	ok(address_of_kind("entry_SYSCALL_64_after_hwframe", ORC_KIND_REGS),
	   "%s: the system call entry has the registers of user mode", version);
	ok(address_of_kind("ret_from_fork", ORC_KIND_END) ||
		   address_of_kind("ret_from_fork_asm", ORC_KIND_END),
	   "%s: the stacks of kernel threads end where they begin", version);
	ok(address_of_kind("do_sys_openat2", ORC_KIND_CALL),
	   "%s: a function of C has frames of calls", version);
	ok(has_bases("asm_exc_page_fault", ORC_BASE_SP, ORC_BASE_UNDEFINED) &&
		   has_bases("__schedule", ORC_BASE_BP, ORC_BASE_PREV_SP),
	   "%s: RBP and what it is restored from are known", version);
}

/* mov %rsp,%rbp at the beginning of all functions */
static void set_frame_pointers(struct kernel_image *changed)
{
	for (size_t i = 0; i < symbols_count(changed->symbols); i++) {
		const struct symbol *s = symbols_at(changed->symbols, i);
		const uint64_t at = s->address + 9 - changed->text;

		if ((s->type == 't' || s->type == 'T') && s->address >= changed->stext &&
		    s->address < changed->etext)
			memcpy(changed->init_bytes + at, "\x48\x89\xe5", 3);
	}
}

/* The image is copied: others read it, too. */
static void test_frame_pointers(const char *version)
{
	struct kernel_image changed = *image;

	ok(!image_has_frame_pointers(image), "%s: functions keep no frame pointers", version);
	changed.init_bytes = malloc(image->init_size);
	if (!changed.init_bytes)
		abort();
	memcpy(changed.init_bytes, image->init_bytes, image->init_size);
	set_frame_pointers(&changed);
	ok(image_has_frame_pointers(&changed), "%s: if they do, that is seen", version);
	free(changed.init_bytes);
}

static void test_kernel(const struct kernel_image *kernel, const char *version)
{
	image = kernel;
	orc_table_init(image, &table);
	ok(orc_table_is_usable(&table) && table.n > 100000, "%s has %zu ORC entries", version,
	   table.n);
	test_entries(version);
	test_known(version);
	test_frame_pointers(version);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
