/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For how long the guest's watchdogs let a vCPU wait. */
#include <stdlib.h>
#include "patcher/coexist/watchdogs.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { THRESH = 0x30100, STALL = 0x30104, EXPEDITED = 0x30108, CSD = 0x30110 };

static const uint64_t most_ns = 5000000000, ns_per_ms = 1000000;

static struct fake_session fs;

static uint64_t allowed_ms(void)
{
	return watchdogs_allow_ns(&fs.fg.kernel, most_ns) / ns_per_ms;
}

/* In seconds, and milliseconds. */
static void set(uint32_t thresh, uint32_t stall, uint32_t expedited_ms)
{
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + THRESH, thresh);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + STALL, stall);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + EXPEDITED, expedited_ms);
}

static void test_known(void)
{
	static const struct fake_symbol symbols[] = {
		{"watchdog_thresh", THRESH},
		{"rcu_cpu_stall_timeout", STALL},
		{"rcu_exp_cpu_stall_timeout", EXPEDITED},
		{"csd_lock_timeout", CSD},
		{NULL, 0},
	};

	if (fake_guest_add_symbols(&fs.fg, symbols))
		abort();
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + CSD, 0);
	set(10, 21, 0);
	is_u64(allowed_ms(), 5000, "as the kernel has them, they allow 5 s");
	set(60, 300, 0);
	is_u64(allowed_ms(), 5000, "if they allow more, it is not waited for longer");
	set(1, 21, 0);
	is_u64(allowed_ms(), 500, "a hard lockup of 1 s allows half of it");
	set(10, 3, 0);
	is_u64(allowed_ms(), 750, "an RCU stall of 3 s allows a quarter of it");
	set(10, 21, 20);
	is_u64(allowed_ms(), 5, "an expedited one of 20 ms likewise");
	set(10, 21, 0);
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + CSD, 5000);
	is_u64(allowed_ms(), 2500, "an IPI that is reported after 5 s allows half of it");
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + CSD, 0);
	set(0, 21, 0);
	is_u64(allowed_ms(), 5000, "a watchdog that is off does not count");
	set(UINT32_MAX, UINT32_MAX, UINT32_MAX);
	is_u64(allowed_ms(), 5000, "the guest's memory may have any values");
}

static void test_unknown(void)
{
	static const struct fake_symbol csd[] = {{"csd_bug_count", CSD}, {NULL, 0}};

	if (fake_guest_inline(&fs.fg, "watchdog_thresh"))
		abort();
	set(1, 21, 0);
	is_u64(allowed_ms(), 5000, "a kernel may have no lockup detector");
	set(10, 21, 0);
	if (fake_guest_inline(&fs.fg, "csd_lock_timeout"))
		abort();
	is_u64(allowed_ms(), 5000, "or none for IPIs");
	if (fake_guest_add_symbols(&fs.fg, csd))
		abort();
	is_u64(allowed_ms(), 2500, "or one for IPIs without a variable, of 5 s");
	if (fake_guest_inline(&fs.fg, "rcu_cpu_stall_timeout"))
		abort();
	is_u64(allowed_ms(), 500, "if nothing is known, it is half a second");
}

int main(void)
{
	fake_session_create(&fs);
	test_known();
	test_unknown();
	fake_session_destroy(&fs);
	return tap_done();
}
