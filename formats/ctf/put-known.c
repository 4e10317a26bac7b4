/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of the direct lane. */
#include "formats/ctf/put-inline.h"
#include "formats/event/function-fields.h"
#include "formats/event/graph-fields.h"
#include "formats/event/kmem.h"

/* --- runs ------------------------------------------------------------------------------------- */

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

struct put_calls {
	ctf_put_fn *one;
	ctf_put_run_fn *run;
};

/* --- entries and returns in turn -------------------------------------------------------------- */

enum { EXIT_CLASS = 1 }; /* class of returns; all others are entries */

/* An event in the first of `nr_forms` forms that can express it; `first` is the id of form 0.
 * Returns its bytes; 0: none can. */
static INLINE size_t put_first_fit(struct ctf_writer *w, struct ctf_values_search *code,
				   const struct event_field *fields, size_t n,
				   unsigned int nr_forms, uint64_t first, uint64_t ns,
				   const uint8_t *bytes, uint8_t *at)
{
#pragma GCC unroll 4
	for (unsigned int form = 0; form < nr_forms; form++)
		if (put_at(w, code, fields, n, form, ctf_compact_header(first + form, ns), bytes,
			   at))
			return size_of(fields, n, form);
	return 0;
}

#define PUT_PAIRS(name, entry, entry_forms, exit, exit_forms)                                 \
	static INLINE size_t name##_one(struct ctf_writer *w, struct ctf_values_search *code, \
					unsigned int class, uint64_t id, uint64_t ns,         \
					const uint8_t *bytes, uint8_t *at)                    \
	{                                                                                     \
		return class == EXIT_CLASS ? put_first_fit(w, code, exit, LENGTH(exit),       \
							   exit_forms, id, ns, bytes, at)     \
					   : put_first_fit(w, code, entry, LENGTH(entry),     \
							   entry_forms, id, ns, bytes, at);   \
	}                                                                                     \
	static size_t name(struct ctf_writer *w, const struct event_mix *mix, size_t n)       \
	{                                                                                     \
		return put_each(w, mix, n, name##_one);                                       \
	}

_Static_assert((int)GRAPH_EXIT == EXIT_CLASS && (int)SYSCALL_EXIT == EXIT_CLASS, "of both tracers");

/* --- the function tracer ---------------------------------------------------------------------- */

PUT_CALLS(put_ip, function_ip)
PUT_CALLS(put_ip_parent, function_ip_parent)
PUT_CALLS(put_ip_pid, function_ip_pid)
PUT_CALLS(put_ip_parent_pid, function_ip_parent_pid)
PUT_CALLS(put_ip_comm, function_ip_comm)
PUT_CALLS(put_ip_parent_comm, function_ip_parent_comm)
PUT_CALLS(put_ip_pid_comm, function_ip_pid_comm)
PUT_CALLS(put_ip_parent_pid_comm, function_ip_parent_pid_comm)

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

static const struct put_calls *find_function(const struct event_class *class)
{
	const struct event_class *first = function_class(0);

	if (class < first || class >= first + FUNCTION_SETS)
		return NULL;
	return function[class - first].one ? &function[class - first] : NULL;
}

/* --- the graph tracer ------------------------------------------------------------------------- */

PUT_CALLS(put_entry, graph_entry)
PUT_CALLS(put_entry_comm, graph_entry_comm)
PUT_CALLS(put_exit, graph_exit_frame)
PUT_CALLS(put_exit_result, graph_exit_result)

static const struct put_calls entries[GRAPH_COMM + 1] = {
	[0] = {put_entry, put_entry_run},
	[GRAPH_COMM] = {put_entry_comm, put_entry_comm_run},
};

static const struct put_calls exits[] = {{put_exit, put_exit_run},
					 {put_exit_result, put_exit_result_run}};

/* Frames have 48 or 57 bits, with 4- and 5-level paging; results 33 bits, or those. */
enum { GRAPH_FORMS = 2, RESULT_FORMS = 3 };

PUT_PAIRS(put_calls, graph_entry, GRAPH_FORMS, graph_exit_frame, GRAPH_FORMS)
PUT_PAIRS(put_calls_comm, graph_entry_comm, GRAPH_FORMS, graph_exit_frame, GRAPH_FORMS)
PUT_PAIRS(put_calls_result, graph_entry, GRAPH_FORMS, graph_exit_result, RESULT_FORMS)
PUT_PAIRS(put_calls_comm_result, graph_entry_comm, GRAPH_FORMS, graph_exit_result, RESULT_FORMS)

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

static const struct put_calls *find_graph(const struct event_class *class)
{
	unsigned int fields;
	size_t index;

	if (!find_fields(class, &fields, &index))
		return NULL;
	if (index == GRAPH_EXIT)
		return &exits[fields & GRAPH_RESULT ? 1 : 0];
	return fields & OTHERS ? NULL : &entries[fields & GRAPH_COMM];
}

static ctf_put_mix_fn *find_graph_mix(const struct event_class *classes)
{
	unsigned int fields;
	size_t index;

	if (!find_fields(classes, &fields, &index) || index || fields & OTHERS)
		return NULL;
	if (fields & GRAPH_RESULT)
		return fields & GRAPH_COMM ? put_calls_comm_result : put_calls_result;
	return fields & GRAPH_COMM ? put_calls_comm : put_calls;
}

/* --- the syscalls tracer ---------------------------------------------------------------------- */

/* Arguments of 32 bits, addresses of 48, and these with frames of 5-level paging. */
enum { SYSCALL_FORMS = 3 };

PUT_PAIRS(put_syscalls, sys_enter, SYSCALL_FORMS, sys_exit, SYSCALL_FORMS)
PUT_PAIRS(put_syscalls_comm, sys_enter_comm, SYSCALL_FORMS, sys_exit_comm, SYSCALL_FORMS)

static ctf_put_mix_fn *find_syscalls_mix(const struct event_class *classes)
{
	if (classes == syscall_classes(0))
		return put_syscalls;
	return classes == syscall_classes(SYSCALL_COMM) ? put_syscalls_comm : NULL;
}

/* --- by class --------------------------------------------------------------------------------- */

/* How events of a class of the direct lane are written in its first form; NULL: as any other. */
static const struct put_calls *find_calls(const struct event_class *class)
{
	const struct put_calls *calls = find_function(class);

	return calls ? calls : find_graph(class);
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

static ctf_put_mix_fn *find_kmem_mix(const struct event_class *classes)
{
	if (classes == kmem_classes)
		return ctf_put_kmem_mix;
	for (unsigned int fields = 1; fields <= EVENT_TASK_ALL; fields++)
		if (classes == kmem_classes_of(fields))
			return ctf_put_kmem_task_mix;
	return NULL;
}

ctf_put_mix_fn *ctf_put_mix_known(const struct event_class *classes)
{
	ctf_put_mix_fn *mix = find_kmem_mix(classes);

	if (!mix)
		mix = find_graph_mix(classes);
	return mix ? mix : find_syscalls_mix(classes);
}
