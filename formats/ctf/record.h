/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_RECORD_H
#define SONDE_FORMATS_CTF_RECORD_H

#include "formats/ctf/packet.h"
#include "formats/ctf/ctf.h"
#include "formats/event/record.h"

/*
 * Between records and events. Lossless for every record: the first form that holds it all is taken.
 */

/* Ids that small forms use in place of values; 0: there is none. */
struct ctf_ids {
	unsigned int site, gfp;
};

/* Whether the clock of events can have a record's time stamp. */
static inline bool ctf_clock_holds(int64_t timestamp)
{
	return timestamp >= 0 && timestamp <= CTF_CLOCK_MAX;
}

/* `clock` is that of the stream's event before; the event's own is never earlier. */
void ctf_event_from_record(const struct kmem_record *record, const struct ctf_ids *ids,
			   uint64_t clock, struct ctf_event *event);

/* Whether the event is a record, and not a definition. */
bool ctf_event_is_record(const struct ctf_event *event);

/* Whether it names its call site, or its GFP flags, by an id, to be put into values[] in full
 * (CTF_MEMBER_SITE, CTF_MEMBER_GFP) before ctf_event_to_record(). */
bool ctf_event_has(const struct ctf_event *event, enum ctf_member member);

/* The record that ctf_event_from_record() made the event of; ids of caches and types are the
 * trace's. */
void ctf_event_to_record(const struct ctf_event *event, struct kmem_record *record);

#endif
