/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Running all checks, and what they find. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/checks/check.h"

enum { MAX_CHECKS = 64 };

struct checker {
	const struct sidecar *sidecar; /* or NULL */
	bool lossy;
	const struct trace_instance *last; /* of the last record */
	bool last_is_whole;                /* it has recorded all events */
	struct check_context context;      /* of the current event */
	struct check_event event;          /* the current one */
	struct check *checks[MAX_CHECKS];  /* by index of check_table */
};

static size_t count_classes(const struct check_ops *ops)
{
	size_t n = 0;

	while (ops->classes[n].id)
		n++;
	return n;
}

static int create_check(struct checker *checker, const struct sidecar *sidecar, size_t i)
{
	const struct check_ops *ops = check_table[i];
	struct check *check = calloc(1, ops->size);

	if (!check)
		return -ENOMEM;
	checker->checks[i] = check;
	check->ops = ops;
	check->context = &checker->context;
	if (ops->init)
		ops->init(check, sidecar);
	check->findings = calloc(count_classes(ops), sizeof(*check->findings));
	return check->findings ? 0 : -ENOMEM;
}

static void destroy_check(struct check *check)
{
	if (check->ops->deinit)
		check->ops->deinit(check);
	free(check->findings);
	free(check);
}

struct checker *checker_create(const struct sidecar *sidecar, bool lossy)
{
	struct checker *checker = calloc(1, sizeof(*checker));

	if (!checker)
		return NULL;
	checker->sidecar = sidecar;
	checker->lossy = lossy;
	for (size_t i = 0; check_table[i]; i++) {
		if (i == MAX_CHECKS || create_check(checker, sidecar, i)) {
			checker_destroy(checker);
			return NULL;
		}
	}
	return checker;
}

void checker_destroy(struct checker *checker)
{
	if (!checker)
		return;
	for (size_t i = 0; i < MAX_CHECKS && checker->checks[i]; i++)
		destroy_check(checker->checks[i]);
	free(checker);
}

static void enter_instance(struct checker *checker, const struct trace_instance *instance, bool cut)
{
	const struct sidecar *sidecar = checker->sidecar;

	if (checker->last != instance) {
		checker->last = instance;
		checker->last_is_whole = sidecar_is_whole(sidecar, instance) &&
					 !sidecar_is_interrupted(sidecar, instance);
		checker->context.from_first = sidecar_is_from_first(sidecar, instance);
	}
	checker->context.uncertain = checker->lossy || cut || !checker->last_is_whole;
}

int checker_event(struct checker *checker, const struct event *event, bool cut)
{
	struct check_event *what = &checker->event;
	int ret = 0;

	*what = (struct check_event){.at = *event};
	what->is_record = kmem_record_of(event, &what->record);
	if (what->is_record)
		enter_instance(checker, event->instance, cut);
	for (size_t i = 0; !ret && check_table[i]; i++) {
		if (check_table[i]->event)
			ret = check_table[i]->event(checker->checks[i], what);
	}
	return ret;
}

int checker_change(struct checker *checker, const struct heap_change *change)
{
	int ret = 0;

	for (size_t i = 0; !ret && check_table[i]; i++) {
		if (check_table[i]->change)
			ret = check_table[i]->change(checker->checks[i], &checker->event, change);
	}
	return ret;
}

void checker_finish(struct checker *checker, const struct trace_reader *reader)
{
	for (size_t i = 0; check_table[i]; i++) {
		if (check_table[i]->finish)
			check_table[i]->finish(checker->checks[i], reader);
	}
}

const struct check_finding *checker_finding(const struct checker *checker, size_t check,
					    size_t class, enum check_severity severity)
{
	return &checker->checks[check]->findings[class][severity];
}

static void found(struct check *check, unsigned int class, enum check_severity severity,
		  const struct check_event *event, const uint64_t *allocation)
{
	struct check_finding *finding = &check->findings[class][severity];
	struct check_example *example;

	finding->count++;
	if (finding->nr_examples == CHECK_MAX_EXAMPLES)
		return;
	example = &finding->examples[finding->nr_examples++];
	example->event = *event;
	example->has_allocation = allocation;
	if (allocation)
		example->allocation_call_site = *allocation;
}

void check_error(struct check *check, unsigned int class, const struct check_event *event)
{
	found(check, class, CHECK_ERROR, event, NULL);
}

void check_note(struct check *check, unsigned int class, const struct check_event *event,
		const uint64_t *allocation)
{
	found(check, class, CHECK_NOTE, event, allocation);
}

void check_doubt(struct check *check, unsigned int class, const struct check_event *event,
		 const uint64_t *allocation)
{
	found(check, class, check->context->uncertain ? CHECK_NOTE : CHECK_ERROR, event,
	      allocation);
}
