/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of the direct lane. */
#include "formats/ctf/put-inline.h"
#include "formats/event/function-fields.h"
#include "formats/event/graph-fields.h"
#include "formats/event/kmem.h"

/* Events of a run, in a form. `fields` are constants. */
struct putting {
	struct ctf_writer *w;
	const struct event_field *fields;
	size_t nr_fields, size; /* on disk */
	uint64_t id;
	struct ctf_values_search code;
};

/* Returns how many of `n`, which is a constant, the form can express. */
static INLINE size_t put_some(struct putting *p, size_t n, const int64_t *ns, const uint8_t *bytes,
			      size_t stride, uint8_t *at)
{
#pragma GCC unroll 4
	for (size_t i = 0; i < n; i++) {
		const uint64_t header = ctf_compact_header(p->id, (uint64_t)ns[i]);

		if (!put_at(p->w, &p->code, p->fields, p->nr_fields, 0, header, bytes + i * stride,
			    at + i * p->size))
			return i;
	}
	return n;
}

/* Returns how many of the first `n` the form can express. */
static INLINE size_t put_events(struct putting p, const struct event_run *run, size_t n,
				uint8_t *at)
{
	enum { UNROLLED = 4 };
	const size_t stride = run->stride;
	const int64_t *const ns = run->ns;
	const uint8_t *bytes = run->bytes;
	size_t i, some;

	for (i = 0; i + UNROLLED <= n; i += UNROLLED) {
		some = put_some(&p, UNROLLED, ns + i, bytes, stride, at);
		if (some < UNROLLED)
			return i + some;
		bytes += UNROLLED * stride;
		at += UNROLLED * p.size;
	}
	for (; i < n && put_some(&p, 1, ns + i, bytes, stride, at); i++) {
		bytes += stride;
		at += p.size;
	}
	return i;
}

/* `fields` are constants. */
static INLINE size_t put_run(struct ctf_writer *w, const struct ctf_form *f,
			     const struct event_field *fields, size_t nr_fields,
			     const struct event_run *run)
{
	const size_t size = size_of(fields, nr_fields, 0);
	size_t n = ctf_room_for(w, f->size + f->table_bytes, run->n);

	if (!n || !ctf_clock_is_near(w, run->ns[0]))
		return 0;
	while (!ctf_clock_is_near(w, run->ns[n - 1]))
		n--;
	n = put_events(
		(struct putting){w, fields, nr_fields, size, f->id, ctf_values_search(&w->code)},
		run, n, w->bytes + w->used);
	w->used += n * size;
	if (n)
		w->clock = (uint64_t)run->ns[n - 1];
	return n;
}

/* Of an event of the direct lane: one by one, and in runs. */
#define PUT_CALLS(name, fields)                                                  \
	PUT(name, fields, 0)                                                     \
	static size_t name##_run(struct ctf_writer *w, const struct ctf_form *f, \
				 const struct event_run *run)                    \
	{                                                                        \
		return put_run(w, f, fields, LENGTH(fields), run);               \
	}

PUT_CALLS(put_ip, function_ip)
PUT_CALLS(put_ip_parent, function_ip_parent)
PUT_CALLS(put_ip_pid, function_ip_pid)
PUT_CALLS(put_ip_parent_pid, function_ip_parent_pid)
PUT_CALLS(put_ip_comm, function_ip_comm)
PUT_CALLS(put_ip_parent_comm, function_ip_parent_comm)
PUT_CALLS(put_ip_pid_comm, function_ip_pid_comm)
PUT_CALLS(put_ip_parent_pid_comm, function_ip_parent_pid_comm)
PUT_CALLS(put_entry, graph_entry)
PUT_CALLS(put_entry_comm, graph_entry_comm)
PUT_CALLS(put_exit, graph_exit_frame)
PUT_CALLS(put_exit_result, graph_exit_result)

struct put_calls {
	ctf_put_fn *one;
	ctf_put_run_fn *run;
};

static const struct put_calls function[FUNCTION_SETS] = {
	[0] = {put_ip, put_ip_run},
	[FUNCTION_PARENT] = {put_ip_parent, put_ip_parent_run},
	[FUNCTION_PID] = {put_ip_pid, put_ip_pid_run},
	[FUNCTION_PARENT | FUNCTION_PID] = {put_ip_parent_pid, put_ip_parent_pid_run},
	[FUNCTION_COMM] = {put_ip_comm, put_ip_comm_run},
	[FUNCTION_PARENT | FUNCTION_COMM] = {put_ip_parent_comm, put_ip_parent_comm_run},
	[FUNCTION_PID | FUNCTION_COMM] = {put_ip_pid_comm, put_ip_pid_comm_run},
	[FUNCTION_PARENT | FUNCTION_PID |
		FUNCTION_COMM] = {put_ip_parent_pid_comm, put_ip_parent_pid_comm_run},
};

static const struct put_calls graph_entries[GRAPH_COMM + 1] = {
	[0] = {put_entry, put_entry_run},
	[GRAPH_COMM] = {put_entry_comm, put_entry_comm_run},
};

static const struct put_calls graph_exits[] = {{put_exit, put_exit_run},
					       {put_exit_result, put_exit_result_run}};

static const struct put_calls *find_graph(const struct event_class *class)
{
	const unsigned int others = GRAPH_TGID | GRAPH_CGROUP | GRAPH_STACK;

	for (unsigned int fields = 0; fields <= (GRAPH_ALL | GRAPH_STACK); fields++) {
		const struct event_class *first = graph_classes(fields);

		if (class == &first[GRAPH_EXIT])
			return &graph_exits[fields & GRAPH_RESULT ? 1 : 0];
		if (class >= first && class < first + GRAPH_NR_CLASSES)
			return fields & others ? NULL : &graph_entries[fields & GRAPH_COMM];
	}
	return NULL;
}

/* How events of a class of the direct lane are written in its first form; NULL: as any other. */
static const struct put_calls *find_calls(const struct event_class *class)
{
	const struct event_class *first = function_class(0);

	if (class < first || class >= first + FUNCTION_SETS)
		return find_graph(class);
	return function[class - first].one ? &function[class - first] : NULL;
}

ctf_put_fn *ctf_put_known(const struct event_class *class, unsigned int form)
{
	const struct put_calls *calls = find_calls(class);

	if (class >= kmem_classes && class < kmem_classes + KMEM_NR_CLASSES)
		return ctf_put_kmem(class, form);
	return calls && !form ? calls->one : NULL;
}

ctf_put_run_fn *ctf_put_run_known(const struct event_class *class)
{
	const struct put_calls *calls = find_calls(class);

	return calls ? calls->run : NULL;
}
