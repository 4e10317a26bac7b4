/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/graph/graph-text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/base/u64-map.h"

enum {
	COMM_SIZE = 16,
	VCPUS_MAX = 4096,
	NAMES_MAX = 1 << 16, /* of tasks; a trace of nonsense gets no more memory */
	DURATION_WIDTH = 8,  /* columns of a number of microseconds */
	INDENT = 2,
	NS_PER_US = 1000,
};

/* What a vCPU does. */
struct line {
	bool known;
	uint32_t pid;
	uint64_t run; /* number of its stretch of one task */
	bool waits;   /* `call` has begun: whether it makes another one is not known */
	struct graph_call call;
	bool interrupted; /* calls of this depth, and deeper ones, are an interrupt's */
	unsigned int interrupt_depth;
};

struct task_name {
	char comm[COMM_SIZE + 1];
};

struct graph_text {
	FILE *out;
	struct event_texts *texts;
	struct graph_text_options options;
	struct graph_calls *calls;
	const struct call_filter *choice; /* NULL: all calls, in braces */
	struct u64_map names; /* by pid: struct task_name */
	struct line *lines;   /* by vCPU */
	unsigned int nr_lines;
	uint64_t runs;
	bool has_printed; /* a call */
};

/* --- parts of lines -------------------------------------------------------------------------- */

/* As function_graph marks what takes long. */
static char mark_of(int64_t ns)
{
	static const struct {
		int64_t above_ns;
		char mark;
	} marks[] = {{1000000000, '$'}, {100000000, '@'}, {10000000, '*'},
		     {1000000, '#'},    {100000, '!'},    {10000, '+'}};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (ns > marks[i].above_ns)
			return marks[i].mark;
	return ' ';
}

static void print_begin(struct graph_text *t, unsigned int vcpu)
{
	fprintf(t->out, " %u) ", vcpu);
	t->has_printed = true;
}

/* Three digits behind the point, and fewer as the number grows. */
static void print_duration(struct graph_text *t, int64_t ns)
{
	char number[32];
	int length = snprintf(number, sizeof(number), "%" PRId64 ".%03" PRId64, ns / NS_PER_US,
			      ns % NS_PER_US);

	if (length > DURATION_WIDTH)
		length = (int)strcspn(number, ".") < DURATION_WIDTH - 1 ? DURATION_WIDTH
									: (int)strcspn(number, ".");
	fprintf(t->out, "%c %.*s us %*s|  ", mark_of(ns), length, number,
		length < DURATION_WIDTH ? DURATION_WIDTH - length : 0, "");
}

/* What is in the place of a duration. */
static void print_blank(struct graph_text *t)
{
	fprintf(t->out, "  %*s|  ", DURATION_WIDTH + 4, "");
}

static void print_indent(struct graph_text *t, const struct graph_call *call)
{
	fprintf(t->out, "%*s", INDENT * (int)call->depth, "");
}

static const char *name_of(struct graph_text *t, const struct graph_call *call)
{
	return event_texts_function(t->texts, call->ip);
}

static void print_result(struct graph_text *t, const struct graph_call *call, const char *before,
			 const char *behind)
{
	const int64_t result = graph_call_result(call);

	fputs(before, t->out);
	if (result >= -GRAPH_ERRNO_MAX && result <= GRAPH_ERRNO_MAX)
		fprintf(t->out, " = %" PRId64, result);
	else
		fprintf(t->out, " = 0x%" PRIx64, call->result);
	fputs(behind, t->out);
}

/* --- lines ----------------------------------------------------------------------------------- */

static bool is_printed(const struct graph_text *t, const struct graph_call *call)
{
	return !t->options.max_depth || call->depth < t->options.max_depth;
}

/* Why a call has no time. */
static const char *reason(const struct graph_call *call)
{
	return call->unrecorded ? "its return is not recorded" : "no return seen";
}

static void print_time(struct graph_text *t, const struct graph_call *call, bool seen)
{
	if (seen)
		print_duration(t, call->end_ns - call->begin_ns);
	else
		print_blank(t);
}

static void print_leaf(struct graph_text *t, const struct graph_call *call, unsigned int vcpu,
		       bool seen)
{
	print_begin(t, vcpu);
	print_time(t, call, seen);
	print_indent(t, call);
	fprintf(t->out, "%s();", name_of(t, call));
	if (!seen)
		fprintf(t->out, " /* %s */", reason(call));
	else if (call->has_result)
		print_result(t, call, " /*", " */");
	fputs("\n", t->out);
}

static void print_opening(struct graph_text *t, const struct graph_call *call, unsigned int vcpu)
{
	print_begin(t, vcpu);
	print_blank(t);
	print_indent(t, call);
	fprintf(t->out, "%s() {\n", name_of(t, call));
}

static void print_closing(struct graph_text *t, const struct graph_call *call, unsigned int vcpu,
			  bool seen, bool named)
{
	print_begin(t, vcpu);
	print_time(t, call, seen);
	print_indent(t, call);
	fputs("}", t->out);
	if (!seen)
		fprintf(t->out, " /* %s: %s */", name_of(t, call), reason(call));
	else if (named)
		fprintf(t->out, " /* %s", name_of(t, call));
	if (seen && call->has_result)
		print_result(t, call, named ? "" : " /*", "");
	if (seen && (named || call->has_result))
		fputs(" */", t->out);
	fputs("\n", t->out);
}

/* --- vCPUs ----------------------------------------------------------------------------------- */

/* NULL without memory, or beyond all vCPUs. */
static struct line *line_of(struct graph_text *t, unsigned int vcpu)
{
	unsigned int n = vcpu + 1;
	struct line *lines;

	if (vcpu < t->nr_lines)
		return &t->lines[vcpu];
	if (vcpu >= VCPUS_MAX)
		return NULL;
	lines = reallocarray(t->lines, n, sizeof(*lines));
	if (!lines)
		return NULL;
	memset(lines + t->nr_lines, 0, (n - t->nr_lines) * sizeof(*lines));
	t->lines = lines;
	t->nr_lines = n;
	return &lines[vcpu];
}

/* The call that waits makes others, or goes on elsewhere. */
static void settle(struct graph_text *t, struct line *line)
{
	if (line->waits)
		print_opening(t, &line->call, line->call.vcpu);
	line->waits = false;
}

static void end_interrupt(struct graph_text *t, struct line *line, unsigned int vcpu)
{
	if (!line->interrupted)
		return;
	settle(t, line);
	line->interrupted = false;
	print_begin(t, vcpu);
	fputs("  <========== |\n", t->out);
}

static void print_task(struct graph_text *t, uint32_t pid)
{
	const struct task_name *name = u64_map_find(&t->names, pid);

	if (!pid)
		fputs("<idle>-0", t->out);
	else if (name)
		fprintf(t->out, "%s-%" PRIu32, name->comm, pid);
	else
		fprintf(t->out, "task %" PRIu32, pid);
}

/* A task has moved to this vCPU within a call. */
static void settle_elsewhere(struct graph_text *t, uint32_t pid)
{
	for (unsigned int i = 0; pid && i < t->nr_lines; i++)
		if (t->lines[i].waits && t->lines[i].pid == pid)
			settle(t, &t->lines[i]);
}

/* The vCPU works for this task from now on. */
static void switch_task(struct graph_text *t, struct line *line, unsigned int vcpu, uint32_t pid)
{
	static const char rule[] = " ------------------------------------------\n";

	if (line->known && line->pid == pid)
		return;
	settle(t, line);
	settle_elsewhere(t, pid);
	line->interrupted = false;
	if (!t->runs)
		fputs("# CPU  DURATION                  FUNCTION CALLS\n"
		      "# |     |   |                     |   |   |   |\n",
		      t->out);
	fputs(rule, t->out);
	print_begin(t, vcpu);
	if (line->known) {
		fputs("  ", t->out);
		print_task(t, line->pid);
	}
	fputs("  =>  ", t->out);
	print_task(t, pid);
	fprintf(t->out, "\n%s", rule);
	line->known = true;
	line->pid = pid;
	line->run = ++t->runs;
}

static void follow_interrupts(struct graph_text *t, struct line *line, struct graph_call *call)
{
	if (line->interrupted && !call->interrupts && call->depth <= line->interrupt_depth)
		end_interrupt(t, line, call->vcpu);
	if (line->interrupted || !call->interrupts)
		return;
	print_begin(t, call->vcpu);
	fputs("  ==========> |\n", t->out);
	line->interrupted = true;
	line->interrupt_depth = call->depth;
}

/* It may change, at an exec. */
static void note_name(struct graph_text *t, const struct graph_call *call)
{
	char raw[COMM_SIZE + 1] = "";
	struct task_name *name = u64_map_find(&t->names, call->pid);

	if (!call->comm[0])
		return;
	if (!name && t->names.count < NAMES_MAX)
		name = u64_map_insert(&t->names, call->pid, NULL);
	memcpy(raw, call->comm, COMM_SIZE);
	if (name)
		clean_text(name->comm, sizeof(name->comm), raw);
}

static bool is_wanted(void *arg, uint64_t ip)
{
	struct graph_text *t = arg;

	return graph_name_matches(t->options.only, event_texts_function(t->texts, ip));
}

static void on_enter(void *arg, struct graph_call *call)
{
	struct graph_text *t = arg;
	struct line *line = line_of(t, call->vcpu);

	if (!line || !is_printed(t, call))
		return;
	note_name(t, call);
	if (t->choice)
		return;
	switch_task(t, line, call->vcpu, call->pid);
	settle(t, line);
	follow_interrupts(t, line, call);
	call->note = line->run;
	line->call = *call;
	line->waits = true;
}

/* Whether this is the call that waits. */
static bool is_waiting(const struct line *line, const struct graph_call *call)
{
	return line->waits && line->call.note == call->note && line->call.frame == call->frame &&
	       line->call.depth == call->depth && line->call.begin_ns == call->begin_ns;
}

/* What a filter takes has its time: a line, where it ends. */
static void print_chosen(struct graph_text *t, const struct graph_call *call, unsigned int vcpu,
			 bool seen)
{
	struct line *line = line_of(t, vcpu);

	if (!line || !is_printed(t, call) || !graph_choice_has(t->choice, call, seen))
		return;
	switch_task(t, line, vcpu, call->pid);
	print_leaf(t, call, vcpu, seen);
}

static void on_open(void *arg, const struct graph_call *call)
{
	print_chosen(arg, call, call->vcpu, false);
}

static void on_leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct graph_text *t = arg;
	struct line *begun = line_of(t, call->vcpu), *line = line_of(t, vcpu);

	if (t->choice) {
		print_chosen(t, call, seen ? vcpu : call->vcpu, seen);
		return;
	}
	if (!line || !begun || !is_printed(t, call))
		return;
	begun = &t->lines[call->vcpu];
	if (is_waiting(begun, call) && (vcpu == call->vcpu || !seen)) {
		begun->waits = false;
		print_leaf(t, call, call->vcpu, seen);
		return;
	}
	settle(t, begun);
	settle(t, line);
	switch_task(t, line, vcpu, call->pid);
	if (line->interrupted && call->depth < line->interrupt_depth)
		end_interrupt(t, line, vcpu);
	print_closing(t, call, vcpu, seen, call->note != line->run);
}

/* --- life ------------------------------------------------------------------------------------ */

int graph_text_create(FILE *out, struct event_texts *texts,
		      const struct graph_text_options *options, struct graph_text **text,
		      struct error *err)
{
	struct graph_text *t = calloc(1, sizeof(*t));
	const struct graph_visitor visitor = {.arg = t,
					      .stack_bytes = options->stack_bytes,
					      .wants = options->only ? is_wanted : NULL,
					      .enter = on_enter,
					      .leave = on_leave};
	int ret;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->out = out;
	t->texts = texts;
	t->options = *options;
	u64_map_init(&t->names, sizeof(struct task_name));
	ret = graph_calls_create(&visitor, &t->calls, err);
	if (ret)
		graph_text_destroy(t);
	else
		*text = t;
	return ret;
}

void graph_text_destroy(struct graph_text *t)
{
	if (!t)
		return;
	graph_calls_destroy(t->calls);
	u64_map_deinit(&t->names);
	free(t->lines);
	free(t);
}

void graph_text_choose(struct graph_text *t, const struct call_filter *choice)
{
	t->choice = choice;
}

int graph_text_put(struct graph_text *t, const struct event *event)
{
	return graph_calls_add(t->calls, event);
}

int graph_text_end(struct graph_text *t, struct error *err)
{
	for (unsigned int i = 0; i < t->nr_lines; i++)
		settle(t, &t->lines[i]);
	if (t->choice && graph_calls_visit_open_in_order(t->calls, on_open, t))
		return error_set(err, ENOMEM, "out of memory");
	if (!t->options.only || graph_calls_counts(t->calls).calls)
		return 0;
	return error_set(err, ENOENT, "--only: no call of a function '%s' is in the trace",
			 t->options.only);
}

bool graph_text_has_printed(const struct graph_text *t)
{
	return t->has_printed;
}
