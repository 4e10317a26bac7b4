/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/ctl/ctl.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Copy one word down to `to`, dropping its quotes. Returns where it ended, NULL for an open quote.
 */
static char *take_word(char *from, char *to)
{
	char quote = 0;

	for (; *from && (quote || !isspace((unsigned char)*from)); from++) {
		if (quote && *from == quote)
			quote = 0;
		else if (!quote && (*from == '\'' || *from == '"'))
			quote = *from;
		else
			*to++ = *from;
	}
	if (quote)
		return NULL;
	if (*from)
		from++;
	*to = 0;
	return from;
}

int qmp_command_split(char *line, char **words, struct error *err)
{
	int n = 0;

	for (;;) {
		while (isspace((unsigned char)*line))
			line++;
		if (!*line)
			return n;
		if (n == QMP_COMMAND_MAX_WORDS)
			return error_set(err, E2BIG, "more than %d words", QMP_COMMAND_MAX_WORDS);
		words[n++] = line;
		line = take_word(line, line);
		if (!line)
			return error_set(err, EINVAL, "a quote is not closed");
	}
}

static json_t *integer(const char *text)
{
	const char *digits = text + (*text == '-');
	bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
	long long value;
	char *end;

	if (!isdigit((unsigned char)digits[0]))
		return NULL;
	errno = 0;
	value = strtoll(text, &end, hex ? 16 : 10);
	return *end || errno ? NULL : json_integer(value);
}

static json_t *value_of(const char *text)
{
	json_t *value;

	if (!strcmp(text, "true"))
		return json_true();
	if (!strcmp(text, "false"))
		return json_false();
	if (*text && strchr("[{\"", *text))
		return json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	value = integer(text);
	return value ? value : json_string(text);
}

static int add_pair(json_t *args, const char *word, struct error *err)
{
	const char *equals = strchr(word, '=');
	char key[64];
	json_t *value;

	if (!equals || equals == word || (size_t)(equals - word) >= sizeof(key))
		return error_set(err, EINVAL, "'%.64s' is not of the form key=value", word);
	memcpy(key, word, (size_t)(equals - word));
	key[equals - word] = 0;
	if (json_object_get(args, key))
		return error_set(err, EINVAL, "argument '%s' is given twice", key);
	value = value_of(equals + 1);
	if (!value)
		return error_set(err, EINVAL, "the value of '%s' is neither JSON nor UTF-8 text",
				 key);
	if (json_object_set_new(args, key, value))
		return error_set(err, EINVAL, "the key in '%.64s' is not UTF-8 text", word);
	return 0;
}

static int parse_pairs(char *const *words, size_t n, json_t *args, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		ret = add_pair(args, words[i], err);
	return ret;
}

static int spec_args(char *const *specs, size_t n, json_t **out, struct error *err)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		if (!json_array_append_new(list, json_string(specs[i])))
			continue;
		json_decref(list);
		return error_set(err, EINVAL, "a trace spec is not UTF-8 text");
	}
	*out = json_pack("{s:o}", "specs", list);
	return 0;
}

static const struct {
	const char *typed; /* words, and what may follow */
	const char *verb;
} short_forms[] = {
	{"status", "query-status"},
	{"commands", "query-commands"},
	{"snapshot", "trace-snapshot"},
	{"trace on [SPEC...]", "trace-start"},
	{"trace off", "trace-stop"},
	{"trace status", "query-trace"},
	{"trace list", "query-instances"},
	{"trace add [NAME=]SPEC", "trace-add"},
	{"trace remove NAME", "trace-remove"},
	{"trace set NAME=SPEC", "trace-set"},
	{"profile [NAME]", "query-profile"},
	{"profile clear [NAME]", "profile-clear"},
	{"hist [NAME]", "query-hist"},
	{"hist clear [NAME]", "hist-clear"},
};
enum { NR_SHORT_FORMS = sizeof(short_forms) / sizeof(short_forms[0]) };

const char *qmp_command_short(const char *verb)
{
	for (size_t i = 0; i < NR_SHORT_FORMS; i++) {
		if (!strcmp(short_forms[i].verb, verb))
			return short_forms[i].typed;
	}
	return NULL;
}

/* The verb of the short form that begins with this word, or with the second behind "trace ". */
static const char *verb_of(const char *word, bool trace)
{
	for (size_t i = 0; i < NR_SHORT_FORMS; i++) {
		const char *typed = short_forms[i].typed;
		size_t n;

		if (trace != !strncmp(typed, "trace ", 6))
			continue;
		typed += trace ? 6 : 0;
		n = strcspn(typed, " ");
		if (strlen(word) == n && !strncmp(word, typed, n))
			return short_forms[i].verb;
	}
	return NULL;
}

/* The argument that a short form's one operand is; NULL if it takes none. */
static const char *operand_of(const char *verb)
{
	if (!strcmp(verb, "trace-add") || !strcmp(verb, "trace-set"))
		return "spec";
	return strcmp(verb, "trace-remove") ? NULL : "name";
}

static int operand_args(const char *key, const char *operand, json_t **out, struct error *err)
{
	*out = json_pack("{s:s}", key, operand);
	return *out ? 0 : error_set(err, EINVAL, "the %s is not UTF-8 text", key);
}

static int parse_trace(char *const *words, size_t n, struct qmp_command *out, struct error *err)
{
	const char *key;

	out->verb = n ? verb_of(words[0], true) : NULL;
	if (out->verb && n > 1 && !strcmp(words[0], "on"))
		return spec_args(words + 1, n - 1, &out->args, err);
	key = out->verb ? operand_of(out->verb) : NULL;
	if (!out->verb || n != (key ? 2 : 1))
		return error_set(err, EINVAL,
				 "usage: trace on [SPEC...] | off | status | list | "
				 "add [NAME=]SPEC | remove NAME | set NAME=SPEC");
	return key ? operand_args(key, words[1], &out->args, err) : 0;
}

/* "profile" or "hist", which is words[0]; what follows. */
static int parse_counts(char *const *words, size_t n, struct qmp_command *out, struct error *err)
{
	const bool hist = !strcmp(words[0], "hist");
	const bool clear = n > 1 && !strcmp(words[1], "clear");

	if (hist)
		out->verb = clear ? "hist-clear" : "query-hist";
	else
		out->verb = clear ? "profile-clear" : "query-profile";
	if (n > 2u + clear)
		return error_set(err, EINVAL, "usage: %s [NAME] | %s clear [NAME]", words[0],
				 words[0]);
	words += 1 + clear;
	n -= 1u + clear;
	return n ? operand_args("name", words[0], &out->args, err) : 0;
}

int qmp_command_parse(char *const *words, size_t n, struct qmp_command *out, struct error *err)
{
	int ret;

	*out = (struct qmp_command){0};
	if (!strcmp(words[0], "trace"))
		return parse_trace(words + 1, n - 1, out, err);
	if (!strcmp(words[0], "profile") || !strcmp(words[0], "hist"))
		return parse_counts(words, n, out, err);
	out->verb = verb_of(words[0], false);
	if (!out->verb)
		out->verb = words[0];
	if (n == 1)
		return 0;
	out->args = json_object();
	ret = parse_pairs(words + 1, n - 1, out->args, err);
	if (ret) {
		json_decref(out->args);
		out->args = NULL;
	}
	return ret;
}
