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

/* --- BPF schedulers -------------------------------------------------------------------------- */

enum {
	ENABLED = 0x30120, /* variables */
	OPS = 0x30130,
	ROOT = 0x30180,
	ALL = 0x30188,
	OPS_TIMEOUT = 24, /* in a struct sched_ext_ops, which is in a struct scx_sched */
	SCHED_OPS = 8,
	SCHED_ALL = 48,
	SCHED = FAKE_HEAP_GPA, /* three of them */
	SCHED_SIZE = 64,
};

static const struct fake_struct ops_type = {"sched_ext_ops",
					    32,
					    {{"timeout_ms", OPS_TIMEOUT, 4, 0, 0}}},
				sched_type = {
					"scx_sched",
					SCHED_SIZE,
					{{"ops", SCHED_OPS, 0, 0, 0}, {"all", SCHED_ALL, 8, 0, 0}}};

static void begin_schedulers(const struct fake_symbol *symbols, const struct fake_struct *structs)
{
	static const struct fake_symbol rcu[] = {{"rcu_cpu_stall_timeout", STALL}, {NULL, 0}};

	fake_session_create(&fs);
	if (fake_guest_add_symbols(&fs.fg, rcu) || fake_guest_add_symbols(&fs.fg, symbols) ||
	    fake_kernel_set_structs(&fs.fg.base, structs))
		abort();
	set(0, 21, 0);
}

/* Before 6.16. */
static void test_only_scheduler(void)
{
	static const struct fake_symbol symbols[] = {
		{"__scx_ops_enabled", ENABLED}, {"scx_ops", OPS}, {NULL, 0}};
	const struct fake_struct structs[] = {ops_type, {NULL}}, none[] = {{NULL}};

	begin_schedulers(symbols, structs);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + OPS + OPS_TIMEOUT, 2000);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + ENABLED, 0);
	is_u64(allowed_ms(), 5000, "the time of a BPF scheduler that is gone does not count");
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + ENABLED, 1);
	is_u64(allowed_ms(), 500, "a task that has to run within 2 s allows a quarter of it");
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + OPS + OPS_TIMEOUT, 0);
	is_u64(allowed_ms(), 5000, "a scheduler without a time of its own allows 5 s");
	fake_session_destroy(&fs);

	begin_schedulers(symbols, none);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + OPS, 2000);
	fake_put32(&fs.fg.base, FAKE_PHYS_TEXT + ENABLED, 1);
	is_u64(allowed_ms(), 5000, "where types do not say where its time is, it does not count");
	fake_session_destroy(&fs);
}

/* Scheduler `i` is followed by this one in the list, -1: the list's head; and has this time. */
static void put_scheduler(unsigned int i, int next, uint32_t timeout_ms)
{
	const uint64_t gpa = SCHED + i * SCHED_SIZE;

	fake_put64(&fs.fg.base, gpa + SCHED_ALL,
		   next < 0 ? fake_gva(ALL)
			    : fake_direct(SCHED + (unsigned int)next * SCHED_SIZE + SCHED_ALL));
	fake_put32(&fs.fg.base, gpa + SCHED_OPS + OPS_TIMEOUT, timeout_ms);
}

static void set_root(bool loaded)
{
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + ROOT, loaded ? fake_direct(SCHED) : 0);
}

static void test_schedulers(bool with_list)
{
	static const struct fake_symbol list[] = {{"scx_sched_all", ALL}, {NULL, 0}},
					root[] = {{"scx_root", ROOT}, {NULL, 0}};
	const struct fake_struct structs[] = {sched_type, ops_type, {NULL}};
	const char *how = with_list ? "with a list" : "without a list";

	begin_schedulers(root, structs);
	if (with_list && fake_guest_add_symbols(&fs.fg, list))
		abort();
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + ALL, fake_direct(SCHED + SCHED_ALL));
	put_scheduler(0, 1, 4000);
	put_scheduler(1, 2, 2000);
	put_scheduler(2, -1, 3000);
	set_root(false);
	ok(allowed_ms() == 5000, "%s, no scheduler is loaded: 5 s", how);
	set_root(true);
	ok(allowed_ms() == (with_list ? 500 : 1000), "%s, the shortest time counts", how);
	put_scheduler(0, 1, 1000);
	ok(allowed_ms() == 250, "%s, that of the root, too", how);
	put_scheduler(1, 0, 2000);
	ok(allowed_ms() == 250, "%s, a list without an end is left", how);
	fake_put64(&fs.fg.base, FAKE_PHYS_TEXT + ROOT, 0x123456);
	ok(allowed_ms() == (with_list ? 250 : 5000), "%s, the root may lie anywhere", how);
	fake_session_destroy(&fs);
}

int main(void)
{
	test_only_scheduler();
	test_schedulers(false);
	test_schedulers(true);
	fake_session_create(&fs);
	test_known();
	test_unknown();
	fake_session_destroy(&fs);
	return tap_done();
}
