/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What options left nothing to show. */
#include "formats/analysis/analysis.h"

#include <stdarg.h>
#include <stdlib.h>
#include "formats/cli/cli.h"
#include "formats/report/choice-text.h"
#include "formats/report/trace-text.h"

struct notes {
	const char *verb, *about, *time_option;
	const struct replay *replay;
	const struct analysis_options *options;
};

__attribute__((format(printf, 2, 3))) static void note(const struct notes *n, const char *fmt, ...)
{
	char text[800];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cli_note(n->verb, "%s%s", n->about, text);
}

/* --- the time -------------------------------------------------------------------------------- */

static void note_time(const struct notes *n)
{
	const struct replay *replay = n->replay;
	const struct trace_outside *outside = &replay->outside;
	const struct chosen_time time = {.range = replay->view->time,
					 .option = n->time_option,
					 .since_init = replay->view->since_init,
					 .from_ns = replay->from_ns};

	if (replay->records || replay->others || (!outside->before && !outside->is_after))
		return;
	note(n, "%s", text_outside(outside, &time).s);
}

/* --- what is selected ------------------------------------------------------------------------ */

static void note_selection(const struct notes *n)
{
	const struct replay_view *view = n->replay->view;
	const struct option_given options[] = {{view->choice.events.n > 0, "--event"},
					       {view->choice.filters.n > 0, "--filter"},
					       {view->type < KMEM_TYPE_COUNT, "--type"},
					       {view->choice.vcpus.some, "--vcpu"}};

	if (!n->replay->keeps_heap || !n->replay->selects || n->replay->nr_selected ||
	    !n->replay->records)
		return;
	note(n, "no allocation is one that %s",
	     options_choose_text(options, sizeof(options) / sizeof(options[0])).s);
}

/* --- age ------------------------------------------------------------------------------------- */

struct oldest {
	int64_t born_ns;
	bool is_any;
};

static void look_at_age(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct oldest *oldest = arg;

	(void)ptr;
	if (!object->selected || (oldest->is_any && object->born_ns >= oldest->born_ns))
		return;
	oldest->is_any = true;
	oldest->born_ns = object->born_ns;
}

static void note_age(const struct notes *n)
{
	const struct replay *replay = n->replay;
	struct oldest oldest = {0};
	uint64_t age;

	if (!n->options->older_ns || !replay->heap)
		return;
	heap_each(replay->heap, look_at_age, &oldest);
	age = (uint64_t)replay->span.end_ns - (uint64_t)oldest.born_ns;
	if (!oldest.is_any || age >= (uint64_t)n->options->older_ns)
		return;
	note(n, "--older: nothing that is live is so old; the oldest lives for %s",
	     measure_duration((double)age).s);
}

/* --- groups and measures --------------------------------------------------------------------- */

static bool has_field(const struct trace_instance *instance, const char *name)
{
	for (size_t i = 0; i < instance->nr_classes; i++)
		if (event_field_find(&instance->classes[i], name))
			return true;
	return false;
}

static void note_tasks(const struct notes *n)
{
	const struct grouping *by = &n->options->by;
	const struct trace_instance *instance = n->replay->instance;
	bool by_task = false;

	for (size_t i = 0; i < by->n; i++)
		by_task |= by->by[i] == BY_TASK;
	if (by_task && instance && !has_field(instance, "pid") && !has_field(instance, "tgid") &&
	    !has_field(instance, "comm"))
		note(n, "--by task: the trace does not say which task allocates; record with "
			"--trace kmem:pid,comm");
}

static void note_nodes(const struct notes *n)
{
	const struct sidecar *sidecar = trace_reader_sidecar(n->replay->reader);
	const bool is_sorted = n->options->sort == MEASURE_CROSS_NODE;

	if ((is_sorted || n->options->measures & 1u << MEASURE_CROSS_NODE) &&
	    !(sidecar && trace_has_nodes(&sidecar->info)))
		note(n,
		     "%s cross-node: the trace does not know of two NUMA nodes, so that all "
		     "are 0",
		     is_sorted ? "--sort" : "--measures");
}

void analysis_print_notes(const char *verb, const char *about, const char *time_option,
			  const struct replay *replay, const struct analysis_options *options)
{
	const struct notes n = {verb, about, time_option, replay, options};

	note_time(&n);
	note_selection(&n);
	note_age(&n);
	note_tasks(&n);
	note_nodes(&n);
}
