/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A livepatch changes a function by the guest's own ftrace and in no other way, and ftrace asks
 * before it changes a site: in Debian's kernels, by their branches. What happens then is in
 * patcher/session/test-asks.c. Needs tests/testbed/fetch-kernel to have run; $KERNELS_DIR names
 * another directory than build/kernels.
 */
#include <string.h>
#include "guest-symbols/image/kernel-image.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { REL32 = 4, ENDBR = 4 };

static bool is_branch(const uint8_t *code, size_t at)
{
	return code[at - 1] == 0xe8 || code[at - 1] == 0xe9 ||
	       (at >= 2 && code[at - 2] == 0x0f && (code[at - 1] & 0xf0) == 0x80);
}

/* Whether any bytes of the function could be a branch to `target`. */
static bool branches_to(const struct kernel_image *image, const struct symbol *from,
			const struct symbol *target)
{
	const uint8_t *code = kernel_image_bytes(image, from->address, from->size);

	for (size_t at = 1; code && at + REL32 <= from->size; at++) {
		int32_t distance;
		uint64_t to;

		memcpy(&distance, code + at, sizeof(distance));
		to = from->address + at + REL32 + (uint64_t)(int64_t)distance;
		if (is_branch(code, at) && (to == target->address || to == target->address + ENDBR))
			return true;
	}
	return false;
}

static bool is_text(const struct symbol *symbol)
{
	return symbol->type == 't' || symbol->type == 'T';
}

static bool has_prefix(const char *name, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (!strncmp(name, *prefixes, strlen(*prefixes)))
			return true;
	return false;
}

/* Functions of `from` that may branch to one of `to`; both are prefixes. The names are kept. */
static size_t count_branches(const struct kernel_image *image, const char *const *from,
			     const char *const *to, char *names, size_t size)
{
	const size_t n = symbols_count(image->symbols);
	size_t found = 0, used = 0;

	names[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		const struct symbol *a = symbols_at(image->symbols, i);

		if (!is_text(a) || !has_prefix(a->name, from))
			continue;
		for (size_t j = 0; j < n; j++) {
			const struct symbol *b = symbols_at(image->symbols, j);

			if (!is_text(b) || !has_prefix(b->name, to) || !branches_to(image, a, b))
				continue;
			found++;
			if (used < size)
				used += (size_t)snprintf(names + used, size - used, "%s -> %s; ",
							 a->name, b->name);
		}
	}
	return found;
}

/*
 * Whether all functions that let ftrace change sites call the function that asks. Names are those
 * that do not. __ftrace_modify_code() is for architectures that stop the machine: nothing calls it.
 */
static bool is_asked(const struct kernel_image *image, char *names, size_t size)
{
	static const char *const changers[] = {"arch_ftrace_update_code", "ftrace_modify_all_code"};
	const struct symbol *asks = symbols_find(image->symbols, "ftrace_arch_code_modify_prepare");
	size_t n = symbols_count(image->symbols), asking = 0, used = 0;

	names[0] = '\0';
	for (size_t i = 0; asks && i < n; i++) {
		const struct symbol *from = symbols_at(image->symbols, i);
		bool changes = false;

		if (!is_text(from) || !strcmp(from->name, changers[0]) ||
		    !strcmp(from->name, "__ftrace_modify_code"))
			continue;
		for (size_t c = 0; c < 2; c++) {
			const struct symbol *to = symbols_find(image->symbols, changers[c]);

			changes |= to && to != from && branches_to(image, from, to);
		}
		if (!changes)
			continue;
		if (branches_to(image, from, asks))
			asking++;
		else if (used < size)
			used += (size_t)snprintf(names + used, size - used, " %s", from->name);
	}
	return asking && !used;
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	static const char *const klp[] = {"klp_", "__klp_", NULL};
	static const char *const uses[] = {"register_ftrace_function", "unregister_ftrace_function",
					   NULL};
	static const char *const writers[] = {"text_poke",
					      "smp_text_poke",
					      "ftrace_make_",
					      "arch_ftrace_update_code",
					      "ftrace_modify_all_code",
					      NULL};
	char names[1024];

	ok(count_branches(image, klp, uses, names, sizeof(names)) >= 2,
	   "%s: livepatch takes a function, and gives it back, by ftrace: %s", version, names);
	ok(!count_branches(image, klp, writers, names, sizeof(names)),
	   "%s: it writes to no text itself%s", version, names);
	ok(is_asked(image, names, sizeof(names)),
	   "%s: whatever lets ftrace change sites asks before%s", version, names);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
