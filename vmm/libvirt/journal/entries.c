/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is written to a journal, and in which lines. */
#include <errno.h>
#include <string.h>
#include "vmm/libvirt/journal/internal.h"

int libvirt_journal_instance(struct libvirt_journal *journal,
			     const struct libvirt_instance *instance, struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	if (!instance->boot[0])
		return 0;
	return journal_append(journal, line, journal_line_instance(line, instance), err);
}

int libvirt_journal_write(struct libvirt_journal *journal, uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size, struct error *err)
{
	char line[JOURNAL_MAX_LINE];
	enum journal_known state;
	int ret;

	if (size > JOURNAL_MAX_WRITE)
		return error_set_at(err, E2BIG, gpa, "%zu bytes are too many at once", size);
	if (journal_index_has(journal, gpa, after, size))
		return 0;
	ret = journal_make_room(journal, err);
	state = journal_index_state(journal, gpa, size);
	if (!ret)
		ret = journal_index_add(journal, gpa, before, size, err);
	if (ret)
		return ret;
	ret = journal_append(journal, line, journal_line_write(line, gpa, before, after, size),
			     err);
	if (ret)
		journal_index_set(journal, gpa, size, state);
	return ret;
}

static int append_word(struct libvirt_journal *journal, const char *word, struct error *err)
{
	return journal_append(journal, word, strlen(word), err);
}

int libvirt_journal_stop(struct libvirt_journal *journal, bool stopped, struct error *err)
{
	return append_word(journal, stopped ? "stop\n" : "go\n", err);
}

int libvirt_journal_breaks(struct libvirt_journal *journal, struct error *err)
{
	return append_word(journal, "breaks\n", err);
}

int libvirt_journal_lend(struct libvirt_journal *journal, const struct journal_loan *loan,
			 struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	return journal_append(journal, line, journal_line_loan(line, loan), err);
}

int libvirt_journal_lent(struct libvirt_journal *journal, struct error *err)
{
	return append_word(journal, "lent\n", err);
}

int libvirt_journal_reset(struct libvirt_journal *journal, struct error *err)
{
	return append_word(journal, "reset\n", err);
}

int libvirt_journal_tasks(struct libvirt_journal *journal, const struct task_stacks *tasks,
			  struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	return journal_append(journal, line, journal_line_tasks(line, tasks), err);
}
