/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H
#define SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H

#include "vmm/libvirt/journal/journal.h"

/* lines.c: the lines of a journal. Each returns the line's length, with its newline. */
enum { JOURNAL_MAX_LINE = 4 * JOURNAL_MAX_WRITE + 64 };

size_t journal_line_instance(char line[static JOURNAL_MAX_LINE],
			     const struct libvirt_instance *instance);
size_t journal_line_write(char line[static JOURNAL_MAX_LINE], uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size);
size_t journal_line_loan(char line[static JOURNAL_MAX_LINE], const struct journal_loan *loan);
size_t journal_line_tasks(char line[static JOURNAL_MAX_LINE], const struct task_stacks *tasks);

#endif
