/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What sonde top shows of a trace with call chains, calls of functions and system calls; and of
 * tracers that are added while it looks. */
#include "tests/unit/vmm/monitor/monitor-fixture.h"

#include <jansson.h>
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/trace-make.h"
#include "vmm/cmd.h"
#include "vmm/top/trace.h"

#define ALLOC UINT64_C(0xffffffff81001010)
#define READ UINT64_C(0xffffffff81002020)
#define WRITE UINT64_C(0xffffffff81003030)
#define DUP UINT64_C(0xffffffff81005050)
#define OBJECT UINT64_C(0xffff888000001000)
#define FRAME UINT64_C(0xffffc90000001000)

static const struct trace_info info = {.tool_version = "1"};
static const char *const names[] = {"?",         "d_alloc",        "vfs_read",
				    "vfs_write", "__x64_sys_read", "kmemdup"};

static struct trace_writer *writer;
static struct event_batch batch;
static int64_t now;

/* Functions of 0x90 bytes, one every 0x1000. */
static int name_function(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	if (address == EVENT_STACK_CUT)
		return -ENOENT;
	out->start = address - address % 0x1000;
	out->size = 0x90;
	snprintf(out->name, sizeof(out->name), "%s", names[(address >> 12 & 0xf) % 6]);
	return 0;
}

static void put(unsigned int instance, unsigned int class, const void *bytes)
{
	if (event_batch_put(&batch, trace_writer_sink(writer, instance, 0), class, now += 1000,
			    bytes))
		abort();
}

static void begin(const char *dir)
{
	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
}

static unsigned int add(const char *name, const char *spec, const struct event_class *classes,
			size_t nr_classes)
{
	const struct trace_instance instance = {
		.name = name, .spec = spec, .classes = classes, .nr_classes = nr_classes};
	int number;

	event_batch_end(&batch);
	number = trace_writer_add_instance(writer, &instance, NULL);
	if (number < 0)
		abort();
	return (unsigned int)number;
}

/* What is there so far is on the disk. */
static void flush(void)
{
	event_batch_end(&batch);
	if (trace_writer_flush(writer, NULL))
		abort();
}

static void finish(void)
{
	event_batch_end(&batch);
	if (trace_writer_finish(writer, &info, name_function, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void put_alloc(unsigned int instance, uint64_t ptr, uint64_t site, uint64_t caller,
		      uint64_t more)
{
	const struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, ptr, site, 60, 64, 0);
	const struct kmem_stack_record event = {.call = {record, {0}},
						.stack = {site, caller, more}};

	put(instance, kmem_class_of(&record), &event);
}

static void put_chains(void)
{
	const unsigned int kmem =
		add("kmem", "kmem:stack", kmem_classes_of(EVENT_TASK_STACK), KMEM_NR_CLASSES);

	put_alloc(kmem, OBJECT, ALLOC, READ, 0);
	put_alloc(kmem, OBJECT + 64, ALLOC, WRITE, EVENT_STACK_CUT);
	put_alloc(kmem, OBJECT + 128, ALLOC, WRITE, EVENT_STACK_CUT);
	put_alloc(kmem, OBJECT + 192, DUP, READ, 0);
}

static void put_call(unsigned int instance, uint64_t ip, uint64_t frame, int64_t ns)
{
	struct graph_event event = {.call = {.ip = ip}, .frame = frame};

	put(instance, GRAPH_ENTRY, &event);
	now += ns - 1000;
	put(instance, GRAPH_EXIT, &event);
}

static void put_graph(const char *name)
{
	const unsigned int graph = add(name, "graph:vfs_*", graph_classes(0), GRAPH_NR_CLASSES);

	put_call(graph, READ, FRAME, 2000);
	put_call(graph, READ, FRAME, 4000);
}

static void put_syscalls(void)
{
	const unsigned int number =
		add("syscalls", "syscalls", syscall_classes(0), SYSCALL_NR_CLASSES);
	struct syscall_event event = {
		.call = {.call = {.ip = UINT64_C(0xffffffff81004004)}, .frame = FRAME}};

	put(number, SYSCALL_ENTER, &event);
	now += 6000;
	put(number, SYSCALL_EXIT, &event);
	event.call.frame += 64;
	put(number, SYSCALL_ENTER, &event);
}

/* --- the verb -------------------------------------------------------------------------------- */

static json_t *give_profiles(void *arg, const char *name, struct error *err)
{
	(void)arg;
	(void)name;
	(void)err;
	return json_pack("{s:[]}", "profiles");
}

static void add_profiles(struct fixture *f)
{
	f->trace_ops.profiles = give_profiles;
}

static struct verb_result top(const struct fixture *f, const char *dir, const char *option,
			      const char *value)
{
	const char *const argv[] = {"top",   "--interval", "100ms", "--trace", dir,
				    f->path, option,       value,   NULL};

	return verb_run(cmd_top, argv);
}

static const json_t *row_at(const json_t *root, const char *list, size_t index)
{
	return json_array_get(json_object_get(root, list), index);
}

static bool has(const json_t *row, const char *key, json_int_t value)
{
	const json_t *field = json_object_get(row, key);

	return json_is_integer(field) && json_integer_value(field) == value;
}

static bool is_named(const json_t *row, const char *name)
{
	const char *its = json_string_value(json_object_get(row, "name"));

	return its && !strcmp(its, name);
}

static void test_calls(const struct fixture *f, const char *dir)
{
	struct verb_result result = top(f, dir, "--json", NULL);
	json_t *root = json_loads(result.out, 0, NULL);
	const json_t *row = row_at(root, "functions", 0);

	ok(!result.status && is_named(row, "vfs_read") && has(row, "calls", 2) &&
		   has(row, "mean_ns", 3000) && has(row, "max_ns", 4000),
	   "without a profile, functions are those of graph");
	row = row_at(root, "syscalls", 0);
	ok(is_named(row, "read") && has(row, "calls", 1) && has(row, "mean_ns", 7000) &&
		   json_is_real(json_object_get(row, "calls_per_second")),
	   "a system call has its calls and times");
	ok(!json_object_get(root, "stacks"), "call chains are shown when they are asked for");
	json_decref(root);
	verb_result_deinit(&result);
	result = top(f, dir, "--once", NULL);
	ok(!result.status && strstr(result.out, "\nsyscalls\n") && strstr(result.out, " read\n"),
	   "--once prints system calls, too");
	ok(strstr(result.out, " vfs_read+0x20/0x90\n") && !strstr(result.out, "kmemdup"),
	   "what a wrapper allocates is its caller's, which the call chain names");
	ok(!strchr(result.out, '>'), "and no cursor");
	verb_result_deinit(&result);
}

static void test_stacks(const struct fixture *f, const char *dir)
{
	const char *const argv[] = {"top",    "--interval", "100ms",   "--trace", dir,
				    "--json", "--stacks",   "d_alloc", f->path,   NULL};
	struct verb_result result = verb_run(cmd_top, argv);
	json_t *root = json_loads(result.out, 0, NULL);
	const json_t *row = row_at(root, "stacks", 0), *frames = json_object_get(row, "frames");

	is_str(json_string_value(json_object_get(root, "site")), "d_alloc+0x10/0x90",
	       "--stacks takes a function, and names its call site");
	ok(json_array_size(json_object_get(root, "stacks")) == 2 && has(row, "allocs", 2) &&
		   has(row, "live_bytes", 128) && has(row, "live_objects", 2) &&
		   json_is_true(json_object_get(row, "cut")),
	   "each chain has its allocations, and what is live of them");
	ok(json_array_size(frames) == 2 &&
		   !strcmp(json_string_value(json_array_get(frames, 1)), "vfs_write+0x30/0x90"),
	   "and its frames, innermost first");
	json_decref(root);
	verb_result_deinit(&result);
	result = top(f, dir, "--stacks", "d_alloc+0x10/0x90");
	ok(!result.status && strstr(result.out, "call chains of d_alloc+0x10/0x90\n") &&
		   strstr(result.out, "vfs_write+0x30/0x90\n") && strstr(result.out, "[cut]\n"),
	   "as text, too: %s", result.out);
	verb_result_deinit(&result);
	result = top(f, dir, "--stacks", "nothing");
	ok(result.status == 1 && strstr(result.err, "--stacks: no call site is named 'nothing'"),
	   "a call site that is not there is refused: %s", result.err);
	verb_result_deinit(&result);
	result = top(f, "/nonexistent", "--stacks", "d_alloc");
	ok(result.status == 1 && strstr(result.err, "--stacks: /nonexistent"),
	   "so are call sites that cannot be read: %s", result.err);
	verb_result_deinit(&result);
}

static void test_without_chains(const struct fixture *f)
{
	struct scratch scratch = scratch_make();
	const struct kmem_record record =
		make_alloc(KMEM_TYPE_KMALLOC, OBJECT, ALLOC, 60, 64, 1000);
	struct verb_result result;

	stream_put(scratch.path, 0, &record, 1);
	result = top(f, scratch.path, "--stacks", "0xffffffff81001010");
	ok(!result.status && strstr(result.out, "trace add 'chains=kmem:stack'"),
	   "without call chains it says what to trace: %s", result.out);
	verb_result_deinit(&result);
	scratch_remove(&scratch);
}

/* --- tracers that are added ------------------------------------------------------------------ */

static bool sample(struct top_trace *trace, struct top_model *model)
{
	return !top_trace_sample(trace, model, NULL);
}

static void test_added(void)
{
	struct scratch scratch = scratch_make();
	struct top_model model = {0};
	struct top_trace *trace;

	begin(scratch.path);
	put_chains();
	flush();
	if (top_trace_open(scratch.path, &trace, NULL))
		abort();
	ok(sample(trace, &model) &&
		   strstr(model.tables[TOP_SYSCALLS].missing, "trace add syscalls"),
	   "without system calls it says what to trace");
	put_syscalls();
	put_graph("some");
	put_graph("more");
	finish();
	ok(sample(trace, &model) && model.tables[TOP_SYSCALLS].n == 1 &&
		   model.tables[TOP_SITES].n == 2,
	   "what is traced later is shown, too");
	ok(model.tables[TOP_FUNCTIONS].n == 2 &&
		   !strcmp(model.tables[TOP_FUNCTIONS].v[1].now.name, "vfs_read (more)"),
	   "functions of several instances have the name of each");
	top_trace_close(trace);
	top_model_deinit(&model);
	scratch_remove(&scratch);
}

int main(void)
{
	struct fixture *f = fixture_create(add_profiles);
	struct scratch scratch = scratch_make();

	if (!f)
		return tap_skip_all("no monitor can be made");
	begin(scratch.path);
	put_chains();
	put_graph("graph");
	put_syscalls();
	finish();
	test_calls(f, scratch.path);
	test_stacks(f, scratch.path);
	test_without_chains(f);
	test_added();
	fixture_destroy(f);
	scratch_remove(&scratch);
	return tap_done();
}
