/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Trace specs as given to --trace and trace-start: what they mean, and what is said of wrong ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "patcher/tracers/tracer.h"
#include "tests/lib/tap.h"

static const char *const kmem_words[] = {"kmalloc", "cache", "pages", NULL};
static const char *const function_words[] = {"parent", "pid", "comm", NULL};

static const struct trace_read_option readers[] = {{"only", "sonde show --only", NULL},
						   {"filter", NULL, "there is a reason"},
						   {NULL, NULL, NULL}};

static const struct trace_alias aliases[] = {{"kfree", "kmalloc", NULL}, {NULL, NULL, NULL}};

static const char *const probe_words[] = {"stack", NULL};
static const struct trace_grammar grammars[] = {
	{"kmem", kmem_words, TRACE_TAKES_PIDS | TRACE_TAKES_VCPUS | TRACE_TAKES_FILTER, NULL,
	 aliases},
	{"function", function_words,
	 TRACE_TAKES_FUNCTIONS | TRACE_TAKES_PIDS | TRACE_TAKES_VCPUS | TRACE_TAKES_FILTER |
		 TRACE_TAKES_HIST,
	 NULL, NULL},
	{"plain", NULL, 0, NULL, NULL},
	{"probe", probe_words, TRACE_TAKES_PROBE | TRACE_TAKES_FILTER | TRACE_TAKES_HIST, NULL,
	 NULL},
	{"calls", NULL, TRACE_TAKES_FUNCTIONS, readers, NULL},
};

static int parse(const char *text, struct trace_spec *out, struct error *err)
{
	return trace_spec_parse(text, grammars, sizeof(grammars) / sizeof(grammars[0]), out, err);
}

/* "NAME TRACER WORDS FUNCTIONS PIDS VCPUS FILTER" */
static const char *shown(const struct trace_spec *spec)
{
	static char out[1000];
	size_t n = (size_t)snprintf(out, sizeof(out), "%s %s %x", spec->name,
				    grammars[spec->tracer].tracer, spec->words);

	for (size_t i = 0; i < spec->functions.n; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%c%s", i ? ',' : ' ',
				      spec->functions.v[i].text);
	for (size_t i = 0; i < spec->nr_pids; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%u", i ? "+" : " pid ",
				      spec->pids[i]);
	if (spec->vcpus != UINT64_MAX)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " vcpu 0x%" PRIx64, spec->vcpus);
	if (spec->filter)
		snprintf(out + n, sizeof(out) - n, " if %s", spec->filter_text);
	return out;
}

static const struct {
	const char *text, *want;
} good[] = {
	{"kmem", "kmem kmem 0"},
	{"kmem:kmalloc", "kmem kmem 1"},
	{"kmem:pages,kmalloc,pages", "kmem kmem 5"},
	{"plain", "plain plain 0"},
	{"big=kmem:pages", "big kmem 4"},
	{"A-b_9=kmem", "A-b_9 kmem 0"},
	{"function=kmem", "function kmem 0"},
	{"kmem: kmalloc , cache ", "kmem kmem 3"},
	{"function", "function function 0"},
	{"function:vfs_*,!vfs_stat", "function function 0 vfs_*,!vfs_stat"},
	{"function:parent,vfs_*,comm", "function function 5 vfs_*"},
	{"function::mod:ext4", "function function 0 :mod:ext4"},
	{"function:*:mod:ext4,!ext4_*:mod:!ext4",
	 "function function 0 *:mod:ext4,!ext4_*:mod:!ext4"},
	{"fs=function:vfs_[ar]*,parent", "fs function 1 vfs_[ar]*"},
	{"kmem:pid=42", "kmem kmem 0 pid 42"},
	{"kmem:pid=7+0+42+7", "kmem kmem 0 pid 0+7+42"},
	{"kmem:pid=1,pid=2", "kmem kmem 0 pid 1+2"},
	{"function:pid,pid=2147483647", "function function 2 pid 2147483647"},
	{"kmem:vcpu=0", "kmem kmem 0 vcpu 0x1"},
	{"kmem:vcpu=1-3+63", "kmem kmem 0 vcpu 0x800000000000000e"},
	{"kmem:cpu=2,vcpu=4", "kmem kmem 0 vcpu 0x14"},
	{"kmem if bytes_req > 4096", "kmem kmem 0 if bytes_req > 4096"},
	{"kmem:kmalloc if a == 1 && b ~ \"x,y*\"", "kmem kmem 1 if a == 1 && b ~ \"x,y*\""},
	{"kmem:kmalloc,filter=a>1,cache", "kmem kmem 3 if a>1"},
	{"kmem:filter=a > 1 && b < 2,cache", "kmem kmem 2 if a > 1 && b < 2"},
	{"kmem:filter=b ~ 'x,y',cache", "kmem kmem 2 if b ~ 'x,y'"},
	{"kmem:filter=cpu & CPUS{0,2},cache", "kmem kmem 2 if cpu & CPUS{0,2}"},
	{"kmem:filter=\"a > 1\",cache", "kmem kmem 2 if a > 1"},
	{"kmem:filter='b ~ \"x,y\"',cache", "kmem kmem 2 if b ~ \"x,y\""},
	{"kmem:filter=\"b ~ \\\"x\\\"\"", "kmem kmem 0 if b ~ \"x\""},
	{"w=function:vfs_*,vcpu=0,pid=5 if ip ~ vfs_r*",
	 "w function 0 vfs_* pid 5 vcpu 0x1 if ip ~ vfs_r*"},
	{"function:if", "function function 0 if"},
	{"probe:p vfs_read", "p_vfs_read_0 probe 0"},
	{"probe:p:x vfs_read n=%di:u8 ", "x probe 0"},
	{"y=probe: p:x vfs_read if n == 1", "y probe 0 if n == 1"},
	{"probe:p:if vfs_read\t if  if == 1", "if probe 0 if if == 1"},
	{"probe:p:x vfs_read n=%di,stack", "x probe 1"},
	{"probe:p:x vfs_read ,\tstack if n == 1", "x probe 1 if n == 1"},
	{"probe:p stack stack=%di , stack", "p_stack_0 probe 1"},
	{"probe:p:x vfs_read t=\\\"a,stack,b\",filter=\"n == 1\"", "x probe 0 if n == 1"},
	{"function:iffy if a==1", "function function 0 iffy if a==1"},
};

static const struct {
	const char *text;
	unsigned int column;
	const char *says;
} bad[] = {
	{"", 1, "the name of a tracer is missing"},
	{":cache", 1, "the name of a tracer is missing"},
	{"=kmem", 1, "a name is missing in front of '='"},
	{"x=", 3, "the name of a tracer is missing"},
	{"9x=kmem", 1, "begins with a letter"},
	{"a.b=kmem", 2, "a name has letters, digits, - and _"},
	{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=kmem", 1,
	 "longer than 63 characters"},
	{"kmme", 1, "unknown tracer 'kmme': did you mean 'kmem'?"},
	{"x=kmme:pages", 3, "did you mean 'kmem'?"},
	{"scheduler", 1, "unknown tracer 'scheduler'; known: kmem, function, plain, probe"},
	{"kmem,cache", 5, "':' must follow the tracer, as in kmem:cache"},
	{"kmem,", 5, "':' must follow the tracer, as in kmem:ITEM,ITEM"},
	{"x=kmem=pages", 7, "':' must follow the tracer"},
	{"kmem cache", 6, "',' or 'if' is missing"},
	{"kmem : cache", 6, "',' or 'if' is missing"},
	{"probe", 6, "a definition is missing, as in probe:p vfs_read"},
	{"probe if pid == 1", 6, "a definition is missing"},
	{"probe:x vfs_read", 7, "begins with 'p'"},
	{"y=probe:p vfs_read %dj", 21, "unknown register 'dj'"},
	{"probe:p vfs_read,stack,stak", 24, "unknown item 'stak': did you mean 'stack'?"},
	{"probe:p vfs_read,stack,pid=1", 24,
	 "the probe tracer takes no pid=: write a condition behind the probe, as in 'if pid == 1'"},
	{"probe:p vfs_read n=%di,vcpu=0", 24, "as in 'if vcpu == 1'"},
	{"probe:p vfs_read,stak", 18, "unknown item 'stak': did you mean 'stack'?"},
	{"probe:p vfs_read pid=1", 18,
	 "pid=1 is no argument: a constant is \\1, and a condition stands behind the probe, as in "
	 "'if pid == 1'"},
	{"probe:pid=1,p vfs_read", 7,
	 "a probe begins with its definition, as in probe:p vfs_read: 'pid' stands behind that"},
	{"probe: stack,p vfs_read", 8, "'stack' stands behind that"},
	{"probe:hist:keys=n,p vfs_read n=%di", 7, "a probe begins with its definition"},
	{"probe:f:x vfs_read", 7,
	 "'f' is a function's probe by fprobe: write p, or for its returns r"},
	{"probe:t:x sched_switch", 7, "'t' is a tracepoint's probe"},
	{"probe:e:x sched/sched_switch", 7, "'e' is another event's probe"},
	{"probe:-:x", 7, "'sonde ctl SOCKET trace remove NAME'"},
	{"probe:p vfs_read,stack a=%di", 24, "',' or 'if' is missing"},
	{"kmem:", 6, "an item is missing"},
	{"kmem:,cache", 6, "an item is missing"},
	{"kmem:cache,", 12, "an item is missing"},
	{"kmem:cache, ,pages", 13, "an item is missing"},
	{"kmem:cache pages", 12, "',' or 'if' is missing"},
	{"kmem:cach", 6, "unknown item 'cach': did you mean 'cache'?"},
	{"kmem:pages,interrupts", 12, "unknown item 'interrupts'; known: kmalloc, cache, pages"},
	{"kmem:cache:pages", 11, "',' must follow 'cache'"},
	{"kmem:cach:pages", 6, "unknown item 'cach:pages'"},
	{"kmem:kfree", 6, "unknown item 'kfree': its events are among those of 'kmalloc'"},
	{"probe:p vfs_read,stack,count", 24, "events are counted by hist:keys=FIELD"},
	{"kmem:count", 6, "unknown item 'count'; known: kmalloc"},
	{"function:vfs_read,keys=ip", 19,
	 "takes no 'keys=': a histogram has them: hist:keys=FIELD"},
	{"hist:keys=ip", 1, "unknown tracer 'hist': events are counted by the last item"},
	{"function_graph:vfs_*", 1, "did you mean 'graph'?"},
	{"p:vfs_read", 1, "did you mean 'probe:p'?"},
	{"kmem:vfs_*", 6, "unknown item 'vfs_*'"},
	{"kmem:@list", 6, "the kmem tracer takes no functions"},
	{"kmem:pd=3", 6, "unknown option 'pd': did you mean 'pid'?"},
	{"kmem:zzzzzzzz=3", 6, "unknown option 'zzzzzzzz'; known: pid, vcpu, cpu, filter"},
	{"kmem:pid=", 10, "a number is missing"},
	{"kmem:pid=self", 10, "a number is missing"},
	{"kmem:pid=1+", 12, "a number is missing"},
	{"kmem:pid=1-3", 11, "join numbers with '+', as in pid=1+2"},
	{"kmem:pid=2147483648", 10, "the number is above 2147483647"},
	{"kmem:pid=99999999999999999999999", 10, "the number is above 2147483647"},
	{"kmem:pid=1,2", 12, "join numbers with '+', as in pid=1+2"},
	{"kmem:vcpu=64", 11, "the number is above 63"},
	{"kmem:vcpu=3-1", 11, "the range ends before it begins"},
	{"kmem:vcpu=1-", 13, "a number is missing"},
	{"kmem if", 8, "a condition is missing behind 'if'"},
	{"kmem if ", 9, "a condition is missing behind 'if'"},
	{"kmem if bytes_req >", 20, "filter, character 12: a number or a string is missing"},
	{"kmem:filter=a =>", 15, "filter, character 3: an operator is missing"},
	{"kmem:filter=", 13, "filter, character 1: a field's name is missing"},
	{"kmem:filter=\"a => 1\"", 16, "filter, character 3: an operator is missing"},
	{"kmem:filter=\"b ~ \\\"x\\\" c\"", 24, "filter, character 9: && or || is missing"},
	{"kmem:filter=\"a > 1", 13, "the string has no closing quote"},
	{"kmem:filter=a ~ \"x", 17, "filter, character 5: the string has no closing quote"},
	{"kmem:filter=a>1,filter=b>1", 24, "join the conditions with &&"},
	{"kmem:filter=a>1 if b>1", 17, "filter, character 5"},
	{"kmem:filter='a>1' if b>1", 22, "join the conditions with &&"},
	{"function:vfs_[a,parent", 14, "'[' has no ']'"},
	{"function:vfs_read()", 18, "a name has no '(': 'vfs_read()'"},
	{"function:vfs_*,ext4_*:ext4", 22, "only ':mod:MODULE' may follow"},
	{"function:mod:ext4", 10, "':mod:ext4', not 'mod:ext4'"},
	{"function:\"vfs_read", 10, "the item has no closing quote"},
	{"function:@", 11, "the name of a file is missing"},
	{"function:@\"\"", 11, "the name of a file is missing"},
	{"calls:vfs_*,only=vfs_read", 13,
	 "the calls tracer takes no only: it records all calls of its functions. Choose when you "
	 "read the trace: sonde show --only"},
	{"calls:vfs_* if pid == 1", 13, "the calls tracer takes no filter: there is a reason"},
	{"calls:filter=pid==1", 7, "the calls tracer takes no filter: there is a reason"},
	{"plain:x", 7, "the plain tracer takes no items"},
	{"plain:x=3", 7, "the plain tracer takes no values"},
	{"plain:pid=3", 7, "the plain tracer takes no pid"},
	{"plain if a > 1", 7, "the plain tracer takes no filter"},
};

static void test_good(void)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct trace_spec spec;
		struct error err = {0};

		ok(!parse(good[i].text, &spec, &err), "'%s' is a spec %s", good[i].text, err.text);
		if (err.code)
			continue;
		is_str(shown(&spec), good[i].want, "with this meaning");
		is_str(spec.text, good[i].text, "and its text is kept");
		trace_spec_deinit(&spec);
	}
}

static void test_bad(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct trace_spec spec;
		struct error err = {0};

		ok(parse(bad[i].text, &spec, &err) == -EINVAL && err.column == bad[i].column,
		   "'%s' is wrong at character %u", bad[i].text, bad[i].column);
		ok(strstr(err.text, bad[i].says), "the error '%s' has '%s'", err.text, bad[i].says);
		ok(strstr(err.text, "character "), "and the position");
		ok(parse(bad[i].text, &spec, NULL) == -EINVAL,
		   "it is refused without an error object, too");
	}
}

static void test_caps(void)
{
	struct trace_spec spec;
	struct error err = {0};
	char *text = calloc(1, TRACE_SPEC_TEXT_MAX + 100);

	memset(text, 'a', TRACE_SPEC_TEXT_MAX + 1);
	ok(parse(text, &spec, &err) == -EINVAL && strstr(err.text, "longer than 65536"),
	   "a spec that is too long is refused");
	strcpy(text, "kmem:pid=0");
	for (int i = 1; i < TRACE_SPEC_MAX_PIDS; i++)
		sprintf(text + strlen(text), "+%d", i);
	ok(!parse(text, &spec, &err) && spec.nr_pids == TRACE_SPEC_MAX_PIDS, "%d pids are taken",
	   TRACE_SPEC_MAX_PIDS);
	trace_spec_deinit(&spec);
	strcat(text, "+64");
	ok(parse(text, &spec, &err) == -EINVAL && strstr(err.text, "more than 64 pids"),
	   "one more is refused");
	free(text);
}

static void test_files(void)
{
	char path[] = "/tmp/spec, list-XXXXXX", text[100];
	struct trace_spec spec;
	struct error err = {0};
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, "vfs_*\n# no\n!vfs_stat\n", 21) != 21)
		abort();
	snprintf(text, sizeof(text), "function:do_exit,@\"%s\",!vfs_open", path);
	ok(!parse(text, &spec, &err), "a file is read %s", err.text);
	is_str(shown(&spec), "function function 0 do_exit,vfs_*,!vfs_stat,!vfs_open",
	       "its patterns stand in its place");
	trace_spec_deinit(&spec);
	if (pwrite(fd, "vfs (", 5, 0) != 5)
		abort();
	ok(parse(text, &spec, &err) == -EINVAL && !err.column, "a wrong file is refused");
	snprintf(text, sizeof(text), "%s:1: a name has no ' ': 'vfs ('", path);
	is_str(err.text, text, "the error has file and line");
	close(fd);
	unlink(path);
	ok(parse("function:@/none/none", &spec, &err) == -ENOENT &&
		   !strcmp(err.text, "cannot open /none/none: No such file or directory"),
	   "a missing file is named");
}

static int check_names(const char *a, const char *b, struct error *err)
{
	struct trace_spec specs[2];
	int ret;

	if (parse(a, &specs[0], NULL) || parse(b, &specs[1], NULL))
		abort();
	ret = trace_specs_check_names(specs, 2, err);
	trace_spec_deinit(&specs[0]);
	trace_spec_deinit(&specs[1]);
	return ret;
}

static void test_names(void)
{
	struct error err = {0};

	ok(!check_names("kmem:cache", "p=kmem:pages", NULL), "two names are taken");
	ok(check_names("kmem:cache", "kmem:pages", &err) == -EEXIST, "one name is refused");
	is_str(err.text,
	       "two instances are named 'kmem': give one another name, as in "
	       "NAME=kmem:pages",
	       "the error says what to write");
	ok(check_names("a=kmem", "a=function:vfs_*", &err) == -EEXIST,
	   "one name is refused, with two tracers, too");
	is_str(err.text,
	       "two instances are named 'a': give one another name, as in "
	       "NAME=function:vfs_*",
	       "the error says what to write");
}

/* The tracers that there are. */
static void test_registry(void)
{
	static const char *const specs[] = {"kmem:cache", "x=kmem:pages"},
				 *const twice[] = {"kmem", "kmem"}, *const wrong[] = {"kmem", "x"};
	struct trace_spec spec;

	ok(!tracer_parse_spec("kmem:pages", &spec, NULL) && spec.words == 4,
	   "the words of kmem are known");
	trace_spec_deinit(&spec);
	ok(!tracer_check_specs(specs, 2, NULL), "two specs may live side by side");
	ok(tracer_check_specs(twice, 2, NULL) == -EEXIST, "not with one name");
	ok(tracer_check_specs(wrong, 2, NULL) == -EINVAL, "nor with an unknown tracer");
}

/* A spec with n pids between `before` and `behind`: with room for the guest, or refused at
 * `column`.
 */
static void numbers(const char *before, unsigned int n, unsigned int step, const char *behind,
		    unsigned int column)
{
	char text[512];
	size_t used = (size_t)snprintf(text, sizeof(text), "%spid=1", before);
	struct trace_spec spec;
	struct error err = {0};
	int ret;

	for (unsigned int i = 1; i < n; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "+%u", 1 + i * step);
	snprintf(text + used, sizeof(text) - used, "%s", behind);
	ret = tracer_parse_spec(text, &spec, &err);
	if (!ret)
		trace_spec_deinit(&spec);
	ok(column ? ret == -E2BIG && err.column == column : !ret, "%s: %s", text, err.text);
}

/* What a gate has no room for is known before there is a guest. */
static void test_numbers(void)
{
	numbers("function:vfs_*,", 64, 1, ",vcpu=0-63", 0);
	numbers("function:vfs_*,vcpu=0-48,", 20, 2, "", 0);
	numbers("function:vfs_*,", 48, 2, "", 0);
	numbers("function:vfs_*,", 50, 2, "", 20);
	numbers("function:vfs_*,", 47, 2, ",vcpu=0+2+4", 161);
	numbers("function:vfs_*,", 47, 2, " if parent_ip == 1 || parent_ip == 2 || tgid == 3", 159);
	numbers("graph:vfs_*,", 50, 2, "", 17);
	numbers("graph:vfs_*,", 47, 2, " if parent_ip == 1 || parent_ip == 2 || tgid == 3", 156);
	numbers("profile:vfs_*,", 50, 2, "", 19);
	numbers("syscalls:read,", 50, 2, "", 19);
	numbers("kmem:kmalloc,", 50, 2, ",hist:keys=call_site", 18);
	numbers("kmem:kmalloc,", 50, 2, "", 0);
}

int main(void)
{
	test_numbers();
	test_good();
	test_bad();
	test_caps();
	test_files();
	test_names();
	test_registry();
	return tap_done();
}
