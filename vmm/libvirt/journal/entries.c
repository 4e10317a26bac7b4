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

int libvirt_journal_tracer(struct libvirt_journal *journal, const struct libvirt_pid *tracer,
			   struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	if (!tracer->pid)
		return 0;
	return journal_append(journal, line, journal_line_tracer(line, tracer), err);
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

int libvirt_journal_file(struct libvirt_journal *journal, const char *name, struct error *err)
{
	char line[JOURNAL_MAX_LINE];

	return journal_append(journal, line, journal_line_file(line, name), err);
}

static int append_word(struct libvirt_journal *journal, const char *word, struct error *err)
{
	return journal_append(journal, word, strlen(word), err);
}

/* Whether the domain may have bytes or breakpoints of the tracer's. */
static bool has_changes(const struct libvirt_journal *journal)
{
	return journal->has_breaks || journal->places.count > journal->nr_back;
}

int libvirt_journal_stop(struct libvirt_journal *journal, bool stopped, struct error *err)
{
	const bool must_go_on = has_changes(journal);
	int ret = append_word(journal, stopped ? "stop\n" : "go\n", must_go_on ? NULL : err);

	if (ret && !stopped && !journal_take_back_line(journal, "stop\n"))
		return 0;
	return must_go_on ? 0 : ret;
}

int libvirt_journal_breaks(struct libvirt_journal *journal, struct error *err)
{
	int ret = append_word(journal, "breaks\n", err);

	journal->has_breaks |= !ret;
	return ret;
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
