/* SPDX-License-Identifier: GPL-2.0-or-later */
/* trace-cmd as judge of trace.dat: it prints the events and fields that sonde events prints. */
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "formats/cmd.h"
#include "tests/lib/event-lines.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

static bool is_hex(char c)
{
	return isxdigit((unsigned char)c);
}

/* What trace-cmd does not print of "fn [module]+0x10/0x100": the module and the size. */
static void without_sizes(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		if (!strncmp(from, " [ext4]", 7)) {
			from += 7;
		} else if (!strncmp(from, "/0x100", 6) && to > text && is_hex(to[-1])) {
			from += 6;
		} else {
			/* trace-cmd's names of functions have no spaces */
			const bool is_bad = *from == ' ' && to > text && to[-1] == '\'';

			*to++ = is_bad || strchr("\"\\", *from) ? '?' : *from;
			from++;
		}
	}
	*to = '\0';
}

/* trace-cmd prints an address without a name as a distance from one: "0x1000+0x10". */
static void add_distances(char *text)
{
	char *at = text, *plus;

	while ((at = strstr(at, "=0x"))) {
		uint64_t address = strtoull(++at, &plus, 16), distance;
		char sum[32], *end;

		if (strncmp(plus, "+0x", 3))
			continue;
		distance = strtoull(plus + 1, &end, 16);
		snprintf(sum, sizeof(sum), "0x%" PRIx64, address + distance);
		memcpy(at, sum, strlen(sum));
		memmove(at + strlen(sum), end, strlen(end) + 1);
	}
}

static void take_sonde(struct event_lines *lines, char *line)
{
	char instance[64] = "", class[64], time[64];
	int cpu, used;
	char *fields = strchr(line, '='), *name;

	while (fields && fields[-1] != ' ')
		fields--;
	name = strchr(line, ']') + 1;
	if (!fields || sscanf(name, " %63s %63s%n", time, class, &used) != 2)
		abort();
	if (class[strlen(class) - 1] != ':') {
		snprintf(instance, sizeof(instance), "%s", class);
		sscanf(name + used, " %63s", class);
	}
	cpu = atoi(line + 1);
	without_sizes(fields);
	event_lines_add(lines, "%d %s %s %s %s", cpu, time, instance, strchr(class, ':') + 1,
			fields);
}

/* Lines of either program become "CPU TIME INSTANCE NAME: FIELDS"; trace-cmd's are such as " calls:
 * task-1-101 [001] 5.000000001: function: fields" */
static void take_trace_cmd(struct event_lines *lines, char *line)
{
	char instance[64] = "", class[64], time[64];
	char *cpu = strstr(line, " [0"), *fields;
	int used;

	if (!cpu)
		return;
	if (strstr(line, "calls:") && strstr(line, "calls:") < cpu)
		snprintf(instance, sizeof(instance), "calls");
	if (sscanf(cpu + 6, " %63[0-9.]: %63s %n", time, class, &used) != 2)
		abort();
	fields = cpu + 6 + used;
	without_sizes(fields);
	add_distances(fields);
	event_lines_add(lines, "%d %s %s %s %s", atoi(cpu + 2), time, instance, class, fields);
}

static struct event_lines split(char *text, void (*take)(struct event_lines *lines, char *line))
{
	struct event_lines lines = {0};

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		take(&lines, line);
	return lines;
}

static void test_events(const char *dir, const char *file)
{
	const char *const argv[] = {"events", dir, NULL};
	struct verb_result events = verb_run(cmd_events, argv);
	struct event_lines want = split(events.out, take_sonde), got;
	char *text;

	ok(want.n == EXPORT_MAKE_EVENTS, "sonde events prints all");
	is_u64((uint64_t)tool_run(&text, "trace-cmd report -N -t '%s'", file), 0,
	       "trace-cmd report exits with 0");
	got = split(text, take_trace_cmd);
	event_lines_compare(&got, &want, "trace-cmd");
	free(text);
	verb_result_deinit(&events);
}

/* The names of tasks, and of functions that are not in the trace. */
static void test_names(const char *file)
{
	char *text;

	tool_run(&text, "trace-cmd report -N '%s' | grep -c 'task-1-101 '", file);
	ok(atoi(text) > 100, "trace-cmd names the threads by their pid");
	free(text);
	tool_run(&text, "trace-cmd report -N '%s' | grep -c 'unknown--1 '", file);
	is_u64(strtoul(text, NULL, 10), EXPORT_MAKE_EVENTS / 4 * 3,
	       "an event without a pid is of no thread");
	free(text);
	tool_run(&text, "trace-cmd report --uname '%s' 2>&1", file);
	ok(strstr(text, "Linux version 6.1 <"), "it says which kernel was traced");
	free(text);
}

static void test_structure(const char *file)
{
	char *text;

	tool_run(&text, "trace-cmd dump --validate -i '%s' 2>&1", file);
	ok(strstr(text, "is a valid trace-cmd file"), "trace-cmd dump --validate accepts it");
	free(text);
	tool_run(&text, "trace-cmd dump --options -i '%s' 2>&1", file);
	ok(strstr(text, "sonde 0."), "the file says what wrote it");
	ok(strstr(text, "overrun: 7"), "the statistics of a CPU have the events that were lost");
	ok(strstr(text, "\"calls\" [name]") && strstr(text, "\"\" [name]"),
	   "an instance with a name of its own is one of ftrace, others are the top one");
	free(text);
}

/* The first to be too large is the file that all events go through. */
static void test_too_large(const char *dir, const char *file)
{
	const char *const argv[] = {"convert", dir,  "--to",    "trace.dat",
				    "-o",      file, "--force", NULL};
	const struct rlimit small = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
	struct verb_result result;
	struct rlimit old;

	getrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	result = verb_run(cmd_convert, argv);
	setrlimit(RLIMIT_FSIZE, &old);
	ok(result.status && !strcmp(result.err, "sonde convert: trace.dat: cannot write: "
						"File too large\n"),
	   "an error of writing has the file's name: %s", result.err);
	verb_result_deinit(&result);
}

int main(void)
{
	struct scratch dir = scratch_make();
	char trace[128], file[128];

	if (!tool_exists("trace-cmd"))
		return tap_skip_all("trace-cmd is not installed");
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	snprintf(file, sizeof(file), "%s/trace.dat", dir.path);
	export_make(trace);
	export_make_convert(trace, "trace.dat", file, NULL);
	test_events(trace, file);
	test_names(file);
	test_structure(file);
	test_too_large(trace, file);
	scratch_remove(&dir);
	return tap_done();
}
