/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is put back, and when the guest runs on, of sets on several pages, with breakpoints among
 * their patches, and with patches that are passed over. */
#include <errno.h>
#include <stdlib.h>
#include "introspect/guest/control.h"
#include "tests/lib/fake-patches.h"
#include "tests/lib/tap.h"

/* Two sites on each of three pages. */
enum { NR = 6, AT = 0x1000, PAGE = 0x1000, APART = 0x100 };

static struct fake_guest fg;
static struct patch_set set;

static uint64_t offset_of(size_t i)
{
	return AT + i / 2 * PAGE + i % 2 * APART;
}

static uint64_t gpa_of(size_t i)
{
	return FAKE_PHYS_TEXT + offset_of(i);
}

static void setup(void)
{
	if (fake_guest_create(&fg))
		abort();
	for (size_t i = 0; i < NR; i++)
		fake_patch_put(&fg, &set, offset_of(i));
	if (patch_set_sort(&set, NULL))
		abort();
}

static void teardown(void)
{
	patch_set_deinit(&set);
	fake_guest_destroy(&fg);
}

static size_t count(const uint8_t *bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < NR; i++)
		n += fake_patch_is(&fg, offset_of(i), bytes);
	return n;
}

/* Whichever page fails. */
static void test_pages(void)
{
	for (size_t i = 0; i < NR; i++) {
		struct patch_outcome outcome = {0}, second = {0};

		setup();
		fg.failing_gpa = gpa_of(i);
		ok(patch_set_apply(&set, &fg.kernel, NULL) == -EIO && !set.applied && !fg.stopped,
		   "a set on three pages whose patch %d cannot be written is not applied", (int)i);
		is_u64(count(fake_patch_old), NR, "what was written on other pages is put back");
		fg.failing_gpa = 0;
		patch_set_apply(&set, &fg.kernel, NULL);
		fg.failing_gpa = gpa_of(i);
		ok(patch_set_revert(&set, &fg.kernel, &outcome, NULL) == -EIO && set.applied &&
			   !fg.stopped,
		   "a set whose patch %d cannot be put back stays applied", (int)i);
		ok(count(fake_patch_old) == NR - 1 && outcome.restored == NR - 1,
		   "the patches of all pages but patch %d are put back", (int)i);
		fg.failing_gpa = 0;
		ok(!patch_set_revert(&set, &fg.kernel, &second, NULL) && second.restored == 1 &&
			   second.unchanged == NR - 1 && !set.applied,
		   "a second revert puts patch %d back, too", (int)i);
		teardown();
	}
}

/* Site 0 is a breakpoint, and site 1 in the same page is bytes, as trampolines are. */
static void setup_breaks(void)
{
	setup();
	fg.guest.caps |= GUEST_CAP_BREAK;
	for (size_t i = 0; i < NR; i += 2)
		set.v[i].trap = true;
}

static void test_mixed(void)
{
	struct patch_outcome outcome = {0};

	setup_breaks();
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && fake_breaks_count(&fg.breaks) == NR / 2 &&
		   count(fake_patch_new) == NR / 2,
	   "of a set with both, traps are breakpoints and other patches bytes");
	ok(!patch_set_revert(&set, &fg.kernel, &outcome, NULL) && !fake_breaks_count(&fg.breaks) &&
		   count(fake_patch_old) == NR && outcome.restored == NR,
	   "both are taken back");
	fg.guest.caps &= ~(unsigned int)GUEST_CAP_BREAK;
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && !fake_breaks_count(&fg.breaks) &&
		   count(fake_patch_new) == NR,
	   "in a guest without breakpoints traps are bytes");
	teardown();
}

/* Patch 5 cannot be written: what was done before is undone. */
static void test_mixed_failure(void)
{
	setup_breaks();
	fg.ignored_gpa = gpa_of(NR - 1);
	ok(patch_set_apply(&set, &fg.kernel, NULL) == -EIO && !set.applied &&
		   !fake_breaks_count(&fg.breaks) && count(fake_patch_old) == NR,
	   "a failure removes the breakpoints and puts the bytes back");
	is_u64(fg.writes, NR, "no bytes are written where a breakpoint was");
	fg.failing_break = fake_gva(offset_of(0));
	ok(patch_set_apply(&set, &fg.kernel, NULL) == -EIO && count(fake_patch_old) == NR,
	   "bytes are put back also beside a breakpoint that cannot be removed");
	teardown();
}

/* The guest has it, or it is not wanted: a breakpoint there is another's. */
static void test_out_breaks(void)
{
	for (int off = 0; off < 2; off++) {
		setup_breaks();
		set.v[0].off = off;
		set.v[0].yielded = !off;
		fake_breaks_set(&fg.breaks, set.v[0].gva, true, NULL);
		patch_set_apply(&set, &fg.kernel, NULL);
		fake_code(&fg, offset_of(1), fake_patch_new, SITE_SIZE);
		ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) &&
			   fake_breaks_at(&fg.breaks, set.v[0].gva) &&
			   fake_breaks_count(&fg.breaks) == 1,
		   "a breakpoint where a patch is %s is left alone", off ? "off" : "yielded");
		teardown();
	}
}

/* At the place of a patch that is no trap, QEMU's breakpoint is another's. */
static void test_other_break(void)
{
	setup_breaks();
	fake_breaks_set(&fg.breaks, set.v[1].gva, true, NULL);
	patch_set_apply(&set, &fg.kernel, NULL);
	ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) &&
		   fake_breaks_at(&fg.breaks, set.v[1].gva) && count(fake_patch_old) == NR,
	   "where bytes are put back, a breakpoint is left alone");
	teardown();
}

/* No patch of a page is wanted, and the page is gone. */
static void test_out_page(void)
{
	setup();
	set.v[0].off = set.v[1].off = true;
	fg.missing_gpa = gpa_of(0);
	ok(!patch_set_apply(&set, &fg.kernel, NULL) && count(fake_patch_new) == NR - 2,
	   "a page without a wanted patch need not be readable to apply");
	ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) && count(fake_patch_old) == NR,
	   "nor to revert");
	teardown();
}

static void test_transient_apply(bool transient)
{
	setup();
	for (size_t i = 0; i < 2; i++)
		set.v[i].transient = transient;
	fg.missing_gpa = gpa_of(0);
	ok(patch_set_apply(&set, &fg.kernel, NULL) == (transient ? -ESTALE : -EFAULT) &&
		   !fg.writes && !fg.stopped,
	   "%s refuses a set", transient ? "text that the guest freed" : "unreadable text");
	teardown();
}

static int no_regs(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
		   struct error *err)
{
	(void)guest;
	(void)vcpu;
	(void)out;
	return error_set(err, EBUSY, "a debugger has the registers");
}

/* A guest whose vCPUs cannot be looked at is not patched, and not kept. */
static void test_no_regs(void)
{
	const struct guest_control_ops *real;
	struct guest_control_ops ops;

	setup();
	real = fg.guest.control;
	ops = *real;
	ops.get_regs = no_regs;
	fg.guest.control = &ops;
	ok(patch_set_apply(&set, &fg.kernel, NULL) == -EBUSY && !fg.writes && !fg.stopped,
	   "without registers a set is not applied, and the guest runs");
	is_u64(fg.stops, 1, "only a vCPU inside a patch is waited for");
	fg.guest.control = real;
	patch_set_apply(&set, &fg.kernel, NULL);
	fg.guest.control = &ops;
	ok(patch_set_revert(&set, &fg.kernel, NULL, NULL) == -EBUSY && set.applied && !fg.stopped &&
		   count(fake_patch_new) == NR,
	   "nor is it reverted");
	fg.guest.control = real;
	teardown();
}

/* Memory that the host maps, of a guest that may only be read. */
static void test_read_only(void)
{
	setup();
	fg.regions[0].hva = fg.base.ram;
	fg.guest.caps &= ~(unsigned int)GUEST_CAP_WRITE;
	ok(patch_set_apply(&set, &fg.kernel, NULL) == -EROFS && !set.applied && !fg.stopped &&
		   count(fake_patch_old) == NR,
	   "nothing is written into mapped memory that is read-only");
	fg.regions[0].hva = NULL;
	teardown();
}

static void test_yield(void)
{
	setup();
	fake_code(&fg, offset_of(0), fake_patch_new, SITE_SIZE);
	ok(!patch_set_yield(&set, 0, &fg.kernel, NULL) && set.v[0].yielded &&
		   fake_patch_is(&fg, offset_of(0), fake_patch_new),
	   "a set that is not applied has nothing to give back");
	patch_set_apply(&set, &fg.kernel, NULL);
	fg.failing_gpa = gpa_of(1);
	ok(patch_set_yield(&set, 1, &fg.kernel, NULL) == -EIO && !set.v[1].yielded,
	   "a patch that cannot be put back is not the guest's");
	fg.failing_gpa = 0;
	ok(!patch_set_revert(&set, &fg.kernel, NULL, NULL) && count(fake_patch_old) == NR - 1,
	   "so that a revert puts it back");
	teardown();
}

static void fail_after_resume(struct fake_guest *guest)
{
	if (!guest->failing_resumes)
		guest->failing_gpa = gpa_of(0);
}

/* As of a domain whose QEMU does not take the command. */
static void test_no_resume(void)
{
	struct patch_outcome outcome = {0};
	struct error err = {0};

	setup();
	fg.failing_resumes = 1;
	ok(patch_set_apply(&set, &fg.kernel, &err) == -ENOTCONN && err.code == ENOTCONN,
	   "a set is not applied to a guest that does not resume");
	ok(!set.applied && count(fake_patch_old) == NR && !fg.stopped,
	   "its text is put back, and the guest is asked to resume again");
	fg.failing_resumes = 1;
	fg.on_stop = fail_after_resume;
	ok(patch_set_apply(&set, &fg.kernel, NULL) == -ENOTCONN && set.applied &&
		   count(fake_patch_old) == NR - 1,
	   "a set of which a patch cannot be put back then is still applied");
	fg.on_stop = NULL;
	fg.failing_gpa = 0;
	err.code = 0;
	fg.failing_resumes = 1;
	ok(patch_set_revert(&set, &fg.kernel, &outcome, &err) == -ENOTCONN && err.code == ENOTCONN,
	   "a revert reports a guest that does not resume");
	ok(!set.applied && outcome.restored == 1 && outcome.unchanged == NR - 1 &&
		   count(fake_patch_old) == NR,
	   "what it has put back counts as put back");
	teardown();
}

int main(void)
{
	test_pages();
	test_mixed();
	test_mixed_failure();
	test_out_breaks();
	test_other_break();
	test_out_page();
	test_transient_apply(true);
	test_transient_apply(false);
	test_no_regs();
	test_read_only();
	test_yield();
	test_no_resume();
	return tap_done();
}
