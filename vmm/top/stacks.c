/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains of allocations while they are recorded: those of one call site are shown. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "formats/export/stacks.h"
#include "vmm/top/part.h"

struct chains {
	struct top_part part;
	const struct trace_instance *instance; /* NULL: no chains are recorded */
	struct stacks *stacks;
};

static bool has_chains(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++)
		if (kmem_class_is_alloc(&instance->classes[i]) &&
		    event_field_chain(&instance->classes[i]))
			return true;
	return false;
}

static int take_event(struct analysis *analysis, const struct event *event)
{
	struct chains *c = (struct chains *)analysis;

	return event->instance == c->instance && c->instance ? stacks_add(c->stacks, event) : 0;
}

static void deinit(struct analysis *analysis)
{
	struct chains *c = (struct chains *)analysis;

	stacks_destroy(c->stacks);
}

static bool is_of_site(const struct stack *stack, uint64_t site)
{
	return stack->site == site && kmem_class_is_alloc(stack->class);
}

/* Innermost first, a line each. */
static void print_chain(FILE *out, const struct sidecar *sidecar, const struct stack *stack)
{
	for (unsigned int i = stack->nr_frames; i-- > 0;)
		fprintf(out, "%s\n", sidecar_symbol_text(sidecar, stack->frames[i]).s);
	putc('\0', out);
}

/* All chains of the site, one text behind the other. NULL: no memory. */
static char *print_chains(const struct chains *c, const struct stack *all, size_t n, uint64_t site)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->part.analysis.replay->reader);
	char *texts = NULL;
	size_t size;
	FILE *out = open_memstream(&texts, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (is_of_site(&all[i], site))
			print_chain(out, sidecar, &all[i]);
	if (!text_stream_close(out))
		return texts;
	free(texts);
	return NULL;
}

static size_t count(const struct stack *all, size_t n, uint64_t site)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += is_of_site(&all[i], site);
	return found;
}

/* A stack keeps its number. */
static void list(const struct stack *all, size_t n, uint64_t site, const char *texts,
		 struct top_sample *out)
{
	for (size_t i = 0; i < n; i++) {
		const struct stack *stack = &all[i];

		if (!is_of_site(stack, site))
			continue;
		*out++ = (struct top_sample){.key = i,
					     .chain = texts,
					     .total = stack->sums[STACK_EVENTS],
					     .flow = stack->sums[STACK_BYTES],
					     .live = stack->sums[STACK_LIVE_BYTES],
					     .count = stack->sums[STACK_LIVE_OBJECTS]};
		texts += strlen(texts) + 1;
	}
}

static int put_chains(const struct chains *c, struct top_model *model, struct error *err)
{
	size_t n, nr_all;
	const struct stack *all = stacks_finish(c->stacks, &nr_all);
	struct top_sample *samples;
	char *texts = print_chains(c, all, nr_all, model->site);
	int ret;

	n = count(all, nr_all, model->site);
	samples = calloc(n + 1, sizeof(*samples));
	if (!texts || !samples) {
		free(texts);
		free(samples);
		return error_set(err, ENOMEM, "out of memory");
	}
	list(all, nr_all, model->site, texts, samples);
	ret = top_model_put_chains(model, samples, n, texts, clock_monotonic_ns(), err);
	free(samples);
	return ret;
}

static int put(struct top_part *part, struct top_model *model, struct error *err)
{
	const struct chains *c = (const struct chains *)part;

	if (!model->site)
		return 0;
	if (c->instance)
		return put_chains(c, model, err);
	top_table_miss(&model->tables[TOP_STACKS], "no call chains are recorded: sonde ctl SOCKET "
						   "trace add 'chains=kmem:stack'");
	return 0;
}

static const struct analysis_ops ops = {.event = take_event, .deinit = deinit};

int top_stacks_create(const struct replay *replay, struct top_part **out, struct error *err)
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);
	struct chains *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	c->part = (struct top_part){.analysis = {.ops = &ops, .replay = replay}, .put = put};
	for (size_t i = 0; !c->instance && i < n; i++)
		if (has_chains(&all[i]))
			c->instance = &all[i];
	ret = stacks_create(replay->reader, EXPORT_COUNT, &c->stacks, err);
	if (ret)
		analysis_destroy(&c->part.analysis);
	else
		*out = &c->part;
	return ret;
}
