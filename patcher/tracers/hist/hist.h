/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_HIST_HIST_H
#define SONDE_PATCHER_TRACERS_HIST_HIST_H

#include "guest-symbols/kmem/allocators.h"
#include "patcher/ring/hist.h"
#include "patcher/tracers/tracer.h"

/*
 * Inside of the histograms: fields.c knows what the guest can take from each kind of event, and
 * makes programs of the names in a spec; allocs.c does so for the functions of allocators; host.c
 * is what the host sums up, and rest.c what it decides; hist.c is the tracer.
 */

/* A field that a key or a value can be. */
struct hist_field {
	const char *name;
	struct hist_operand operand;
	enum hist_show show;
	int64_t bias;    /* of what is shown */
	uint32_t faults; /* its bits in the word of faults */
};

/* Of one kind of event. */
enum { HIST_MAX_FIELDS = 64 };
struct hist_fields {
	struct hist_field v[HIST_MAX_FIELDS];
	size_t n;
	bool open; /* there are others, which only the guest's kernel tells */
};

/* Nothing happens where the name is there already, or there is no room. */
void hist_fields_add(struct hist_fields *fields, const struct hist_field *field);

/* The fields of events that `source` has. `program`: what a dynamic probe fetches; NULL: without a
 * guest, of the spec's. `calls`: names of system calls' arguments; NULL: they have numbers only. */
struct hist_syscalls;
void hist_fields_of(const struct trace_spec *spec, const struct tracer_ops *source,
		    const struct fetch_program *program, const struct hist_syscalls *calls,
		    struct hist_fields *out);
/* The bit of the word that has returns counted; 0: the tracer has no such word. */
uint32_t hist_return_word(const struct tracer_ops *source);
/* Whether returns are counted: those of a probe, or with the word `return`. */
bool hist_is_at_returns(const struct trace_spec *spec);
/* What all events have. */
void hist_fields_add_common(struct hist_fields *fields);

/*
 * What the spec's keys and values are, of these fields. `config` may be NULL. -EINVAL with the
 * position: there is no such field, with the nearest name, or it is nothing to tell events apart
 * by, or to sum up.
 */
int hist_make_program(const struct trace_spec *spec, const struct hist_fields *fields,
		      struct hist_program *program, struct hist_config *config, struct error *err);

/* If that is the name of something that is known when a call returns, and not here: -code, and *err
 * says what counts it. Otherwise 0. */
int hist_explain(const struct trace_spec *spec, const char *name, unsigned int column, int code,
		 struct error *err);

/* --- conditions (rest.c) ---------------------------------------------------------------------- */

/* What a condition asks for beside what the guest decides: so many fields at most. */
enum { HIST_MAX_REST = 11 };

/* A condition on calls: on an event of `class`, of which fields are known in the guest, and others
 * where the call is counted. */
struct hist_condition {
	const struct trace_spec *spec;
	const struct kernel_image *image; /* has the names; NULL: not known yet */
	uint64_t slide;                   /* of the image */
	const struct event_class *class;
	const struct gate_field *in_guest;
	size_t nr_in_guest;
	const struct hist_fields *known;
	const char *what; /* is called, for messages */
};

/*
 * `gate` then decides what the guest can. *out: what is left for the host, which takes it from
 * operands; NULL: nothing. -ENOTSUP: a field is not known when a call begins; or something is left,
 * and the guest makes the histogram. -EINVAL, -ENOENT with the column in the condition, as
 * event_filter_bind(). -ENOMEM, -E2BIG.
 */
int hist_rest_create(const struct hist_condition *condition, struct gate *gate,
		     struct hist_rest **out, struct error *err);
void hist_rest_destroy(struct hist_rest *rest); /* NULL-safe */

/* Of one spec. Either may be NULL. */
bool hist_rest_is_equal(const struct hist_rest *a, const struct hist_rest *b);
/* What it needs of an event, which the caller may have recorded and change; NULL-safe. */
struct hist_operand *hist_rest_operands(struct hist_rest *rest, size_t *n);
/* `words`: of each operand in turn. */
bool hist_rest_matches(const struct hist_rest *rest, unsigned int vcpu, const uint64_t *words);
/* What the guest decides of the condition, or the host, as gate_split_print(). */
void hist_rest_print(const struct hist_rest *rest, enum tracer_decider decider, char *out,
		     size_t size);

/* The field that is the call chain of the event, if that is what the name of a key means: NULL of
 * others, and of a probe's argument. */
const struct hist_field *hist_chain_field(const struct trace_spec *spec, const char *name);

/* --- system calls (syscalls.c) ------------------------------------------------------------------
 */

/*
 * What is known of those that a spec means where they begin, or return: of an image also the names
 * of the arguments that all of them have alike; `image` may be NULL. Also after an error *out is
 * for hist_syscalls_destroy(). -ENOMEM.
 */
int hist_syscalls_create(const struct trace_spec *spec, const struct kernel_image *image,
			 struct hist_syscalls **out, struct error *err);
void hist_syscalls_destroy(struct hist_syscalls *calls); /* NULL-safe */
/* `calls` may be NULL: the fields of any system call. */
void hist_syscalls_fields(const struct hist_syscalls *calls, bool at_returns,
			  struct hist_fields *out);
/* hist_rest_create(), which borrows `calls`; errors have the column in the spec. */
int hist_syscalls_rest(const struct hist_syscalls *calls, const struct trace_spec *spec,
		       const struct hist_fields *known, struct gate *gate, struct hist_rest **out,
		       struct error *err);

/* --- where the host sums up (host.c) ---------------------------------------------------------- */

/* Whether a key is a call chain. */
bool hist_is_on_host(const struct trace_spec *spec);

struct hist_host;

/*
 * Keep the histogram on the host, which gets events of the parts: `fetched` is what they fetch;
 * NULL: what their programs need, which is made here. The parts are changed, and borrowed. Also
 * after an error *out is for hist_host_destroy(). -ENOMEM.
 */
int hist_host_create(struct hist_part *parts, size_t n, const struct fetch_program *fetched,
		     const struct kernel *kernel, struct hist *hist, struct hist_host **out,
		     struct error *err);
void hist_host_destroy(struct hist_host *host); /* NULL-safe */
const struct hist_events *hist_host_events(const struct hist_host *host);

/* --- calls of allocators by each other (bodies.c) ----------------------------------------------
 */

/* Whether calls of the function are counted where these types of allocations are: a bit for each.
 */
bool hist_is_counted(const struct alloc_entry *entry, unsigned int types);

/* Return addresses in the functions of one type that are counted, with their parts elsewhere. */
struct hist_bodies {
	struct hist_range {
		uint64_t begin, end; /* gvas */
	} * v;                       /* by begin; for free() */
	size_t n;
};

/* -ENOMEM. */
int hist_bodies_find(const struct alloc_points *points, const struct kernel *kernel,
		     unsigned int type, struct hist_bodies *out, struct error *err);

/*
 * Functions of kmalloc call each other, for what is larger than any cache holds: as in the kmem
 * tracer, one of these calls is counted, that which comes from elsewhere. The same is done for
 * other types. The pages or cache's object that a kmalloc takes are events of their own. -E2BIG.
 */
int hist_bodies_append(struct gate *gate, const struct hist_bodies *bodies, struct error *err);

/* --- allocations (allocs.c) ------------------------------------------------------------------- */

/* Their functions, by the registers that their arguments are in. */
struct hist_allocs {
	struct hist_part *parts;
	size_t nr_parts;
	struct hist_alloc_site {
		uint64_t gva; /* of the site */
		size_t part;
	} * sites;
	size_t nr_sites;
};

/* What a spec of the kmem tracer may ask for; no guest is needed. -ENOTSUP: only the host knows it.
 */
int hist_allocs_check(const struct trace_spec *spec, struct error *err);
/* Whether its condition has names that the image lacks: -EINVAL with the column in the spec. */
int hist_allocs_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			    struct error *err);
void hist_allocs_fields(const struct trace_spec *spec, struct hist_fields *out);

/* `config` becomes that of the spec. -ENOTSUP: the kernel has calls that cannot be counted, or the
 * filter asks for what the guest does not know at a call. -ENOMEM. */
int hist_allocs_create(const struct trace_spec *spec, const struct kernel *kernel,
		       struct hist_allocs *out, struct hist_config *config, struct error *err);
/* Also of one that is zeroed. */
void hist_allocs_deinit(struct hist_allocs *allocs);

#endif
