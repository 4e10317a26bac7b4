/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text as it is without the guest's kprobes. */
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/identify.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { PLACE = FAKE_CACHE_ALLOC + 5, JMP_BYTES = 5, SIZE = 32, INT3 = 0xcc };

static struct fake_session fs;
static uint8_t original[SIZE];

/* The first `n` bytes of the instruction are the kprobe's. */
static void arm(uint32_t flags, const char *bytes, size_t n)
{
	memcpy(fake_text(&fs.fg, FAKE_CACHE_ALLOC), original, SIZE);
	fake_session_put_kprobe(&fs, PLACE, flags);
	memcpy(fake_text(&fs.fg, PLACE), bytes, n);
}

static bool is_restored(uint64_t offset, size_t size)
{
	uint8_t bytes[SIZE];

	memcpy(bytes, fake_text(&fs.fg, offset), size);
	guest_kprobes_restore(&fs.fg.kernel, fake_gva(offset), bytes, size);
	return !memcmp(bytes, original + (offset - FAKE_CACHE_ALLOC), size);
}

static void test_restore(void)
{
	arm(0, "\xcc", 1);
	ok(is_restored(FAKE_CACHE_ALLOC, SIZE), "the first byte of an armed kprobe's instruction");
	ok(is_restored(PLACE + 1, 8), "the bytes behind it are what they were");
	arm(FAKE_KPROBE_OPTIMIZED, "\xe9\0\0\x10\0", JMP_BYTES);
	ok(is_restored(FAKE_CACHE_ALLOC, SIZE), "all that an optimised one's jump covers");
	ok(is_restored(PLACE + 2, 8), "the end of it");
	ok(is_restored(PLACE - 2, 4), "its beginning");
	arm(FAKE_KPROBE_OPTIMIZED, "\xcc", 1);
	ok(is_restored(FAKE_CACHE_ALLOC, SIZE), "an optimised one that is an INT3 now");
	arm(FAKE_KPROBE_DISABLED, "", 0);
	ok(is_restored(FAKE_CACHE_ALLOC, SIZE), "one that is disabled changes nothing");
}

/* What is not a kprobe's stays. */
static void test_others(void)
{
	arm(0, "\xcc", 1);
	*fake_text(&fs.fg, PLACE + 3) = INT3;
	ok(!is_restored(FAKE_CACHE_ALLOC, SIZE), "an INT3 of something else stays");
	arm(0, "\xe9\0\0\x10\0", JMP_BYTES);
	ok(!is_restored(FAKE_CACHE_ALLOC, SIZE), "so does a jump where no kprobe is optimised");
	arm(FAKE_KPROBE_FTRACE, "\xcc", 1);
	ok(!is_restored(FAKE_CACHE_ALLOC, SIZE), "and an INT3 where ftrace calls the kprobe");
}

int main(void)
{
	fake_session_create(&fs);
	memcpy(original, fake_text(&fs.fg, FAKE_CACHE_ALLOC), SIZE);
	test_restore();
	test_others();
	fake_session_destroy(&fs);
	return tap_done();
}
