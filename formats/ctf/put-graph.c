/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of the graph tracer. */
#include "formats/ctf/put-inline.h"
#include "formats/event/graph-fields.h"

PUT_CALLS(put_entry, graph_entry)
PUT_CALLS(put_entry_comm, graph_entry_comm)
PUT_CALLS(put_exit, graph_exit_frame)
PUT_CALLS(put_exit_result, graph_exit_result)

static const struct ctf_put_calls entries[GRAPH_COMM + 1] = {
	[0] = {put_entry, put_entry_run},
	[GRAPH_COMM] = {put_entry_comm, put_entry_comm_run},
};

static const struct ctf_put_calls exits[] = {{put_exit, put_exit_run},
					     {put_exit_result, put_exit_result_run}};

/* --- entries and returns in turn -------------------------------------------------------------- */

/* What is a constant in each of the functions below. */
struct fields {
	const struct event_field *entry, *exit;
	size_t nr_entry, nr_exit;
};

static INLINE size_t put_mix(struct ctf_writer *w, const struct event_mix *mix, size_t n,
			     const struct fields f)
{
	const size_t entry_size = size_of(f.entry, f.nr_entry, 0);
	const size_t exit_size = size_of(f.exit, f.nr_exit, 0);
	const struct ctf_form *const *first = w->plan->first;
	const uint64_t exit_id = first[GRAPH_EXIT]->id;
	struct ctf_values_search code = ctf_values_search(&w->code);
	const uint8_t *bytes = mix->bytes;
	uint8_t *at = w->bytes + w->used;
	uint64_t counts[GRAPH_NR_CLASSES] = {0};
	size_t i;

	for (i = 0; i < n; i++, bytes += mix->stride) {
		const unsigned int class = mix->classes[i];
		const uint64_t ns = (uint64_t)event_mix_ns(mix, i);
		const bool is_exit = class == GRAPH_EXIT;
		const uint64_t header =
			ctf_compact_header(is_exit ? exit_id : first[class]->id, ns);

		if (is_exit) {
			if (!put_at(w, &code, f.exit, f.nr_exit, 0, header, bytes, at))
				break;
			at += exit_size;
		} else {
			if (!put_at(w, &code, f.entry, f.nr_entry, 0, header, bytes, at))
				break;
			at += entry_size;
		}
		counts[class]++;
	}
	w->used = (size_t)(at - w->bytes);
	for (unsigned int class = 0; class < GRAPH_NR_CLASSES; class ++)
		w->base.gathered.n[class] += counts[class];
	return i;
}

#define PUT_MIX(name, entry, exit)                                                         \
	static size_t name(struct ctf_writer *w, const struct event_mix *mix, size_t n)    \
	{                                                                                  \
		return put_mix(w, mix, n,                                                  \
			       (struct fields){entry, exit, LENGTH(entry), LENGTH(exit)}); \
	}

PUT_MIX(put_calls, graph_entry, graph_exit_frame)
PUT_MIX(put_calls_comm, graph_entry_comm, graph_exit_frame)
PUT_MIX(put_calls_result, graph_entry, graph_exit_result)
PUT_MIX(put_calls_comm_result, graph_entry_comm, graph_exit_result)

/* --- by class --------------------------------------------------------------------------------- */

enum { OTHERS = GRAPH_TGID | GRAPH_CGROUP | GRAPH_STACK };

/* The fields of the instance that has this class. False: it is none of these. */
static bool find_fields(const struct event_class *class, unsigned int *fields, size_t *index)
{
	for (*fields = 0; *fields <= (GRAPH_ALL | GRAPH_STACK); ++*fields) {
		const struct event_class *first = graph_classes(*fields);

		*index = (size_t)(class - first);
		if (class >= first && *index < GRAPH_NR_CLASSES)
			return true;
	}
	return false;
}

const struct ctf_put_calls *ctf_put_graph(const struct event_class *class)
{
	unsigned int fields;
	size_t index;

	if (!find_fields(class, &fields, &index))
		return NULL;
	if (index == GRAPH_EXIT)
		return &exits[fields & GRAPH_RESULT ? 1 : 0];
	return fields & OTHERS ? NULL : &entries[fields & GRAPH_COMM];
}

ctf_put_mix_fn *ctf_put_graph_mix(const struct event_class *classes)
{
	unsigned int fields;
	size_t index;

	if (!find_fields(classes, &fields, &index) || index || fields & OTHERS)
		return NULL;
	if (fields & GRAPH_RESULT)
		return fields & GRAPH_COMM ? put_calls_comm_result : put_calls_result;
	return fields & GRAPH_COMM ? put_calls_comm : put_calls;
}
