/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace with a gap, whose sidecar is damaged or missing: no verb says that nothing was lost, and
 * what the gap could explain is no error.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SITE = 0x1000, POINTER = 0x4000 };

static const char sidecar_name[] = ".sonde.json";

static struct scratch dir;
static char trace[96], copy[96];

/* The free of the first object fell into the gap. */
static void make(void)
{
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, POINTER, SITE, 8, 8, 1),
		make_alloc(KMEM_TYPE_KMALLOC, POINTER, SITE, 8, 8, 2),
	};
	struct trace_info info = {.page_size = 4096, .from_first_allocation = true};
	struct trace_writer *writer;

	info.counters.v[COUNTER_PAUSES] = 1;
	dir = scratch_make();
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	snprintf(copy, sizeof(copy), "%s/copy", dir.path);
	if (trace_writer_create(trace, 1, 0, &info, &writer, NULL))
		abort();
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		if (trace_writer_append(writer, 0, &records[i]))
			abort();
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

struct damage {
	const char *what;
	const char *place; /* the byte behind it gets another bit; NULL: the file is removed */
	const char *why;
	int errors; /* that sonde check finds: the file itself */
};

static const struct damage damages[] = {
	{"a flipped bit", "\"pauses\": ", ".sonde.json is damaged: its checksum is wrong", 1},
	{"a wrong count of events", "\"events\": ", ".sonde.json is damaged: its checksum is wrong",
	 1},
	{"what cannot be parsed", "{\n ", ".sonde.json: not valid JSON in line 2", 1},
	{"no file", NULL, ".sonde.json is missing: copy hidden files, too", 0},
};

static void do_damage(const struct damage *damage)
{
	char path[160], *text, *at;
	size_t size;

	if (!damage->place) {
		snprintf(path, sizeof(path), "%s/%s", trace, sidecar_name);
		if (unlink(path))
			abort();
		return;
	}
	text = file_get(trace, sidecar_name, &size);
	at = text ? strstr(text, damage->place) : NULL;
	if (!at)
		abort();
	at[strlen(damage->place)] ^= 1;
	file_put(trace, sidecar_name, text, size);
	free(text);
}

/* --- texts ----------------------------------------------------------------------------------- */

static void says(const struct damage *damage, int (*verb)(int, char **), const char *const *argv,
		 const char *why)
{
	struct verb_result result = verb_run(verb, argv);
	const char *text = verb == cmd_events || verb == cmd_convert ? result.err : result.out;
	char want[160];

	snprintf(want, sizeof(want), "unknown: %s\n", why);
	if (!ok(strstr(text, "Lost ") && strstr(text, want) && !strstr(text, "  none\n"),
		"%s: sonde %s says that losses are unknown, and why", damage->what, argv[0]))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
}

static void test_texts(const struct damage *damage)
{
	says(damage, cmd_report, (const char *const[]){"report", trace, NULL}, damage->why);
	says(damage, cmd_report, (const char *const[]){"report", "-a", "events", trace, NULL},
	     damage->why);
	says(damage, cmd_check, (const char *const[]){"check", trace, NULL}, damage->why);
	says(damage, cmd_leaks, (const char *const[]){"leaks", trace, NULL}, damage->why);
	says(damage, cmd_events, (const char *const[]){"events", trace, NULL}, damage->why);
	says(damage, cmd_convert,
	     (const char *const[]){"convert", trace, "--to", "ctf", "-o", copy, NULL}, damage->why);
}

/* --- JSON ------------------------------------------------------------------------------------ */

/* Returns the JSON of sonde check, or NULL: it prints none. */
static json_t *check_json(const char *path)
{
	const char *const argv[] = {"check", "--json", path, NULL};
	struct verb_result result = verb_run(cmd_check, argv);
	json_t *root = json_loads(result.out, 0, NULL);

	verb_result_deinit(&result);
	return root;
}

static bool is_unknown(const json_t *root, const char *why)
{
	const char *text = json_string_value(json_object_get(root, "losses_unknown"));

	return json_is_false(json_object_get(root, "losses_known")) &&
	       json_is_false(json_object_get(root, "complete")) && text && !strcmp(text, why);
}

static json_int_t count(const json_t *root, const char *key)
{
	return json_integer_value(json_object_get(root, key));
}

static void test_json(const struct damage *damage)
{
	json_t *root = check_json(trace);

	ok(is_unknown(root, damage->why), "%s: so does its JSON", damage->what);
	ok(count(root, "errors") == damage->errors, "%s: no error but that of the file",
	   damage->what);
	ok(count(root, "notes") == 1, "%s: the doubt is a note", damage->what);
	json_decref(root);
}

/* A copy has a sidecar of its own, which is whole. */
static void test_copy(const struct damage *damage)
{
	static const char why[] = "the trace that this one was copied from does not say";
	json_t *root = check_json(copy);

	says(damage, cmd_report, (const char *const[]){"report", copy, NULL}, why);
	ok(is_unknown(root, why) && !count(root, "errors") && count(root, "notes") == 1,
	   "%s: check and JSON of a copy say so, too", damage->what);
	json_decref(root);
}

/* --------------------------------------------------------------------------------------------- */

static void test_whole(void)
{
	json_t *root;

	make();
	root = check_json(trace);
	ok(json_is_true(json_object_get(root, "losses_known")) &&
		   !json_object_get(root, "losses_unknown") && !count(root, "errors") &&
		   count(root, "notes") == 1,
	   "of a whole trace losses are known, and the doubt is a note");
	json_decref(root);
	scratch_remove(&dir);
}

int main(void)
{
	test_whole();
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		make();
		do_damage(&damages[i]);
		test_texts(&damages[i]);
		test_json(&damages[i]);
		test_copy(&damages[i]);
		scratch_remove(&dir);
	}
	return tap_done();
}
