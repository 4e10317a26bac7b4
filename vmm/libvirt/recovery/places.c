/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/recovery/places.h"

#include <errno.h>
#include <string.h>
#include "introspect/guest/guest.h"

enum place_state { PLACE_OURS, PLACE_ORIGINAL, PLACE_FOREIGN };

static int read_state(struct guest *guest, const struct journal_place *place,
		      enum place_state *state, struct error *err)
{
	uint8_t now[JOURNAL_MAX_WRITE];
	int ret = guest_phys_read(guest, place->gpa, now, place->size, err);

	*state = PLACE_FOREIGN;
	if (ret)
		return ret;
	if (!memcmp(now, place->original, place->size))
		*state = PLACE_ORIGINAL;
	for (size_t i = 0; *state == PLACE_FOREIGN && i < place->nr_ours; i++)
		if (!memcmp(now, place->ours + i * place->size, place->size))
			*state = PLACE_OURS;
	return 0;
}

int libvirt_journal_pending(const struct libvirt_journal *journal, struct guest *guest, size_t *out,
			    struct error *err)
{
	struct journal_contents contents = {0};
	enum place_state state;
	int ret = libvirt_journal_read(journal, &contents, err);

	*out = 0;
	for (size_t i = 0; !ret && i < contents.nr_places; i++) {
		ret = read_state(guest, &contents.places[i], &state, err);
		*out += !ret && state == PLACE_OURS;
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
	enum place_state state = PLACE_ORIGINAL;
	int ret = 0;

	*out = false;
	for (size_t i = 0; !ret && i < contents->nr_places; i++) {
		if (!is_mapping(&contents->places[i]))
			continue;
		ret = read_state(guest, &contents->places[i], &state, err);
		*out |= state == PLACE_OURS;
	}
	return ret;
}

int libvirt_places_restore(const struct journal_contents *contents, struct guest *guest,
			   bool mappings, struct libvirt_restored *out, struct error *err)
{
	int ret = 0;

	for (size_t i = contents->nr_places; !ret && i-- > 0;) {
		const struct journal_place *place = &contents->places[i];
		enum place_state state;

		if (is_mapping(place) != mappings || (contents->reset && is_any_byte(place)))
			continue;
		ret = read_state(guest, place, &state, err);
		if (ret)
			break;
		out->foreign += state == PLACE_FOREIGN;
		if (state != PLACE_OURS)
			continue;
		ret = guest_phys_write(guest, place->gpa, place->original, place->size, err);
		out->restored += !ret;
	}
	return ret;
}
