/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H
#define SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H

#include "vmm/libvirt/journal/journal.h"

/* file.c: add a line. -EIO as in journal.h. */
int journal_append(struct libvirt_journal *journal, const char *line, size_t size,
		   struct error *err);

/* lines.c: the lines of a journal. Each returns the line's length, with its newline. */
enum { JOURNAL_MAX_LINE = 4 * JOURNAL_MAX_WRITE + 64 };

size_t journal_line_instance(char line[static JOURNAL_MAX_LINE],
			     const struct libvirt_instance *instance);
size_t journal_line_write(char line[static JOURNAL_MAX_LINE], uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size);
size_t journal_line_loan(char line[static JOURNAL_MAX_LINE], const struct journal_loan *loan);
size_t journal_line_tasks(char line[static JOURNAL_MAX_LINE], const struct task_stacks *tasks);

/* The numbers of a "tasks" line, in its order: pointers into *tasks. */
struct journal_task_numbers {
	uint64_t *wide[4];
	uint32_t *narrow[14];
};
struct journal_task_numbers journal_task_numbers(struct task_stacks *tasks);

/* All lines of a journal with these contents. -EIO. */
int journal_write_contents(int fd, const struct journal_contents *contents);

#endif
