/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/coexist/boot-window.h"

#include <errno.h>
#include "patcher/text/site.h"

static uint64_t return_address_of(const struct boot_window *w, const struct guest_trap *hit)
{
	uint64_t address = 0;

	kernel_read(w->kernel, hit->regs.rsp, &address, sizeof(address), NULL);
	return address;
}

static void arm_or_report(struct boot_window *w, uint64_t gva, oneshot_fn *fn)
{
	struct error err;

	if (oneshot_arm(w->oneshots, gva, fn, w, &err))
		first_error_set(w->failure, &err);
}

static int arm_function(struct boot_window *w, const char *name, oneshot_fn *fn, struct error *err)
{
	uint64_t gva = oneshot_place(w->kernel, name);

	if (!gva)
		return error_set(err, ENOENT, "the kernel has no %s()", name);
	return oneshot_arm(w->oneshots, gva, fn, w, err);
}

/* --- inside ftrace_init(): one-shots behind the sites ---------------------------------------- */

static void on_behind_site(void *arg, struct guest_trap *hit);

static void arm_behind_sites(struct boot_window *w)
{
	for (size_t i = 0; i < w->plan->entries.n; i++)
		if (!w->plan->entries.v[i].off)
			arm_or_report(w, w->plan->entries.v[i].gva + SITE_SIZE, on_behind_site);
}

/* The call entered last has returned: its function's one-shot may be armed again. */
static void on_caller_rearm(void *arg, struct guest_trap *hit)
{
	struct boot_window *w = arg;
	size_t n = w->nr_fired;

	(void)hit;
	w->nr_fired = 0;
	if (!w->entries_out)
		return;
	if (n > BOOT_WINDOW_FIRED)
		arm_behind_sites(w);
	for (size_t i = 0; n <= BOOT_WINDOW_FIRED && i < n; i++)
		arm_or_report(w, w->fired[i], on_behind_site);
}

static void on_behind_site(void *arg, struct guest_trap *hit)
{
	struct boot_window *w = arg;

	if (w->nr_fired < BOOT_WINDOW_FIRED)
		w->fired[w->nr_fired] = hit->regs.rip;
	w->nr_fired++;
	w->entry(w->arg, hit->regs.rip - SITE_SIZE, hit);
	arm_or_report(w, return_address_of(w, hit), on_caller_rearm);
}

static void on_ftrace_init_return(void *arg, struct guest_trap *hit)
{
	struct boot_window *w = arg;
	struct error err;

	(void)hit;
	w->entries_out = false;
	for (size_t i = 0; i < w->plan->entries.n; i++)
		oneshot_disarm(w->oneshots, w->plan->entries.v[i].gva + SITE_SIZE, NULL);
	if (patch_plan_refresh_entries(w->plan, w->kernel, &err) ||
	    patch_set_apply(&w->plan->entries, w->kernel, &err))
		first_error_set(w->failure, &err);
}

static void on_ftrace_init(void *arg, struct guest_trap *hit)
{
	struct boot_window *w = arg;
	struct error err;

	if (patch_set_revert(&w->plan->entries, w->kernel, NULL, &err))
		first_error_set(w->failure, &err);
	w->entries_out = true;
	arm_behind_sites(w);
	arm_or_report(w, return_address_of(w, hit), on_ftrace_init_return);
}

/* --- inside alternative_instructions(): one-shots at the callers ----------------------------- */

static void on_caller(void *arg, struct guest_trap *hit)
{
	struct boot_window *w = arg;
	struct guest_trap at_return = *hit;

	/* as it was at the `ret` */
	at_return.regs.rsp -= sizeof(uint64_t);
	w->ret(w->arg, &at_return);
}

/*
 * The return slots are patched again when one of these is entered. The return address of
 * alternative_instructions() would come first, but the instruction there may be an alternative
 * itself, which is rewritten with the one-shot in it (6.12: TASK_SIZE_MAX). These are the functions
 * that start_kernel() calls next, all before a second CPU runs: pid_idr_init() since 6.5,
 * acpi_subsystem_init() before; rest_init() is always last.
 */
static const char *const after_alternatives[] = {"pid_idr_init", "acpi_subsystem_init",
						 "rest_init"};
enum { NR_AFTER = sizeof(after_alternatives) / sizeof(after_alternatives[0]) };

static void disarm_after_alternatives(struct boot_window *w)
{
	for (size_t i = 0; i < NR_AFTER; i++) {
		uint64_t gva = oneshot_place(w->kernel, after_alternatives[i]);

		if (gva)
			oneshot_disarm(w->oneshots, gva, NULL);
	}
}

static void put_returns_back(struct boot_window *w)
{
	struct error err;

	w->returns_out = false;
	disarm_after_alternatives(w);
	/* the only task is in start_kernel(), in no interrupt */
	w->plan->returns.vacant = true;
	if (patch_plan_refresh_returns(w->plan, w->kernel, w->traps, &err) ||
	    patch_set_apply(&w->plan->returns, w->kernel, &err))
		first_error_set(w->failure, &err);
	w->plan->returns.vacant = false;
}

static void on_after_alternatives(void *arg, struct guest_trap *hit)
{
	(void)hit;
	put_returns_back(arg);
}

void boot_window_arm_return(struct boot_window *w, uint64_t return_address)
{
	arm_or_report(w, return_address, on_caller);
}

static void on_alternatives(void *arg, struct guest_trap *hit)
{
	struct boot_window *w = arg;
	struct error err;
	size_t armed = 0;

	(void)hit;
	if (patch_set_revert(&w->plan->returns, w->kernel, NULL, &err))
		first_error_set(w->failure, &err);
	w->returns_out = true;
	for (size_t i = 0; i < NR_AFTER; i++)
		armed += !arm_function(w, after_alternatives[i], on_after_alternatives, &err);
	if (!armed)
		first_error_set(w->failure, &err);
}

/* Whether this variable of the kernel is set; false if it cannot be read. */
static bool is_marked(const struct kernel *kernel, const char *variable)
{
	uint32_t value;

	return !kernel_read_u32(kernel, variable, &value, NULL) && value;
}

int boot_window_arm(struct boot_window *w, struct error *err)
{
	int ret = 0;

	/* their text is freed after boot: no trap may stay there that no vCPU will hit */
	if (!is_marked(w->kernel, "ftrace_pages_start"))
		ret = arm_function(w, "ftrace_init", on_ftrace_init, err);
	if (!ret && !is_marked(w->kernel, "alternatives_patched"))
		ret = arm_function(w, "alternative_instructions", on_alternatives, err);
	return ret;
}

/* SLUB and SLAB count up from DOWN = 0 with their first allocations (mm/slab.h). */
static bool is_before_first_allocation(const struct kernel *kernel)
{
	uint32_t state;

	return !kernel_read_u32(kernel, "slab_state", &state, NULL) && state == 0;
}

/*
 * ftrace_init() comes after the first allocation; the kernel rewrites text for the last time before
 * the end of SYSTEM_BOOTING. In between, a rewriting may be under way, and nothing shows it.
 */
int boot_window_check_start(const struct kernel *kernel, bool *first, struct error *err)
{
	*first = is_before_first_allocation(kernel);
	if ((!*first || (kernel->guest->caps & GUEST_CAP_BREAK)) && kernel_is_booting(kernel))
		return error_set(err, EAGAIN, "the guest is patching its own text in early boot");
	return 0;
}
