/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands that outputs suggest: a shell takes them, they have the options of what was shown,
 * and they find what they are suggested for. */
#include <stdlib.h>
#include <string.h>
#include <wordexp.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { OBJECTS = 160, EVERY_MS = 100, INIT_MS = 1050, MS = 1000000 };

static const char names[] = "{\"version\":1,\"complete\":true,\"from_first_allocation\":true,"
			    "\"vcpus\":[{},{}],\"symbols\":["
			    "{\"name\":\"grow [it's mine]\",\"start\":\"0x1000\",\"size\":4096},"
			    "{\"name\":\"once\",\"start\":\"0x2000\",\"size\":4096},"
			    "{\"name\":\"%s\",\"start\":\"0x5000\",\"size\":256}]}";

/* From 2 s on, one site keeps an object each 100 ms, another one all of 10 early ones. */
static void put_trace(const char *dir, const char *freed_by)
{
	struct kmem_record records[OBJECTS + 20];
	char text[800];
	size_t n = 0;

	for (unsigned int i = 0; i < OBJECTS; i++) {
		const int64_t ns = (2000 + (int64_t)i * EVERY_MS) * MS;

		if (i == INIT_MS / EVERY_MS + 1)
			records[n++] = make_free(KMEM_TYPE_PAGES, 0x90000, 0x5010, ns - 5 * MS);
		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, 0x10000 + 64 * (uint64_t)i, 0x1010, 60,
					  64, ns);
		if (i < 10)
			records[n++] = make_alloc(KMEM_TYPE_KMALLOC, 0x20000 + 64 * (uint64_t)i,
						  0x2010, 60, 64, ns + 1);
	}
	stream_put(dir, 0, records, n);
	stream_put(dir, 1, records, 0);
	snprintf(text, sizeof(text), names, freed_by);
	file_put(dir, "sonde.json", text, strlen(text));
}

static struct verb_result run(const char *const *argv)
{
	static const struct {
		const char *name;
		int (*verb)(int, char **);
	} verbs[] = {{"leaks", cmd_leaks},
		     {"report", cmd_report},
		     {"timeline", cmd_timeline},
		     {"events", cmd_events}};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, argv[0]))
			return verb_run(verbs[i].verb, argv);
	abort();
}

/* From "sonde" to the end of the line, or to `behind`. */
static char *command_in(const char *out, const char *behind)
{
	const char *line = strstr(out, "\nNext "), *begin = line ? strstr(line, "sonde ") : NULL;
	const char *end = begin ? strstr(begin, behind) : NULL;

	return end ? strndup(begin, (size_t)(end - begin)) : strdup("");
}

struct row {
	const char *argv[12];
	const char *behind;
	const char *command; /* %s: the trace */
	const char *found;   /* in the command's output */
};

static void test_row(const char *dir, const struct row *row)
{
	const char *argv[14];
	struct verb_result first, second;
	char wanted[400], *command;
	wordexp_t words;
	size_t n = 0;

	for (; row->argv[n]; n++)
		argv[n] = row->argv[n];
	argv[n] = dir;
	argv[n + 1] = NULL;
	first = run(argv);
	command = command_in(first.out, row->behind);
	snprintf(wanted, sizeof(wanted), row->command, dir);
	is_str(command, wanted, "the command has the options of what was shown");
	if (wordexp(command, &words, WRDE_NOCMD))
		abort();
	if (words.we_wordc > 1) {
		second = run((const char *const *)words.we_wordv + 1);
		if (!ok(!second.status && strstr(second.out, row->found), "and finds: %s",
			row->found))
			tap_diag("%s%s", second.err, second.out);
		verb_result_deinit(&second);
	}
	wordfree(&words);
	free(command);
	verb_result_deinit(&first);
}

static void test_commands(const char *dir)
{
	static const struct row rows[] = {
		{{"leaks", "--type", "kmalloc", "--since", "init", "--time", ",17.55"},
		 "\n",
		 "sonde report --by pointer --older 903ms --type kmalloc --filter "
		 "'call_site.function == \"grow [it'\\''s mine]\"' --since init --time ,17.55 %s",
		 "0x102c0 "},
		{{"leaks", "--filter", "bytes_req > 0 || bytes_req == 9", "--vcpu", "1,0", "--time",
		  "2.05,"},
		 "\n",
		 "sonde report --by pointer --older 990ms --filter "
		 "'(bytes_req > 0 || bytes_req == 9) && call_site.function == \"grow "
		 "[it'\\''s mine]\"' --vcpu 0-1 --time 2.05, %s",
		 "0x10040 "},
		{{"leaks", "--older", "12s"},
		 "\n",
		 "sonde report --by pointer --older 12000ms --filter "
		 "'call_site.function == \"grow [it'\\''s mine]\"' %s",
		 "0x10000 "},
		{{"leaks", "--filter", "call_site.function == once"},
		 "\n",
		 "sonde leaks --since init --filter 'call_site.function == once' %s",
		 "Call sites    1 with live memory"},
		{{"leaks", "--filter", "call_site.function == once", "--time", "2,", "--instance",
		  "kmem"},
		 "\n",
		 "sonde leaks --verbose --filter 'call_site.function == once' --time 2, "
		 "--instance kmem %s",
		 "once+0x10/0x1000"},
		{{"report", "--filter", "call_site.function == once", "--since", "init"},
		 "\n",
		 "sonde timeline --filter 'call_site.function == once' --since init %s",
		 "once+0x10/0x1000"},
		{{"report", "--time", ",1"}, "\n", "", ""},
		{{"report", "-a", "events", "--time", ",1"}, "\n", "", ""},
		{{"report", "-a", "events", "--since", "init", "--time", ",10"},
		 "\n",
		 "sonde events --time 3.095,10 %s",
		 "grow [it's mine]"},
		{{"report", "-a", "events", "--instance", "kmem"},
		 "\n",
		 "sonde events --instance kmem %s",
		 "grow [it's mine]"},
		{{"report", "--type", "kmalloc", "--time=-1,14"},
		 "\n",
		 "sonde leaks --type kmalloc --time=-1,14 %s",
		 "grow [it's mine]"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		test_row(dir, &rows[i]);
}

/* Nothing says where init begins: --since init would be refused. */
static void test_no_init(const char *dir)
{
	static const struct row row = {
		{"leaks", "--filter", "call_site.function == once"},
		"\n",
		"sonde leaks --verbose --filter 'call_site.function == once' %s",
		"once+0x10/0x1000"};

	test_row(dir, &row);
}

int main(void)
{
	struct scratch dir = scratch_make(), other = scratch_make();

	put_trace(dir.path, "free_reserved_area");
	put_trace(other.path, "free_other_area");
	test_commands(dir.path);
	test_no_init(other.path);
	scratch_remove(&dir);
	scratch_remove(&other);
	return tap_done();
}
