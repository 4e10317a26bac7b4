/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms in trace specs: the syntax of the kernel's hist triggers
 * (Documentation/trace/histogram.rst). */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/ring/hist.h"
#include "patcher/tracers/spec-internal.h"

const char *const hist_modifiers[] = {"percent",  "graph",   "hex",  "sym",     "sym-offset",
				      "execname", "syscall", "log2", "buckets", NULL};
static const char *const *const key_modifiers = hist_modifiers + HIST_MOD_HEX - HIST_MOD_PERCENT;
static const char *const value_modifiers[] = {"percent", "graph", "hex", NULL};

const char *hist_modifier_name(enum hist_modifier modifier)
{
	return modifier ? hist_modifiers[modifier - HIST_MOD_PERCENT] : "";
}

static struct spec_span take_word(struct spec_parser *p, bool modifier)
{
	const struct spec_span none = {p->at, 0};
	struct spec_span word = none;

	while (isalnum((unsigned char)p->at[word.length]) || p->at[word.length] == '_' ||
	       (modifier && p->at[word.length] == '-'))
		word.length++;
	p->at += word.length;
	return word;
}

static int take_name(struct spec_parser *p, struct hist_term *term)
{
	const struct spec_span word = take_word(p, false);

	*term = (struct hist_term){.column = (unsigned int)(word.from - p->text) + 1};
	if (!word.length)
		return FAIL(p, word.from, "the name of a field is missing");
	if (word.length >= sizeof(term->name))
		return FAIL(p, word.from, "the name of a field is longer than %d characters",
			    HIST_COLUMN_SIZE - 1);
	memcpy(term->name, word.from, word.length);
	return 0;
}

static int take_bucket(struct spec_parser *p, struct hist_term *term)
{
	const char *from = p->at;
	int ret;

	if (*p->at != '=')
		return FAIL(p, p->at, "a number is missing, as in .buckets=100");
	p->at++;
	ret = spec_parse_number(p, INT32_MAX, &term->bucket);
	return ret || term->bucket ? ret : FAIL(p, from + 1, "there are no buckets of 0");
}

static bool is_among(struct spec_span word, const char *const *names)
{
	while (*names && !spec_span_is(word, *names))
		names++;
	return *names;
}

/* `known`: those that the term can have. */
static int take_modifier(struct spec_parser *p, const char *const *known, struct hist_term *term)
{
	struct spec_span word;

	if (*p->at != '.')
		return 0;
	p->at++;
	word = take_word(p, true);
	for (int i = 0; hist_modifiers[i]; i++)
		if (spec_span_is(word, hist_modifiers[i]))
			term->modifier = (enum hist_modifier)(HIST_MOD_PERCENT + i);
	if (!term->modifier && spec_span_is(word, "stacktrace"))
		return FAIL(
			p, word.from,
			"there is no modifier 'stacktrace': no field is a call chain, and that of "
			"the event is the key 'stacktrace'");
	if (!term->modifier)
		return spec_unknown(p, "modifier", word, known);
	if (!is_among(word, known))
		return FAIL(p, word.from, ".%s is of %s; %s", hist_modifier_name(term->modifier),
			    known == key_modifiers ? "values" : "keys",
			    known == key_modifiers ? "write it behind vals="
						   : "values take .percent, .graph and .hex");
	return term->modifier == HIST_MOD_BUCKETS ? take_bucket(p, term) : 0;
}

static const struct hist_term *find_term(const struct hist_term *terms, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(terms[i].name, name))
			return &terms[i];
	return NULL;
}

static int take_key(struct spec_parser *p)
{
	struct hist_action *h = p->spec->hist;
	const char *from = p->at;
	struct hist_term term;
	int ret = take_name(p, &term);

	if (!ret)
		ret = take_modifier(p, key_modifiers, &term);
	if (ret)
		return ret;
	if (h->nr_keys == HIST_COLUMNS)
		return FAIL(p, from, "more than %d keys", HIST_COLUMNS);
	if (find_term(h->keys, h->nr_keys, term.name))
		return FAIL(p, from, "'%s' is a key already", term.name);
	h->keys[h->nr_keys++] = term;
	return 0;
}

static int take_value(struct spec_parser *p)
{
	struct hist_action *h = p->spec->hist;
	const char *from = p->at;
	struct hist_term term;
	int ret = take_name(p, &term);

	if (!ret)
		ret = take_modifier(p, value_modifiers, &term);
	if (ret || (!strcmp(term.name, "hitcount") && !term.modifier))
		return ret;
	if (h->nr_values == HIST_COLUMNS)
		return FAIL(p, from, "more than %d values", HIST_COLUMNS);
	for (size_t i = 0; i < h->nr_values; i++)
		if (!strcmp(h->values[i].name, term.name) && h->values[i].modifier == term.modifier)
			return FAIL(p, from, "'%.*s' is a value already", (int)(p->at - from),
				    from);
	h->values[h->nr_values++] = term;
	return 0;
}

/* The number of a column: struct hist_order. Keys and values must stand in front of it. */
static int find_column(struct spec_parser *p, const struct hist_term *term, uint8_t *out)
{
	const struct hist_action *h = p->spec->hist;
	const char *names[2 * HIST_COLUMNS + 2] = {"hitcount"};
	size_t n = 1;

	for (size_t i = 0; i < h->nr_values; i++)
		names[n++] = h->values[i].name;
	for (size_t i = 0; i < h->nr_keys; i++)
		names[n++] = h->keys[i].name;
	for (*out = 0; *out < n; (*out)++)
		if (!strcmp(names[*out], term->name))
			return 0;
	return spec_unknown(p, "key or value",
			    (struct spec_span){p->text + term->column - 1, strlen(term->name)},
			    names);
}

static int take_sort(struct spec_parser *p)
{
	static const char *const directions[] = {"descending", "ascending", NULL};
	struct hist_action *h = p->spec->hist;
	const char *from = p->at;
	struct spec_span word = {0};
	struct hist_term term;
	int ret = take_name(p, &term);

	if (ret)
		return ret;
	if (h->order.n == HIST_SORTS)
		return FAIL(p, from, "more than %d fields to sort by", HIST_SORTS);
	ret = find_column(p, &term, &h->order.by[h->order.n].column);
	if (ret)
		return ret;
	if (*p->at == '.') {
		p->at++;
		word = take_word(p, true);
		if (!spec_span_is(word, directions[0]) && !spec_span_is(word, directions[1]))
			return spec_unknown(p, "order", word, directions);
	}
	h->order.by[h->order.n++].descending = word.length && spec_span_is(word, directions[0]);
	return 0;
}

static int take_size(struct spec_parser *p)
{
	const char *from = p->at;
	uint32_t size;
	int ret = spec_parse_number(p, HIST_MAX_SIZE, &size);

	if (ret)
		return ret;
	if (!size)
		return FAIL(p, from, "a histogram of no size has no room");
	p->spec->hist->size = HIST_MIN_SIZE;
	while (p->spec->hist->size < size)
		p->spec->hist->size *= 2;
	return 0;
}

static int take_nohitcount(struct spec_parser *p)
{
	p->spec->hist->nohitcount = true;
	return 0;
}

enum part_kind { PART_VALUE, PART_LIST, PART_FLAG };

static const struct part {
	const char *name;
	int (*take)(struct spec_parser *p);
	enum part_kind kind;
} parts[] = {
	{"keys", take_key, PART_LIST},
	{"key", take_key, PART_LIST},
	{"vals", take_value, PART_LIST},
	{"values", take_value, PART_LIST},
	{"val", take_value, PART_LIST},
	{"value", take_value, PART_LIST},
	{"sort", take_sort, PART_LIST},
	{"size", take_size, PART_VALUE},
	{"nohitcount", take_nohitcount, PART_FLAG},
	{"NOHC", take_nohitcount, PART_FLAG},
};

/* What the kernel's triggers have besides, and where Sonde has it. */
static const struct {
	const char *name, *where;
} elsewhere[] = {
	{"pause", "to stop, and keep what was counted, 'sonde ctl SOCKET trace remove NAME'"},
	{"cont", "to count again, 'sonde ctl SOCKET trace add NAME=SPEC'"},
	{"continue", "to count again, 'sonde ctl SOCKET trace add NAME=SPEC'"},
	{"clear", "to begin from zero, 'sonde ctl SOCKET hist clear NAME'"},
	{"name", "the name stands in front of the tracer, as in NAME=function:..."},
	{"clock", "histograms have no times"},
	{"onmatch", "histograms have no actions"},
	{"onmax", "histograms have no actions"},
	{"onchange", "histograms have no actions"},
};

static int unknown_part(const struct spec_parser *p, struct spec_span word)
{
	static const char *const known[] = {"keys", "vals", "sort", "size", "nohitcount", NULL};

	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (spec_span_is(word, elsewhere[i].name))
			return FAIL(p, word.from, "a spec takes no '%s': %s", elsewhere[i].name,
				    elsewhere[i].where);
	if (!strncmp(p->at, "=$", 2) || !strncmp(p->at, "=common_timestamp", 17))
		return FAIL(p, word.from, "histograms have no variables, and no times");
	return spec_unknown(p, "part of a histogram", word, known);
}

static int take_values(struct spec_parser *p, const struct part *part)
{
	int ret = 0;

	if (*p->at != '=')
		return FAIL(p, p->at, "'=' is missing behind '%s'", part->name);
	do {
		p->at++;
		ret = part->take(p);
	} while (!ret && part->kind == PART_LIST && *p->at == ',');
	return ret;
}

static int parse_part(struct spec_parser *p)
{
	const struct spec_span word = take_word(p, true);
	const struct part *part = NULL;
	int ret;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (spec_span_is(word, parts[i].name))
			part = &parts[i];
	if (!part)
		return unknown_part(p, word);
	ret = part->kind == PART_FLAG ? part->take(p) : take_values(p, part);
	if (!ret && *p->at && strchr("+-*/", *p->at))
		return FAIL(p, p->at, "histograms have no expressions: name each of the fields");
	if (!ret && *p->at && !strchr(": \t", *p->at))
		ret = FAIL(p, p->at, "the histogram is the last item: ':' or a blank must follow");
	return ret;
}

int spec_take_hist(struct spec_parser *p)
{
	const char *from = p->at;
	int ret;

	p->spec->hist = calloc(1, sizeof(*p->spec->hist));
	if (!p->spec->hist)
		return error_set(p->err, ENOMEM, "out of memory");
	ret = parse_part(p);
	while (!ret && *p->at == ':') {
		p->at++;
		ret = parse_part(p);
	}
	if (!ret && !p->spec->hist->nr_keys)
		ret = FAIL(p, from, "a histogram has keys: hist:keys=FIELD");
	if (!ret && p->spec->hist->nohitcount && !p->spec->hist->nr_values)
		ret = FAIL(p, from,
			   "with nohitcount nothing is shown: name a value, as in "
			   "vals=hitcount.percent");
	if (!p->spec->hist->order.n)
		p->spec->hist->order = (struct hist_order){.n = 1}; /* by hits */
	return ret;
}
