/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of Debian's kernels, for traces without names (-k). Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory than build/kernels.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/cmd.h"
#include "guest-symbols/cmd.h"
#include "guest-symbols/image/kernel-image.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SLIDE = 0x1600000 };

static void free_symbols(struct sidecar_symbol *symbols, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(symbols[i].name);
	free(symbols);
}

static const struct sidecar_symbol *find(const struct sidecar_symbol *symbols, size_t n,
					 const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(symbols[i].name, name))
			return &symbols[i];
	return NULL;
}

static void test_functions(const struct kernel_image *image, const char *path,
			   const struct trace_info *info)
{
	const struct symbol *kfree = symbols_find(image->symbols, "kfree");
	const struct sidecar_symbol *named;
	struct sidecar_symbol *symbols;
	uint64_t unsorted = 0;
	struct error err;
	size_t n;

	if (!ok(!kernel_functions(path, info, &symbols, &n, &err), "%s: has functions", path))
		return;
	named = find(symbols, n, "kfree");
	ok(named && named->start == kfree->address + SLIDE && named->size == kfree->size,
	   "a function is where it was in the guest");
	named = find(symbols, n, "prepare_creds");
	ok(named && !strcmp(named->returned.name, "struct cred") &&
		   named->returned.bytes == btf_struct_size(image->btf, "cred"),
	   "a function has the structure that it returns a pointer to");
	ok(!find(symbols, n, "kfree")->returned.bytes, "kfree() returns none");
	for (size_t i = 1; i < n; i++)
		unsorted += symbols[i].start <= symbols[i - 1].start;
	ok(n > 20000 && !unsorted, "each of %zu functions has one name", n);
	ok(!find(symbols, n, "jiffies"), "data is not named");
	free_symbols(symbols, n);
}

static void test_others(const char *path, const struct trace_info *info)
{
	struct trace_info other = *info;
	struct sidecar_symbol *symbols;
	struct error err;
	size_t n;

	other.build_id[0] ^= 1;
	ok(kernel_functions(path, &other, &symbols, &n, &err) == -EINVAL,
	   "a kernel of another build is refused: %s", err.text);
	other.build_id[0] = '\0';
	ok(!kernel_functions(path, &other, &symbols, &n, &err),
	   "without a build id the banner says which kernel it was");
	free_symbols(symbols, n);
	other.banner[20] ^= 1;
	ok(kernel_functions(path, &other, &symbols, &n, &err) == -EINVAL,
	   "a kernel with another banner is refused: %s", err.text);
}

/* --- verbs ------------------------------------------------------------------------------------ */

/* What a killed recorder leaves: names of no call site. One object has fewer bytes than requested.
 */
static void put_trace(const char *dir, const struct kernel_image *image,
		      const struct trace_info *info)
{
	const struct symbol *kfree = symbols_find(image->symbols, "kfree");
	const struct kmem_record bad =
		make_alloc(KMEM_TYPE_KMALLOC, 0x4000, kfree->address + SLIDE + 5, 9, 8, 1);
	char sidecar[512];
	int size = snprintf(sidecar, sizeof(sidecar),
			    "{\"version\":1,\"complete\":false,\"virt_slide\":%d,"
			    "\"build_id\":\"%s\",\"vcpus\":[{}]}",
			    SLIDE, info->build_id);

	stream_put(dir, 0, &bad, 1);
	file_put(dir, "sonde.json", sidecar, (size_t)size);
}

static struct verb_result verb_with(int (*verb)(int, char **), const char *name, const char *kernel,
				    const char *dir)
{
	const char *argv[] = {name, dir, kernel ? "-k" : NULL, kernel, NULL};

	return verb_run(verb, argv);
}

/* The right kernel names the call site, and another one is refused in one line. */
static void test_verb(int (*verb)(int, char **), const char *name, int status, const char *dir,
		      const char *path, const char *other)
{
	struct verb_result result = verb_with(verb, name, NULL, dir);

	ok(result.status == status && !strstr(result.out, "kfree+0x5/"),
	   "sonde %s shows the call site's address without -k", name);
	verb_result_deinit(&result);
	result = verb_with(verb, name, path, dir);
	ok(result.status == status && strstr(result.out, "kfree+0x5/"),
	   "sonde %s -k names it after the kernel", name);
	verb_result_deinit(&result);
	result = verb_with(verb, name, other, dir);
	ok(result.status == 1 && !*result.out &&
		   strstr(result.err, "not the kernel that was traced: its build id is ") &&
		   strchr(result.err, '\n') == result.err + strlen(result.err) - 1,
	   "sonde %s -k refuses another kernel in one line", name);
	verb_result_deinit(&result);
}

static void test_verbs(const char *path, const struct kernel_image *image,
		       const struct trace_info *info, const char *other)
{
	struct scratch dir = scratch_make();

	trace_reader_set_kernel_source(kernel_functions);
	put_trace(dir.path, image, info);
	test_verb(cmd_check, "check", 1, dir.path, path, other);
	test_verb(cmd_report, "report", 0, dir.path, path, other);
	scratch_remove(&dir);
}

/* `other` is another version. */
static void test_kernel(const char *version, const char *other)
{
	struct trace_info info = {.virt_slide = SLIDE};
	struct kernel_image *image;
	char path[FETCHED_KERNEL_PATH], other_path[FETCHED_KERNEL_PATH];

	fetched_kernel_path(path, version);
	fetched_kernel_path(other_path, other);
	image = fetched_kernel_image(version);
	if (!image) {
		tap_skip(version, "no such kernel; run tests/testbed/fetch-kernel");
		return;
	}
	hex_encode(info.build_id, image->build_id, image->build_id_size);
	snprintf(info.banner, sizeof(info.banner), "%s", image->banner);
	test_functions(image, path, &info);
	test_others(path, &info);
	test_verbs(path, image, &info, other_path);
	kernel_image_destroy(image);
}

int main(void)
{
	struct sidecar_symbol *symbols;
	struct trace_info info = {0};
	struct error err;
	size_t n;

	test_kernel("5.10", "6.12");
	test_kernel("6.12", "5.10");
	ok(kernel_functions("/nonexistent", &info, &symbols, &n, &err) < 0,
	   "a file that is not there is an error: %s", err.text);
	return tap_done();
}
