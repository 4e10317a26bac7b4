/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/patch-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How often and how long to let the guest run on when a vCPU is inside a patch. */
enum { BUSY_TRIES = 100, BUSY_WAIT_NS = 200000 };

static bool same_patch(const struct patch *a, const struct patch *b)
{
	return a->gva == b->gva && a->size == b->size &&
	       !memcmp(a->old_bytes, b->old_bytes, a->size) &&
	       !memcmp(a->new_bytes, b->new_bytes, a->size);
}

static int patch_set_grow(struct patch_set *set, struct error *err)
{
	size_t capacity = set->capacity ? 2 * set->capacity : 64;
	struct patch *v;

	if (set->n < set->capacity)
		return 0;
	v = realloc(set->v, capacity * sizeof(*v));
	if (!v)
		return error_set(err, ENOMEM, "out of memory");
	set->v = v;
	set->capacity = capacity;
	return 0;
}

int patch_set_add(struct patch_set *set, const struct patch *patch, struct error *err)
{
	if (!patch->size || patch->size > PATCH_MAX_SIZE)
		return error_set_at(err, EINVAL, patch->gva, "%s: a patch of %u bytes",
				    patch->function, patch->size);
	for (size_t i = 0; i < set->n; i++) {
		const struct patch *p = &set->v[i];

		if (same_patch(p, patch))
			return 0;
		if (patch->gva < p->gva + p->size && p->gva < patch->gva + patch->size)
			return error_set_at(err, EBUSY, patch->gva,
					    "patch of %s overlaps that of %s", patch->function,
					    p->function);
	}
	if (patch_set_grow(set, err))
		return -ENOMEM;
	set->v[set->n++] = *patch;
	return 0;
}

void patch_set_deinit(struct patch_set *set)
{
	free(set->v);
	*set = (struct patch_set){0};
}

static int verify_old(const struct patch_set *set, const struct kernel *kernel, struct error *err)
{
	uint8_t now[PATCH_MAX_SIZE];

	for (size_t i = 0; i < set->n; i++) {
		const struct patch *p = &set->v[i];
		int ret;

		if (p->yielded)
			continue;
		ret = kernel_read(kernel, p->gva, now, p->size, err);
		if (ret)
			return ret;
		if (memcmp(now, p->old_bytes, p->size))
			return error_set_at(err, ESTALE, p->gva,
					    "%s: the guest changed the bytes to be patched",
					    p->function);
	}
	return 0;
}

static int refuse_inside(const struct patch_set *set, struct guest *guest, struct error *err)
{
	struct guest_regs regs;

	for (unsigned int vcpu = 0; vcpu < guest->nr_vcpus; vcpu++) {
		int ret = guest->control->get_regs(guest, vcpu, &regs, err);

		if (ret)
			return ret;
		for (size_t i = 0; i < set->n; i++) {
			const struct patch *p = &set->v[i];

			if (regs.rip > p->gva && regs.rip < p->gva + p->size)
				return error_set_at(err, EBUSY, regs.rip,
						    "vCPU %u is inside a patch of %s", vcpu,
						    p->function);
		}
	}
	return 0;
}

static bool is_break(const struct patch *p, const struct kernel *kernel)
{
	return p->trap && (kernel->guest->caps & GUEST_CAP_BREAK);
}

static int put_bytes(const struct patch *p, const struct kernel *kernel, struct error *err)
{
	uint8_t now[PATCH_MAX_SIZE];
	int ret = kernel_write(kernel, p->gva, p->new_bytes, p->size, err);

	if (!ret)
		ret = kernel_read(kernel, p->gva, now, p->size, err);
	if (!ret && memcmp(now, p->new_bytes, p->size))
		ret = error_set_at(err, EIO, p->gva, "%s: patch does not read back", p->function);
	return ret;
}

static int put(const struct patch *p, const struct kernel *kernel, struct error *err)
{
	return is_break(p, kernel) ? kernel_set_break(kernel, p->gva, true, err)
				   : put_bytes(p, kernel, err);
}

static void take_back(const struct patch *p, const struct kernel *kernel)
{
	if (is_break(p, kernel))
		kernel_set_break(kernel, p->gva, false, NULL);
	else
		kernel_write(kernel, p->gva, p->old_bytes, p->size, NULL);
}

static void write_back(const struct patch_set *set, const struct kernel *kernel, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!set->v[i].yielded)
			take_back(&set->v[i], kernel);
}

static int write_new(const struct patch_set *set, const struct kernel *kernel, struct error *err)
{
	for (size_t i = 0; i < set->n; i++) {
		int ret = set->v[i].yielded ? 0 : put(&set->v[i], kernel, err);

		if (ret) {
			write_back(set, kernel, i + 1);
			return ret;
		}
	}
	return 0;
}

/* Stop the guest with no vCPU inside a patch: a vCPU there is given some time to leave. */
static int stop_outside(const struct patch_set *set, struct guest *guest, struct error *err)
{
	struct timespec wait = {.tv_nsec = BUSY_WAIT_NS};
	int ret = -EBUSY;

	for (int i = 0; i < BUSY_TRIES && ret == -EBUSY; i++) {
		if (i)
			nanosleep(&wait, NULL);
		ret = guest->control->stop(guest, err);
		if (ret)
			return ret;
		ret = refuse_inside(set, guest, err);
		if (ret)
			guest->control->resume(guest, NULL);
	}
	return ret;
}

int patch_set_apply(struct patch_set *set, const struct kernel *kernel, struct error *err)
{
	struct guest *guest = kernel->guest;
	int ret;

	if (set->applied)
		return 0;
	ret = stop_outside(set, guest, err);
	if (ret)
		return ret;
	ret = verify_old(set, kernel, err);
	if (!ret)
		ret = write_new(set, kernel, err);
	set->applied = !ret;
	guest->control->resume(guest, ret ? NULL : err);
	return ret;
}

static int revert_one(const struct patch *p, const struct kernel *kernel,
		      struct patch_outcome *outcome, struct error *err)
{
	uint8_t now[PATCH_MAX_SIZE];
	bool broken = is_break(p, kernel);
	int ret;

	if (p->yielded)
		return 0;
	ret = broken ? kernel_set_break(kernel, p->gva, false, err) : 0;
	if (!ret)
		ret = kernel_read(kernel, p->gva, now, p->size, err);
	if (ret)
		return ret;
	if (!broken && !memcmp(now, p->new_bytes, p->size)) {
		ret = kernel_write(kernel, p->gva, p->old_bytes, p->size, err);
		outcome->restored += !ret;
		return ret;
	}
	if (!memcmp(now, p->old_bytes, p->size)) {
		broken ? outcome->restored++ : outcome->unchanged++;
		return 0;
	}
	if (!outcome->foreign++)
		outcome->first_foreign = p->gva;
	return 0;
}

int patch_set_revert(struct patch_set *set, const struct kernel *kernel,
		     struct patch_outcome *outcome, struct error *err)
{
	struct guest *guest = kernel->guest;
	struct patch_outcome local = {0};
	int ret = 0;

	if (set->applied) {
		ret = stop_outside(set, guest, err);
		if (ret)
			return ret;
		for (size_t i = 0; i < set->n; i++) {
			int one = revert_one(&set->v[i], kernel, &local, ret ? NULL : err);

			ret = ret ? ret : one;
		}
		set->applied = ret != 0;
		guest->control->resume(guest, NULL);
	}
	if (outcome)
		*outcome = local;
	return ret;
}

int patch_set_give(struct patch_set *set, size_t i, const struct kernel *kernel, struct error *err)
{
	struct patch_outcome outcome = {0};
	int ret = set->applied ? revert_one(&set->v[i], kernel, &outcome, err) : 0;

	set->v[i].yielded = set->v[i].yielded || !ret;
	return ret;
}
