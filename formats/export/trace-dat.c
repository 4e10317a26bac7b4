/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace.dat, the file of trace-cmd and KernelShark. Instances of the trace are instances of ftrace.
 * Those without a name of their own are the top instance.
 */
#include "formats/export/trace-dat.h"

#include <errno.h>
#include <stdlib.h>

enum { MAX_TASKS = 1 << 16, MAX_FUNCTIONS = 1 << 18 };

/* --- instances and classes ------------------------------------------------------------------- */

static bool has_own_name(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++)
		if (strcmp(instance->name, instance->classes[i].system))
			return true;
	return false;
}

static int add_buffer(struct trace_dat *t, const char *name)
{
	struct buffer *buffer = &t->buffers[t->nr_buffers];

	buffer->name = name;
	buffer->streams = calloc(t->nr_vcpus + 1, sizeof(*buffer->streams));
	buffer->cpus = calloc(t->nr_vcpus + 1, sizeof(*buffer->cpus));
	t->nr_buffers++;
	return buffer->streams && buffer->cpus ? 0 : -ENOMEM;
}

static int add_buffers(struct trace_dat *t)
{
	int ret = add_buffer(t, "");

	for (size_t i = 0; !ret && i < t->nr_instances; i++) {
		if (!has_own_name(&t->instances[i]) ||
		    !export_has_instance(&t->base.input, &t->instances[i]))
			continue;
		t->buffer_of[i] = t->nr_buffers;
		ret = add_buffer(t, t->instances[i].name);
	}
	return ret;
}

/* A reader has few enough for numbers of 16 bits. */
static int add_classes(struct trace_dat *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->nr_instances; i++) {
		t->first_class[i] = n;
		n += t->instances[i].nr_classes;
	}
	t->classes = calloc(n + 1, sizeof(*t->classes));
	if (!t->classes)
		return -ENOMEM;
	t->nr_classes = n;
	for (size_t i = 0; i < t->nr_instances; i++)
		for (size_t c = 0; c < t->instances[i].nr_classes; c++) {
			size_t index = t->first_class[i] + c;

			ftrace_class_init(&t->classes[index], &t->instances[i].classes[c],
					  (uint16_t)(FTRACE_FIRST_EVENT + index));
		}
	return 0;
}

/* --- events ---------------------------------------------------------------------------------- */

/* The last name that a thread had. */
static int note_task(struct trace_dat *t, const struct ftrace_class *layout, const void *bytes)
{
	uint64_t pid = (uint32_t)ftrace_pid(layout, bytes);
	struct task *task = u64_map_find(&t->tasks, pid);

	if (!task && t->tasks.count >= MAX_TASKS)
		return 0;
	if (!task)
		task = u64_map_insert(&t->tasks, pid, NULL);
	if (!task)
		return -ENOMEM;
	event_field_text(layout->comm, bytes, task->comm);
	return 0;
}

/* Functions that no symbol names are to be shown by their address. */
static int note_function(struct trace_dat *t, uint64_t address)
{
	bool *unnamed;

	if (u64_map_find(&t->functions, address) || t->functions.count >= MAX_FUNCTIONS)
		return 0;
	unnamed = u64_map_insert(&t->functions, address, NULL);
	if (!unnamed)
		return -ENOMEM;
	*unnamed = !sidecar_symbol(trace_reader_sidecar(t->base.input.reader), address);
	return 0;
}

static int note_names(struct trace_dat *t, const struct ftrace_class *layout, const void *bytes)
{
	int ret = layout->comm && layout->pid ? note_task(t, layout, bytes) : 0;

	for (size_t i = 0; !ret && layout->has_functions && i < layout->class->nr_fields; i++) {
		const struct event_field *field = &layout->class->fields[i];

		if (field->type == EVENT_FUNCTION)
			ret = note_function(t, event_field_value(field, bytes));
	}
	return ret;
}

static struct trace_stream_losses *noted_of(const struct trace_dat *t, const struct event *event)
{
	return &t->noted[(size_t)(event->instance - t->instances) * t->nr_vcpus + event->vcpu];
}

/* Events that are missing since the last one of the same instance and vCPU. */
static void note_losses(const struct trace_dat *t, const struct event *event,
			struct ftrace_stream *stream)
{
	const struct trace_stream_losses now = trace_reader_stream_losses(t->base.input.reader);
	struct trace_stream_losses *noted = noted_of(t, event);

	if (now.lost > noted->lost)
		ftrace_stream_miss(stream, now.lost - noted->lost);
	if (now.damages != noted->damages)
		ftrace_stream_miss(stream, FTRACE_UNKNOWN);
	*noted = now;
}

/* What was lost before the time of the part is not missing from it. */
static int pass_event(struct exporter *base, const struct event *event,
		      const struct part_place *place)
{
	struct trace_dat *t = (struct trace_dat *)base;

	if (!place->in_time)
		*noted_of(t, event) = trace_reader_stream_losses(base->input.reader);
	return 0;
}

static int put_event(struct exporter *base, const struct event *event)
{
	struct trace_dat *t = (struct trace_dat *)base;
	size_t instance = (size_t)(event->instance - t->instances);
	const struct ftrace_class *layout =
		&t->classes[t->first_class[instance] +
			    (size_t)(event->class - event->instance->classes)];
	struct ftrace_stream *stream = &t->buffers[t->buffer_of[instance]].streams[event->vcpu];
	int ret = note_names(t, layout, event->bytes);

	if (ret)
		return ret;
	note_losses(t, event, stream);
	return ftrace_stream_put(stream, &t->spool, layout, event->ns, event->bytes);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int finish_streams(struct trace_dat *t)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < t->nr_buffers; i++)
		for (unsigned int v = 0; !ret && v < t->nr_vcpus; v++)
			ret = ftrace_stream_finish(&t->buffers[i].streams[v], &t->spool);
	return ret;
}

static int finish(struct exporter *base, struct error *err)
{
	struct trace_dat *t = (struct trace_dat *)base;
	int ret = finish_streams(t);

	if (!ret)
		ret = trace_dat_write(t);
	return ret ? export_file_error(base->input.file, ret, err) : 0;
}

static void deinit(struct exporter *base)
{
	struct trace_dat *t = (struct trace_dat *)base;

	for (size_t i = 0; i < t->nr_buffers; i++) {
		struct buffer *buffer = &t->buffers[i];

		for (unsigned int v = 0; buffer->streams && v < t->nr_vcpus; v++)
			ftrace_stream_deinit(&buffer->streams[v]);
		free(buffer->streams);
		free(buffer->cpus);
	}
	ftrace_spool_deinit(&t->spool);
	u64_map_deinit(&t->tasks);
	u64_map_deinit(&t->functions);
	free(t->classes);
	free(t->noted);
}

static int init(struct exporter *base, struct error *err)
{
	struct trace_dat *t = (struct trace_dat *)base;
	int ret;

	t->spool.fd = -1;
	t->instances = trace_reader_instances(base->input.reader, &t->nr_instances);
	t->nr_vcpus = trace_reader_vcpu_end(base->input.reader);
	u64_map_init(&t->tasks, sizeof(struct task));
	u64_map_init(&t->functions, sizeof(bool));
	t->noted = calloc(t->nr_instances * t->nr_vcpus + 1, sizeof(*t->noted));
	ret = t->noted ? add_classes(t) : -ENOMEM;
	if (!ret)
		ret = add_buffers(t);
	if (ret)
		return error_set(err, -ret, "out of memory");
	ret = ftrace_spool_init(&t->spool, base->input.file, err);
	return ret ? ret : export_file_will_patch(base->input.file, err);
}

const struct exporter_ops trace_dat_exporter = {.size = sizeof(struct trace_dat),
						.init = init,
						.event = put_event,
						.other = pass_event,
						.finish = finish,
						.deinit = deinit};
