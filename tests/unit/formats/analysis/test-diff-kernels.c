/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde diff, on traces of two kernels. */
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { MS = 1000000 };

/* The same call site in a function of another size, of another kernel. */
static void test_kernels(void)
{
	static const char *const sidecars[] = {
		"{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"banner\":\"Linux version "
		"6.1.0 (x)\",\"symbols\":[{\"name\":\"f\",\"start\":\"0x1000\",\"size\":256},"
		"{\"name\":\"g.isra.0\",\"start\":\"0x2000\",\"size\":256}]}",
		"{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"banner\":\"Linux version "
		"6.12.9 (x)\",\"symbols\":[{\"name\":\"f\",\"start\":\"0x1000\",\"size\":512},"
		"{\"name\":\"g_noprof\",\"start\":\"0x2000\",\"size\":256}]}"};
	struct scratch dirs[2];
	struct verb_result result;

	for (unsigned int i = 0; i < 2; i++) {
		const struct kmem_record records[] = {
			make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1010, 60, 64, 1000),
			make_alloc(KMEM_TYPE_KMALLOC, 0x200, 0x1010, 60, 64 + i * 100000, MS),
			make_alloc(KMEM_TYPE_KMALLOC, 0x300, 0x2010, 60, 64 + i * 200000, MS)};

		dirs[i] = scratch_make();
		stream_put(dirs[i].path, 0, records, 3);
		file_put(dirs[i].path, "sonde.json", sidecars[i], strlen(sidecars[i]));
	}
	result =
		verb_run(cmd_diff, (const char *const[]){"diff", dirs[0].path, dirs[1].path, NULL});
	ok(strstr(result.out, "\nKernels       6.1.0 and 6.12.9 have other offsets;\n"),
	   "another kernel is noted, and by what to compare");
	ok(strstr(result.out, "  f+0x10  "), "without the size that differs");
	verb_result_deinit(&result);
	result = verb_run(cmd_diff, (const char *const[]){"diff", "--by", "function", dirs[0].path,
							  dirs[1].path, NULL});
	ok(!strstr(result.out, "\nKernels "), "by function they compare well");
	ok(strstr(result.out, "  g  ") && strstr(result.out, " of 2 are significant"),
	   "also a function that the other build names otherwise");
	verb_result_deinit(&result);
	for (unsigned int i = 0; i < 2; i++)
		scratch_remove(&dirs[i]);
}

int main(void)
{
	test_kernels();
	return tap_done();
}
