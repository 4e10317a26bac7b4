/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest puts kprobes at and near the exits of traced functions. */
#include <stdlib.h>
#include <string.h>
#include "patcher/text/site.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { SLOT = FAKE_CACHE_ALLOC + 15, SLOT_SIZE = 5, TRAP = 0xe6, INT3 = 0xcc };

static struct fake_session fs;

/* The guest registers a kprobe; returns the number of traps. */
static int probe(uint64_t offset)
{
	fake_put64(&fs.fg.base, FAKE_ARRAY_GPA + FAKE_KPROBE_ADDR, fake_gva(offset));
	return fake_session_call(&fs, 1, FAKE_PREPARE_KPROBE, fake_direct(FAKE_ARRAY_GPA));
}

static bool is_ours(void)
{
	return *fake_text(&fs.fg, SLOT) == TRAP;
}

static void test_elsewhere(void)
{
	const uint64_t elsewhere[] = {SLOT - 5, SLOT + SLOT_SIZE, FAKE_CALLER, 0};

	fake_session_begin(&fs);
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		is_u64((uint64_t)probe(elsewhere[i]), 2, "a kprobe anywhere meets two traps");
	ok(is_ours(), "kprobes elsewhere leave an exit trapped");
	is_u64(fake_session_status(&fs).nr_refused + fake_session_count(&fs, COUNTER_YIELDS), 0,
	       "kprobes elsewhere cause no refusal and no gap");
	fake_session_end(&fs);
}

static void test_near(uint64_t offset, const char *where)
{
	fake_session_begin(&fs);
	ok(is_ours(), "an exit without kprobes is trapped");
	probe(offset);
	ok(!memcmp(fake_text(&fs.fg, SLOT), fs.text + SLOT, SLOT_SIZE),
	   "a kprobe %s: the exit has its original bytes", where);
	probe(offset);
	is_u64(fake_session_status(&fs).nr_refused, 1, "two kprobes at one exit are one refusal");
	fake_session_end(&fs);
}

/* It is disabled, so that the text does not show it. */
static void test_registered(void)
{
	fake_session_create(&fs);
	fake_session_put_kprobe(&fs, SLOT - 4, FAKE_KPROBE_DISABLED);
	fake_session_start(&fs);
	ok(!memcmp(fake_text(&fs.fg, SLOT), fs.text + SLOT, SLOT_SIZE),
	   "an exit that a registered kprobe reaches is not trapped");
	is_u64(fake_session_status(&fs).nr_refused, 1, "it is a refusal");
	fake_session_end(&fs);
	fake_session_create(&fs);
	fake_session_put_kprobe(&fs, FAKE_CACHE_ALLOC, FAKE_KPROBE_FTRACE);
	fake_session_start(&fs);
	ok(*fake_text(&fs.fg, FAKE_CACHE_ALLOC) == TRAP && is_ours(),
	   "a kprobe that ftrace calls keeps no place");
	fake_session_end(&fs);
}

/* It is armed: its INT3 stands in the text when tracing starts. */
static void begin_armed(uint64_t offset)
{
	fake_session_create(&fs);
	fake_session_put_kprobe(&fs, offset, 0);
	*fake_text(&fs.fg, offset) = INT3;
	memcpy(fs.text + offset, fake_text(&fs.fg, offset), 1);
	fake_session_start(&fs);
}

static bool refuses(const char *function, const char *reason)
{
	const struct trace_status status = fake_session_status(&fs);
	bool any = false;

	for (size_t i = 0; i < status.nr_refused; i++)
		any |= !strcmp(status.refused[i].function, function) &&
		       strstr(status.refused[i].reason, reason);
	return any;
}

static void test_armed(void)
{
	begin_armed(FAKE_CACHE_ALLOC + SITE_SIZE);
	ok(*fake_text(&fs.fg, FAKE_CACHE_ALLOC) == TRAP && is_ours(),
	   "a function in whose middle a kprobe is armed is traced, with its exit");
	is_u64(fake_session_status(&fs).nr_refused, 0, "nothing is refused for it");
	fake_session_end(&fs);
	begin_armed(SLOT);
	ok(*fake_text(&fs.fg, SLOT) == INT3 && *fake_text(&fs.fg, FAKE_CACHE_ALLOC) != TRAP,
	   "one whose exit has an armed kprobe is not");
	ok(refuses("kmem_cache_alloc", "a kprobe of the guest is at an exit"),
	   "the refusal says so");
	fake_session_end(&fs);
}

static void test_report(void)
{
	struct trace_status status;

	fake_session_begin(&fs);
	probe(SLOT);
	status = fake_session_status(&fs);
	is_u64(status.nr_refused, 1, "a yielded exit is one refusal");
	is_str(status.refused[0].function, "kmem_cache_alloc", "the refusal names the function");
	ok(status.refused[0].gva == fake_gva(SLOT) && strstr(status.refused[0].reason, "kprobe"),
	   "the refusal has the exit's address and the reason: %s", status.refused[0].reason);
	is_u64(status.counters.v[COUNTER_YIELDS], 1, "a yielded exit is counted");
	fake_session_call(&fs, 0, FAKE_CACHE_ALLOC, 0);
	is_u64(fake_session_recorded(&fs), 0, "results by a yielded exit are not recorded");
	fake_session_call(&fs, 0, FAKE_KMALLOC, 8);
	is_u64(fake_session_recorded(&fs), 1, "results by other exits are recorded");
	ok(!trace_session_stop(fs.session, NULL) && !trace_session_start(fs.session, NULL, NULL),
	   "a session stops and starts again");
	ok(is_ours(), "a new start traps an exit that no kprobe holds any more");
	is_u64(fake_session_status(&fs).nr_refused, 0, "a new start refuses nothing");
	fake_session_end(&fs);
}

static void test_failure(void)
{
	fake_session_begin(&fs);
	fs.fg.failing_gpa = FAKE_PHYS_TEXT + SLOT;
	probe(SLOT);
	ok(trace_session_failure(fs.session),
	   "an exit that cannot be yielded is a failure of the session");
	fs.fg.failing_gpa = 0;
	ok(!trace_session_stop(fs.session, NULL) && fake_session_text_same(&fs),
	   "a stop after that failure leaves the guest's text");
	fake_session_destroy(&fs);
}

int main(void)
{
	test_elsewhere();
	test_near(SLOT, "at an exit");
	test_near(SLOT + SLOT_SIZE - 1, "in its last byte");
	test_near(SLOT - 4, "whose jump would reach it");
	test_registered();
	test_armed();
	test_report();
	test_failure();
	return tap_done();
}
