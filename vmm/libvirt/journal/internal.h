/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between writing a journal and reading it. */
#ifndef SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H
#define SONDE_VMM_LIBVIRT_JOURNAL_INTERNAL_H

#include "vmm/libvirt/journal/journal.h"

enum { JOURNAL_MAX_LINE = 4 * JOURNAL_MAX_WRITE + 64 };

/* What a line of tasks says, in its order: pointers into *tasks. */
struct journal_task_numbers {
	uint64_t *wide[4];
	uint32_t *narrow[13];
};
struct journal_task_numbers journal_task_numbers(struct task_stacks *tasks);

#endif
