/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The named tracers of a session, and their streams. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "guest-symbols/functions/function-exits.h"
#include "patcher/session/internal.h"

enum { LEAVE_TRIES = 2000 /* of a millisecond, until an instance has left */ };

/* --- streams --------------------------------------------------------------------------------- */

static int open_in_writer(struct trace_session *s, const struct trace_instance *instance,
			  struct event_sink **sinks, struct error *err)
{
	int number = trace_writer_add_instance(s->writer, instance, err);

	for (unsigned int i = 0; number >= 0 && i < s->guest->nr_vcpus; i++)
		sinks[i] = trace_writer_sink(s->writer, (unsigned int)number, i);
	return number;
}

static void close_in_writer(struct trace_session *s, int number)
{
	trace_writer_close_instance(s->writer, (unsigned int)number);
}

/* Without memory the sidecar has the former one. */
static void set_spec_in_writer(struct trace_session *s, int number, const char *spec)
{
	trace_writer_set_spec(s->writer, (unsigned int)number, spec, NULL);
}

static void add_lost_in_writer(struct trace_session *s, int number, uint64_t n)
{
	trace_writer_add_lost(s->writer, (unsigned int)number, n);
}

static uint64_t lost_in_writer(struct trace_session *s, int number)
{
	struct trace_writer_counts counts;
	uint64_t lost = 0;

	for (unsigned int i = 0; i < s->guest->nr_vcpus; i++) {
		trace_writer_instance_counts(s->writer, (unsigned int)number, i, &counts);
		lost += counts.overruns;
	}
	return lost;
}

const struct stream_ops session_streams = {
	.open = open_in_writer,
	.close = close_in_writer,
	.set_spec = set_spec_in_writer,
	.add_lost = add_lost_in_writer,
	.lost = lost_in_writer,
	.output = {event_batch_put, event_batch_put_run, event_batch_put_mix, event_batch_end}};

/* In the engine and in the tracers, which share what comes from the rings. */
static uint64_t lost_in_front(const struct trace_session *s, const struct instance_stream *stream)
{
	struct engine *rings = s->ring_engine;
	uint64_t lost = atomic_load(&stream->lost);

	if (!stream->ordered)
		return lost;
	lost = atomic_load(&s->counters.v[COUNTER_LOST]) +
	       atomic_load(&s->counters.v[COUNTER_UNREADABLE]);
	return lost + (rings ? rings->ops->lost(rings) : 0) - stream->lost_before;
}

uint64_t instances_lost(struct trace_session *s, const struct session_instance *instance)
{
	const struct instance_stream *stream = instance->stream;

	if (!stream)
		return 0;
	return lost_in_front(s, stream) +
	       (s->stream_ops->lost ? s->stream_ops->lost(s, stream->number) : 0);
}

static void tell_losses(struct trace_session *s, struct instance_stream *stream)
{
	uint64_t now = lost_in_front(s, stream);

	if (s->stream_ops->add_lost && now > stream->told)
		s->stream_ops->add_lost(s, stream->number, now - stream->told);
	stream->told = now;
}

void instances_tell_losses(struct trace_session *s)
{
	for (struct instance_stream *stream = s->streams; stream; stream = stream->next)
		tell_losses(s, stream);
}

static void free_stream(struct instance_stream *stream)
{
	free(stream->sinks);
	free(stream);
}

static const struct event_class *classes_of(const struct session_instance *instance, size_t *n)
{
	if (instance->ops->spec_classes)
		return instance->ops->spec_classes(&instance->spec, n);
	return instance->ops->classes(instance->tracer, n);
}

bool instance_is_open(const struct session_instance *instance)
{
	size_t n;

	return instance->ops->learn && instance->tracer && !classes_of(instance, &n);
}

static int open_stream(struct trace_session *s, const struct session_instance *instance,
		       struct instance_stream *stream, struct error *err)
{
	struct trace_instance row = {
		.name = instance->spec.name, .spec = instance->spec.text, .late = instance->late};

	row.classes = classes_of(instance, &row.nr_classes);
	if (instance->ops->prototypes)
		row.prototypes = instance->ops->prototypes(instance->tracer);
	stream->sinks = calloc(s->guest->nr_vcpus, sizeof(struct event_sink *));
	if (!stream->sinks)
		return error_set(err, ENOMEM, "out of memory");
	stream->number = s->stream_ops->open(s, &row, stream->sinks, err);
	return stream->number < 0 ? stream->number : 0;
}

static int add_stream(struct trace_session *s, struct session_instance *instance, struct error *err)
{
	struct instance_stream *stream = calloc(1, sizeof(*stream));
	int ret = stream ? open_stream(s, instance, stream, err)
			 : error_set(err, ENOMEM, "out of memory");

	if (ret) {
		if (stream)
			free_stream(stream);
		return ret;
	}
	stream->users = 1;
	stream->ordered = instance->ops->lane == LANE_ORDERED;
	stream->lost_before = lost_in_front(s, stream);
	stream->next = s->streams;
	s->streams = stream;
	instance->stream = stream;
	return 0;
}

static void reap_streams(struct trace_session *s)
{
	struct instance_stream **link = &s->streams;

	while (*link) {
		struct instance_stream *stream = *link;

		if (stream->users) {
			link = &stream->next;
			continue;
		}
		*link = stream->next;
		tell_losses(s, stream);
		s->stream_ops->close(s, stream->number);
		free_stream(stream);
	}
}

/* --- instances ------------------------------------------------------------------------------- */

static void destroy(struct session_instance *instance)
{
	if (instance->stream)
		instance->stream->users--;
	if (instance->tracer)
		instance->ops->destroy(instance->tracer);
	trace_spec_deinit(&instance->spec);
	for (unsigned int gate = 0; gate < 2; gate++) {
		free(instance->conditions[gate][DECIDED_BY_GUEST]);
		free(instance->conditions[gate][DECIDED_BY_HOST]);
	}
	site_refusals_deinit(&instance->refused);
	free(instance->wanted);
	function_notes_deinit(&instance->notes);
	function_tails_destroy(instance->tails);
	free(instance);
}

static bool contains(const struct instance_list *list, const struct session_instance *instance)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i] == instance)
			return true;
	return false;
}

void instances_drop(struct trace_session *s, struct instance_list *list,
		    const struct instance_list *kept)
{
	for (size_t i = 0; i < list->n; i++) {
		struct session_instance *instance = list->v[i];

		if (contains(kept, instance))
			continue;
		instance->next = s->leaving;
		s->leaving = instance;
	}
	list->n = 0;
}

bool instances_have_direct(const struct instance_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i]->ops->lane == LANE_DIRECT)
			return true;
	return false;
}

static bool is_used(const struct trace_session *s, const struct session_instance *instance)
{
	if (instance->ops->lane == LANE_ORDERED)
		return s->ordered;
	return s->ring_engine && s->ring_engine->ops->direct_uses(s->ring_engine, instance);
}

void instances_reap(struct trace_session *s)
{
	struct session_instance **link = &s->leaving;

	ordered_is_pending(s);
	while (*link) {
		struct session_instance *instance = *link;

		if (is_used(s, instance)) {
			link = &instance->next;
			continue;
		}
		*link = instance->next;
		destroy(instance);
	}
	instances_tell_losses(s);
	reap_streams(s);
}

void instances_destroy(struct trace_session *s)
{
	instances_drop(s, &s->instances, &(struct instance_list){0});
	profiles_destroy(s);
	while (s->leaving) {
		struct session_instance *instance = s->leaving;

		s->leaving = instance->next;
		destroy(instance);
	}
	while (s->streams) {
		struct instance_stream *stream = s->streams;

		s->streams = stream->next;
		free_stream(stream);
	}
}

static struct session_instance *find(const struct instance_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->v[i]->spec.name, name))
			return list->v[i];
	return NULL;
}

/* An instance in `list` whose name is not free yet; NULL: there is none. */
static const struct session_instance *find_taken(const struct trace_session *s,
						 const struct instance_list *list)
{
	for (const struct session_instance *old = s->leaving; old; old = old->next) {
		const struct session_instance *new = find(list, old->spec.name);

		if (new && !find(&s->instances, old->spec.name))
			return new;
	}
	return NULL;
}

int instances_await_names(struct trace_session *s, const struct instance_list *list,
			  struct error *err)
{
	const struct session_instance *taken = NULL;

	for (int i = 0; i < LEAVE_TRIES; i++) {
		instances_reap(s);
		taken = find_taken(s, list);
		if (!taken)
			return 0;
		clock_wait_ms(1);
	}
	return error_set(err, EAGAIN, "the former instance '%s' still records", taken->spec.name);
}

static int parse_one(const char *text, const struct instance_list *current,
		     struct instance_list *out, struct error *err)
{
	struct session_instance *new = calloc(1, sizeof(*new)), *same;
	int ret = new ? tracer_parse_spec(text, &new->spec, err)
		      : error_set(err, ENOMEM, "out of memory");

	if (ret && err && err->column)
		err->parsed = text;

	if (!ret && find(out, new->spec.name))
		ret = error_set(err, EEXIST,
				"two traced instances have the name '%s': write NAME=%s",
				new->spec.name, text);
	if (ret) {
		if (new)
			destroy(new);
		return ret;
	}
	same = find(current, new->spec.name);
	if (same && !strcmp(same->spec.text, new->spec.text)) {
		destroy(new);
		new = same;
	}
	new->ops = tracer_ops_of(&new->spec);
	out->v[out->n++] = new;
	return 0;
}

int instances_parse(const char *const *specs, size_t n, const struct instance_list *current,
		    struct instance_list *out, struct error *err)
{
	int ret = 0;

	*out = (struct instance_list){0};
	if (n > TRACE_MAX_INSTANCES)
		return error_set(err, E2BIG, "more than %d traced instances", TRACE_MAX_INSTANCES);
	for (size_t i = 0; !ret && i < n; i++)
		ret = parse_one(specs[i], current, out, err);
	for (size_t i = 0; ret && i < out->n; i++)
		if (!contains(current, out->v[i]))
			destroy(out->v[i]);
	return ret;
}

/* It has no events. */
static bool counts(const struct session_instance *instance)
{
	return instance->ops->profile || instance->ops->hist;
}

static int create_tracer(struct trace_session *s, struct session_instance *instance,
			 struct error *err)
{
	const struct tracer_context context = {.kernel = &s->kernel,
					       .writer = s->writer,
					       .batch = &s->batch,
					       .calls = s->calls,
					       .counters = &s->counters};
	const struct trace_spec *spec = &instance->spec;
	int ret = instance->ops->create(&context, &spec, 1, &instance->tracer, err);

	return ret || !counts(instance) ? ret : profiles_add(s, instance, err);
}

/* A stream's events all have the same fields. */
static bool may_go_on(const struct session_instance *instance,
		      const struct session_instance *before)
{
	size_t n;

	return before && before != instance && before->stream &&
	       !strcmp(before->spec.name, instance->spec.name) &&
	       classes_of(instance, &n) == classes_of(before, &n);
}

/* One whose stream the instance goes on with: that which it replaces, or one of before that still
 * records. NULL: it needs another stream. */
static const struct session_instance *find_former(const struct trace_session *s,
						  const struct session_instance *instance,
						  const struct instance_list *current)
{
	const struct session_instance *former = find(current, instance->spec.name);

	if (may_go_on(instance, former))
		return former;
	for (former = s->leaving; former; former = former->next)
		if (may_go_on(instance, former))
			return former;
	return NULL;
}

static bool wants_stream(const struct trace_session *s, const struct session_instance *instance)
{
	return !instance->stream && s->writer && !counts(instance) && !instance_is_open(instance);
}

static int find_stream(struct trace_session *s, struct session_instance *instance,
		       const struct instance_list *current, struct error *err)
{
	const struct session_instance *former;

	if (!wants_stream(s, instance))
		return 0;
	former = find_former(s, instance, current);
	if (!former)
		return add_stream(s, instance, err);
	instance->stream = former->stream;
	instance->stream->users++;
	return 0;
}

int instances_give_stream(struct trace_session *s, struct session_instance *instance,
			  struct error *err)
{
	return find_stream(s, instance, &s->instances, err);
}

/* The caller knows the text that has the column. */
static int check_vcpus(const struct trace_session *s, const struct trace_spec *spec,
		       struct error *err)
{
	const unsigned int n = s->guest->nr_vcpus;
	const uint64_t beyond = spec->vcpus == UINT64_MAX || n >= TRACE_SPEC_MAX_VCPUS
					? 0
					: spec->vcpus & UINT64_MAX << n;

	if (!beyond)
		return 0;
	return error_set_column(
		err, EINVAL, spec->vcpus_column,
		"instance '%s', character %u: the guest's vCPUs are 0 to %u: it has "
		"no vcpu=%d",
		spec->name, spec->vcpus_column, n - 1, __builtin_ctzll(beyond));
}

static int prepare_one(struct trace_session *s, struct session_instance *instance,
		       const struct instance_list *current, struct error *err)
{
	bool has_tracer = instance->tracer || instance->ops->lane == LANE_ORDERED;
	int ret = check_vcpus(s, &instance->spec, err);

	if (!ret && !has_tracer)
		ret = create_tracer(s, instance, err);
	if (!ret && !instance->id && instance->ops->note)
		ret = instance->ops->note(&instance->spec, &s->kernel, &instance->notes, err);
	if (!instance->id) {
		instance->id = ++s->last_id;
		instance->late = s->starts > 0;
	}
	return ret ? ret : find_stream(s, instance, current, err);
}

int instances_prepare(struct trace_session *s, struct instance_list *list,
		      const struct instance_list *current, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < list->n; i++)
		ret = prepare_one(s, list->v[i], current, err);
	return ret;
}

size_t instances_ordered(const struct trace_session *s, const struct instance_list *list,
			 const char **specs, struct tracer_stream *streams)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct session_instance *instance = list->v[i];

		if (instance->ops->lane != LANE_ORDERED)
			continue;
		streams[n].output = &s->stream_ops->output;
		streams[n].sinks = instance->stream ? instance->stream->sinks : NULL;
		specs[n++] = instance->spec.text;
	}
	return n;
}

/* --- changes --------------------------------------------------------------------------------- */

/* Instances that go on with the stream of one of before. */
static void tell_specs(struct trace_session *s, const struct instance_list *old)
{
	for (size_t i = 0; s->stream_ops->set_spec && i < s->instances.n; i++) {
		const struct session_instance *instance = s->instances.v[i];

		if (instance->stream && find(old, instance->spec.name) && !contains(old, instance))
			s->stream_ops->set_spec(s, instance->stream->number, instance->spec.text);
	}
}

void instances_note_asked(struct instance_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		list->v[i]->asked = true;
}

int trace_session_set_instances(struct trace_session *s, const char *const *specs, size_t n,
				struct error *err)
{
	struct instance_list next, old;
	int ret = instances_parse(specs, n, &s->instances, &next, err);

	if (!ret && s->enabled)
		ret = session_change(s, &next, err);
	else if (ret)
		return ret;
	if (ret) {
		instances_drop(s, &next, &s->instances);
		instances_reap(s);
		return ret;
	}
	old = s->instances;
	s->instances = next;
	if (s->enabled)
		instances_note_asked(&s->instances);
	tell_specs(s, &old);
	instances_drop(s, &old, &next);
	instances_reap(s);
	return 0;
}

static size_t list_specs(const struct trace_session *s, const char *name, const char **out)
{
	size_t n = 0;

	for (size_t i = 0; i < s->instances.n; i++)
		if (!name || strcmp(s->instances.v[i]->spec.name, name))
			out[n++] = s->instances.v[i]->spec.text;
	return n;
}

static int no_instance(const struct trace_session *s, const char *name, struct error *err)
{
	const char *names[TRACE_MAX_INSTANCES + 1] = {NULL};

	for (size_t i = 0; i < s->instances.n; i++)
		names[i] = s->instances.v[i]->spec.name;
	if (!s->instances.n)
		return error_set(err, ENOENT, "there is no traced instance, nor '%s'", name);
	return error_set(err, ENOENT, "the name of a traced instance is %s, not '%s'",
			 text_words(names).s, name);
}

int trace_session_add_instance(struct trace_session *s, const char *spec, struct error *err)
{
	const char *specs[TRACE_MAX_INSTANCES + 1];
	size_t n = list_specs(s, NULL, specs);

	specs[n] = spec;
	return trace_session_set_instances(s, specs, n + 1, err);
}

int trace_session_remove_instance(struct trace_session *s, const char *name, struct error *err)
{
	const char *specs[TRACE_MAX_INSTANCES];

	if (!find(&s->instances, name))
		return no_instance(s, name, err);
	return trace_session_set_instances(s, specs, list_specs(s, name, specs), err);
}

int trace_session_replace_instance(struct trace_session *s, const char *spec, struct error *err)
{
	const char *specs[TRACE_MAX_INSTANCES + 1];
	struct trace_spec parsed;
	size_t n;
	int ret = tracer_parse_spec(spec, &parsed, err);

	if (ret)
		return ret;
	if (!find(&s->instances, parsed.name)) {
		ret = no_instance(s, parsed.name, err);
	} else {
		n = list_specs(s, parsed.name, specs);
		specs[n] = spec;
		ret = trace_session_set_instances(s, specs, n + 1, err);
	}
	trace_spec_deinit(&parsed);
	return ret;
}
