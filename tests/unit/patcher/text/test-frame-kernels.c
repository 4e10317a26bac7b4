/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frames by the instructions of real Debian kernels' functions, against their ORC tables. Needs
 * tests/testbed/fetch-kernel to have run.
 */
#include <stdlib.h>
#include "patcher/text/function.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { FUNCTIONS = 4000, LEAST_PERCENT = 95 };

static struct decoder *decoder;

/* A random function that calls another, with the address behind that. */
static const struct symbol *random_function(const struct kernel_image *image, uint64_t *behind)
{
	const struct symbol *s;

	do {
		s = symbols_covering(image->symbols,
				     image->mcount_sites[(size_t)random() % image->nr_mcount_sites]);
		*behind = s && s->address < image->etext ? fetched_kernel_behind_call(image, s) : 0;
	} while (!*behind);
	return s;
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	unsigned int compared = 0, same = 0, larger = 0;
	struct fetched_guest guest;

	fetched_guest_init(&guest, image);
	for (int i = 0; i < FUNCTIONS; i++) {
		uint64_t behind, orc, frame;
		const struct symbol *s = random_function(image, &behind);

		if (orc_frame(&guest.kernel, kernel_gva(&guest.kernel, behind), &orc, NULL))
			continue;
		frame = function_frame(image, decoder, s->address, s->size);
		compared++;
		same += frame == orc;
		larger += frame > orc;
	}
	tap_diag("%s: %u of %u frames are ORC's, %u are larger", version, same, compared, larger);
	ok(compared > FUNCTIONS / 2 && same * 100 >= compared * LEAST_PERCENT,
	   "%s: frames of functions are what ORC knows", version);
	fetched_guest_deinit(&guest);
}

static void test_unknown(const struct kernel_image *image)
{
	ok(!function_frame(image, decoder, image->end, 64), "nothing is known outside of the image");
}

static void test(const struct kernel_image *image, const char *version)
{
	test_kernel(image, version);
	test_unknown(image);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "7.2", NULL};
	int ret;

	if (decoder_create(&decoder, NULL))
		abort();
	ret = fetched_kernels_test(versions, test);
	decoder_destroy(decoder);
	return ret;
}
