/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `sonde probes` says of a real kernel's functions ($KERNELS_DIR). */
#include <stdlib.h>
#include <string.h>

#include "formats/base/json.h"
#include "guest-symbols/cmd.h"
#include "tests/lib/count.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static struct verb_result probes_of(const char *version, const char *pattern, const char *option)
{
	char path[FETCHED_KERNEL_PATH];
	const char *const argv[] = {"probes", "-k",   fetched_kernel_path(path, version),
				    pattern,  option, NULL};

	return verb_run(cmd_probes, argv);
}

/* Of which of them BTF has the types is not known. */
static void test_namesakes(const char *version)
{
	struct verb_result result = probes_of(version, "type_show", NULL);
	const size_t lines = count_in(result.out, "\n");

	ok(!result.status && lines > 1 &&
		   count_in(result.out, "type_show  # one of several: name it _text+0x") == lines,
	   "%s: %zu functions of one name have no types, and each has its place", version, lines);
	verb_result_deinit(&result);
	result = probes_of(version, "type_show", "--json");
	ok(!result.status && count_in(result.out, "\"address\"") == lines &&
		   !strstr(result.out, "\"parameters\""),
	   "%s: so it is in JSON", version);
	verb_result_deinit(&result);
}

static void test_prototypes(const char *version)
{
	struct verb_result result = probes_of(version, "vfs_read", NULL);

	ok(!result.status && strstr(result.out, "ssize_t vfs_read(struct file *file, char *buf, "
						"size_t count, loff_t *pos)\n"),
	   "%s: a function has its types: %s", version, result.out);
	verb_result_deinit(&result);
	result = probes_of(version, "*printk*", NULL);
	ok(!result.status && strstr(result.out, ", ...)") && !strstr(result.out, "void )"),
	   "%s: what may follow the parameters is not one of them", version);
	verb_result_deinit(&result);
	result = probes_of(version, "*printk*", "--json");
	ok(!result.status && strstr(result.out, "\"variadic\": true") &&
		   !strstr(result.out, "\"name\": \"\""),
	   "%s: so it is in JSON", version);
	verb_result_deinit(&result);
}

int main(void)
{
	struct kernel_image *image = fetched_kernel_image("6.1");

	if (!image)
		return tap_skip_all("no kernel 6.1: run tests/testbed/fetch-kernel 6.1");
	kernel_image_destroy(image);
	test_namesakes("6.1");
	test_prototypes("6.1");
	return tap_done();
}
