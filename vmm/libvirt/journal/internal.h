/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H
#define SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H

#include "vmm/libvirt/journal/journal.h"

/* file.c: add a line. -EIO as in journal.h. */
int journal_append(struct libvirt_journal *journal, const char *line, size_t size,
		   struct error *err);

/* file.c: remove this line if it is the last one. -ENOENT: it is not. */
int journal_take_back_line(struct libvirt_journal *journal, const char *line);
/* file.c: for a line of another place. -EFBIG: the journal is full of places that are not put back.
 */
int journal_make_room(struct libvirt_journal *journal, struct error *err);

/* index.c */
enum { JOURNAL_GPA_BITS = 52 };
/* Of a place, in maps. Fits 64 bits: sizes up to JOURNAL_MAX_WRITE have 12. */
uint64_t journal_place_key(uint64_t gpa, size_t size);
/* Whether these bytes are what the place held before the first write. False if that is not known.
 */
bool journal_index_has(const struct libvirt_journal *journal, uint64_t gpa, const uint8_t *bytes,
		       size_t size);
/* Whether the place holds what it held first: BACK. UNKNOWN: no line is of it, or it is too large.
 */
enum journal_known { JOURNAL_UNKNOWN, JOURNAL_OURS, JOURNAL_BACK };
enum journal_known journal_index_state(const struct libvirt_journal *journal, uint64_t gpa,
				       size_t size);
void journal_index_set(struct libvirt_journal *journal, uint64_t gpa, size_t size,
		       enum journal_known state);
/* A line says that the place is written, `before` is what it holds. -ENOMEM. */
int journal_index_add(struct libvirt_journal *journal, uint64_t gpa, const uint8_t *before,
		      size_t size, struct error *err);
/* Move places that nothing is to be undone in to the end of contents->places: how many. Of places
 * that overlap, the bytes of one may be part of the other's original: all of them are put back, or
 * none is forgotten. */
size_t journal_index_sort(const struct libvirt_journal *journal, struct journal_contents *contents);

/* lines.c: the lines of a journal. Each returns the line's length, with its newline. */
enum { JOURNAL_MAX_LINE = 4 * JOURNAL_MAX_WRITE + 64 };

size_t journal_line_instance(char line[static JOURNAL_MAX_LINE],
			     const struct libvirt_instance *instance);
size_t journal_line_tracer(char line[static JOURNAL_MAX_LINE], const struct libvirt_pid *tracer);
size_t journal_line_write(char line[static JOURNAL_MAX_LINE], uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size);
size_t journal_line_file(char line[static JOURNAL_MAX_LINE], const char *name);
size_t journal_line_loan(char line[static JOURNAL_MAX_LINE], const struct journal_loan *loan);
size_t journal_line_tasks(char line[static JOURNAL_MAX_LINE], const struct task_stacks *tasks);

/* The numbers of a "tasks" line, in its order: pointers into *tasks. */
struct journal_task_numbers {
	uint64_t *wide[4];
	uint32_t *narrow[16];
};
struct journal_task_numbers journal_task_numbers(struct task_stacks *tasks);

/* All lines of a journal with these contents, of the first `nr_places` places. -EIO. */
int journal_write_contents(int fd, const struct journal_contents *contents, size_t nr_places);

#endif
