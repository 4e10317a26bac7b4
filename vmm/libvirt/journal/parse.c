/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a journal's text to what is to be undone. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "vmm/libvirt/journal/internal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int damaged(struct error *err)
{
	return error_set(err, EPROTO, "the journal is damaged");
}

/* A map of places by address and size. */
struct parser {
	struct journal_contents *contents;
	struct u64_map places; /* size_t, the place's index + 1 */
};

static struct journal_place *add_place(struct journal_contents *c, uint64_t gpa, size_t size,
				       const char *before)
{
	size_t n = c->nr_places;
	struct journal_place *p = c->places;

	/* room for the next power of two */
	if (!(n & (n - 1)))
		p = realloc(p, (n ? 2 * n : 1) * sizeof(*p));
	if (!p)
		return NULL;
	c->places = p;
	p += n;
	*p = (struct journal_place){.gpa = gpa, .size = size, .original = malloc(size)};
	if (!p->original || !hex_decode(p->original, before, size)) {
		free(p->original);
		return NULL;
	}
	c->nr_places++;
	return p;
}

static struct journal_place *get_place(struct parser *parser, uint64_t gpa, size_t size,
				       const char *before)
{
	size_t *index = u64_map_insert(&parser->places, journal_place_key(gpa, size), NULL);
	struct journal_place *p;

	if (!index)
		return NULL;
	if (*index)
		return &parser->contents->places[*index - 1];
	p = add_place(parser->contents, gpa, size, before);
	*index = parser->contents->nr_places;
	return p;
}

static bool has_ours(const struct journal_place *p, const uint8_t *bytes)
{
	for (size_t i = 0; i < p->nr_ours; i++)
		if (!memcmp(p->ours + i * p->size, bytes, p->size))
			return true;
	return false;
}

/* Neither a tracer's bytes nor what stood there first: the guest has changed the place itself,
 * where another module may be by now. Earlier lines say nothing of it any more. */
static void note_before(struct journal_place *p, const char *before)
{
	uint8_t now[JOURNAL_MAX_WRITE];

	if (!hex_decode(now, before, p->size) || !memcmp(now, p->original, p->size) ||
	    has_ours(p, now))
		return;
	memcpy(p->original, now, p->size);
	p->nr_ours = 0;
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
	if (!has_ours(p, last))
		p->nr_ours++;
	return 0;
}

static bool is_hex(const char *text, size_t size)
{
	return strspn(text, "0123456789abcdef") >= size;
}

/* "GPA BEFORE AFTER" */
static int parse_write(struct parser *parser, char *line, struct error *err)
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
	    gpa >> JOURNAL_GPA_BITS || !is_hex(before, 2 * size) || !is_hex(after, 2 * size))
		return damaged(err);
	place = get_place(parser, gpa, size, before);
	if (!place)
		return error_set(err, ENOMEM, "out of memory");
	note_before(place, before);
	return add_ours(place, after) ? error_set(err, ENOMEM, "out of memory") : 0;
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

/* Journals of older versions end behind so many numbers: in front of the stacks' size, or behind
 * it.
 */
static bool may_end(size_t numbers)
{
	return numbers == 13 || numbers == 14;
}

/* " ROOT FIRST ...". */
static int parse_tasks(struct journal_contents *c, char *line, struct error *err)
{
	struct journal_task_numbers numbers = journal_task_numbers(&c->tasks);
	uint64_t number;

	for (size_t i = 0; i < COUNT(numbers.wide); i++)
		if (!next_number(&line, UINT64_MAX, numbers.wide[i]))
			return damaged(err);
	c->tasks.stack_bytes = TASK_STACK_BYTES;
	c->tasks.ext_tasks = c->tasks.ext_task = 0;
	for (size_t i = 0; i < COUNT(numbers.narrow); i++) {
		if (!*line && may_end(i))
			break;
		if (!next_number(&line, UINT32_MAX, &number))
			return damaged(err);
		*numbers.narrow[i] = (uint32_t)number;
	}
	c->knows_tasks = true;
	return *line || !task_stacks_valid(&c->tasks) ? damaged(err) : 0;
}

/* "BOOT START USER". Journals of older versions lack the user. */
static int parse_instance(struct journal_contents *c, char *line, struct error *err)
{
	struct libvirt_instance *out = &c->instance;
	const size_t size = sizeof(out->boot) - 1;
	uint64_t user = 0;

	if (strspn(line, "0123456789abcdef-") != size)
		return damaged(err);
	memcpy(out->boot, line, size);
	line += size;
	if (!next_number(&line, UINT64_MAX, &out->start))
		return damaged(err);
	out->has_user = *line;
	if (out->has_user && (!next_number(&line, UINT32_MAX, &user) || *line))
		return damaged(err);
	out->user = (uid_t)user;
	return 0;
}

/* " PID START" */
static int parse_tracer(struct journal_contents *c, char *line, struct error *err)
{
	uint64_t pid;

	if (!next_number(&line, INT_MAX, &pid) || !pid ||
	    !next_number(&line, UINT64_MAX, &c->tracer.start) || *line)
		return damaged(err);
	c->tracer.pid = (pid_t)pid;
	return 0;
}

/* "NAME". It becomes part of a path. */
static int parse_file(struct journal_contents *c, const char *name, struct error *err)
{
	const size_t size = strlen(name);

	if (!size || size > JOURNAL_MAX_FILE ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != size)
		return damaged(err);
	memcpy(c->file, name, size + 1);
	return 0;
}

static int parse_line(struct parser *parser, char *line, struct error *err)
{
	struct journal_contents *c = parser->contents;

	if (!strncmp(line, "tracer ", 7))
		return parse_tracer(c, line + 6, err);
	c->blank = false;
	if (!strncmp(line, "tasks", 5))
		return parse_tasks(c, line + 5, err);
	if (!strncmp(line, "write ", 6))
		return parse_write(parser, line + 6, err);
	if (!strncmp(line, "file ", 5))
		return parse_file(c, line + 5, err);
	if (!strncmp(line, "lend ", 5))
		return parse_loan(c, line + 4, err);
	if (!strncmp(line, "qemu ", 5))
		return parse_instance(c, line + 5, err);
	return parse_word(c, line, err);
}

int journal_parse(const char *text, size_t size, struct journal_contents *out, struct error *err)
{
	struct parser parser = {.contents = out};
	char line[JOURNAL_MAX_LINE];
	const char *at = text, *end = text + size, *newline;
	int ret = 0;

	*out = (struct journal_contents){.blank = true};
	u64_map_init(&parser.places, sizeof(size_t));
	while (!ret && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t n = (size_t)(newline - at);

		if (n >= sizeof(line) || memchr(at, 0, n)) {
			ret = damaged(err);
			break;
		}
		memcpy(line, at, n);
		line[n] = '\0';
		ret = parse_line(&parser, line, err);
		at = newline + 1;
	}
	u64_map_deinit(&parser.places);
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
