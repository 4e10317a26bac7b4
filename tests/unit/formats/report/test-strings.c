/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events with long strings: as text, as JSON, in filters, for babeltrace2, and on disk. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "formats/cmd.h"
#include "formats/trace/writer.h"
#include "tests/lib/babeltrace.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { MOST = EVENT_LONG_STRING_MAX - 1, MANY = 1000 };

struct opened {
	uint32_t pid;
	int32_t fd;
	char name[EVENT_LONG_STRING_MAX], to[EVENT_LONG_STRING_MAX];
};

#define STRING(member)                                                 \
	{                                                              \
		.name = #member, .type = EVENT_LONG_STRING, .size = 1, \
		.at = offsetof(struct opened, member), .bits = {       \
			8,                                             \
			8                                              \
		}                                                      \
	}

static const struct event_field fields[] = {
	{.name = "pid", .type = EVENT_UINT, .size = 4, .bits = {22, 32}},
	STRING(name),
	{.name = "fd",
	 .type = EVENT_INT,
	 .size = 4,
	 .at = offsetof(struct opened, fd),
	 .bits = {9, 32}},
	STRING(to)};
static const struct event_class class = {.system = "my",
					 .name = "opened",
					 .fields = fields,
					 .nr_fields = 4,
					 .size = sizeof(struct opened),
					 .nr_forms = 2};

static struct scratch dir;

/* --- the trace ------------------------------------------------------------------------------- */

static char long_name[2 * EVENT_LONG_STRING_MAX];

static void put(struct trace_writer *writer, int64_t ns, int32_t fd, const char *name,
		const char *to)
{
	struct opened event = {.pid = 7, .fd = fd};

	memcpy(event.name, name, strnlen(name, sizeof(event.name)));
	memcpy(event.to, to, strnlen(to, sizeof(event.to)));
	trace_put(writer, 0, 0, ns, &event);
}

static const char *name_of(size_t length)
{
	memset(long_name, 'n', length);
	long_name[0] = '/';
	long_name[length] = '\0';
	return long_name;
}

static void make(unsigned int many)
{
	const struct trace_instance instance = {
		.name = "opened", .spec = "any", .classes = &class, .nr_classes = 1};
	static const struct trace_info info;
	struct trace_writer *writer;

	if (trace_writer_create(dir.path, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &instance, NULL))
		abort();
	put(writer, 1, 3, "/etc/passwd", "");
	put(writer, 2, 70000, "", "/a \"b\"\n");
	put(writer, 3, 4, name_of(MOST), "/x");
	put(writer, 4, -5, name_of(MOST + 1), "/y");
	put(writer, 5, 6, name_of(300), "/z");
	for (unsigned int i = 0; i < many; i++)
		put(writer, 6, 6, "/usr/lib/many.so", "");
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

/* --- what is shown --------------------------------------------------------------------------- */

static char *shown(const char *option, const char *value)
{
	const char *argv[] = {"events", dir.path, option, value, NULL};
	struct verb_result result = verb_run(cmd_events, argv);
	char *out = strdup(result.out);

	if (result.status || !out)
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
	return out;
}

/* The lines that the events have, by a bit for each. */
static unsigned int lines_of(const char *option, const char *value)
{
	char *text = shown(option, value);
	unsigned int seen = 0;

	for (char *line = text; *line; line = strchr(line, '\n') + 1)
		seen |= 1u << line[strlen("[000]     0.000000001") - 1] % 16;
	free(text);
	return seen;
}

static void test_text(void)
{
	char want[2000], *text = shown(NULL, NULL);
	char whole[EVENT_LONG_STRING_MAX];

	strcpy(whole, name_of(MOST));
	snprintf(want, sizeof(want),
		 "[000]     0.000000001 my:opened: pid=7 name=/etc/passwd fd=3 to=\n"
		 "[000]     0.000000002 my:opened: pid=7 name= fd=70000 to=/a \"b\"?\n"
		 "[000]     0.000000003 my:opened: pid=7 name=%s fd=4 to=/x\n"
		 "[000]     0.000000004 my:opened: pid=7 name=%s... fd=-5 to=/y\n"
		 "[000]     0.000000005 my:opened: pid=7 name=%s... fd=6 to=/z\n",
		 whole, whole, whole);
	is_str(text, want, "strings of up to 255 characters are whole, longer ones are marked");
	free(text);
}

static void test_json(void)
{
	char want[800], *text = shown("--json", NULL), *third, *fourth;

	third = strstr(text, "{\"ns\":3,");
	fourth = strstr(text, "{\"ns\":4,");
	ok(strstr(text, "\"name\":\"\",\"fd\":70000,\"to\":\"/a \\\"b\\\"?\"}"),
	   "in JSON quotes are escaped");
	ok(third && fourth && fourth - third > MOST &&
		   !memmem(third, (size_t)(fourth - third), "_cut", 4),
	   "a whole string is all that it has");
	snprintf(want, sizeof(want), "\"name\":\"%s\",\"name_cut\":true,\"fd\":-5,\"to\":\"/y\"}",
		 name_of(MOST));
	ok(fourth && strstr(fourth, want), "one that is cut says so");
	free(text);
}

static void test_filters(void)
{
	char filter[600];

	is_u64(lines_of("--filter", "name ~ \"/etc/*\""), 1 << 1, "a filter takes a glob");
	is_u64(lines_of("--filter", "name == \"/etc/passwd\" || to == '/x'"), 1 << 1 | 1 << 3,
	       "or a name, of either string");
	snprintf(filter, sizeof(filter), "name == \"%s\"", name_of(MOST));
	is_u64(lines_of("--filter", filter), 1 << 3 | 1 << 4 | 1 << 5,
	       "a name of 255 characters is that of all that begin so");
	snprintf(filter, sizeof(filter), "name ~ \"%s*\"", name_of(MOST - 1));
	is_u64(lines_of("--filter", filter), 1 << 3 | 1 << 4 | 1 << 5, "as is a glob");
	is_u64(lines_of("--filter", "name != \"\""), 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5,
	       "an empty one is not the others");
}

/* --- on disk --------------------------------------------------------------------------------- */

static void test_babeltrace(void)
{
	char *text = NULL, want[600];

	ok(!babeltrace_run("", dir.path, &text), "babeltrace2 reads the trace");
	ok(text && strstr(text, "name = \"/etc/passwd\""), "it shows a string");
	snprintf(want, sizeof(want), "name = \"%s\"", name_of(MOST));
	ok(text && strstr(text, want), "a long one");
	snprintf(want, sizeof(want), "name = \"%s...\"", name_of(MOST));
	ok(text && strstr(text, want), "and that one is cut");
	free(text);
}

static off_t stream_size(void)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/cpu0.opened", dir.path);
	return stat(path, &st) ? -1 : st.st_size;
}

static void test_size(void)
{
	const off_t few = stream_size();
	off_t each;

	scratch_remove(&dir);
	dir = scratch_make();
	make(MANY);
	each = (stream_size() - few) / MANY;
	ok(few > 0 && each > 16 && each < 32,
	   "a string of 16 characters makes an event of %ld bytes", (long)each);
}

int main(void)
{
	dir = scratch_make();
	make(0);
	test_text();
	test_json();
	test_filters();
	test_babeltrace();
	test_size();
	scratch_remove(&dir);
	return tap_done();
}
