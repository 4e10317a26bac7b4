/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this process knows of the places in its journal: what they held first, and which hold that
 * again. A write that puts it back has no line, as the journal has the bytes already. A place that
 * is put back is left out when the journal is rewritten.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vmm/libvirt/journal/internal.h"

/* Patches have at most 15 bytes, entries of page tables 8. Larger places have lines for each write,
 * and stay. */
enum { MAX_INDEXED = 16 };

struct entry {
	uint8_t original[MAX_INDEXED];
	bool back; /* it holds these bytes again */
};

uint64_t journal_place_key(uint64_t gpa, size_t size)
{
	return gpa | (uint64_t)(size - 1) << JOURNAL_GPA_BITS;
}

static struct entry *find(const struct libvirt_journal *j, uint64_t gpa, size_t size)
{
	return size <= MAX_INDEXED ? u64_map_find(&j->places, journal_place_key(gpa, size)) : NULL;
}

bool journal_index_has(const struct libvirt_journal *j, uint64_t gpa, const uint8_t *bytes,
		       size_t size)
{
	const struct entry *entry = find(j, gpa, size);

	return entry && !memcmp(entry->original, bytes, size);
}

enum journal_known journal_index_state(const struct libvirt_journal *j, uint64_t gpa, size_t size)
{
	const struct entry *entry = find(j, gpa, size);

	if (!entry)
		return JOURNAL_UNKNOWN;
	return entry->back ? JOURNAL_BACK : JOURNAL_OURS;
}

static void set_back(struct libvirt_journal *j, struct entry *entry, bool back)
{
	j->nr_back += (size_t)back - entry->back;
	entry->back = back;
}

void journal_index_set(struct libvirt_journal *j, uint64_t gpa, size_t size,
		       enum journal_known state)
{
	struct entry *entry = find(j, gpa, size);

	if (!entry)
		return;
	set_back(j, entry, state == JOURNAL_BACK);
	if (state == JOURNAL_UNKNOWN)
		u64_map_remove_value(&j->places, entry);
}

int journal_index_add(struct libvirt_journal *j, uint64_t gpa, const uint8_t *before, size_t size,
		      struct error *err)
{
	struct entry *entry;
	bool is_new;

	if (size > MAX_INDEXED)
		return 0;
	if (!j->places.stride)
		u64_map_init(&j->places, sizeof(*entry));
	entry = u64_map_insert(&j->places, journal_place_key(gpa, size), &is_new);
	if (!entry)
		return error_set(err, ENOMEM, "out of memory");
	/* what was put back, the guest has changed itself since */
	if (is_new || entry->back)
		memcpy(entry->original, before, size);
	set_back(j, entry, false);
	return 0;
}

void libvirt_journal_written(struct libvirt_journal *j, uint64_t gpa, const uint8_t *after,
			     size_t size)
{
	struct entry *entry = find(j, gpa, size);

	if (entry)
		set_back(j, entry, !memcmp(entry->original, after, size));
}

/* --- what can be forgotten -------------------------------------------------------------------- */

struct span {
	uint64_t begin, end;
	size_t place; /* its index */
};

static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static struct span *sorted_spans(const struct journal_contents *c)
{
	struct span *spans = calloc(c->nr_places, sizeof(*spans));

	for (size_t i = 0; spans && i < c->nr_places; i++) {
		const struct journal_place *p = &c->places[i];

		spans[i] = (struct span){p->gpa, p->gpa + p->size, i};
	}
	if (spans)
		qsort(spans, c->nr_places, sizeof(*spans), by_begin);
	return spans;
}

/* The places from span `i` on that overlap, one with the next: the index behind the last one. *back:
 * all of them are put back. */
static size_t next_group(const struct libvirt_journal *j, const struct journal_contents *c,
			 const struct span *spans, size_t i, bool *back)
{
	uint64_t end = spans[i].end;

	*back = true;
	do {
		const struct journal_place *p = &c->places[spans[i].place];

		*back &= journal_index_state(j, p->gpa, p->size) == JOURNAL_BACK;
		end = spans[i].end > end ? spans[i].end : end;
		i++;
	} while (i < c->nr_places && spans[i].begin < end);
	return i;
}

/* In their order. */
static size_t move_to_end(struct journal_contents *c, const bool *forgotten,
			  struct journal_place *room)
{
	size_t kept = 0, n = 0;

	for (size_t i = 0; i < c->nr_places; i++)
		if (forgotten[i])
			room[n++] = c->places[i];
		else
			c->places[kept++] = c->places[i];
	memcpy(c->places + kept, room, n * sizeof(*room));
	return n;
}

size_t journal_index_sort(const struct libvirt_journal *j, struct journal_contents *c)
{
	struct span *spans = j->nr_back ? sorted_spans(c) : NULL;
	bool *forgotten = calloc(c->nr_places + 1, sizeof(*forgotten)), back;
	struct journal_place *room = calloc(c->nr_places + 1, sizeof(*room));
	size_t n = 0;

	for (size_t i = 0, next; spans && forgotten && i < c->nr_places; i = next) {
		next = next_group(j, c, spans, i, &back);
		for (size_t k = i; k < next; k++)
			forgotten[spans[k].place] = back;
	}
	if (spans && forgotten && room)
		n = move_to_end(c, forgotten, room);
	free(room);
	free(forgotten);
	free(spans);
	return n;
}
