/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/counters.h"
#include "tests/lib/tap.h"
#include "vmm/ctl/ctl.h"
#include "vmm/monitor/metrics.h"

static void parses(const char *line, const char *verb, const char *args)
{
	char copy[256];
	char *words[QMP_COMMAND_MAX_WORDS];
	struct qmp_command command;
	char *text, name[128];
	int n;

	snprintf(copy, sizeof(copy), "%s", line);
	n = qmp_command_split(copy, words, NULL);
	if (!ok(n > 0 && !qmp_command_parse(words, (size_t)n, &command, NULL), "'%s' is a command",
		line))
		return;
	snprintf(name, sizeof(name), "'%.64s' has the verb %s", line, verb);
	is_str(command.verb, verb, name);
	text = command.args ? json_dumps(command.args, JSON_COMPACT) : strdup("none");
	snprintf(name, sizeof(name), "'%.64s' has these arguments", line);
	is_str(text, args, name);
	free(text);
	json_decref(command.args);
}

static void fails(const char *line, const char *want)
{
	char copy[256];
	char *words[QMP_COMMAND_MAX_WORDS];
	struct qmp_command command;
	struct error err = {0};
	int n;

	snprintf(copy, sizeof(copy), "%s", line);
	n = qmp_command_split(copy, words, &err);
	if (n >= 0)
		n = qmp_command_parse(words, (size_t)n, &command, &err);
	ok(n < 0, "'%s' is refused", line);
	is_str(err.text, want, "the error says why it is refused");
}

static void test_parse(void)
{
	parses("status", "query-status", "none");
	parses("  stop\t", "stop", "none");
	parses("commands", "query-commands", "none");
	parses("snapshot", "trace-snapshot", "none");
	parses("trace on", "trace-start", "none");
	parses("trace on kmem other", "trace-start", "{\"specs\":[\"kmem\",\"other\"]}");
	parses("trace off", "trace-stop", "none");
	parses("trace status", "query-trace", "none");
	parses("trace list", "query-instances", "none");
	parses("trace add x=kmem:cache", "trace-add", "{\"spec\":\"x=kmem:cache\"}");
	parses("trace remove x", "trace-remove", "{\"name\":\"x\"}");
	parses("profile", "query-profile", "none");
	parses("profile clear p", "profile-clear", "{\"name\":\"p\"}");
	parses("hist", "query-hist", "none");
	parses("hist h", "query-hist", "{\"name\":\"h\"}");
	parses("hist clear", "hist-clear", "none");
	fails("hist h clear", "usage: hist [NAME] | hist clear [NAME]");
	parses("trace set 'x=function:vfs_* if pid == 1'", "trace-set",
	       "{\"spec\":\"x=function:vfs_* if pid == 1\"}");
	parses("pmemsave val=0 size=4096 filename=x", "pmemsave",
	       "{\"val\":0,\"size\":4096,\"filename\":\"x\"}");
	parses("v a=0x10 b=-5 c=010", "v", "{\"a\":16,\"b\":-5,\"c\":10}");
	parses("v a=0xffffffff81000000", "v", "{\"a\":\"0xffffffff81000000\"}");
	parses("v a=true b=false c=truely d=", "v",
	       "{\"a\":true,\"b\":false,\"c\":\"truely\",\"d\":\"\"}");
	parses("v a='\"12\"' b=\"x y\" c=p=q", "v", "{\"a\":\"12\",\"b\":\"x y\",\"c\":\"p=q\"}");
	parses("v a=[1,2]", "v", "{\"a\":[1,2]}");
	parses("v a=12k", "v", "{\"a\":\"12k\"}");
}

static void test_parse_errors(void)
{
	static const char usage[] = "usage: trace on [SPEC...] | off | status | list | "
				    "add [NAME=]SPEC | remove NAME | set NAME=SPEC";

	fails("trace", usage);
	fails("trace of", usage);
	fails("trace off now", usage);
	fails("trace add", usage);
	fails("trace add a b", usage);
	fails("trace remove", usage);
	fails("trace list x", usage);
	fails("trace set \xff", "the spec is not UTF-8 text");
	fails("v a", "'a' is not of the form key=value");
	fails("v =a", "'=a' is not of the form key=value");
	fails("v a=1 a=2", "argument 'a' is given twice");
	fails("v a=[1", "the value of 'a' is neither JSON nor UTF-8 text");
	fails("v a=\xff", "the value of 'a' is neither JSON nor UTF-8 text");
	fails("v \xff=1", "the key in '\xff=1' is not UTF-8 text");
	fails("trace on \xff", "a trace spec is not UTF-8 text");
	fails("v 'a=1", "a quote is not closed");
	fails("1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3",
	      "more than 32 words");
}

static void shows(const char *verb, const char *json, const char *want)
{
	json_t *result = json_loads(json, JSON_DECODE_ANY, NULL);
	char *text = NULL, name[160];
	size_t size;
	FILE *out = open_memstream(&text, &size);

	qmp_show(out, verb, result);
	fclose(out);
	snprintf(name, sizeof(name), "a reply to %s is printed: %.64s", verb, json);
	is_str(text, want, name);
	free(text);
	json_decref(result);
}

static const char trace_json[] =
	"{\"enabled\":true,\"mode\":\"trap\",\"tracers\":[\"kmem\"],\"trace_dir\":\"out\","
	"\"events\":7,\"allocs\":4,\"frees\":3,\"lost\":2,\"overruns\":1,\"null_allocs\":5,"
	"\"sites\":{\"entry\":10,\"return\":9,\"refused\":[{\"function\":\"kfree\","
	"\"address\":\"0x10\",\"reason\":\"taken\"}]},"
	"\"gaps\":[{\"function\":\"f\",\"reason\":\"called by g\"}],"
	"\"vcpus\":[{\"index\":0,\"allocs\":4,\"frees\":3,\"overruns\":1,\"traps\":8}]}";

static void test_show(void)
{
	shows("query-status", "{\"status\":\"paused\",\"running\":false}", "paused\n");
	shows("stop", "{}", "");
	shows("other", "{\"a\":1,\"b\":{\"c\":[\"x\",{\"d\":null}]},\"e\":[]}",
	      "a: 1\nb:\n  c:\n    x\n    -\n      d: null\ne: []\n");
	shows("other", "3", "value: 3\n");
	shows("other", "{\"\\u001b[31m\":\"\\u009bx\\u007f\"}", "?[31m: ??x?\n");
	shows("query-commands",
	      "[{\"name\":\"v\",\"help\":\"do\",\"args\":[{\"name\":\"a\",\"type\":\"size\","
	      "\"required\":true},{\"name\":\"b\",\"type\":\"string\",\"required\":false}]}]",
	      "v a=size [b=string]\n        do\n");
	shows("query-instances", "[]", "no tracer\n");
	shows("query-instances",
	      "[{\"name\":\"kmem\",\"spec\":\"kmem\",\"active\":true,\"sites\":12,\"refused\":1},"
	      "{\"name\":\"vfs\",\"spec\":\"vfs=function:vfs_*\",\"active\":false,\"sites\":0,"
	      "\"waiting\":\"the guest is booting\"}]",
	      "kmem            on       12 functions      kmem, 1 refused\n"
	      "  and 1 more\n"
	      "vfs             waits    0 functions       vfs=function:vfs_*: the guest is "
	      "booting\n");
	shows("query-instances",
	      "[{\"name\":\"f\",\"spec\":\"f=function\",\"active\":true,\"sites\":1,\"refused\":2,"
	      "\"refusals\":[{\"function\":\"kfree\",\"address\":\"0x10\",\"reason\":\"taken\"}],"
	      "\"lost\":3,\"guest_conditions\":\"vcpu == 2\",\"host_conditions\":\"comm ~ x\"}]",
	      "f               on       1 function        f=function, 2 refused, 3 lost\n"
	      "  the guest decides vcpu == 2\n"
	      "  the host decides comm ~ x\n"
	      "  refused kfree at 0x10: taken\n"
	      "  and 1 more\n");
	shows("query-trace", trace_json,
	      "tracing   on kmem (trap) to out\n"
	      "events    7: 4 allocations, 3 frees\n"
	      "lost      1 record: not written\n"
	      "          2 events: not captured\n"
	      "left out  5 NULL allocations\n"
	      "sites     10 entry, 9 return, 0 shared, 1 refused\n"
	      "  refused kfree at 0x10: taken\n"
	      "  not traced f: called by g\n"
	      "vcpu 0    4 allocations, 3 frees, 8 traps, lost 1 record: not written\n");
}

static void test_metrics(void)
{
	static const char *const lines[] = {
		"# TYPE sonde_tracing gauge\nsonde_tracing{trace_dir=\"out\"} 1\n",
		"\nsonde_trace_info{trace_dir=\"out\",mode=\"trap\"} 1\n",
		"\nsonde_allocs_total{trace_dir=\"out\",vcpu=\"0\"} 4\n",
		"\nsonde_frees_total{trace_dir=\"out\",vcpu=\"0\"} 3\n",
		"\nsonde_events_lost_total{trace_dir=\"out\"} 3\n",
		"# HELP sonde_overruns_total record: not written.\n",
		"\n# TYPE sonde_overruns_total counter\nsonde_overruns_total{trace_dir=\"out\"} 1\n",
		"\nsonde_tracing_seconds_total{trace_dir=\"out\"} 0.000000000\n",
		"\nsonde_live_bytes{trace_dir=\"out\"} 4096\n# HELP sonde_live_objects ",
		"\n# TYPE sonde_live_time_seconds gauge\nsonde_live_time_seconds{trace_dir=\"out\"} 2.500000000\n",
		"\nsonde_live_failed{trace_dir=\"out\"} 0\n",
		"\nsonde_live_failed{trace_dir=\"\"} 1\n",
		"\nsonde_tracing{domain=\"web\\\"1\"} 0\n",
	};
	json_t *trace = json_loads(trace_json, 0, NULL),
	       *odd = json_pack("{s:s, s:s}", "trace_dir", "a\"\\\n", "domain", "web\"1"),
	       *failed = json_pack("{s:{s:s}}", "live", "error", "no memory");
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	json_object_set_new(
		trace, "live",
		json_pack("{s:i, s:I}", "bytes", 4096, "time_ns", (json_int_t)2500000000));
	metrics_print(out, trace);
	metrics_print(out, odd);
	metrics_print(out, failed);
	fclose(out);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		ok(strstr(text, lines[i]), "the metrics have '%.*s'",
		   (int)strcspn(lines[i] + 1, "\n"), lines[i] + 1);
	ok(strstr(text, "{domain=\"web\\\"1\",trace_dir=\"a\\\"\\\\\\n\",mode=\"\"}"),
	   "quotes, backslashes and newlines of a label are escaped");
	free(text);
	json_decref(trace);
	json_decref(odd);
	json_decref(failed);
}

static void test_show_counters(void)
{
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		json_t *result = json_pack("{s:i}", counter_table[id].key, 76543210);
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		qmp_show(out, "query-trace", result);
		fclose(out);
		ok(strstr(text, counter_table[id].is_ns      ? "76 ms"
				: counter_table[id].is_bytes ? "73.0 MiB"
							     : "76,543,210"),
		   "query-trace shows %s", counter_table[id].key);
		free(text);
		json_decref(result);
	}
}

/* A peer may answer with any shape. */
static void test_show_strange(void)
{
	shows("query-status", "[]", "?\n");
	shows("query-commands", "[1,{\"args\":[2]}]", "?\n        ?\n? [?=?]\n        ?\n");
	shows("query-trace", "3",
	      "tracing   off (?) to ?\n"
	      "events    0: 0 allocations, 0 frees\n"
	      "lost      none\n"
	      "sites     0 entry, 0 return, 0 shared, 0 refused\n");
}

int main(void)
{
	test_parse();
	test_parse_errors();
	test_show();
	test_metrics();
	test_show_counters();
	test_show_strange();
	return tap_done();
}
