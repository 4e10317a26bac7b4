/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines of a journal: formatted and parsed. */
#include "vmm/libvirt/journal/internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The numbers of a "tasks" line, in its order: pointers into *t. */
struct task_numbers {
	uint64_t *wide[4];
	uint32_t *narrow[13];
};

static struct task_numbers task_numbers(struct task_stacks *t)
{
	return (struct task_numbers){
		.wide = {&t->root, &t->first, &t->cpu_bases, &t->runqueues},
		.narrow = {&t->levels, &t->cpus, &t->tasks, &t->signal, &t->threads, &t->thread,
			   &t->stack, &t->sp, &t->on_cpu, &t->fair_tasks, &t->fair_task,
			   &t->rt_queues, &t->rt_task},
	};
}

/* --- writing --------------------------------------------------------------------------------- */

size_t journal_line_instance(char line[static JOURNAL_MAX_LINE],
			     const struct libvirt_instance *instance)
{
	return (size_t)sprintf(line, "qemu %s %" PRIx64 "\n", instance->boot, instance->start);
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

size_t journal_line_loan(char line[static JOURNAL_MAX_LINE], const struct journal_loan *loan)
{
	return (size_t)sprintf(line, "lend %x %" PRIx64 " %" PRIx64 "\n", loan->vcpu, loan->cr3,
			       loan->lent);
}

size_t journal_line_tasks(char line[static JOURNAL_MAX_LINE], const struct task_stacks *tasks)
{
	struct task_stacks copy = *tasks;
	struct task_numbers numbers = task_numbers(&copy);
	size_t n = (size_t)sprintf(line, "tasks");

	for (size_t i = 0; i < COUNT(numbers.wide); i++)
		n += (size_t)sprintf(line + n, " %" PRIx64, *numbers.wide[i]);
	for (size_t i = 0; i < COUNT(numbers.narrow); i++)
		n += (size_t)sprintf(line + n, " %" PRIx32, *numbers.narrow[i]);
	line[n++] = '\n';
	return n;
}

/* --- reading --------------------------------------------------------------------------------- */

static int damaged(struct error *err)
{
	return error_set(err, EPROTO, "the journal is damaged");
}

static struct journal_place *find_place(struct journal_contents *c, uint64_t gpa, size_t size)
{
	for (size_t i = 0; i < c->nr_places; i++)
		if (c->places[i].gpa == gpa && c->places[i].size == size)
			return &c->places[i];
	return NULL;
}

static struct journal_place *add_place(struct journal_contents *c, uint64_t gpa, size_t size,
				       const char *before)
{
	struct journal_place *p = realloc(c->places, (c->nr_places + 1) * sizeof(*c->places));

	if (!p)
		return NULL;
	c->places = p;
	p += c->nr_places;
	*p = (struct journal_place){.gpa = gpa, .size = size, .original = malloc(size)};
	if (!p->original || !hex_decode(p->original, before, size)) {
		free(p->original);
		return NULL;
	}
	c->nr_places++;
	return p;
}

static int add_ours(struct journal_place *p, const char *after)
{
	uint8_t *ours = realloc(p->ours, (p->nr_ours + 1) * p->size);
	uint8_t *last;

	if (!ours)
		return -ENOMEM;
	p->ours = ours;
	last = ours + p->nr_ours * p->size;
	if (!hex_decode(last, after, p->size))
		return -EPROTO;
	for (size_t i = 0; i < p->nr_ours; i++)
		if (!memcmp(ours + i * p->size, last, p->size))
			return 0;
	p->nr_ours++;
	return 0;
}

static bool is_hex(const char *text, size_t size)
{
	return strspn(text, "0123456789abcdef") >= size;
}

/* "GPA BEFORE AFTER" */
static int parse_write(struct journal_contents *c, char *line, struct error *err)
{
	char *before = strchr(line, ' '), *after = before ? strchr(before + 1, ' ') : NULL, *end;
	struct journal_place *place;
	uint64_t gpa;
	size_t size;

	if (!after)
		return damaged(err);
	gpa = strtoull(line, &end, 16);
	size = (size_t)(after - before - 1) / 2;
	before++;
	after++;
	if (end != before - 1 || !size || size > JOURNAL_MAX_WRITE || strlen(after) != 2 * size ||
	    !is_hex(before, 2 * size) || !is_hex(after, 2 * size))
		return damaged(err);
	place = find_place(c, gpa, size);
	if (!place)
		place = add_place(c, gpa, size, before);
	if (!place || add_ours(place, after))
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int parse_word(struct journal_contents *c, const char *word, struct error *err)
{
	if (!strcmp(word, "stop") || !strcmp(word, "go"))
		c->stopped = word[0] == 's';
	else if (!strcmp(word, "breaks"))
		c->breaks = true;
	else if (!strcmp(word, "reset"))
		c->reset = true;
	else if (!strcmp(word, "lent"))
		c->lent = false;
	else
		return damaged(err);
	return 0;
}

/* The next number of a line: one space, then digits without a sign. */
static bool next_number(char **at, uint64_t max, uint64_t *out)
{
	char *end;

	if (**at != ' ' || !isxdigit((unsigned char)(*at)[1]))
		return false;
	errno = 0;
	*out = strtoull(*at + 1, &end, 16);
	*at = end;
	return !errno && *out <= max;
}

/* " VCPU CR3 LENT" */
static int parse_loan(struct journal_contents *c, char *line, struct error *err)
{
	struct journal_loan *loan = &c->loan;
	uint64_t vcpu;

	if (!next_number(&line, UINT_MAX, &vcpu) || !next_number(&line, UINT64_MAX, &loan->cr3) ||
	    !next_number(&line, UINT64_MAX, &loan->lent) || *line)
		return damaged(err);
	loan->vcpu = (unsigned int)vcpu;
	c->lent = true;
	return 0;
}

/* " ROOT FIRST ..." */
static int parse_tasks(struct journal_contents *c, char *line, struct error *err)
{
	struct task_numbers numbers = task_numbers(&c->tasks);
	uint64_t number;

	for (size_t i = 0; i < COUNT(numbers.wide); i++)
		if (!next_number(&line, UINT64_MAX, numbers.wide[i]))
			return damaged(err);
	for (size_t i = 0; i < COUNT(numbers.narrow); i++) {
		if (!next_number(&line, UINT32_MAX, &number))
			return damaged(err);
		*numbers.narrow[i] = (uint32_t)number;
	}
	c->knows_tasks = true;
	return *line || !task_stacks_valid(&c->tasks) ? damaged(err) : 0;
}

/* "BOOT START" */
static int parse_instance(struct journal_contents *c, char *line, struct error *err)
{
	struct libvirt_instance *out = &c->instance;
	const size_t size = sizeof(out->boot) - 1;

	if (strspn(line, "0123456789abcdef-") != size)
		return damaged(err);
	memcpy(out->boot, line, size);
	line += size;
	return !next_number(&line, UINT64_MAX, &out->start) || *line ? damaged(err) : 0;
}

static int parse_line(struct journal_contents *c, char *line, struct error *err)
{
	if (!strncmp(line, "tasks", 5))
		return parse_tasks(c, line + 5, err);
	if (!strncmp(line, "write ", 6))
		return parse_write(c, line + 6, err);
	if (!strncmp(line, "lend ", 5))
		return parse_loan(c, line + 4, err);
	if (!strncmp(line, "qemu ", 5))
		return parse_instance(c, line + 5, err);
	return parse_word(c, line, err);
}

int journal_parse(const char *text, size_t size, struct journal_contents *out, struct error *err)
{
	char line[JOURNAL_MAX_LINE];
	const char *at = text, *end = text + size, *newline;
	int ret = 0;

	*out = (struct journal_contents){0};
	while (!ret && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t n = (size_t)(newline - at);

		if (n >= sizeof(line) || memchr(at, 0, n)) {
			ret = damaged(err);
			break;
		}
		memcpy(line, at, n);
		line[n] = '\0';
		ret = parse_line(out, line, err);
		at = newline + 1;
	}
	if (ret)
		journal_contents_deinit(out);
	return ret;
}

void journal_contents_deinit(struct journal_contents *c)
{
	for (size_t i = 0; i < c->nr_places; i++) {
		free(c->places[i].original);
		free(c->places[i].ours);
	}
	free(c->places);
	*c = (struct journal_contents){0};
}
