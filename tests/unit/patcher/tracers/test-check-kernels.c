/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the image of a real Debian kernel shows to be wrong with trace specs. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory. */
#include <errno.h>
#include <string.h>
#include "patcher/tracers/tracer.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static const char *const unknown_functions = "f=function:vfs_raed";

/* `text`: of the error; NULL: there is none. */
static void check(const struct kernel_image *image, const char *spec, bool boots,
		  unsigned int column, const char *text)
{
	struct error err = {0};
	int ret = tracer_check_image(spec, image, boots, &err);

	if (!text) {
		ok(!ret, "%s is taken %s", spec, boots ? "of a guest that boots" : "of another");
		return;
	}
	if (!ok(ret == -err.code && ret && strstr(err.text, text) && err.parsed == spec &&
			err.column == column,
		"%s is refused %s, with its place", spec,
		boots ? "of a guest that boots" : "of another"))
		tap_diag("%u: %s", err.column, err.text);
}

int main(void)
{
	struct kernel_image *image = fetched_kernel_image("6.1");

	if (!image) {
		tap_skip("6.1", "not fetched");
		return tap_done();
	}
	for (int boots = 0; boots < 2; boots++) {
		check(image, "kmem:pid if gfp_flags & __GFP_ZERO && pid == 1", boots, 0, NULL);
		check(image, "k=kmem if gfp_flags & __GFP_ZER0", boots, 23,
		      "instance 'k': filter, character 13: '__GFP_ZER0' is neither a number nor a "
		      "flag of the field; did you mean '__GFP_ZERO'?");
		check(image, "kmem:filter=\"gfp_flags == 'GFP_ATOMIC|GFP_KERNAL'\",pid", boots, 39,
		      "did you mean 'GFP_KERNEL'?");
	}
	check(image, unknown_functions, true, 12, "did you mean 'vfs_read'?");
	check(image, "profile:vfs_*,stack", true, 15,
	      "no function matches 'stack': it is a word of other tracers");
	check(image, "probe:p:open vfs_opn %di", true, 14,
	      "instance 'open': the kernel has no function 'vfs_opn': did you mean 'vfs_open'?");
	check(image, "probe:r:read vfs_raed $retval,hist:keys=arg1", true, 14,
	      "did you mean 'vfs_read'?");
	check(image, "probe:p vfs_read+1", true, 9, "no instruction begins");
	check(image, "probe:p vfs_read fil->f_flags", true, 0, "did you mean 'file'?");
	check(image, "probe:p vfs_read file->f_flags", true, 0, NULL);
	check(image, "probe:p brd:brd_init", true, 0, NULL);
	check(image, "probe:p 0xffffffff81000000", true, 0, NULL);
	check(image, "probe:p vfs_raed", false, 0, NULL);
	check(image, unknown_functions, false, 0, NULL);
	kernel_image_destroy(image);
	return tap_done();
}
