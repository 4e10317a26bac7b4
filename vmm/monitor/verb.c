/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/verb.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"

/* Sorted by name. */
struct monitor_verbs {
	const struct monitor_verb **rows;
	size_t n;
};

static const char *const type_names[] = {
	[MONITOR_ARG_STRING] = "string",   [MONITOR_ARG_BOOL] = "boolean",
	[MONITOR_ARG_SIZE] = "size",       [MONITOR_ARG_ADDRESS] = "address",
	[MONITOR_ARG_STRINGS] = "strings",
};

static const char *const type_help[] = {
	[MONITOR_ARG_STRING] = "a string",
	[MONITOR_ARG_BOOL] = "true or false",
	[MONITOR_ARG_SIZE] = "an integer of 0 or more",
	[MONITOR_ARG_ADDRESS] = "an integer or a string \"0x...\"",
	[MONITOR_ARG_STRINGS] = "a list of strings",
};

struct monitor_verbs *monitor_verbs_create(void)
{
	return calloc(1, sizeof(struct monitor_verbs));
}

void monitor_verbs_destroy(struct monitor_verbs *verbs)
{
	if (!verbs)
		return;
	free(verbs->rows);
	free(verbs);
}

const struct monitor_verb *monitor_verbs_find(const struct monitor_verbs *verbs, const char *name)
{
	for (size_t i = 0; i < verbs->n; i++) {
		if (!strcmp(verbs->rows[i]->name, name))
			return verbs->rows[i];
	}
	return NULL;
}

static int add(struct monitor_verbs *verbs, const struct monitor_verb *verb, struct error *err)
{
	const struct monitor_verb **rows;
	size_t at = 0;

	if (monitor_verbs_find(verbs, verb->name))
		return error_set(err, EEXIST, "monitor command '%s' exists already", verb->name);
	rows = reallocarray(verbs->rows, verbs->n + 1, sizeof(*rows));
	if (!rows)
		return error_set(err, ENOMEM, "out of memory for monitor commands");
	while (at < verbs->n && strcmp(rows[at]->name, verb->name) < 0)
		at++;
	memmove(&rows[at + 1], &rows[at], (verbs->n - at) * sizeof(*rows));
	rows[at] = verb;
	verbs->rows = rows;
	verbs->n++;
	return 0;
}

int monitor_verbs_add(struct monitor_verbs *verbs, const struct monitor_verb *list,
		      struct error *err)
{
	int ret = 0;

	for (; !ret && list->name; list++)
		ret = add(verbs, list, err);
	return ret;
}

static int parse_address(const char *text, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, &end, 0);
	return *end || errno ? -EINVAL : 0;
}

static bool all_strings(const json_t *list)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(list))
		return false;
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item))
			return false;
	}
	return true;
}

static bool has_type(const json_t *value, enum monitor_arg_type type)
{
	uint64_t address;

	switch (type) {
	case MONITOR_ARG_STRING:
		return json_is_string(value);
	case MONITOR_ARG_BOOL:
		return json_is_boolean(value);
	case MONITOR_ARG_SIZE:
		return json_is_integer(value) && json_integer_value(value) >= 0;
	case MONITOR_ARG_ADDRESS:
		return json_is_integer(value) ||
		       (json_is_string(value) &&
			!parse_address(json_string_value(value), &address));
	default:
		return all_strings(value);
	}
}

static const struct monitor_arg *find_arg(const struct monitor_verb *verb, const char *name)
{
	for (const struct monitor_arg *arg = verb->args; arg && arg->name; arg++) {
		if (!strcmp(arg->name, name))
			return arg;
	}
	return NULL;
}

static int check_args(const struct monitor_verb *verb, json_t *args, struct error *err)
{
	const char *name;
	json_t *value;

	json_object_foreach(args, name, value)
	{
		const struct monitor_arg *arg = find_arg(verb, name);

		if (!arg)
			return error_set(err, EINVAL, "%s has no argument '%.64s'", verb->name,
					 name);
		if (!has_type(value, arg->type))
			return error_set(err, EINVAL, "argument '%s' of %s must be %s", name,
					 verb->name, type_help[arg->type]);
	}
	for (const struct monitor_arg *arg = verb->args; arg && arg->name; arg++) {
		if (arg->required && !json_object_get(args, arg->name))
			return error_set(err, EINVAL, "%s needs the argument '%s' (%s)", verb->name,
					 arg->name, type_help[arg->type]);
	}
	return 0;
}

int monitor_verb_run(const struct monitor_verb *verb, struct monitor_call *call, struct error *err)
{
	int ret;

	call->result = NULL;
	call->args = call->args ? json_incref(call->args) : json_object();
	ret = check_args(verb, call->args, err);
	if (!ret)
		ret = verb->run(call, err);
	json_decref(call->args);
	return ret;
}

static json_t *describe_args(const struct monitor_verb *verb)
{
	json_t *list = json_array();
	int failed = 0;

	for (const struct monitor_arg *arg = verb->args; arg && arg->name; arg++)
		failed |= json_array_append_new(list, json_pack("{s:s,s:s,s:b}", "name", arg->name,
								"type", type_names[arg->type],
								"required", (int)arg->required));
	return json_if_whole(list, failed);
}

json_t *monitor_verbs_describe(const struct monitor_verbs *verbs,
			       const struct monitor_target *target)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < verbs->n; i++) {
		const struct monitor_verb *verb = verbs->rows[i];

		if (verb->offered && !verb->offered(target))
			continue;
		failed |= json_array_append_new(list, json_pack("{s:s,s:s,s:o}", "name", verb->name,
								"help", verb->help, "args",
								describe_args(verb)));
	}
	return json_if_whole(list, failed);
}

uint64_t monitor_arg_u64(json_t *args, const char *name)
{
	const json_t *value = json_object_get(args, name);
	uint64_t address = 0;

	if (json_is_string(value)) {
		parse_address(json_string_value(value), &address);
		return address;
	}
	return (uint64_t)json_integer_value(value);
}
