/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "vmm/monitor/verb.h"
#include "vmm/ctl/ctl.h"
#include "vmm/monitor/framer.h"
#include "vmm/monitor/message.h"

/*
 * What a monitor's client, its server and a person may send: bytes to messages, messages to
 * requests, requests to checked arguments, replies to text. Besides memory errors it finds results
 * that depend on how the stream was cut, and messages that the framer refuses and the parser does
 * not.
 */
enum { LIMIT = 4096 };

static int touch(struct monitor_call *call, struct error *err)
{
	(void)err;
	call->result = json_integer((json_int_t)monitor_arg_u64(call->args, "address"));
	return 0;
}

static const struct monitor_arg verb_args[] = {
	{.name = "address", .type = MONITOR_ARG_ADDRESS, .required = true},
	{.name = "size", .type = MONITOR_ARG_SIZE},
	{.name = "flag", .type = MONITOR_ARG_BOOL},
	{.name = "list", .type = MONITOR_ARG_STRINGS},
	{.name = "text", .type = MONITOR_ARG_STRING},
	{0},
};

static const struct monitor_verb verb_list[] = {
	{.name = "v", .help = "fuzzed", .args = verb_args, .run = touch}, {0}};

static void append(FILE *out, json_t *message)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

	fprintf(out, "%s\n", text ? text : "NULL");
	free(text);
	json_decref(message);
}

static void serve(const struct monitor_verbs *verbs, json_t *message, FILE *out)
{
	struct qmp_request request;
	struct error err = {0};
	struct monitor_call call = {.verbs = verbs};
	const struct monitor_verb *verb;
	int ret = qmp_request_parse(message, &request, &err);

	if (!ret) {
		call.args = request.arguments;
		verb = monitor_verbs_find(verbs, request.execute);
		ret = verb ? monitor_verb_run(verb, &call, &err) : -ENOENT;
	}
	append(out, ret ? qmp_error_from(QMP_CLASS_GENERIC, &err, request.id)
			: qmp_return(call.result, request.id));
	qmp_show(out, "query-status", message);
	qmp_show(out, "query-commands", message);
	qmp_show(out, "query-trace", message);
	qmp_show(out, "other", message);
}

/* Everything that came of the bytes when they arrive in pieces of this size. */
static char *run(const struct monitor_verbs *verbs, const char *data, size_t size, size_t piece)
{
	struct qmp_framer framer;
	char *text = NULL;
	size_t text_size;
	FILE *out = open_memstream(&text, &text_size);

	qmp_framer_init(&framer, LIMIT);
	for (size_t at = 0; at < size;) {
		size_t n = size - at < piece ? size - at : piece;
		struct error err = {0};
		json_t *message = NULL;
		size_t used = 0;
		int ret = qmp_framer_feed(&framer, data + at, n, &used, &message, &err);

		if (!used || used > n || (ret == 1) != (message != NULL))
			abort();
		at += used;
		if (ret < 0)
			append(out, qmp_error_from(QMP_CLASS_GENERIC, &err, NULL));
		else if (ret)
			serve(verbs, message, out);
		json_decref(message);
	}
	qmp_framer_deinit(&framer);
	fclose(out);
	return text;
}

static size_t max(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t depth_of(const json_t *value)
{
	size_t deepest = 0, i;
	const char *key;
	json_t *item;

	json_object_foreach((json_t *)value, key, item) deepest = max(deepest, depth_of(item));
	json_array_foreach(value, i, item) deepest = max(deepest, depth_of(item));
	return deepest + (json_is_object(value) || json_is_array(value));
}

/* The framer's automaton must not refuse what is JSON; jansson also lets a NUL byte pass. */
static void compare_with_parser(const char *data, size_t size)
{
	json_t *whole = size <= LIMIT && !memchr(data, 0, size)
				? json_loadb(data, size, JSON_REJECT_DUPLICATES, NULL)
				: NULL;
	struct qmp_framer framer;
	json_t *message = NULL;
	size_t used = 0;

	if (whole && depth_of(whole) <= QMP_SYNTAX_MAX_DEPTH) {
		qmp_framer_init(&framer, LIMIT);
		if (qmp_framer_feed(&framer, data, size, &used, &message, NULL) != 1 ||
		    !json_equal(whole, message))
			abort();
		qmp_framer_deinit(&framer);
		json_decref(message);
	}
	json_decref(whole);
}

static void type_line(const char *data, size_t size)
{
	char *words[QMP_COMMAND_MAX_WORDS];
	struct qmp_command command;
	char *line = strndup(data, size);
	int n = qmp_command_split(line, words, NULL);

	if (n > 0 && !qmp_command_parse(words, (size_t)n, &command, NULL))
		json_decref(command.args);
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *data = (const char *)bytes;
	struct monitor_verbs *verbs = monitor_verbs_create();
	char *whole, *cut;

	if (monitor_verbs_add(verbs, verb_list, NULL))
		abort();
	whole = run(verbs, data, size, size + 1);
	cut = run(verbs, data, size, 1);
	if (strcmp(whole, cut))
		abort();
	free(whole);
	free(cut);
	monitor_verbs_destroy(verbs);
	compare_with_parser(data, size);
	type_line(data, size);
	return 0;
}
