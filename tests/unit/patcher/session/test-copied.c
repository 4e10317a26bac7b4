/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A kprobe that the guest makes without asking copies a jump unseen: the memory has to stay. */
#include <errno.h>
#include <string.h>
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { RING_BYTES = 64 << 10, JMP = 0xe9, SLOT = FAKE_CACHE_ALLOC + 15 };

static struct fake_session fs;

static void begin(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};

	fake_session_create(&fs);
	fs.fg.guest.caps &= ~(uint32_t)GUEST_CAP_PORT_TRAP;
	trace_session_set_options(fs.session, &options);
	ok(!trace_session_start(fs.session, NULL, NULL) && *fake_text(&fs.fg, SLOT) == JMP,
	   "a guest without traps is traced");
}

/* Without asking. */
static void put_kprobe(uint64_t offset)
{
	fs.fg.guest.control->stop(&fs.fg.guest, NULL);
	fake_session_put_kprobe(&fs, offset, 0);
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
}

static void test_elsewhere(void)
{
	struct error err = {0};

	begin();
	put_kprobe(FAKE_CALLER);
	ok(!trace_session_stop(fs.session, &err) && fs.fg.nr_regions == 1,
	   "a kprobe that reaches no jump lets the memory go: %s", err.text);
	fake_session_destroy(&fs);
}

static void test_copied(void)
{
	struct error err = {0};

	begin();
	put_kprobe(SLOT);
	is_u64((uint64_t)-trace_session_stop(fs.session, &err), EBUSY,
	       "a kprobe has copied a jump: a stop is not whole");
	ok(fake_session_text_same(&fs), "the text is restored, under that kprobe, too");
	is_u64(fs.fg.nr_regions, 2, "but the memory stays");
	ok(strstr(err.text, "a kprobe of the guest at 0x"), "the reason is that kprobe: %s",
	   err.text);
	put_kprobe(0);
	ok(!trace_session_start(fs.session, NULL, &err), "without it the memory goes");
	trace_session_stop(fs.session, NULL);
	trace_session_start(fs.session, NULL, NULL); /* waits until the memory has gone */
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs) &&
		   fs.fg.nr_regions == 1,
	   "after the last stop text and memory are what they were");
	fake_session_destroy(&fs);
}

int main(void)
{
	test_elsewhere();
	test_copied();
	return tap_done();
}
