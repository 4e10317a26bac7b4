/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-reserved.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 /* of a list */ };

static const struct {
	const char *begin, *end;
	uint8_t size;
} lists[FAKE_NR_RESERVED] = {
	[FAKE_RESERVED_LABEL] = {"__start___jump_table", "__stop___jump_table", 16},
	[FAKE_RESERVED_STATIC_CALL] = {"__start_static_call_sites", "__stop_static_call_sites", 8},
	[FAKE_RESERVED_LOCK] = {"__smp_locks", "__smp_locks_end", 8},
	[FAKE_RESERVED_FAULT] = {"__start___ex_table", "__stop___ex_table", 12},
	[FAKE_RESERVED_BLACKLIST] = {"__start_kprobe_blacklist", "__stop_kprobe_blacklist", 8},
};

void fake_reserved_add(struct fake_guest *fg, const uint64_t to[FAKE_NR_RESERVED])
{
	for (unsigned int i = 0; i < FAKE_NR_RESERVED; i++) {
		const uint64_t at = FAKE_RESERVED + ROOM * i;
		const struct fake_symbol bounds[] = {
			{lists[i].begin, at}, {lists[i].end, at + lists[i].size}, {NULL, 0}};
		const uint64_t pointer = fg->base.image.text + to[i];
		const int32_t distance = (int32_t)(to[i] - at);
		uint8_t entry[ROOM] = {0};

		if (!to[i])
			continue;
		memcpy(entry, &distance, sizeof(distance));
		if (i == FAKE_RESERVED_BLACKLIST)
			memcpy(entry, &pointer, sizeof(pointer));
		if (fake_guest_add_symbols(fg, bounds))
			abort();
		memcpy(fg->base.image.init_bytes + at, entry, lists[i].size);
	}
}

void fake_reserved_lead(struct fake_guest *fg, enum fake_reserved list, uint64_t to)
{
	const uint64_t at = FAKE_RESERVED + ROOM * list + sizeof(int32_t);
	const int32_t distance = (int32_t)(to - at);

	memcpy(fg->base.image.init_bytes + at, &distance, sizeof(distance));
}
