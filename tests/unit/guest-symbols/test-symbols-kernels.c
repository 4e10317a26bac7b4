/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `sonde symbols` says of a real kernel's coverage ($KERNELS_DIR). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/base/fs.h"
#include "formats/base/json.h"
#include "guest-symbols/cmd.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static char types[] = "/tmp/test-symbols-kernels.XXXXXX";

/* The kernel's types in a file of their own. */
static void write_types(const struct kernel_image *image)
{
	const uint64_t start = symbols_address(image->symbols, "__start_BTF");
	const size_t size = symbols_address(image->symbols, "__stop_BTF") - start;
	const int fd = mkstemp(types);

	if (fd < 0 || file_write(fd, kernel_image_bytes(image, start, size), size))
		abort();
	close(fd);
}

static struct verb_result symbols_of(const char *version, const char *option, const char *btf)
{
	char path[FETCHED_KERNEL_PATH];
	const char *const argv[] = {"symbols", "-k", fetched_kernel_path(path, version),
				    option,    btf,  NULL};

	return verb_run(cmd_symbols, argv);
}

static void test_text(const char *version)
{
	struct verb_result result = symbols_of(version, NULL, NULL);
	const char *at = result.out ? strstr(result.out, "\nCoverage      ") : NULL;
	unsigned int covered = 0, of = 1;

	ok(!result.status && at && sscanf(at, "\nCoverage %u of %u functions", &covered, &of) == 2,
	   "%s: the text says how many functions are covered", version);
	ok(covered > 10 && covered == of && !strstr(result.out, "\nnot covered"), "%s: all %u are",
	   version, covered);
	ok(at && strstr(at, "\nnested       free_pcp_prepare (kmem:mm_page_free)\n"),
	   "%s: what is nested in a probe is named, with its event", version);
	ok(strstr(result.out, "\nReturn sites  ") && !strstr(result.out, "room for a patch"),
	   "%s: nothing is said of returns in a kernel with return thunks", version);
	verb_result_deinit(&result);
}

static void test_json(const char *version)
{
	struct verb_result result = symbols_of(version, "--json", NULL);
	json_t *root = json_loads(result.out ? result.out : "", 0, NULL);
	const json_t *emitters = json_object_get(root, "coverage"), *emitter;
	size_t i, nested = 0, probes = 0;

	json_array_foreach(emitters, i, emitter)
	{
		const char *cover = json_string_value(json_object_get(emitter, "cover"));

		nested += cover && !strcmp(cover, "nested");
		probes += cover && !strcmp(cover, "traced");
	}
	ok(!result.status && nested && probes > 10 && nested + probes == i,
	   "%s: so does JSON: %zu are probes, %zu nested", version, probes, nested);
	json_decref(root);
	verb_result_deinit(&result);
}

static void test_btf_source(const char *version, const char *btf, const char *expected)
{
	struct verb_result result = symbols_of(version, "--json", btf);
	json_t *root = json_loads(result.out ? result.out : "", 0, NULL);

	is_str(json_string_value(json_object_get(root, "btf_source")), expected,
	       "the source of the types is there");
	json_decref(root);
	verb_result_deinit(&result);
}

int main(void)
{
	char btf[64];

	struct kernel_image *image = fetched_kernel_image("6.1");

	if (!image)
		return tap_skip_all("no kernel 6.1: run tests/testbed/fetch-kernel 6.1");
	write_types(image);
	kernel_image_destroy(image);
	test_text("6.1");
	test_json("6.1");
	test_btf_source("6.1", NULL, "kernel");
	snprintf(btf, sizeof(btf), "--btf=%s", types);
	test_btf_source("6.1", btf, "given");
	unlink(types);
	return tap_done();
}
