/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/monitor/framer.h"
#include "vmm/monitor/message.h"

enum { LIMIT = 200, TRANSCRIPT = 512 };

/* The framer's results for `input`, fed in pieces: "J" and the message, or "E" and its errno. */
static void transcript(const char *input, size_t size, size_t piece, char *out)
{
	struct qmp_framer framer;

	out[0] = 0;
	qmp_framer_init(&framer, LIMIT);
	for (size_t at = 0; at < size;) {
		size_t n = size - at < piece ? size - at : piece;
		size_t used = 0;
		json_t *message = NULL;
		int ret = qmp_framer_feed(&framer, input + at, n, &used, &message, NULL);

		at += used;
		if (ret == 1) {
			char *text = json_dumps(message, JSON_COMPACT);

			snprintf(out + strlen(out), TRANSCRIPT - strlen(out), "J%s ", text);
			free(text);
		} else if (ret) {
			snprintf(out + strlen(out), TRANSCRIPT - strlen(out), "%s ",
				 ret == -EBADMSG    ? "BADMSG"
				 : ret == -EMSGSIZE ? "MSGSIZE"
						    : "other");
		}
		json_decref(message);
	}
	qmp_framer_deinit(&framer);
}

static const struct {
	const char *name, *input, *want;
} rows[] = {
	{"one line is one message", "{\"a\": 1}\r\n", "J{\"a\":1} "},
	{"messages need no separator", "{\"a\":1}{\"b\":[true,null,-2.5e3]}[]{}",
	 "J{\"a\":1} J{\"b\":[true,null,-2500.0]} J[] J{} "},
	{"a message may span several lines", "{\n \"a\" :\n [ 1 ,\n 2 ] }\n", "J{\"a\":[1,2]} "},
	{"brackets and escapes in strings end nothing", "{\"}\\\"]\":\"{\\\\\"}\n",
	 "J{\"}\\\"]\":\"{\\\\\"} "},
	{"empty lines are skipped", "\r\n \t\n{}\n\n", "J{} "},
	{"after junk, the next line is a message", "hello {\"a\":1}\n{\"b\":2}\n",
	 "BADMSG J{\"b\":2} "},
	{"an unknown word is refused", "{\"a\": nope}{}\n{\"b\":2}\n", "BADMSG J{\"b\":2} "},
	{"single quotes are refused", "{'a':1}\n{}\n", "BADMSG J{} "},
	{"a newline in a string is refused", "{\"a\n{}\n", "BADMSG J{} "},
	{"a missing comma is refused", "{\"a\":1 \"b\":2}\n{}\n", "BADMSG J{} "},
	{"a trailing comma in an object is refused", "{\"a\":1,}\n{}\n", "BADMSG J{} "},
	{"a trailing comma in a list is refused", "[1,]\n{}\n", "BADMSG J{} "},
	{"a missing colon is refused", "{\"a\" 1}\n{}\n", "BADMSG J{} "},
	{"a wrong closing bracket is refused", "{\"a\":[1}\n{}\n", "BADMSG J{} "},
	{"a closing bracket alone is refused", "}\n{}\n", "BADMSG J{} "},
	{"a number as a key is refused", "{1:1}\n{}\n", "BADMSG J{} "},
	{"an unfinished message takes the next line with it",
	 "{\"a\":\n{\"b\":2}\n{\"c\":3}\n{\"d\":4}\n", "BADMSG J{\"d\":4} "},
	{"a bad number is refused, and the next message is not", "{\"a\":1x}{\"b\":2}",
	 "BADMSG J{\"b\":2} "},
	{"a number beyond 64 bits is refused", "{\"a\":99999999999999999999}{}", "BADMSG J{} "},
	{"a bad escape is refused", "{\"a\":\"\\q\"}{}", "BADMSG J{} "},
	{"bad UTF-8 is refused", "{\"a\":\"\xff\"}{}", "BADMSG J{} "},
	{"NUL in a string is refused", "{\"a\":\"\\u0000\"}{}", "BADMSG J{} "},
	{"a key that is there twice is refused", "{\"a\":1,\"a\":2}{}", "BADMSG J{} "},
	{"a scalar is no message", "12\n{}\n", "BADMSG J{} "},
};

static void test_rows(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t size = strlen(rows[i].input);
		char got[TRANSCRIPT], name[96];

		transcript(rows[i].input, size, size, got);
		is_str(got, rows[i].want, rows[i].name);
		snprintf(name, sizeof(name), "%s, byte by byte", rows[i].name);
		transcript(rows[i].input, size, 1, got);
		is_str(got, rows[i].want, name);
	}
}

static void test_length(void)
{
	char input[2 * LIMIT], got[TRANSCRIPT];

	memset(input, 'x', sizeof(input));
	memcpy(input, "[\"", 2);
	memcpy(input + LIMIT - 2, "\"]", 2);
	transcript(input, LIMIT, LIMIT, got);
	ok(got[0] == 'J' && strlen(got) == LIMIT + 2, "a message of exactly the limit is accepted");
	memset(input + LIMIT - 2, 'x', 2);
	memcpy(input + sizeof(input) - 5, "\"]\n{}", 5);
	transcript(input, sizeof(input), sizeof(input), got);
	is_str(got, "MSGSIZE J{} ",
	       "a longer message is one error, and the next line is a message");
}

static void test_depth(void)
{
	enum { MAX = QMP_SYNTAX_MAX_DEPTH };
	char input[2 * MAX + 8], got[TRANSCRIPT];

	memset(input, '[', MAX);
	memset(input + MAX, ']', MAX);
	transcript(input, 2 * MAX, 2 * MAX, got);
	ok(got[0] == 'J', "%d levels of nesting are accepted", MAX);
	memset(input, '[', MAX + 1);
	memcpy(input + MAX + 1, "\n{}", 3);
	transcript(input, MAX + 4, MAX + 4, got);
	is_str(got, "BADMSG J{} ", "one level more is refused at that byte");
}

static void test_objects_and_lists_mixed(void)
{
	char got[TRANSCRIPT];
	const char *input = "[{\"a\":[{\"b\":[]}]},[{}]]";

	transcript(input, strlen(input), 3, got);
	is_str(got, "J[{\"a\":[{\"b\":[]}]},[{}]] ",
	       "objects and lists may be nested in each other");
}

static void parse_fails(const char *text, const char *want)
{
	json_t *message = json_loads(text, 0, NULL);
	struct qmp_request request;
	struct error err = {0};

	ok(qmp_request_parse(message, &request, &err) == -EINVAL, "%s is no request", text);
	is_str(err.text, want, "the error says why it is no request");
	json_decref(message);
}

static void test_requests(void)
{
	json_t *message =
		json_loads("{\"execute\":\"x\",\"arguments\":{\"k\":1},\"id\":[7]}", 0, NULL);
	struct qmp_request request;

	ok(!qmp_request_parse(message, &request, NULL),
	   "a request may have a verb, arguments and an id");
	is_str(request.execute, "x", "the verb is parsed");
	is_u64(json_object_size(request.arguments), 1, "the arguments are parsed");
	ok(json_is_array(request.id), "the id may be any JSON");
	json_decref(message);
	parse_fails("[]", "a request is a JSON object with the key 'execute'");
	parse_fails("{}", "key 'execute' is missing or not a string");
	parse_fails("{\"execute\":1}", "key 'execute' is missing or not a string");
	parse_fails("{\"execute\":\"x\",\"arguments\":[]}", "'arguments' is not an object");
	parse_fails("{\"exec-oob\":\"x\"}", "a request has no key 'exec-oob'");
}

static void test_error_text(void)
{
	struct error err = {.text = "half \xc3", .has_address = true, .address = 0x1000};
	json_t *reply = qmp_error_from(QMP_CLASS_GENERIC, &err, NULL);
	json_t *error = json_object_get(reply, "error");

	is_str(json_string_value(json_object_get(error, "desc")), "half ? (at 0x1000)",
	       "an error text that ends within a character is sent, with its address");
	ok(!json_object_get(reply, "id"), "an error without a request has no id");
	json_decref(reply);
}

int main(void)
{
	test_rows();
	test_length();
	test_depth();
	test_objects_and_lists_mixed();
	test_requests();
	test_error_text();
	return tap_done();
}
