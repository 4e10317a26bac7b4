/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls out of hand-made events, as they are printed: arguments by name and type, returns
 * that are not in the trace, filters, JSON, and declarations that no kernel has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/syscalls/calls.h"
#include "formats/syscalls/prototypes.h"
#include "formats/syscalls/syscall-text.h"
#include "tests/lib/tap.h"

enum { FRAME = 0x1000, OTHER = 0x2000, US = 1000, FUNCTION = 0xa };

static const char declarations[] = "0xa(int fd, const char * name, unsigned int n, size_t size, "
				   "umode_t mode, int flags)\n"
				   "0xb(long offset, unsigned long address)\n"
				   "0xc()\n";

static struct {
	struct syscall_text *text;
	struct event_texts *texts;
	struct event_filters filters;
	FILE *out;
	char *printed;
	size_t size;
	int64_t ns;
} t;

/* Events of the instance have these fields of enum syscall_fields. */
static struct trace_instance instance_with(unsigned int fields)
{
	return (struct trace_instance){.name = "syscalls",
				       .classes = syscall_classes(fields),
				       .nr_classes = SYSCALL_NR_CLASSES};
}

static void begin_with_any(const char *const *filters, size_t n, bool json)
{
	const struct trace_instance instance = instance_with(SYSCALL_ALL);
	struct syscall_text_options options = {
		.json = json, .instance = &instance, .prototypes = declarations};

	memset(&t, 0, sizeof(t));
	if (event_filters_parse(filters, n, &t.filters, NULL))
		abort();
	options.filters = &t.filters;
	t.out = open_memstream(&t.printed, &t.size);
	if (!t.out || event_texts_create(NULL, &t.texts, NULL) ||
	    syscall_text_create(t.out, t.texts, &options, &t.text, NULL))
		abort();
}

/* `filter` may be NULL. */
static void begin_with(const char *filter, bool json)
{
	begin_with_any(&filter, filter ? 1 : 0, json);
}

static void begin(void)
{
	begin_with(NULL, false);
}

static void put(enum syscall_class class, const struct syscall_event *bytes)
{
	const struct event event = {
		.class = &syscall_classes(SYSCALL_ALL)[class], .ns = t.ns, .bytes = bytes};

	if (syscall_text_put(t.text, &event))
		abort();
	t.ns += US;
}

static void enter_as(enum syscall_class class, uint64_t ip, uint64_t frame, const uint64_t *args)
{
	struct syscall_event event = {
		.call = {.call = {.ip = ip, .pid = 7, .comm = "task"}, .frame = frame}};

	if (args)
		memcpy(event.args, args, sizeof(event.args));
	put(class, &event);
}

static void enter(uint64_t ip, uint64_t frame)
{
	enter_as(SYSCALL_ENTER, ip, frame, NULL);
}

static void leave(uint64_t frame, int64_t result)
{
	put(SYSCALL_EXIT,
	    &(struct syscall_event){.call = {.frame = frame, .result = (uint64_t)result}});
}

static void end(void)
{
	syscall_text_destroy(t.text);
	event_texts_destroy(t.texts);
	event_filters_deinit(&t.filters);
	free(t.printed);
}

static void prints(const char *expected, const char *label)
{
	if (syscall_text_end(t.text))
		abort();
	fclose(t.out);
	if (!ok(!strcmp(t.printed, expected), "%s", label))
		tap_diag("%s\nnot\n%s", t.printed, expected);
	end();
}

static void test_arguments(void)
{
	/* of 32-bit types the upper half of the register means nothing */
	static const uint64_t args[SYSCALL_ARGS] =
		{UINT64_C(0x77ffffff9c), 0x7ffd1234, UINT32_MAX, 1 << 20, 0644, 0x80000},
			      others[SYSCALL_ARGS] = {UINT64_MAX, UINT64_C(0x7fff00000000)};

	begin();
	enter_as(SYSCALL_ENTER, FUNCTION, FRAME, args);
	leave(FRAME, 3);
	enter_as(SYSCALL_ENTER, 0xb, FRAME, others);
	leave(FRAME, INT64_C(0x7f0000000000));
	enter(0xc, FRAME);
	leave(FRAME, -2);
	enter(0xd, FRAME);
	leave(FRAME, 0);
	prints("[000]     0.000000000 task-7 0xa(fd=-100, name=0x7ffd1234, n=4294967295, "
	       "size=1048576, mode=0644, flags=0x80000) = 3 <1.000 us>\n"
	       "[000]     0.000002000 task-7 0xb(offset=-1, address=0x7fff00000000) = "
	       "0x7f0000000000 <1.000 us>\n"
	       "[000]     0.000004000 task-7 0xc() = -2 ENOENT <1.000 us>\n"
	       "[000]     0.000006000 task-7 0xd(arg0=0x0, arg1=0x0, arg2=0x0, arg3=0x0, "
	       "arg4=0x0, arg5=0x0) = 0 <1.000 us>\n",
	       "arguments are shown by name and type, results by size");
}

static void test_returns(void)
{
	begin();
	leave(FRAME, 1);
	enter(0xc, FRAME);
	enter(0xc, OTHER);
	leave(FRAME, 1);
	enter_as(SYSCALL_ENTER_ONLY, 0xc, FRAME, NULL);
	leave(FRAME, 1);
	enter(0xc, FRAME);
	enter(0xc, FRAME);
	prints("[000]     0.000001000 task-7 0xc() = 1 <2.000 us>\n"
	       "[000]     0.000004000 task-7 0xc() = ? <its return is not recorded>\n"
	       "[000]     0.000006000 task-7 0xc() = ? <no return seen>\n"
	       "[000]     0.000002000 task-7 0xc() = ? <no return seen>\n"
	       "[000]     0.000007000 task-7 0xc() = ? <no return seen>\n",
	       "calls without a return are shown when the trace shows that they are over");
}

static void test_filter(void)
{
	begin_with("ret < 0 && name == 0xc && duration > 500 && comm == task && pid == 7", false);
	enter(0xc, FRAME);
	leave(FRAME, 0);
	enter(0xb, FRAME);
	leave(FRAME, -1);
	enter(0xc, FRAME);
	leave(FRAME, -1);
	prints("[000]     0.000004000 task-7 0xc() = -1 EPERM <1.000 us>\n",
	       "a filter is on the call, with its result and duration");
	begin_with("name ~ \"0x?\" && arg1 == 5", false);
	enter(0xc, FRAME);
	leave(FRAME, 0);
	prints("", "and on its name and arguments");
	begin_with("ret >= 0 && duration < 9999", false);
	enter_as(SYSCALL_ENTER_ONLY, 0xc, FRAME, NULL);
	enter(0xb, FRAME);
	leave(FRAME, 0);
	prints("[000]     0.000001000 task-7 0xb(offset=0, address=0x0) = 0 <1.000 us>\n",
	       "a call without a return has neither a result nor a duration");
	begin_with("returned == 0", false);
	enter_as(SYSCALL_ENTER_ONLY, 0xc, FRAME, NULL);
	enter(0xb, FRAME);
	leave(FRAME, 0);
	prints("[000]     0.000000000 task-7 0xc() = ? <its return is not recorded>\n",
	       "but can be asked for");
	begin_with_any((const char *const[]){"name == 0xb", "ret == -1"}, 2, false);
	enter(0xc, FRAME);
	leave(FRAME, 0);
	enter(0xb, FRAME);
	leave(FRAME, 0);
	enter(0xc, FRAME);
	leave(FRAME, -1);
	prints("[000]     0.000002000 task-7 0xb(offset=0, address=0x0) = 0 <1.000 us>\n"
	       "[000]     0.000004000 task-7 0xc() = -1 EPERM <1.000 us>\n",
	       "of several filters a call has to pass any");
	begin_with("ret == -EPERM", false);
	enter(0xc, FRAME);
	leave(FRAME, -2);
	enter(0xb, FRAME);
	leave(FRAME, -1);
	prints("[000]     0.000002000 task-7 0xb(offset=0, address=0x0) = -1 EPERM <1.000 us>\n",
	       "errors have their names");
}

/* What is not recorded of a task cannot be compared with anything. */
static void test_unrecorded(void)
{
	static const char *const words[] = {"comm != sh", "tgid != 1", "cgroup == 0"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const struct trace_instance instance = instance_with(0);
		struct syscall_text_options options = {.instance = &instance,
						       .filters = &t.filters};
		struct syscall_text *text;
		struct error err = {0};

		if (event_filters_parse(&words[i], 1, &t.filters, NULL) ||
		    event_texts_create(NULL, &t.texts, NULL))
			abort();
		ok(syscall_text_create(stdout, t.texts, &options, &text, &err) == -ENOENT &&
			   strstr(err.text, "it is recorded with the word"),
		   "a filter with what is not recorded is refused: %s", err.text);
		event_filters_deinit(&t.filters);
		event_texts_destroy(t.texts);
	}
}

static void test_json(void)
{
	static const uint64_t args[SYSCALL_ARGS] = {UINT64_C(0xffffff9c), 0x10, 1, 2, 8, 1};

	begin_with(NULL, true);
	enter_as(SYSCALL_ENTER, FUNCTION, FRAME, args);
	leave(FRAME, -2);
	enter_as(SYSCALL_ENTER_ONLY, 0xc, FRAME, NULL);
	prints("{\"ns\":0,\"vcpu\":0,\"pid\":7,\"comm\":\"task\",\"name\":\"0xa\",\"args\":{"
	       "\"fd\":-100,\"name\":\"0x10\",\"n\":1,\"size\":2,\"mode\":8,\"flags\":\"0x1\"},"
	       "\"ret\":-2,\"duration_ns\":1000}\n"
	       "{\"ns\":2000,\"vcpu\":0,\"pid\":7,\"comm\":\"task\",\"name\":\"0xc\",\"args\":{}}"
	       "\n",
	       "a call is a JSON object; without a return it has neither result nor duration");
}

static void test_task(void)
{
	struct syscall_event event = {
		.call = {.call = {.ip = 0xc, .pid = 7, .tgid = 6, .cgroup = 55, .comm = "task"},
			 .frame = FRAME}};

	begin_with("tgid == 6 && cgroup == 55", true);
	put(SYSCALL_ENTER_ONLY, &event);
	event.call.call.tgid = 7;
	put(SYSCALL_ENTER_ONLY, &event);
	event.call.call.tgid = 6;
	event.call.call.cgroup = 0;
	put(SYSCALL_ENTER_ONLY, &event);
	prints("{\"ns\":0,\"vcpu\":0,\"pid\":7,\"comm\":\"task\",\"name\":\"0xc\",\"args\":{},"
	       "\"tgid\":6,\"cgroup\":55}\n",
	       "a filter is on process and cgroup, which are in JSON if they are recorded");
}

static void test_declarations(void)
{
	static const char *const damaged[] = {
		"",           "\n\n",      "(",       ")",
		"f",          "f(",        "f)(",     "f(int)",
		"f(int x,",   "f(int x)y", "f( x)",   "f(, )",
		"f(int x, )", "(int x)",   "f(int )", "f(a b, c d, e f, g h, i j, k l, m n)",
	};
	struct syscall_prototypes *prototypes;
	bool good = true;

	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		if (syscall_prototypes_create(damaged[i], &prototypes, NULL))
			abort();
		good &= syscall_prototypes_find(prototypes, "f")->nr_args == SYSCALL_ARGS;
		syscall_prototypes_destroy(prototypes);
	}
	ok(good, "what is no declaration is left out");
	if (syscall_prototypes_create(NULL, &prototypes, NULL))
		abort();
	ok(!strcmp(syscall_prototypes_find(prototypes, "f")->args[5].name, "arg5"),
	   "without declarations arguments have numbers");
	syscall_prototypes_destroy(prototypes);
	ok(!strcmp(syscall_name_of("__x64_sys_openat"), "openat") &&
		   !strcmp(syscall_name_of("__ia32_sys_getpid"), "getpid") &&
		   !strcmp(syscall_name_of("0xffffffff81000000"), "0xffffffff81000000"),
	   "a function's name leads to the system call's");
}

int main(void)
{
	test_arguments();
	test_returns();
	test_filter();
	test_unrecorded();
	test_json();
	test_task();
	test_declarations();
	return tap_done();
}
