/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/patch-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"

/* For `n` more patches. */
static int patch_set_grow(struct patch_set *set, size_t n, struct error *err)
{
	const size_t capacity = 2 * (set->n + n);
	struct patch *v;

	if (set->n + n <= set->capacity)
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
	int ret;

	if (!patch->size || patch->size > PATCH_MAX_SIZE)
		return error_set_at(err, EINVAL, patch->gva, "%s: a patch of %u bytes",
				    patch->function, patch->size);
	ret = patch_set_grow(set, 1, err);
	if (ret)
		return ret;
	set->v[set->n++] = *patch;
	set->sorted = false;
	return 0;
}

static int add_patches(struct patch_set *set, const struct patch *v, size_t n, struct error *err)
{
	int ret = patch_set_grow(set, n, err);

	if (ret || !n)
		return ret;
	memcpy(set->v + set->n, v, n * sizeof(*v));
	set->n += n;
	set->sorted = false;
	return 0;
}

int patch_set_add_all(struct patch_set *set, const struct patch_set *from, struct error *err)
{
	return add_patches(set, from->v, from->n, err);
}

int patch_set_add_range(struct patch_set *set, const struct patch_set *from, uint64_t begin,
			uint64_t end, struct error *err)
{
	const size_t first = patch_set_find(from, begin);
	size_t last = patch_set_find(from, end);

	/* one that `end` cuts */
	last += last < from->n && from->v[last].gva < end;
	return add_patches(set, from->v + first, last - first, err);
}

static int by_gva(const void *a, const void *b)
{
	const struct patch *x = a, *y = b;

	return x->gva < y->gva ? -1 : x->gva > y->gva;
}

static bool same_patch(const struct patch *a, const struct patch *b)
{
	return a->gva == b->gva && a->size == b->size &&
	       !memcmp(a->old_bytes, b->old_bytes, a->size) &&
	       !memcmp(a->new_bytes, b->new_bytes, a->size);
}

static bool is_ascending(const struct patch_set *set)
{
	for (size_t i = 1; i < set->n; i++)
		if (set->v[i - 1].gva >= set->v[i].gva)
			return false;
	return true;
}

int patch_set_sort(struct patch_set *set, struct error *err)
{
	size_t n = 0;

	if (set->sorted || !set->n)
		return 0;
	if (!is_ascending(set))
		qsort(set->v, set->n, sizeof(*set->v), by_gva);
	for (size_t i = 0; i < set->n; i++) {
		const struct patch *p = &set->v[i], *last = n ? &set->v[n - 1] : NULL;

		if (last && same_patch(last, p))
			continue;
		if (last && p->gva < last->gva + last->size)
			return error_set_at(err, EBUSY, p->gva, "patch of %s overlaps that of %s",
					    p->function, last->function);
		set->v[n++] = *p;
	}
	set->n = n;
	set->sorted = true;
	return 0;
}

static const struct patch *unless_out(const struct patch *patch)
{
	return patch && !patch_is_out(patch) ? patch : NULL;
}

static int add_difference(struct patch_set *out, const struct patch *from, const struct patch *to,
			  struct error *err)
{
	struct patch patch;

	if ((!from && !to) || (from && to && !memcmp(from->new_bytes, to->new_bytes, to->size)))
		return 0;
	patch = from ? *from : *to;
	memcpy(patch.old_bytes, from ? from->new_bytes : to->old_bytes, patch.size);
	memcpy(patch.new_bytes, to ? to->new_bytes : from->old_bytes, patch.size);
	patch.between = from ? NULL : patch.between;
	return patch_set_add(out, &patch, err);
}

int patch_set_difference(const struct patch_set *from, const struct patch_set *to,
			 struct patch_set *out, struct error *err)
{
	size_t i = 0, k = 0;
	int ret = 0;

	while (!ret && (i < from->n || k < to->n)) {
		const struct patch *a = i < from->n ? &from->v[i] : NULL;
		const struct patch *b = k < to->n ? &to->v[k] : NULL;

		if (a && b && a->gva < b->gva)
			b = NULL;
		else if (a && b && b->gva < a->gva)
			a = NULL;
		ret = add_difference(out, unless_out(a), unless_out(b), err);
		i += a != NULL;
		k += b != NULL;
	}
	return ret ? ret : patch_set_sort(out, err);
}

size_t patch_set_wanted(const struct patch_set *set)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++)
		n += !set->v[i].off;
	return n;
}

void patch_set_deinit(struct patch_set *set)
{
	free(set->v);
	*set = (struct patch_set){0};
}

static uint64_t end_at(const void *patches, size_t i)
{
	const struct patch *patch = (const struct patch *)patches + i;

	return patch->gva + patch->size;
}

size_t patch_set_find(const struct patch_set *set, uint64_t gva)
{
	return search_above(set->n, gva, end_at, set->v);
}

const struct patch *patch_set_at(const struct patch_set *set, uint64_t gva)
{
	size_t i = patch_set_find(set, gva);

	return i < set->n && set->v[i].gva == gva ? &set->v[i] : NULL;
}

enum patch_place_state patch_place_state(const struct patch_place *place, const uint8_t *now)
{
	if (!memcmp(now, place->original, place->size))
		return PATCH_PLACE_ORIGINAL;
	for (size_t i = 0; i < place->nr_ours; i++)
		if (!memcmp(now, place->ours + i * place->size, place->size))
			return PATCH_PLACE_OURS;
	return PATCH_PLACE_FOREIGN;
}

int patch_place_restore(const struct patch_place *place, const uint8_t *now, patch_write_fn *write,
			void *arg, struct patch_outcome *outcome, struct error *err)
{
	int ret = 0;

	switch (patch_place_state(place, now)) {
	case PATCH_PLACE_ORIGINAL:
		outcome->unchanged++;
		break;
	case PATCH_PLACE_FOREIGN:
		if (!outcome->foreign++)
			outcome->first_foreign = place->address;
		break;
	case PATCH_PLACE_OURS:
		ret = write(arg, place->address, place->original, place->size, err);
		ret ? outcome->failed++ : outcome->restored++;
		break;
	}
	return ret;
}
