/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A trace, or a part of it, as another trace. */
#include "formats/part/part.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "formats/report/progress.h"
#include "formats/report/trace-text.h"
#include "formats/trace/writer.h"

struct conversion {
	struct trace_reader *reader;
	struct trace_writer *writer;
	const struct trace_instance *instances; /* of the source */
	size_t nr_instances;
	struct trace_part *part;
	/* As they are in the copy; those that are not there have no number. */
	struct trace_instance copies[TRACE_INSTANCES_MAX];
	unsigned int numbers[TRACE_INSTANCES_MAX];
	uint8_t adopted[(UINT16_MAX + 1) / 8]; /* bit set of cache ids */
};

static int adopt(struct conversion *c, const struct sidecar_cache *cache)
{
	uint8_t bit = (uint8_t)(1u << cache->id % 8);

	if (c->adopted[cache->id / 8] & bit)
		return 0;
	c->adopted[cache->id / 8] |= bit;
	return trace_writer_adopt_cache(c->writer, cache);
}

/* Adopt a cache that an event names and the sidecar did not have at first. */
static int adopt_one(struct conversion *c, uint16_t id)
{
	const struct sidecar_cache *cache = NULL;

	if (id && !(c->adopted[id / 8] & 1u << id % 8))
		cache = sidecar_cache(trace_reader_sidecar(c->reader), id);
	return cache ? adopt(c, cache) : 0;
}

static int adopt_all(struct conversion *c)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	int ret = 0;

	for (size_t i = 0; !ret && sidecar && i < sidecar->nr_caches; i++)
		ret = adopt(c, &sidecar->caches[i]);
	return ret;
}

/* Caches that the event names. */
static int adopt_caches(struct conversion *c, const struct event *event)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < event->class->nr_fields; i++) {
		const struct event_field *field = &event->class->fields[i];

		if (field->type == EVENT_DICTIONARY)
			ret = adopt_one(c, (uint16_t)event_field_value(field, event->bytes));
	}
	return ret;
}

static bool is_copied(const struct conversion *c, size_t instance)
{
	return trace_part_has_instance(c->part, &c->instances[instance]);
}

static bool copies_all_instances(const struct conversion *c)
{
	bool all = true;

	for (size_t i = 0; all && i < c->nr_instances; i++)
		all = is_copied(c, i);
	return all;
}

static int copy_event(struct conversion *c, const struct event *event)
{
	size_t number = (size_t)(event->instance - c->instances);
	bool is_kmem = c->copies[number].classes == kmem_classes && event->class->known;
	unsigned int class_index =
		(unsigned int)(is_kmem ? event->class->known - kmem_classes
				       : event->class - event->instance->classes);
	struct event_sink *sink = trace_writer_sink(c->writer, c->numbers[number], event->vcpu);
	struct event_batch batch = {0};
	int ret;

	ret = event_batch_put(&batch, sink, class_index, event->ns, event->bytes);
	event_batch_end(&batch);
	return ret;
}

static int copy_events(struct conversion *c, struct progress *progress, struct copy_result *result,
		       struct error *err)
{
	struct part_place place;
	struct event event;
	int ret;

	while ((ret = trace_reader_next(c->reader, &event, err)) > 0) {
		if (!trace_part_place(c->part, &event, &place))
			return 0;
		progress_count(progress, 1);
		if (!place.in_time || !place.is_selected)
			continue;
		if (adopt_caches(c, &event))
			return error_set(err, ENOMEM, "out of memory");
		ret = copy_event(c, &event);
		if (ret)
			return error_set(err, -ret, "cpu%u: cannot write: %s", event.vcpu,
					 strerror(-ret));
		result->events++;
	}
	return ret;
}

/* What a sidecar (or NULL) says that a stream of an instance lost. Sonde 0.1 counted by vCPU. */
static uint64_t overruns_of(const struct sidecar *sidecar, size_t instance, unsigned int vcpu)
{
	const struct sidecar_instance *counts;

	if (!sidecar)
		return 0;
	if (!sidecar->nr_instances)
		return vcpu < sidecar->nr_vcpus ? sidecar->vcpus[vcpu].overruns : 0;
	if (instance >= sidecar->nr_instances)
		return 0;
	counts = &sidecar->instances[instance];
	return vcpu < counts->nr_streams ? counts->streams[vcpu].overruns : 0;
}

/*
 * By stream, as far as the source knows. The rest, of which it has only the sum, goes to vCPU 0 of
 * the first instance, if all are copied. Returns how many are those of the copy.
 */
static uint64_t copy_overruns(struct conversion *c, uint64_t total)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	uint64_t sum = 0;

	for (size_t i = 0; i < trace_reader_nr_streams(c->reader); i++) {
		struct trace_stream_info info;
		size_t instance;
		uint64_t n;

		trace_reader_stream_info(c->reader, i, &info);
		instance = (size_t)(info.instance - c->instances);
		if (!is_copied(c, instance))
			continue;
		n = overruns_of(sidecar, instance, info.vcpu);
		n = info.lost > n ? info.lost : n;
		if (n > total - sum)
			n = total - sum;
		trace_writer_add_overruns(c->writer, c->numbers[instance], info.vcpu, n);
		sum += n;
	}
	if (!copies_all_instances(c) || !c->nr_instances)
		return sum;
	trace_writer_add_overruns(c->writer, c->numbers[0], 0, total - sum);
	return total;
}

/* Those of the instances that are copied. */
static void take_tracers(const struct conversion *c, struct trace_info *info)
{
	size_t used = 0;

	info->tracers[0] = '\0';
	for (size_t i = 0; i < c->nr_instances && used < sizeof(info->tracers); i++)
		if (is_copied(c, i))
			used += (size_t)snprintf(info->tracers + used, sizeof(info->tracers) - used,
						 "%s%s", used ? "," : "", c->instances[i].spec);
}

/* Whether an instance that is copied was there from the begin on. */
static bool has_early(const struct conversion *c)
{
	bool has = !c->nr_instances;

	for (size_t i = 0; !has && i < c->nr_instances; i++)
		has = is_copied(c, i) &&
		      !sidecar_is_late(trace_reader_sidecar(c->reader), &c->instances[i]);
	return has;
}

/* What is said of the copy. */
static struct trace_info info_of(const struct conversion *c)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	struct trace_info info = sidecar ? sidecar->info : (struct trace_info){0};
	struct text text;

	if (!copies_all_instances(c))
		take_tracers(c, &info);
	info.from_first_allocation &= has_early(c);
	if (trace_part_has_whole_instances(c->part))
		return info;
	info.from_first_allocation = false;
	info.chosen_events |= trace_part_chooses_events(c->part);
	snprintf(text.s, sizeof(text.s), "%.250s%s%.250s", info.part, info.part[0] ? "; " : "",
		 trace_part_text(c->part).s);
	snprintf(info.part, sizeof(info.part), "%.255s", text.s);
	return info;
}

/* Whether a trace's instance has kmem's events, as this program writes them. */
static bool is_kmem(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++) {
		const struct event_class *class = &instance->classes[i];

		if (!kmem_class_is_known(class) ||
		    (class->known && class->nr_fields != class->known->nr_fields))
			return false;
	}
	return instance->nr_classes;
}

/* As the copy has it: kmem's events as this program writes them. */
static struct trace_instance copy_of(const struct conversion *c,
				     const struct trace_instance *instance)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	struct trace_instance copy = *instance;

	if (is_kmem(instance)) {
		copy.classes = kmem_classes;
		copy.nr_classes = KMEM_NR_CLASSES;
	}
	copy.prototypes = sidecar_prototypes(sidecar, instance->name);
	return copy;
}

/* What the user may do about instances that the format has no room for. */
static int suggest_instance(const struct conversion *c, int ret, struct error *err)
{
	const struct trace_instance *kmem = NULL;
	struct error why;

	for (size_t i = 0; !kmem && i < c->nr_instances; i++)
		if (is_kmem(&c->instances[i]))
			kmem = &c->instances[i];
	if (!copies_all_instances(c) || !kmem || !err)
		return ret;
	why = *err;
	return error_set(err, -ret, "%s, or choose an instance, as with --instance=%s", why.text,
			 kmem->name);
}

/* Leave out what events of kmem have beside their records, if the format has no room for it. */
static void leave_out(struct trace_instance *copy, unsigned int encoding, struct text *left_out)
{
	char more[sizeof(left_out->s)];

	for (size_t i = 0; i < copy->nr_classes; i++)
		if (!kmem_class_is_known(&copy->classes[i]))
			return;
	kmem_print_more_fields(copy, more, sizeof(more));
	if (!*more || !trace_writer_check(encoding, copy, 1, NULL))
		return;
	copy->classes = kmem_classes;
	copy->nr_classes = KMEM_NR_CLASSES;
	snprintf(left_out->s, sizeof(left_out->s), "%s", more);
}

/* Find what is to be copied, before anything is made. */
static int find_instances(struct conversion *c, unsigned int encoding, struct text *left_out,
			  struct error *err)
{
	struct trace_instance copied[TRACE_INSTANCES_MAX];
	size_t n = 0;
	int ret;

	c->instances = trace_reader_instances(c->reader, &c->nr_instances);
	for (size_t i = 0; i < c->nr_instances; i++) {
		c->copies[i] = copy_of(c, &c->instances[i]);
		if (!is_copied(c, i))
			continue;
		leave_out(&c->copies[i], encoding, left_out);
		copied[n++] = c->copies[i];
	}
	ret = trace_writer_check(encoding, copied, n, err);
	return ret ? suggest_instance(c, ret, err) : 0;
}

/* The copy says of an instance what its source says. Without memory its spec stays the first one.
 */
static void take_course(const struct conversion *c, size_t i)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	const struct trace_instance *instance = &c->instances[i];

	trace_writer_adopt_course(
		c->writer, c->numbers[i],
		&(struct trace_instance){.spec = sidecar_last_spec(sidecar, instance),
					 .late = sidecar_is_late(sidecar, instance),
					 .interrupted = sidecar_is_interrupted(sidecar, instance),
					 .removed = sidecar_is_removed(sidecar, instance)});
}

static int add_instances(struct conversion *c, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < c->nr_instances; i++) {
		if (!is_copied(c, i))
			continue;
		ret = trace_writer_add_instance(c->writer, &c->copies[i], err);
		c->numbers[i] = (unsigned int)ret;
		if (ret >= 0)
			take_course(c, i);
	}
	return ret < 0 ? ret : 0;
}

static int copy(struct conversion *c, struct copy_result *result, struct error *err)
{
	struct trace_info info = info_of(c);
	struct progress progress;
	int ret = add_instances(c, err);

	if (ret)
		return ret;
	if (adopt_all(c))
		return error_set(err, ENOMEM, "out of memory");
	progress_begin(&progress, c->reader);
	ret = copy_events(c, &progress, result, err);
	progress_end(&progress);
	if (ret)
		return ret;
	trace_reader_losses(c->reader, &result->losses);
	result->losses.counters.v[COUNTER_OVERRUNS] =
		copy_overruns(c, result->losses.counters.v[COUNTER_OVERRUNS]);
	info.cut = trace_reader_cut(c->reader) || result->losses.unfinished;
	info.losses_unknown = result->losses.unknown;
	return trace_writer_finish(c->writer, &info, site_function_again,
				   (void *)(uintptr_t)trace_reader_sidecar(c->reader), err);
}

int part_copy(struct trace_reader *reader, const char *dir, unsigned int encoding,
	      struct trace_part *part, struct copy_result *result, struct error *err)
{
	struct conversion c = {.reader = reader, .part = part};
	struct trace_info info;
	int ret;

	*result = (struct copy_result){0};
	ret = find_instances(&c, encoding, &result->left_out, err);
	if (ret)
		return ret;
	info = info_of(&c);
	/* Until the copy is complete: then it says what its source says. */
	snprintf(info.writer, sizeof(info.writer), "%s", "convert");
	ret = trace_writer_create(dir, trace_reader_vcpu_end(reader), encoding, &info, &c.writer,
				  err);
	if (ret)
		return ret;
	ret = copy(&c, result, err);
	trace_writer_destroy(c.writer);
	return ret;
}
