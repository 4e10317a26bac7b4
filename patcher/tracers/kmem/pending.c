/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records of vCPUs, many at once, to the streams of the instances that want them. */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int kmem_pending_create(unsigned int nr_vcpus, struct kmem_pending **out, struct error *err)
{
	struct kmem_pending *p = calloc(1, sizeof(*p) + nr_vcpus * sizeof(p->v[0]));

	if (!p)
		return error_set(err, ENOMEM, "out of memory");
	*out = p;
	return 0;
}

static bool is_of_task(const struct kmem_output *output, uint32_t pid)
{
	bool is = false;

	for (size_t i = 0; !is && i < output->nr_pids; i++)
		is = output->pids[i] == pid;
	return is;
}

bool kmem_is_wanted(const struct kmem_output *output, unsigned int vcpu,
		    const struct kmem_task_record *record, uint32_t lacks)
{
	return !(output->needs & lacks) && output->types >> record->record.type_id & 1 &&
	       output->vcpus >> vcpu & 1 &&
	       (!output->nr_pids || is_of_task(output, record->task.pid)) &&
	       (!output->filter || kmem_filter_matches(output->filter, vcpu, &record->record));
}

/* `n` of them, from the one on that has this number. */
static void put(const struct kmem_tracer *t, const struct kmem_output *output, unsigned int vcpu,
		size_t first, size_t n)
{
	const struct kmem_pending_vcpu *p = &t->pending->v[vcpu];
	const struct kmem_task_record *records = &p->records[first];
	const struct event_mix mix = {n,
				      &p->classes[first],
				      &records->record.timestamp,
				      sizeof(*records),
				      (const uint8_t *)records,
				      sizeof(*records)};

	if (n)
		output->stream.output->put_mix(t->context.batch, output->stream.sinks[vcpu], &mix);
}

/* Those that it wants. */
static void put_wanted(const struct kmem_tracer *t, const struct kmem_output *output,
		       unsigned int vcpu)
{
	const struct kmem_pending_vcpu *p = &t->pending->v[vcpu];
	size_t first = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (kmem_is_wanted(output, vcpu, &p->records[i], p->lacks[i]))
			continue;
		put(t, output, vcpu, first, i - first);
		first = i + 1;
	}
	put(t, output, vcpu, first, p->n - first);
}

/* A bit per enum kmem_class: those of its types. */
static uint32_t classes_of(const struct kmem_output *output)
{
	return output->types << KMEM_CLASS_KMALLOC | output->types << KMEM_CLASS_KFREE;
}

/* All that there is of the vCPU. */
static bool wants_all(const struct kmem_tracer *t, const struct kmem_output *output,
		      unsigned int vcpu)
{
	return !(t->pending->v[vcpu].seen & ~classes_of(output)) && output->vcpus >> vcpu & 1 &&
	       !output->filter && !output->nr_pids && !t->pending->v[vcpu].any_lacks;
}

void kmem_pending_put(const struct kmem_tracer *t, unsigned int vcpu)
{
	struct kmem_pending_vcpu *p = &t->pending->v[vcpu];

	for (size_t i = 0; i < t->nr_outputs; i++) {
		if (wants_all(t, &t->outputs[i], vcpu))
			put(t, &t->outputs[i], vcpu, 0, p->n);
		else
			put_wanted(t, &t->outputs[i], vcpu);
	}
	p->n = 0;
	p->seen = 0;
	if (p->any_lacks)
		memset(p->lacks, 0, sizeof(p->lacks));
	p->any_lacks = false;
	t->pending->vcpus &= ~(UINT64_C(1) << vcpu);
}

void kmem_pending_put_all(const struct kmem_tracer *t)
{
	while (t->pending->vcpus)
		kmem_pending_put(t, (unsigned int)__builtin_ctzll(t->pending->vcpus));
}
