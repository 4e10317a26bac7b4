/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "introspect/kernel/kernel.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

#define TEXT (FAKE_LINK_TEXT + FAKE_SLIDE)
#define STACK fake_direct(FAKE_HEAP_GPA)

static struct fake_kernel fake;

static int step(uint64_t ip, uint64_t *caller_ip, uint64_t *caller_sp)
{
	return orc_caller(&fake.kernel, ip, STACK, caller_ip, caller_sp, NULL);
}

static void test_steps(void)
{
	uint64_t ip = 0, sp = 0;

	fake_put64(&fake, FAKE_HEAP_GPA, 0x1111);
	fake_put64(&fake, FAKE_HEAP_GPA + 32, 0x2222);
	ok(!step(TEXT + 0x123, &ip, &sp), "a function without a frame is unwound");
	ok(ip == 0x1111 && sp == STACK + 8, "the caller of a function without a frame is found");
	ok(!step(TEXT + 0x1123, &ip, &sp), "a function with a frame of 32 bytes is unwound");
	ok(ip == 0x2222 && sp == STACK + 40, "the caller of a function with a frame is found");
	ok(!step(TEXT + 0x1000, &ip, &sp) && ip == 0x1111,
	   "a return address at the end of a function belongs to the call before it");
	ok(step(TEXT + 0x2123, &ip, &sp) == -ENOTSUP,
	   "a frame that is addressed through RBP is refused");
}

static void test_bad(void)
{
	uint64_t entry = FAKE_ORC_ENTRIES + 6, ip, sp;
	uint8_t *bytes = fake.image.init_bytes + entry;

	ok(step(TEXT, &ip, &sp) == -ENOENT, "an address before the image is refused");
	ok(step(TEXT + FAKE_IMAGE_SIZE + 1, &ip, &sp) == -ENOENT,
	   "an address after the image is refused");
	ok(orc_caller(&fake.kernel, TEXT + 0x123, 0x1000, &ip, &sp, NULL) == -EFAULT,
	   "a stack in user space is refused");
	ok(orc_caller(&fake.kernel, TEXT + 0x1123, UINT64_MAX - 8, &ip, &sp, NULL) == -EFAULT,
	   "a stack pointer that wraps is refused");
	bytes[0] = 0;
	ok(step(TEXT + 0x1123, &ip, &sp) == -ENOTSUP,
	   "an offset that makes no progress is refused");
	bytes[0] = bytes[1] = 0xff;
	ok(step(TEXT + 0x1123, &ip, &sp) == -ENOTSUP, "a negative offset is refused");
	bytes[0] = 40;
	bytes[1] = 0;
	bytes[5] ^= 1;
	ok(step(TEXT + 0x1123, &ip, &sp) == -ENOTSUP, "an entry that is no call frame is refused");
	fake.kernel.known.orc.n = 0;
	ok(step(TEXT + 0x1123, &ip, &sp) == -ENOTSUP, "a kernel without tables is refused");
}

int main(void)
{
	static const enum fake_flavour flavours[] = {FAKE_5_10, FAKE_6_12};

	for (size_t i = 0; i < 2; i++) {
		if (!ok(!fake_kernel_create(&fake, flavours[i], 4), "a fake kernel is made"))
			continue;
		test_steps();
		test_bad();
		fake_kernel_destroy(&fake);
	}
	return tap_done();
}
