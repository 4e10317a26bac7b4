/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines of a journal. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/text.h"
#include "vmm/libvirt/journal/internal.h"

struct journal_task_numbers journal_task_numbers(struct task_stacks *t)
{
	return (struct journal_task_numbers){
		.wide = {&t->root, &t->first, &t->cpu_bases, &t->runqueues},
		.narrow = {&t->levels, &t->cpus, &t->tasks, &t->signal, &t->threads, &t->thread,
			   &t->stack, &t->sp, &t->on_cpu, &t->fair_tasks, &t->fair_task,
			   &t->rt_queues, &t->rt_task, &t->stack_bytes, &t->ext_tasks,
			   &t->ext_task},
	};
}

size_t journal_line_instance(char line[static JOURNAL_MAX_LINE],
			     const struct libvirt_instance *instance)
{
	size_t n = (size_t)sprintf(line, "qemu %s %" PRIx64, instance->boot, instance->start);

	if (instance->has_user)
		n += (size_t)sprintf(line + n, " %" PRIx64, (uint64_t)instance->user);
	line[n++] = '\n';
	return n;
}

size_t journal_line_tracer(char line[static JOURNAL_MAX_LINE], const struct libvirt_pid *tracer)
{
	return (size_t)sprintf(line, "tracer %x %" PRIx64 "\n", (unsigned int)tracer->pid,
			       tracer->start);
}

size_t journal_line_write(char line[static JOURNAL_MAX_LINE], uint64_t gpa, const uint8_t *before,
			  const uint8_t *after, size_t size)
{
	size_t n = (size_t)sprintf(line, "write %" PRIx64 " ", gpa);

	n += hex_encode(line + n, before, size);
	line[n++] = ' ';
	n += hex_encode(line + n, after, size);
	line[n++] = '\n';
	return n;
}

size_t journal_line_file(char line[static JOURNAL_MAX_LINE], const char *name)
{
	return (size_t)sprintf(line, "file %.*s\n", JOURNAL_MAX_FILE, name);
}

size_t journal_line_loan(char line[static JOURNAL_MAX_LINE], const struct journal_loan *loan)
{
	return (size_t)sprintf(line, "lend %x %" PRIx64 " %" PRIx64 "\n", loan->vcpu, loan->cr3,
			       loan->lent);
}

size_t journal_line_tasks(char line[static JOURNAL_MAX_LINE], const struct task_stacks *tasks)
{
	struct task_stacks copy = *tasks;
	struct journal_task_numbers numbers = journal_task_numbers(&copy);
	size_t n = (size_t)sprintf(line, "tasks");

	for (size_t i = 0; i < sizeof(numbers.wide) / sizeof(numbers.wide[0]); i++)
		n += (size_t)sprintf(line + n, " %" PRIx64, *numbers.wide[i]);
	for (size_t i = 0; i < sizeof(numbers.narrow) / sizeof(numbers.narrow[0]); i++)
		n += (size_t)sprintf(line + n, " %" PRIx32, *numbers.narrow[i]);
	line[n++] = '\n';
	return n;
}

/* --- a whole journal ------------------------------------------------------------------------- */

static void put_word(FILE *file, bool wanted, const char *word)
{
	if (wanted)
		fputs(word, file);
}

static void put_place(FILE *file, const struct journal_place *place)
{
	char line[JOURNAL_MAX_LINE];

	for (size_t i = 0; i < place->nr_ours; i++)
		fwrite(line, 1,
		       journal_line_write(line, place->gpa, place->original,
					  place->ours + i * place->size, place->size),
		       file);
}

int journal_write_contents(int fd, const struct journal_contents *c, size_t nr_places)
{
	char line[JOURNAL_MAX_LINE];
	int copy = dup(fd);
	FILE *file = copy >= 0 ? fdopen(copy, "a") : NULL;
	bool failed;

	if (!file) {
		if (copy >= 0)
			close(copy);
		return -EIO;
	}
	if (c->instance.boot[0])
		fwrite(line, 1, journal_line_instance(line, &c->instance), file);
	if (c->tracer.pid)
		fwrite(line, 1, journal_line_tracer(line, &c->tracer), file);
	if (c->file[0])
		fwrite(line, 1, journal_line_file(line, c->file), file);
	if (c->knows_tasks)
		fwrite(line, 1, journal_line_tasks(line, &c->tasks), file);
	put_word(file, c->breaks, "breaks\n");
	for (size_t i = 0; i < nr_places; i++)
		put_place(file, &c->places[i]);
	if (c->lent)
		fwrite(line, 1, journal_line_loan(line, &c->loan), file);
	put_word(file, c->reset, "reset\n");
	put_word(file, c->stopped, "stop\n");
	failed = ferror(file);
	return fclose(file) || failed || lseek(fd, 0, SEEK_END) < 0 ? -EIO : 0;
}
