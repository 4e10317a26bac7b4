/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The return slots of functions of real Debian kernels, found without decoding, against those that
 * a whole decoding finds (function_find_exits()). Needs tests/testbed/fetch-kernel to have run;
 * $KERNELS_DIR names another directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/function-exits.h"
#include "guest-symbols/functions/function-set.h"
#include "patcher/text/function.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { STEP = 40 /* of so many functions one is decoded */ };

struct sums {
	size_t functions, decoded, slots, missing, more;
	size_t own, not_own; /* functions that return by slots of their own, or so it is said */
};

static bool in_ranges(const struct exit_range *ranges, size_t n, size_t i)
{
	for (size_t r = 0; r < n; r++)
		if (i >= ranges[r].begin && i < ranges[r].end)
			return true;
	return false;
}

static size_t slot_index(const struct kernel_image *image, uint64_t address)
{
	size_t i = 0;

	while (i < image->nr_return_sites && image->return_sites[i] < address)
		i++;
	return i < image->nr_return_sites && image->return_sites[i] == address ? i : SIZE_MAX;
}

static bool has_site(const struct kernel_image *image, uint64_t function)
{
	for (size_t i = 0; i < image->nr_mcount_sites; i++)
		if (image->mcount_sites[i] - function <= 4)
			return true;
	return false;
}

/* Whether a slot is in a function with a site, or in a cold part of one. */
static bool is_expected(const struct kernel_image *image, uint64_t slot)
{
	const struct symbol *owner = symbols_covering(image->symbols, slot);
	char name[512];

	if (!owner)
		return false;
	snprintf(name, sizeof(name), "%s", owner->name);
	name[strcspn(name, ".")] = '\0';
	return has_site(image, strstr(owner->name, ".cold") ? symbols_address(image->symbols, name)
							    : owner->address);
}

static void compare(const struct kernel *kernel, const struct function *decoded,
		    const struct exit_range *ranges, size_t n, struct sums *sums)
{
	size_t found = 0, all = 0;

	for (unsigned int i = 0; i < decoded->nr_exits; i++) {
		uint64_t address = kernel_link(kernel, decoded->exits[i].gva);
		size_t index = slot_index(kernel->image, address);

		if (index == SIZE_MAX || !is_expected(kernel->image, address))
			continue;
		found += in_ranges(ranges, n, index);
		if (!in_ranges(ranges, n, index) && !sums->missing++)
			tap_diag("first missing slot: %s at %llx, in %s",
				 symbols_covering(kernel->image->symbols, address)->name,
				 (unsigned long long)address,
				 symbols_covering(kernel->image->symbols,
						  kernel_link(kernel, decoded->parts[0].gva))
					 ->name);
	}
	for (size_t r = 0; r < n; r++)
		all += ranges[r].end - ranges[r].begin;
	sums->slots += found;
	sums->more += all - found;
}

/* Of a function that is said to return by slots of its own only. */
static void check_own(const struct kernel *kernel, const struct function_exits *exits,
		      uint64_t address, const struct function *decoded, const struct error *err,
		      struct sums *sums)
{
	struct exit_range ranges[FUNCTION_EXITS_MAX];
	const size_t n = function_exits_find(exits, address, false, ranges);
	bool own = !err->code || err->code != ENOTSUP;

	for (unsigned int i = 0; !err->code && i < decoded->nr_exits; i++) {
		const uint64_t slot = kernel_link(kernel, decoded->exits[i].gva);

		own &= in_ranges(ranges, n, slot_index(kernel->image, slot));
	}
	sums->own++;
	if (!own && !sums->not_own++)
		tap_diag("%s may leave otherwise: %s",
			 symbols_covering(kernel->image->symbols, address)->name,
			 err->code ? err->text : "by a slot of another function");
}

/* The mark of Xen in front of its CPUID is no instruction, and decodes as a jump. */
static bool has_data(const char *function)
{
	return !strcmp(function, "xen_cpuid");
}

static void test_functions(const struct kernel *kernel, struct decoder *decoder,
			   const char *version)
{
	const struct kernel_image *image = kernel->image;
	struct exit_range ranges[FUNCTION_EXITS_MAX];
	const struct function_exits *exits = NULL;
	struct traceable_list list = {0};
	struct function decoded;
	struct sums sums = {0};
	size_t without = 0;
	struct error err;

	ok(!function_exits_of(image, &exits, NULL), "%s: the exits of functions are found",
	   version);
	if (!exits || traceable_list_add_image(&list, image, 0, NULL))
		abort();
	for (size_t i = 0; i < list.n; i++) {
		const struct symbol *symbol = symbols_covering(image->symbols, list.v[i].address);
		size_t n = function_exits_find(exits, list.v[i].address, true, ranges);

		sums.functions++;
		without += !n;
		if (i % STEP || has_data(list.v[i].name))
			continue;
		err = (struct error){0};
		function_find_exits(kernel, decoder, list.v[i].address, symbol->size, false,
				    &decoded, &err);
		if (function_returns_of(exits, list.v[i].address) == FUNCTION_RETURNS_ALL)
			check_own(kernel, exits, list.v[i].address, &decoded, &err, &sums);
		if (err.code)
			continue;
		sums.decoded++;
		compare(kernel, &decoded, ranges, n, &sums);
	}
	tap_diag("%s: %zu functions, %zu without a slot; of %zu that were decoded %zu slots",
		 version, sums.functions, without, sums.decoded, sums.slots);
	ok(sums.decoded > 500 && sums.slots > sums.decoded, "%s: functions are decoded", version);
	ok(!sums.missing, "%s: no slot is missing", version);
	ok(sums.own > 300 && !sums.not_own,
	   "%s: %zu functions return by slots of their own only, as is said of them", version,
	   sums.own);
	ok(sums.more * 50 <= sums.slots, "%s: at most one slot in 50 is too many (%zu)", version,
	   sums.more);
	traceable_list_deinit(&list);
}

/* Whether one function may be entered by a jump out of another one. */
static bool may_jump(const struct kernel_image *image, const struct function_exits *exits,
		     const char *from, const char *to)
{
	struct function_tails *tails;
	bool may;

	if (function_tails_create(exits, &tails, NULL))
		abort();
	function_tails_add(tails, symbols_address(image->symbols, from));
	may = function_tails_has(tails, symbols_address(image->symbols, to));
	function_tails_destroy(tails);
	return may;
}

/* All system calls have the same frame and return to the same place. */
static void test_tails(const struct kernel_image *image, const char *version)
{
	const struct function_exits *exits;

	if (function_exits_of(image, &exits, NULL))
		abort();
	ok(may_jump(image, exits, "__x64_sys_mmap", "ksys_mmap_pgoff"),
	   "%s: mmap() goes on in ksys_mmap_pgoff()", version);
	ok(!may_jump(image, exits, "ksys_mmap_pgoff", "ksys_read"),
	   "%s: which is not left by a jump to ksys_read()", version);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	struct fetched_guest guest;

	fetched_guest_init(&guest, image);
	test_functions(&guest.kernel, guest.decoder, version);
	test_tails(image, version);
	fetched_guest_deinit(&guest);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "7.0", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
