/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that conditions name, on real Debian kernels: where they lie when the kernel has moved.
 * Needs tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/condition-names.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static const uint64_t slide = UINT64_C(0x12600000);

struct found {
	struct event_range *v;
	size_t n;
};

static int find(struct condition_names *names, const char *name, bool is_glob, struct found *out,
		struct error *err)
{
	*out = (struct found){0};
	return names->names.ranges(names->names.arg, name, is_glob, &out->v, &out->n, err);
}

static bool has(const struct found *f, uint64_t link)
{
	bool found = false;

	for (size_t i = 0; i < f->n; i++)
		found |= link + slide >= f->v[i].begin && link + slide < f->v[i].end;
	return found;
}

static bool is_ordered(const struct found *f)
{
	bool good = f->n;

	for (size_t i = 0; i < f->n; i++)
		good &= f->v[i].begin < f->v[i].end && (!i || f->v[i - 1].end < f->v[i].begin);
	return good;
}

static void test_one(struct condition_names *names, const char *version)
{
	const struct symbol *symbol = symbols_find(names->image->symbols, "ksys_read");
	struct found f;

	if (!symbol || !symbol->size)
		abort();
	ok(!find(names, "ksys_read", false, &f, NULL) && f.n == 1 &&
		   f.v[0].begin == symbol->address + slide && f.v[0].end >= f.v[0].begin + 32 &&
		   f.v[0].end <= f.v[0].begin + symbol->size,
	   "%s: a function lies where the kernel has been moved to", version);
	free(f.v);
	ok(!find(names, "ksys_read+0x1f/0xd0", false, &f, NULL) && f.n == 1 &&
		   f.v[0].begin == symbol->address + slide + 0x1f && f.v[0].end == f.v[0].begin + 1,
	   "%s: so does a place in it", version);
	free(f.v);
}

/* A function whose name others have, too, or that has a part elsewhere. */
static bool test_symbol(struct condition_names *names, const char *name, size_t *ranges)
{
	const struct symbol_table *symbols = names->image->symbols;
	const size_t length = strlen(name);
	const struct symbol *symbol;
	struct found f;
	bool good = !find(names, name, false, &f, NULL) && is_ordered(&f);

	for (size_t i = 0; good && (symbol = symbols_at(symbols, i)); i++) {
		if (!symbol_is_function(symbol) || strncmp(symbol->name, name, length) != 0)
			continue;
		if (!symbol->name[length] || !strcmp(symbol->name + length, ".cold"))
			good = has(&f, symbol->address) &&
			       has(&f, symbol->address + (symbol->size ? symbol->size - 1 : 0));
	}
	*ranges = f.n;
	free(f.v);
	return good;
}

/* The first function with such a part, and the first name that two functions have. */
static void test_several(struct condition_names *names, const char *version)
{
	const struct symbol_table *symbols = names->image->symbols;
	char whole[256] = "", twice[256] = "";
	const struct symbol *symbol;
	size_t ranges = 0;
	bool good;

	for (size_t i = 0; (symbol = symbols_at(symbols, i)); i++) {
		const struct symbol *first = symbols_find(symbols, symbol->name);
		const char *cold = strstr(symbol->name, ".cold");

		if (!symbol_is_function(symbol))
			continue;
		if (!*whole && cold && !cold[5])
			snprintf(whole, sizeof(whole), "%.*s", (int)(cold - symbol->name),
				 symbol->name);
		if (!*twice && !cold && first->address + (1 << 16) < symbol->address)
			snprintf(twice, sizeof(twice), "%s", symbol->name);
	}
	good = *whole && test_symbol(names, whole, &ranges) && ranges > 1;
	ok(good, "%s: %s and its part elsewhere, in %zu ranges", version, whole, ranges);
	good = *twice && test_symbol(names, twice, &ranges) && ranges > 1;
	ok(good, "%s: all functions that are %s, in %zu ranges", version, twice, ranges);
}

static bool has_aliases(const struct symbol_table *symbols, size_t i)
{
	const struct symbol *symbol = symbols_at(symbols, i), *next = symbols_at(symbols, i + 1);

	return (i && symbols_at(symbols, i - 1)->address == symbol->address) ||
	       (next && next->address == symbol->address);
}

static void test_glob(struct condition_names *names, const char *version)
{
	const struct symbol_table *symbols = names->image->symbols;
	const struct symbol *symbol;
	struct found f;
	bool good = !find(names, "tcp_*", true, &f, NULL) && is_ordered(&f);
	size_t n = 0;

	for (size_t i = 0; good && (symbol = symbols_at(symbols, i)); i++) {
		const bool matches = !strncmp(symbol->name, "tcp_", 4);

		if (!symbol_is_function(symbol) || !symbol->size || has_aliases(symbols, i))
			continue;
		n += matches;
		good = has(&f, symbol->address) == matches;
	}
	ok(good && n > f.n, "%s: %zu functions of a glob lie in %zu ranges", version, n, f.n);
	free(f.v);
}

static void test_refused(struct condition_names *names, const char *version)
{
	struct error err = {0};
	struct found f;

	ok(find(names, "ksys_raed", false, &f, &err) == -EINVAL &&
		   strstr(err.text, "did you mean 'ksys_read'?"),
	   "%s: %s", version, err.text);
	ok(find(names, "no_function_has_such_a_name", false, &f, &err) == -EINVAL &&
		   strstr(err.text, "those of modules cannot be named here"),
	   "%s: %s", version, err.text);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	struct condition_names names;

	condition_names_init(&names, image, slide);
	test_one(&names, version);
	test_several(&names, version);
	test_glob(&names, version);
	test_refused(&names, version);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "7.0", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
