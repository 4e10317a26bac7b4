/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/recovery/places.h"

#include <errno.h>
#include <string.h>
#include "introspect/guest/guest.h"

static struct patch_place patch_place(const struct journal_place *place)
{
	return (struct patch_place){place->gpa, place->size, place->original, place->ours,
				    place->nr_ours};
}

static int is_ours(struct guest *guest, const struct journal_place *place, bool *out,
		   struct error *err)
{
	const struct patch_place patch = patch_place(place);
	uint8_t now[JOURNAL_MAX_WRITE];
	int ret = guest_phys_read(guest, place->gpa, now, place->size, err);

	*out = !ret && patch_place_state(&patch, now) == PATCH_PLACE_OURS;
	return ret;
}

int libvirt_journal_pending(const struct libvirt_journal *journal, struct guest *guest, size_t *out,
			    struct error *err)
{
	struct journal_contents contents = {0};
	int ret = libvirt_journal_read(journal, &contents, err);
	bool ours;

	*out = 0;
	for (size_t i = 0; !ret && i < contents.nr_places; i++) {
		ret = is_ours(guest, &contents.places[i], &ours, err);
		*out += ours;
	}
	journal_contents_deinit(&contents);
	return ret;
}

int libvirt_journal_check_running(const struct libvirt_journal *journal, struct error *err)
{
	struct journal_contents contents = {0};
	int ret = libvirt_journal_read(journal, &contents, err);

	if (!ret && contents.stopped)
		ret = error_set(err, EBUSY,
				"the tracer stopped the domain and could not resume it");
	journal_contents_deinit(&contents);
	return ret;
}

/* An entry of a page table that maps scratch memory. It was free before; text is never all zeros.
 */
static bool is_mapping(const struct journal_place *place)
{
	static const uint8_t zeros[sizeof(uint64_t)];

	return place->size == sizeof(zeros) && !memcmp(place->original, zeros, sizeof(zeros));
}

/* A breakpoint. In another guest's memory such a byte may be there by itself, in padding for
 * instance. */
static bool is_any_byte(const struct journal_place *place)
{
	return place->size == 1;
}

int libvirt_places_mapped(const struct journal_contents *contents, struct guest *guest, bool *out,
			  struct error *err)
{
	int ret = 0;

	*out = false;
	for (size_t i = 0; !ret && i < contents->nr_places; i++) {
		bool ours;

		if (!is_mapping(&contents->places[i]))
			continue;
		ret = is_ours(guest, &contents->places[i], &ours, err);
		*out |= ours;
	}
	return ret;
}

static int write_phys(void *guest, uint64_t gpa, const uint8_t *bytes, size_t size,
		      struct error *err)
{
	return guest_phys_write(guest, gpa, bytes, size, err);
}

static int restore(struct guest *guest, const struct journal_place *place,
		   struct patch_outcome *outcome, struct error *err)
{
	const struct patch_place patch = patch_place(place);
	uint8_t now[JOURNAL_MAX_WRITE];
	int ret = guest_phys_read(guest, place->gpa, now, place->size, err);

	return ret ? ret : patch_place_restore(&patch, now, write_phys, guest, outcome, err);
}

int libvirt_places_restore(const struct journal_contents *contents, struct guest *guest,
			   bool mappings, struct patch_outcome *outcome, struct error *err)
{
	int ret = 0;

	for (size_t i = contents->nr_places; !ret && i-- > 0;) {
		const struct journal_place *place = &contents->places[i];

		if (is_mapping(place) == mappings && !(contents->reset && is_any_byte(place)))
			ret = restore(guest, place, outcome, err);
	}
	return ret;
}
