/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/plan/inside-places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "introspect/kernel/identify.h"

static int keep_standing(void *arg, struct patch *patch, const uint8_t *now, struct error *err)
{
	struct inside_places *places = arg;

	if (!now || patch->yielded || memcmp(now, patch->new_bytes, patch->size) != 0)
		return 0;
	return patch_set_add(&places->present, patch, err);
}

int inside_places_make(struct inside_places *places, const struct kernel *kernel,
		       struct patch_plan *plan, struct error *err)
{
	int ret;

	*places = (struct inside_places){0};
	ret = patch_set_read(&plan->inside, kernel, keep_standing, places, err);
	return ret ? ret : patch_set_sort(&places->present, err);
}

/* The bytes of the tracer's own patches are those that they stand for, as those of kprobes. */
static void hide_patches(const struct patch_set *set, uint64_t gva, size_t size, uint8_t *bytes)
{
	for (size_t i = patch_set_find(set, gva); i < set->n; i++) {
		const struct patch *p = &set->v[i];
		const uint64_t at = p->gva - gva;

		if (p->gva >= gva + size)
			break;
		if (p->gva < gva || at + p->size > size || patch_is_out(p) ||
		    memcmp(bytes + at, p->new_bytes, p->size) != 0)
			continue;
		memcpy(bytes + at, p->old_bytes, p->size);
	}
}

static int read_text(const struct kernel *kernel, const struct patch_plan *plan, uint64_t gva,
		     size_t size, uint8_t *bytes, struct error *err)
{
	const struct patch_set *const sets[] = {&plan->entries, &plan->returns, &plan->shared,
						&plan->slots, &plan->inside};
	int ret = kernel_read(kernel, gva, bytes, size, err);

	if (!ret)
		guest_kprobes_restore(kernel, gva, bytes, size);
	for (size_t i = 0; !ret && i < sizeof(sets) / sizeof(sets[0]); i++)
		hide_patches(sets[i], gva, size, bytes);
	return ret;
}

/* Errors as displace_find(). */
static int look_at(struct inside_place *place, const struct kernel *kernel,
		   const struct patch_plan *plan, struct decoder *decoder, uint64_t gva,
		   struct error *err)
{
	const struct symbol *symbol =
		symbols_covering(kernel->image->symbols, kernel_link(kernel, gva));
	struct displace_body body = {.kernel = kernel};
	uint8_t *bytes;
	int ret;

	if (!symbol || !symbol->size || symbol->size > FUNCTION_MAX_SIZE)
		return error_set_at(err, ENOTSUP, gva, "it lies in no function that is known");
	bytes = malloc(symbol->size);
	if (!bytes)
		return error_set(err, ENOMEM, "out of memory");
	body.name = symbol->name;
	body.gva = kernel_gva(kernel, symbol->address);
	body.size = symbol->size;
	body.bytes = bytes;
	place->patch.function = symbol->name;
	ret = read_text(kernel, plan, body.gva, body.size, bytes, err);
	if (!ret)
		ret = displace_find(&body, decoder, gva, &place->insn, err);
	free(bytes);
	return ret;
}

/* What stands was looked at before: a kprobe elsewhere in its function hides nothing of it. */
static int look_again(struct inside_place *place, const struct patch *standing,
		      struct decoder *decoder, struct error *err)
{
	place->patch.function = standing->function;
	return displaced_decode(decoder, standing->old_bytes, standing->size, standing->gva,
				&place->insn, err);
}

static void take(struct inside_place *place)
{
	place->patch.gva = place->insn.gva;
	place->patch.size = place->insn.size;
	memcpy(place->patch.old_bytes, place->insn.bytes, place->insn.size);
}

static struct inside_place *find(const struct inside_places *places, uint64_t gva)
{
	for (size_t i = 0; i < places->n; i++)
		if (places->v[i].patch.gva == gva)
			return &places->v[i];
	return NULL;
}

int inside_places_add(struct inside_places *places, const struct kernel *kernel,
		      const struct patch_plan *plan, struct decoder *decoder, uint64_t gva,
		      struct inside_place **out, struct error *err)
{
	const struct patch *standing = patch_set_at(&places->present, gva);
	struct inside_place *place = find(places, gva);
	struct error why;
	int ret;

	*out = place;
	if (place)
		return 0;
	if (!array_grow(&places->v, sizeof(*places->v), places->n, &places->room))
		return error_set(err, ENOMEM, "out of memory");
	place = &places->v[places->n];
	*place = (struct inside_place){.patch = {.gva = gva}};
	ret = standing ? look_again(place, standing, decoder, &why)
		       : look_at(place, kernel, plan, decoder, gva, &why);
	if (ret == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (ret)
		place->refusal = site_refuse(place->patch.function, gva, "%s", why.text);
	else
		take(place);
	places->n++;
	*out = place;
	return 0;
}

void inside_places_deinit(struct inside_places *places)
{
	patch_set_deinit(&places->present);
	free(places->v);
	*places = (struct inside_places){0};
}
