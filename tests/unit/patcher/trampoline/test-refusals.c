/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What no trampoline is made for: captures that make no sense, rings and code where none can be. */
#include <errno.h>
#include <stdlib.h>
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

static int refusal(struct capture capture, uint32_t data_bytes, uint64_t gva, uint64_t next)
{
	struct trampoline_kernel kernel = fake_cpu_kernel();
	struct trampoline_spec spec = {.gva = UINT64_C(0xffffffff80000000),
				       .capture = capture,
				       .rings = {gva, data_bytes, 4, FAKE_PATIENCE},
				       .kernel = &kernel,
				       .next = next};
	struct decoder *decoder;
	struct trampoline t;
	int ret;

	if (decoder_create(&decoder, NULL))
		abort();
	ret = trampoline_generate(&spec, decoder, &t, NULL);
	decoder_destroy(decoder);
	return ret;
}

static void test_refusals(void)
{
	const struct capture entry = fake_capture(POINT_ENTRY, CAPTURE(FIELD_KEY), 0);
	const struct capture bad[] = {
		fake_capture(POINT_ENTRY, CAPTURE(FIELD_RESULT), 0),
		fake_capture(POINT_RETURN, CAPTURE(FIELD_ARG3), 0),
		fake_capture(POINT_RETURN + 1, CAPTURE(FIELD_KEY), 0),
		fake_capture(POINT_ENTRY, CAPTURE(FIELD_COUNT), 0),
		fake_capture(POINT_ENTRY, CAPTURE(FIELD_STACK), 0),
		fake_capture(POINT_ENTRY, CAPTURE(FIELD_STACK), 49),
	};
	const uint64_t top = UINT64_C(0xffffffffa0000000), next = UINT64_C(0xffffffff81000000);

	ok(!refusal(entry, 65536, top, next), "a spec with a kernel's addresses is accepted");
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(refusal(bad[i], 65536, top, next) == -EINVAL, "bad capture %u is refused", i);
	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++) {
		struct capture third = fake_capture(POINT_ENTRY, CAPTURE(FIELD_ARG0 + i), 0);

		third.parameters = 3;
		ok(refusal(third, 65536, top, next) == (i < 3 ? 0 : -EINVAL),
		   "argument %u of a function with three is accepted or refused", i);
	}
	ok(refusal(entry, 65535, top, next) == -EINVAL,
	   "a ring that is no power of two is refused");
	ok(refusal(entry, 2048, top, next) == -EINVAL, "a ring that is too small is refused");
	ok(refusal(entry, 1u << 30, top, next) == -ERANGE, "rings that wrap around are refused");
	ok(refusal(entry, 65536, UINT64_C(0xffffffffffff0000), next) == -ERANGE,
	   "rings beyond the top are refused");
	ok(refusal(entry, 65536, UINT64_C(0xffff888000000000), next) == -ERANGE,
	   "rings out of reach are refused");
	ok(refusal(entry, 65536, top, UINT64_C(0xffff888000000000)) == -ERANGE,
	   "code out of reach is refused");
}

int main(void)
{
	test_refusals();
	return tap_done();
}
