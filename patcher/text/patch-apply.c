/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patch sets in guest memory: made, taken back, read. */
#include "patcher/text/patch-set.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include "introspect/tasks/quiesce.h"
#include "patcher/text/site.h"

/* How often and how long to let the guest run on when a vCPU is inside a patch. */
enum { BUSY_TRIES = 100, BUSY_WAIT_NS = 200000 };

enum { PAGE_BYTES = 4096 };

/* --- pages ----------------------------------------------------------------------------------- */

/* Patches next to each other that lie in one page, or a single one on two pages. */
struct page_run {
	size_t begin, end;   /* v[begin..end) */
	uint64_t gva;        /* from the first byte of the first patch */
	size_t size;         /* to the last of the last */
	const uint8_t *text; /* what stands there: guest memory if it is mapped, else `bytes` */
	uint8_t bytes[PAGE_BYTES];
};

static bool is_break(const struct patch *p, const struct kernel *kernel)
{
	return p->trap && (kernel->guest->caps & GUEST_CAP_BREAK);
}

static uint64_t page_of(uint64_t gva)
{
	return gva / PAGE_BYTES;
}

static uint64_t last_byte(const struct patch *p)
{
	return p->gva + p->size - 1;
}

/* The run that begins at run->end; false if there is none before `end`. */
static bool next_run(const struct patch_set *set, size_t end, struct page_run *run)
{
	if (run->end >= end)
		return false;
	run->begin = run->end++;
	run->gva = set->v[run->begin].gva;
	while (run->end < end && page_of(last_byte(&set->v[run->end])) == page_of(run->gva))
		run->end++;
	run->size = (size_t)(last_byte(&set->v[run->end - 1]) + 1 - run->gva);
	return true;
}

static const uint8_t *in_run(const struct page_run *run, const struct patch *p)
{
	return run->text + (p->gva - run->gva);
}

/* Most patches are of a site's size, which the compiler can compare and copy in a few instructions.
 */
static inline bool is_same(const uint8_t *a, const uint8_t *b, size_t size)
{
	return size == SITE_SIZE ? !memcmp(a, b, SITE_SIZE) : !memcmp(a, b, size);
}

static inline void copy(uint8_t *to, const uint8_t *from, size_t size)
{
	if (size == SITE_SIZE)
		memcpy(to, from, SITE_SIZE);
	else
		memcpy(to, from, size);
}

/* How many of its patches are not passed over; with bytes_only, how many that are no breaks. */
static size_t nr_ours(const struct patch_set *set, const struct page_run *run,
		      const struct kernel *kernel, bool bytes_only)
{
	size_t n = 0;

	for (size_t i = run->begin; i < run->end; i++)
		n += !patch_is_out(&set->v[i]) && !(bytes_only && is_break(&set->v[i], kernel));
	return n;
}

/* The host's address of a run; NULL where memory is not mapped. */
static uint8_t *map_run(const struct page_run *run, const struct kernel *kernel)
{
	bool one_page = page_of(run->gva) == page_of(run->gva + run->size - 1);
	uint64_t gpa = 0;

	if (!one_page || kernel_translate(kernel, run->gva, &gpa, NULL))
		return NULL;
	return guest_phys_hva(kernel->guest, gpa, run->size);
}

static int read_run(struct page_run *run, const struct kernel *kernel, struct error *err)
{
	run->text = map_run(run, kernel);
	if (run->text)
		return 0;
	run->text = run->bytes;
	return kernel_read(kernel, run->gva, run->bytes, run->size, err);
}

int patch_set_read(struct patch_set *set, const struct kernel *kernel, patch_bytes_fn *fn,
		   void *arg, struct error *err)
{
	struct page_run run = {0};
	int ret = 0;

	while (!ret && next_run(set, set->n, &run)) {
		int unread = read_run(&run, kernel, err);

		for (size_t i = run.begin; !ret && i < run.end; i++)
			ret = fn(arg, &set->v[i], unread ? NULL : in_run(&run, &set->v[i]), err);
	}
	return ret;
}

/* Whether the guest may have freed all of a run. */
static bool is_transient(const struct patch_set *set, const struct page_run *run)
{
	bool transient = true;

	for (size_t i = run->begin; i < run->end; i++)
		transient &= set->v[i].transient;
	return transient;
}

/* Where a run is written. */
struct run_writer {
	const struct page_run *run;
	const struct kernel *kernel;
	uint8_t *hva; /* of the run; NULL where memory is not mapped */
};

/*
 * A page that is mapped is looked up once. Else each patch is a write of its own: a backend that
 * keeps a journal of what it writes must not have bytes between patches in it, which the guest may
 * change.
 */
static struct run_writer write_run(const struct page_run *run, const struct kernel *kernel)
{
	bool writable = kernel->guest->caps & GUEST_CAP_WRITE;

	return (struct run_writer){run, kernel, writable ? map_run(run, kernel) : NULL};
}

static int write_bytes(void *arg, uint64_t gva, const uint8_t *bytes, size_t size,
		       struct error *err)
{
	const struct run_writer *w = arg;

	if (!w->hva)
		return kernel_write(w->kernel, gva, bytes, size, err);
	copy(w->hva + (gva - w->run->gva), bytes, size);
	return 0;
}

/* --- undoing --------------------------------------------------------------------------------- */

/* What is undone: patches [begin, end) of a set that was applied, or only in part. */
struct undo {
	const struct patch_set *set;
	const struct kernel *kernel;
	bool unverified; /* put the old bytes back whatever stands there */
	struct patch_outcome *outcome;
};

/* Without its break the place holds the old bytes, or the guest's own. */
static void count_break(const struct undo *u, const struct page_run *run, const struct patch *p)
{
	if (is_same(in_run(run, p), p->old_bytes, p->size))
		u->outcome->restored++;
	else if (!u->outcome->foreign++)
		u->outcome->first_foreign = p->gva;
}

/* Freed text, of which there may be another use now. */
static bool is_gone(const struct patch *p, const uint8_t *now)
{
	return p->transient && !is_same(now, p->new_bytes, p->size);
}

static int undo_patch(const struct undo *u, struct run_writer *w, const struct patch *p,
		      struct error *err)
{
	const struct patch_place place = {p->gva, p->size, p->old_bytes, p->new_bytes, 1};

	if (u->unverified)
		return is_break(p, u->kernel) ? 0
					      : write_bytes(w, p->gva, p->old_bytes, p->size, err);
	if (is_gone(p, in_run(w->run, p))) {
		u->outcome->unchanged++;
		return 0;
	}
	if (!is_break(p, u->kernel))
		return patch_place_restore(&place, in_run(w->run, p), write_bytes, w, u->outcome,
					   err);
	count_break(u, w->run, p);
	return 0;
}

static int remove_breaks(const struct undo *u, const struct page_run *run, struct error *err)
{
	int ret = 0;

	for (size_t i = run->begin; i < run->end; i++) {
		const struct patch *p = &u->set->v[i];
		int one = 0;

		if (!patch_is_out(p) && is_break(p, u->kernel))
			one = kernel_set_break(u->kernel, p->gva, false, ret ? NULL : err);
		ret = ret ? ret : one;
	}
	return ret;
}

static int undo_run(const struct undo *u, struct page_run *run, struct error *err)
{
	size_t n = nr_ours(u->set, run, u->kernel, false);
	struct run_writer w;
	int ret = remove_breaks(u, run, err);

	if (!ret && n && !u->unverified)
		ret = read_run(run, u->kernel, err);
	if (ret == -EFAULT && is_transient(u->set, run)) {
		u->outcome->unchanged += n;
		return 0;
	}
	if (ret && !u->unverified) {
		u->outcome->failed += n;
		return ret;
	}
	w = write_run(run, u->kernel);
	for (size_t i = run->begin; i < run->end; i++) {
		int one = 0;

		if (!patch_is_out(&u->set->v[i]))
			one = undo_patch(u, &w, &u->set->v[i], ret ? NULL : err);
		ret = ret ? ret : one;
	}
	return ret;
}

/* All that can be undone is; the first error. */
static int undo(const struct undo *u, size_t begin, size_t end, struct error *err)
{
	struct page_run run = {.end = begin};
	int ret = 0;

	while (next_run(u->set, end, &run)) {
		int one = undo_run(u, &run, ret ? NULL : err);

		ret = ret ? ret : one;
	}
	return ret;
}

/* --- doing ----------------------------------------------------------------------------------- */

static int verify_old(const struct patch_set *set, const struct kernel *kernel, struct error *err)
{
	struct page_run run = {0};

	while (next_run(set, set->n, &run)) {
		int ret = nr_ours(set, &run, kernel, false) ? read_run(&run, kernel, err) : 0;

		if (ret == -EFAULT && is_transient(set, &run))
			return error_set_at(err, ESTALE, run.gva, "%s: the guest freed its text",
					    set->v[run.begin].function);
		if (ret)
			return ret;
		for (size_t i = run.begin; i < run.end; i++) {
			const struct patch *p = &set->v[i];

			if (!patch_is_out(p) && !is_same(in_run(&run, p), p->old_bytes, p->size))
				return error_set_at(err, ESTALE, p->gva,
						    "%s: the guest changed the bytes to be patched",
						    p->function);
		}
	}
	return 0;
}

static int read_back(const struct patch_set *set, struct page_run *run, const struct kernel *kernel,
		     struct error *err)
{
	int ret = nr_ours(set, run, kernel, true) ? read_run(run, kernel, err) : 0;

	for (size_t i = run->begin; !ret && i < run->end; i++) {
		const struct patch *p = &set->v[i];

		if (!patch_is_out(p) && !is_break(p, kernel) &&
		    !is_same(in_run(run, p), p->new_bytes, p->size))
			ret = error_set_at(err, EIO, p->gva, "%s: patch does not read back",
					   p->function);
	}
	return ret;
}

static int write_new_run(const struct patch_set *set, struct page_run *run,
			 const struct kernel *kernel, struct error *err)
{
	struct run_writer w = write_run(run, kernel);

	for (size_t i = run->begin; i < run->end; i++) {
		const struct patch *p = &set->v[i];
		int ret = 0;

		if (!patch_is_out(p))
			ret = is_break(p, kernel)
				      ? kernel_set_break(kernel, p->gva, true, err)
				      : write_bytes(&w, p->gva, p->new_bytes, p->size, err);
		if (ret)
			return ret;
	}
	return read_back(set, run, kernel, err);
}

/* All, or none: the guest has not run since the old bytes were verified. */
static int write_new(const struct patch_set *set, const struct kernel *kernel, struct error *err)
{
	struct patch_outcome outcome = {0};
	const struct undo u = {set, kernel, true, &outcome};
	struct page_run run = {0};
	int ret = 0;

	while (!ret && next_run(set, set->n, &run))
		ret = write_new_run(set, &run, kernel, err);
	if (ret)
		undo(&u, 0, run.end, NULL);
	return ret;
}

/* -EBUSY and *inside if a vCPU is inside a patch; a vCPU whose registers cannot be read may be
 * busy, too, but that does not pass by itself. */
static int refuse_inside(const struct patch_set *set, struct guest *guest, bool *inside,
			 struct error *err)
{
	struct guest_regs regs;

	*inside = false;
	for (unsigned int vcpu = 0; vcpu < guest->nr_vcpus; vcpu++) {
		int ret = guest->control->get_regs(guest, vcpu, &regs, err);
		size_t i;

		if (ret)
			return ret;
		i = patch_set_find(set, regs.rip);
		*inside = i < set->n && set->v[i].gva < regs.rip;
		if (*inside)
			return error_set_at(err, EBUSY, regs.rip, "vCPU %u is inside a patch of %s",
					    vcpu, set->v[i].function);
	}
	return 0;
}

/* Stop the guest with no vCPU inside a patch: a vCPU there is given some time to leave. */
static int stop_outside(const struct patch_set *set, struct guest *guest, struct error *err)
{
	struct timespec wait = {.tv_nsec = BUSY_WAIT_NS};
	bool inside = true;
	int ret = 0;

	for (int i = 0; i < BUSY_TRIES && inside; i++) {
		if (i)
			nanosleep(&wait, NULL);
		ret = guest->control->stop(guest, err);
		if (ret)
			return ret;
		ret = refuse_inside(set, guest, &inside, err);
		if (ret)
			guest->control->resume(guest, NULL);
	}
	return ret;
}

/* --- patches of several instructions -----------------------------------------------------------
 */

/* One that writes over more than its first instruction. */
static bool covers_several(const struct patch *patch, const struct kernel *kernel)
{
	return patch->between && !patch_is_out(patch) && !is_break(patch, kernel);
}

struct covered {
	const struct patch_set *set;
	const struct kernel *kernel;
};

/* Whether an instruction at this address would be cut off from those in front of it. */
static bool is_covered(const void *arg, uint64_t gva)
{
	const struct covered *c = arg;
	const size_t i = patch_set_find(c->set, gva);

	return i < c->set->n && c->set->v[i].gva < gva && covers_several(&c->set->v[i], c->kernel);
}

/* -ETXTBSY, with the reason, if a vCPU, or a task that was preempted, may be between instructions
 * that a patch is to cover. */
static int check_between(const struct patch_set *set, const struct kernel *kernel,
			 struct error *err)
{
	const struct covered covered = {set, kernel};
	struct quiesce_policy policy = {.is_part = is_covered,
					.arg = &covered,
					.what = "code that a patch is to replace",
					.paused = true};
	struct quiesce quiesce;
	uint64_t end = 0;
	struct error why;

	for (size_t i = 0; !set->vacant && i < set->n; i++)
		if (covers_several(&set->v[i], kernel)) {
			policy.tasks = set->v[i].between;
			policy.gva = end ? policy.gva : set->v[i].gva;
			end = set->v[i].gva + set->v[i].size;
		}
	if (!end)
		return 0;
	policy.size = end - policy.gva;
	if (!policy.tasks->first)
		return error_set(err, ETXTBSY, "the guest's tasks are not known yet");
	if (!quiesce_begin(&quiesce, kernel->guest, &policy, &why) &&
	    !quiesce_check(&quiesce, &why))
		return 0;
	return error_set(err, ETXTBSY, "%s", why.text);
}

int patch_set_revert(struct patch_set *set, const struct kernel *kernel,
		     struct patch_outcome *outcome, struct error *err)
{
	struct guest *guest = kernel->guest;
	struct patch_outcome unused = {0};
	const struct undo u = {set, kernel, false, outcome ? outcome : &unused};
	int ret, resumed;

	if (!set->applied)
		return 0;
	ret = stop_outside(set, guest, err);
	if (ret)
		return ret;
	ret = undo(&u, 0, set->n, err);
	set->applied = ret != 0;
	resumed = guest->control->resume(guest, ret ? NULL : err);
	return ret ? ret : resumed;
}

int patch_set_apply(struct patch_set *set, const struct kernel *kernel, struct error *err)
{
	struct guest *guest = kernel->guest;
	int ret, resumed;

	if (set->applied)
		return 0;
	ret = patch_set_sort(set, err);
	if (!ret)
		ret = stop_outside(set, guest, err);
	if (ret)
		return ret;
	ret = check_between(set, kernel, err);
	if (!ret)
		ret = verify_old(set, kernel, err);
	if (!ret)
		ret = write_new(set, kernel, err);
	set->applied = !ret;
	resumed = guest->control->resume(guest, ret ? NULL : err);
	if (ret || !resumed)
		return ret;
	patch_set_revert(set, kernel, NULL, NULL);
	return resumed;
}

int patch_set_yield(struct patch_set *set, size_t i, const struct kernel *kernel, struct error *err)
{
	struct patch_outcome outcome = {0};
	const struct undo u = {set, kernel, false, &outcome};
	int ret = set->applied ? undo(&u, i, i + 1, err) : 0;

	set->v[i].yielded = set->v[i].yielded || !ret;
	return ret;
}
