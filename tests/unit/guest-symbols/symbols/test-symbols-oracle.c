/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/file/elf-view.h"
#include "guest-symbols/image/kernel-image.h"
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/tap.h"

/*
 * Real kernels, from $KERNELS_DIR (default build/kernels, see tests/testbed/fetch-kernel): all that
 * is needed is found in each, and for the one whose debug package is there, all function symbols
 * of the vmlinux's symbol table are in kallsyms, and no others.
 */
static const char *kernels_dir(void)
{
	const char *dir = getenv("KERNELS_DIR");

	return dir ? dir : "build/kernels";
}

static int open_kernel(const char *name, const char *base, struct kernel_file **out,
		       struct error *err)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s/%s", kernels_dir(), name, base);
	return kernel_file_open(path, out, err);
}

static bool is_function(const struct symbol *symbol)
{
	return strchr("tTwW", symbol->type) != NULL;
}

/* By address, then name. */
static int compare(const void *a, const void *b)
{
	const struct symbol *x = *(const struct symbol *const *)a;
	const struct symbol *y = *(const struct symbol *const *)b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return strcmp(x->name, y->name);
}

static const struct symbol **functions(const struct symbol_table *table, size_t *n)
{
	const struct symbol **v = calloc(symbols_count(table), sizeof(*v));

	*n = 0;
	for (size_t i = 0; v && i < symbols_count(table); i++)
		if (is_function(symbols_at(table, i)))
			v[(*n)++] = symbols_at(table, i);
	if (v)
		qsort(v, *n, sizeof(*v), compare);
	return v;
}

static void compare_tables(const struct symbol_table *kallsyms, const struct symbol_table *symtab)
{
	size_t n, m, different = 0;
	const struct symbol **a = functions(kallsyms, &n), **b = functions(symtab, &m);

	ok(n > 40000, "kallsyms has %zu functions", n);
	is_u64(n, m, "kallsyms has as many functions as the symbol table");
	for (size_t i = 0; i < n && i < m; i++) {
		if (!compare(&a[i], &b[i]))
			continue;
		if (different++ < 5)
			tap_diag("%llx %s, symbol table %llx %s", (unsigned long long)a[i]->address,
				 a[i]->name, (unsigned long long)b[i]->address, b[i]->name);
	}
	is_u64(different, 0, "every name and address is equal");
	free(a);
	free(b);
}

static void test_against_debug_symbols(void)
{
	struct symbol_table *kallsyms = NULL, *symtab = NULL;
	struct kernel_file *stripped = NULL, *debug = NULL;
	struct error err = {0};

	if (open_kernel("6.1", "vmlinuz", &stripped, &err) ||
	    open_kernel("6.1-dbg", "vmlinux", &debug, &err)) {
		tap_skip("kallsyms against the debug package's symbol table", err.text);
	} else if (ok(!symbols_from_kallsyms(stripped->vmlinux, stripped->vmlinux_size, &kallsyms,
					     &err) &&
			      !symbols_from_elf(debug->vmlinux, debug->vmlinux_size, &symtab, &err),
		      "kallsyms and the symbol table are both read (%s)", err.text)) {
		compare_tables(kallsyms, symtab);
	}
	symbols_destroy(kallsyms);
	symbols_destroy(symtab);
	kernel_file_close(stripped);
	kernel_file_close(debug);
}

static void test_alloc_points(const char *name, const struct kernel_image *image)
{
	const struct alloc_points *points;
	size_t siteless = 0;

	if (alloc_points_of(image, &points, NULL))
		abort();
	for (size_t i = 0; i < points->n; i++)
		siteless += points->v[i].site != points->v[i].address &&
			    points->v[i].site != points->v[i].address + 4;
	ok(points->n >= 17, "%s has allocator entry points (%zu)", name, points->n);
	is_u64(siteless, 0, "each has its site at its start");
	for (size_t i = 0; i < points->nr_unresolved; i++)
		tap_diag("%s: %s", points->unresolved[i].name, points->unresolved[i].reason);
	is_u64(points->nr_unresolved, 0, "no allocator is unresolved");
}

/* Each site of a function that may be traced begins a call, which is how it was compiled. */
static size_t sites_without_call(const struct kernel_image *image)
{
	uint64_t fentry = symbols_address(image->symbols, "__fentry__");
	size_t wrong = 0;

	for (size_t i = 0; i < image->nr_mcount_sites; i++) {
		const uint8_t *p = kernel_image_bytes(image, image->mcount_sites[i], 5);
		int32_t to = 0;

		if (p)
			memcpy(&to, p + 1, sizeof(to));
		wrong += !p || p[0] != 0xe8 ||
			 image->mcount_sites[i] + 5 + (uint64_t)(int64_t)to != fentry;
	}
	return wrong;
}

/* A return site holds `jmp __x86_return_thunk`, or the 1-byte ret with padding of the thunk's own.
 */
static size_t sites_without_return(const struct kernel_image *image)
{
	size_t wrong = 0;

	for (size_t i = 0; i < image->nr_return_sites; i++) {
		const uint8_t *p = kernel_image_bytes(image, image->return_sites[i], 5);

		wrong += !p || (p[0] != 0xe9 && p[0] != 0xc3);
	}
	return wrong;
}

/* Relocating by one slide and back gives the same image, and moves a known 64-bit pointer. */
static void test_relocations(const char *name, const struct kernel_file *file,
			     const struct kernel_image *image)
{
	const uint64_t slide = 0x2400000;
	uint64_t table = symbols_address(image->symbols, "sys_call_table");
	uint8_t *copy = malloc(image->init_size);
	uint64_t before = 0, after = 0;
	struct error err = {0};

	memcpy(copy, image->init_bytes, image->init_size);
	memcpy(&before, copy + (table - image->text), sizeof(before));
	ok(!kernel_file_relocate(file, copy, image->init_size, image->text, slide, &err),
	   "%s: the image is relocated (%s)", name, err.text);
	memcpy(&after, copy + (table - image->text), sizeof(after));
	is_u64(after, before + slide, "the pointer at sys_call_table[0] is moved");
	ok(!kernel_file_relocate(file, copy, image->init_size, image->text, -slide, &err),
	   "the image is relocated back");
	ok(!memcmp(copy, image->init_bytes, image->init_size), "then it is what it was");
	free(copy);
}

static void test_kernel(const char *name)
{
	struct kernel_file *file = NULL;
	struct kernel_image *image = NULL;
	struct error err = {0};

	if (open_kernel(name, "vmlinuz", &file, &err)) {
		tap_skip(name, err.text);
		return;
	}
	if (ok(!kernel_image_load(file, NULL, &image, &err), "%s: the image loads (%s)", name,
	       err.text)) {
		ok(!strncmp(image->release, name, strlen(name)), "it is release %s",
		   image->release);
		is_u64(image->build_id_size, 20, "it has a build id");
		ok(image->btf && btf_count(image->btf) > 70000, "it has BTF types");
		ok(image->nr_mcount_sites > 30000 && image->nr_mcount_sites < 60000,
		   "it has %zu mcount sites", image->nr_mcount_sites);
		is_u64(sites_without_call(image), 0, "each mcount site calls __fentry__");
		ok(image->nr_return_sites > 40000 && image->nr_return_sites < 80000,
		   "it has %zu return sites", image->nr_return_sites);
		is_u64(sites_without_return(image), 0, "each return site returns");
		test_alloc_points(name, image);
		test_relocations(name, file, image);
	}
	kernel_image_destroy(image);
	kernel_file_close(file);
}

int main(void)
{
	static const char *const kernels[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2"};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		test_kernel(kernels[i]);
	test_against_debug_symbols();
	return tap_done();
}
