/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/callers.h"

#include <errno.h>
#include "formats/heap/site-role.h"

void callers_init(struct callers *callers)
{
	*callers = (struct callers){0};
	u64_map_init(&callers->roles, sizeof(uint8_t));
}

void callers_deinit(struct callers *callers)
{
	u64_map_deinit(&callers->roles);
}

/* An enum site_role, or -ENOMEM. */
static int role_at(struct callers *callers, const struct sidecar *sidecar, uint64_t address)
{
	bool is_new;
	uint8_t *role = u64_map_insert(&callers->roles, address, &is_new);

	if (!role)
		return -ENOMEM;
	if (is_new)
		*role = (uint8_t)site_role(sidecar, address);
	return *role;
}

/* Slabs, and the pages of large objects, are no memory of whoever caused them: theirs is what lies
 * in them. */
static bool has_callers(int role, const struct kmem_record *record)
{
	return role == SITE_WRAPPER || role == SITE_PAGES ||
	       (record->type_id != KMEM_TYPE_PAGES && (role == SITE_SLAB || role == SITE_LARGE));
}

static bool is_charged(int role, const struct kmem_record *record)
{
	return role == SITE_PLAIN ||
	       (record->type_id == KMEM_TYPE_PAGES && (role == SITE_SLAB || role == SITE_LARGE));
}

int callers_charge(struct callers *callers, const struct sidecar *sidecar,
		   const struct event *event, const struct kmem_record *record, uint64_t *site)
{
	const struct event_field *chain = event_field_chain(event->class);
	uint64_t frames[EVENT_STACK_FRAMES], last = record->call_site;
	int role = chain ? role_at(callers, sidecar, record->call_site) : SITE_PLAIN;
	unsigned int n, i = 0;
	bool cut;

	if (role < 0 || !has_callers(role, record))
		return role < 0 ? role : 0;
	n = event_field_frames(chain, event->bytes, frames, &cut);
	/* chains of pages begin within the allocator */
	while (i < n && frames[i] != record->call_site)
		i++;
	while (++i < n) {
		role = role_at(callers, sidecar, frames[i]);
		if (role < 0)
			return role;
		if (is_charged(role, record) || role == SITE_RUNNER) {
			*site = role != SITE_RUNNER ? frames[i] : last;
			return 0;
		}
		if (role == SITE_WRAPPER || role == SITE_PAGES)
			last = frames[i];
	}
	return 0;
}
