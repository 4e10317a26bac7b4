/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace with a gap, whose sidecar is damaged or missing: no verb says that nothing was lost, and
 * what the gap could explain is no error. If the copy of the sidecar is there, the gap is known.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SITE = 0x1000, POINTER = 0x4000 };

#define SIDECAR ".sonde.json"
#define COPY SIDECAR ".copy"

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
	if (trace_writer_finish(writer, &info, name_numbered, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void remove_file(const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", trace, name);
	if (unlink(path))
		abort();
}

/* Flip a bit of the byte behind a text. */
static void flip(const char *name, const char *place)
{
	size_t size;
	char *text = file_get(trace, name, &size), *at = text ? strstr(text, place) : NULL;

	if (!at)
		abort();
	at[strlen(place)] ^= 1;
	file_put(trace, name, text, size);
	free(text);
}

struct damage {
	const char *what;
	const char *place; /* the byte behind it gets another bit; NULL: the file is removed */
	const char *why, *instead; /* without a copy, and with one */
	int errors; /* that sonde check finds: the file itself */
};

#define WRONG ".sonde.json is damaged: its checksum is wrong"
#define NOT_JSON ".sonde.json: not valid JSON in line 2"

static const struct damage damages[] = {
	{"a flipped bit", "\"pauses\": ", WRONG, WRONG "; its copy is read", 1},
	{"a wrong count of events", "\"events\": ", WRONG, WRONG "; its copy is read", 1},
	{"what cannot be parsed", "{\n ", NOT_JSON,
	 NOT_JSON "; its copy is read, which has no names of functions", 1},
	{"no file", NULL, ".sonde.json is missing: copy hidden files, too",
	 ".sonde.json is missing; its copy is read, which has no names of functions", 0},
};

static void do_damage(const struct damage *damage)
{
	if (damage->place)
		flip(SIDECAR, damage->place);
	else
		remove_file(SIDECAR);
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

/* --- with the copy of the sidecar ------------------------------------------------------------ */

static bool shows(int (*verb)(int, char **), const char *what)
{
	struct verb_result result = verb_run(verb, (const char *const[]){"", trace, NULL});
	const bool found = strstr(result.out, what);

	verb_result_deinit(&result);
	return found;
}

static void test_read_from_copy(const struct damage *damage)
{
	json_t *root = check_json(trace);

	ok(json_is_true(json_object_get(root, "losses_known")) &&
		   json_is_true(json_object_get(root, "complete")) && count(root, "pauses") == 1,
	   "%s: what was lost is in the copy", damage->what);
	ok(count(root, "errors") == 1 && count(root, "notes") == 1,
	   "%s: the file is the only error", damage->what);
	ok(shows(cmd_report, damage->instead) && shows(cmd_check, damage->instead),
	   "%s: report and check say that the copy is read", damage->what);
	ok(shows(cmd_report, "f1") == !strstr(damage->instead, "no names"),
	   "%s: functions have names if the file can be parsed", damage->what);
	json_decref(root);
}

static void test_damaged_copy(void)
{
	make();
	flip(COPY, "\"pauses\": ");
	ok(shows(cmd_report, COPY " is damaged: its checksum is wrong") &&
		   shows(cmd_report, "1 gap"),
	   "a flipped bit of the copy is said, and costs nothing");
	scratch_remove(&dir);
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
	test_damaged_copy();
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		make();
		do_damage(&damages[i]);
		test_read_from_copy(&damages[i]);
		remove_file(COPY);
		test_texts(&damages[i]);
		test_json(&damages[i]);
		test_copy(&damages[i]);
		scratch_remove(&dir);
	}
	return tap_done();
}
