/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_TRACER_H
#define SONDE_PATCHER_TRACERS_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/counters.h"
#include "formats/event/event.h"
#include "formats/event/trace-info.h"
#include "formats/trace/writer.h"
#include "guest-symbols/functions/function-set.h"
#include "introspect/kernel/kernel.h"
#include "patcher/fetch/fetch.h"
#include "patcher/plan/site-table.h"
#include "patcher/probe/call-table.h"
#include "patcher/probe/gate.h"
#include "patcher/probe/hist-program.h"
#include "patcher/probe/probe.h"
#include "patcher/tracers/spec.h"

/*
 * A tracer says which functions it wants to see, and turns the hits at them into records. It does
 * not know how the functions are patched (traps, trampolines), nor which backend runs the guest.
 *
 * To add one: write patcher/tracers/NAME.c, or a room patcher/tracers/NAME/, that defines
 * `const struct tracer_ops tracer_NAME`, and add a row to the table in registry.c.
 */

/* Where the events of an instance go. */
struct tracer_stream {
	const struct event_output *output;
	struct event_sink *const *sinks; /* by vCPU; NULL: nowhere */
};

/* What a tracer works with; owned by the session, valid until the tracer is destroyed. */
struct tracer_context {
	const struct kernel *kernel;
	struct trace_writer *writer;
	struct event_batch *batch; /* of all events of the ordered lane */
	struct call_table *calls;
	struct live_counters *counters;
};

/* What a tracer of the ordered lane does for its instances: its own. */
struct tracer_config;

enum tracer_lane {
	LANE_ORDERED, /* hits at probes, all of them in order of time; see `entry` and `ret` */
	LANE_DIRECT,  /* a record of a ring is an event; see `select` */
};

/* Who decides the conditions of an instance's spec. */
enum tracer_decider {
	DECIDED_BY_GUEST, /* before a record is written */
	DECIDED_BY_HOST,  /* when it is read */
};

/*
 * What probes capture of a configuration. Until it takes effect there are hits by the code for it,
 * which the instances of before get, too: so what these ask for is captured also then, and from a
 * change on that comes later no more.
 */
enum tracer_capture {
	TRACER_CAPTURES_ALSO, /* what its instances ask for, and what was adopted before */
	TRACER_CAPTURES_ONLY, /* what its instances ask for */
};

/* The numbers of the classes of a tracer of the direct lane. */
enum tracer_class {
	TRACER_ENTRY, /* a call */
	TRACER_EXIT,  /* a return */
	TRACER_CALL,  /* a call of a function whose returns cannot be recorded */
	TRACER_TAIL,  /* a call of one that others of the instance may jump to */
};

struct hist_rest; /* patcher/tracers/hist/hist.h */

/* How events of some sites are summed up. */
struct hist_part {
	struct hist_program program;
	struct gate gate;                  /* of which calls; without terms: of all */
	const struct fetch_program *fetch; /* instead of the tracer's; NULL: that */
	struct hist_rest *rest; /* what it leaves for the host; the tracer's own, or NULL */
};

/* Where the events go that the host sums up. */
struct hist_events {
	struct tracer_stream stream;
	_Atomic uint64_t *records, *lost; /* counts them */
};

struct tracer_ops {
	const char *name;
	const char *help; /* one line */
	enum tracer_lane lane;
	/* The classes of its events: an array that is constant. Of those of a tracer of the direct
	 * lane, or else of an instance with this spec. NULL: see `learn`. */
	const struct event_class *(*classes)(const struct tracer *tracer, size_t *n);
	const struct event_class *(*spec_classes)(const struct trace_spec *spec, size_t *n);
	/* Those of the functions that it traces, for readers: struct trace_instance. NULL: none. */
	const char *(*prototypes)(const struct tracer *tracer);

	/* What its specs may have: struct trace_grammar. */
	const char *const *words;
	unsigned int takes;
	const struct trace_read_option *readers; /* struct trace_grammar; may be NULL */
	const struct trace_alias *aliases;       /* likewise */
	/* May be NULL. What else of a spec is known to be wrong without a guest. */
	int (*check)(const struct trace_spec *spec, struct error *err);
	/* May be NULL. What else of it the image shows to be wrong, whatever modules the guest
	 * loads later: -ENOENT, as of `select`; -EINVAL with the column in the spec. */
	int (*check_image)(const struct trace_spec *spec, const struct kernel_image *image,
			   struct error *err);
	bool in_image; /* what that looks for is in the image: no module can have it */

	/* The conditions of the spec that this one decides, joined by " && "; "" if there are none.
	 * Cut off at `size`. `tracer` is NULL on the ordered lane. */
	void (*conditions)(const struct tracer *tracer, const struct trace_spec *spec,
			   enum tracer_decider decider, char *out, size_t size);

	/* May be NULL; of the ordered lane. Add to *notes what the user is to be told when an
	 * instance with this spec begins. -ENOMEM. */
	int (*note)(const struct trace_spec *spec, const struct kernel *kernel,
		    struct function_notes *notes, struct error *err);

	/* On the ordered lane one tracer for all specs with its name: those that it begins with, if
	 * any, decide what its probes capture at first; see `view`. On the direct lane one for each
	 * spec, which outlives it. */
	int (*create)(const struct tracer_context *context, const struct trace_spec *const *specs,
		      size_t nr_specs, struct tracer **out, struct error *err);
	void (*destroy)(struct tracer *tracer);
	/* The probes, owned by the tracer, constant, but for `adopt`. */
	const struct probe *(*probes)(struct tracer *tracer, size_t *n);
	/* Whether an instance with this spec wants a probe's hits. */
	bool (*wants)(const struct tracer *tracer, const struct trace_spec *spec,
		      const struct probe *probe);
	/* What it takes to serve these specs, which are borrowed during the call, with these
	 * streams; either may be NULL without any. Hits may come meanwhile. -ENOENT: no probe is
	 * for one of them. */
	int (*configure)(struct tracer *tracer, const struct trace_spec *const *specs,
			 size_t nr_specs, const struct tracer_stream *streams,
			 enum tracer_capture capture, struct tracer_config **out,
			 struct error *err);
	/*
	 * Both may be NULL, and are of one tracer at most: the probes as they have to capture for a
	 * configuration, and the view's number (struct probe_view); the tracer owns them. With the
	 * guest stopped, before hits of that view come: traps capture what it does, as `probes` are
	 * like those from now on. Hits say what they have.
	 */
	const struct probe *(*view)(const struct tracer_config *config, unsigned int *number);
	void (*adopt)(struct tracer *tracer, const struct tracer_config *config);
	/* Between two hits: serve these from now on. Returns what was used until now, at first
	 * NULL. The tracer destroys what it has at its end. */
	struct tracer_config *(*use)(struct tracer *tracer, struct tracer_config *config);
	void (*config_destroy)(struct tracer_config *config); /* NULL-safe */
	/* What a configuration's instances do not see, which the user is warned of; it owns the
	 * array. NULL for a tracer without any. */
	const struct probe_gap *(*gaps)(const struct tracer_config *config, size_t *n);
	/* May be NULL. Add what a reader of this tracer's records needs from the guest's kernel. */
	void (*describe)(const struct tracer *tracer, struct trace_info *info);
	/*
	 * One thread at a time calls entry and ret, long after the vCPU was there: both read no
	 * guest memory that may have changed since.
	 *
	 * For a probe that wants its return, `call` is what the session remembers until then
	 * (arguments and call site filled in); else NULL. If the entry has more items than a hit
	 * holds, there are several calls with the same `call`.
	 */
	void (*entry)(struct tracer *tracer, const struct probe *probe, const struct probe_hit *hit,
		      struct open_call *call);
	/* Return of a call whose entry was seen; true if hit->result was recorded. */
	bool (*ret)(struct tracer *tracer, const struct probe *probe, const struct probe_hit *hit,
		    const struct open_call *call);
	/* Both, of simple probes; of `call` only the call site is filled in at the entry. A probe
	 * that does not want its return has take_entry, another one take_call. NULL for a tracer
	 * without such probes. */
	void (*take_entry)(struct tracer *tracer, const struct probe *probe,
			   const struct probe_record *record);
	void (*take_call)(struct tracer *tracer, const struct probe *probe,
			  const struct probe_record *record, struct open_call *call);
	bool (*take_return)(struct tracer *tracer, const struct probe *probe,
			    const struct probe_record *record, const struct open_call *call);
	/* For probes that are `in_runs`: take some of the first records, as long as each is
	 * alone (ring_is_alone()); it may be another tracer's; returns how many. What it leaves
	 * comes to the others above. NULL for a tracer without such probes. */
	size_t (*take_run)(struct tracer *tracer, const struct probe_run *run);
	/* After the last hits of a pass over the rings, or of a trap: events that the tracer has
	 * kept so far are to go to their streams. NULL: it keeps none. */
	void (*emitted)(struct tracer *tracer);

	/* On the direct lane, instead of all from `probes` on: */

	/*
	 * May be NULL. Before `select`, while the guest is held to be read: learn from it what
	 * depends on the modules that have sites in this table. What was learnt once stays, so that
	 * events stay as they are. Until then, a tracer that needs it has no classes, and nothing
	 * below but `select` is asked for, which fails while there is nothing to learn from. An
	 * error leaves the instance out until there are other sites; -ENODATA: the guest's kernel
	 * may not have all yet, so that it is asked for again.
	 */
	int (*learn)(struct tracer *tracer, const struct site_table *sites, struct error *err);
	/*
	 * Set wanted[i] of each site of the table whose calls are to be recorded. -ENOENT: of none,
	 * and none can come; *err has the pattern. `again`: this tracer has been asked before, and
	 * functions may be gone since, which is no error. A table without sites of the image is a
	 * part of one: it is asked for again. *notes, at first empty: what the user is to be told,
	 * unless it is asked again.
	 */
	int (*select)(const struct tracer *tracer, const struct site_table *sites, bool again,
		      bool *wanted, struct function_notes *notes, struct error *err);
	/* What is recorded of a call: enum direct_field. */
	uint32_t (*fields)(const struct tracer *tracer);
	/* NULL: nothing else. Else also what this fetches, at the entry of each function, or, if
	 * at_returns() says so, at its returns only. They are the tracer's. */
	const struct fetch_program *(*fetch)(const struct tracer *tracer);
	bool (*at_returns)(const struct tracer *tracer);
	/* With `fetch`: instead of entries and returns, gva of the instruction in the middle of a
	 * function at which it is recorded; 0: none. */
	uint64_t (*inside)(const struct tracer *tracer);
	/* NULL: returns are no events. Else what is recorded of one, likewise; then the classes are
	 * those of enum tracer_class, and the gate asks for gate_call_sources and the call site
	 * only. */
	uint32_t (*return_fields)(const struct tracer *tracer);
	/* With the latter: calls of its functions are never tail calls of each other, so that there
	 * is no TRACER_TAIL. */
	bool no_tail_calls;
	/* With the latter, and of a histogram at returns: whether a function that a wanted one
	 * tail-calls has its returns recorded, too, also after calls by other functions. */
	bool (*tails)(const struct tracer *tracer);
	/* With the latter: calls are counted there, and there are no events. NULL: there are. */
	struct profile *(*profile)(const struct tracer *tracer);
	/* Calls, or with at_returns() returns, are summed up there, and there are no events; in
	 * parts, each for some of the sites: as the registers of their functions say. NULL: there
	 * are events. */
	struct hist *(*hist)(const struct tracer *tracer);
	const struct hist_part *(*hist_parts)(const struct tracer *tracer, size_t *n);
	size_t (*hist_part_of)(const struct tracer *tracer, uint64_t site); /* its number */
	/* With `hist`: NULL, or the host does so: there are events, whose class is the number of
	 * their part. They are the tracer's. */
	const struct hist_events *(*hist_events)(const struct tracer *tracer);
	/* Of which calls: what the guest decides, and what is left for the host. Both may be NULL,
	 * and return NULL: of all. They are the tracer's. */
	const struct gate *(*gate)(const struct tracer *tracer);
	const struct gate_rest *(*filter)(const struct tracer *tracer);
};

/* A tracer's implementation embeds this first. */
struct tracer {
	const struct tracer_ops *ops;
};

/* What is traced if no spec is given. */
#define TRACER_DEFAULT_SPEC "kmem"

/*
 * The tracers of a session's ordered lane, all there are, with all their probes; and the gaps of
 * those that have instances. Probes that no instance wants are off.
 */
struct tracer_set {
	struct tracer **v;
	size_t *index; /* of each: its number in the registry */
	size_t n;
	struct error *why;      /* by number in the registry: why it could not be created */
	struct probe_ref *refs; /* by id */
	size_t nr_refs;
	unsigned int view; /* the number of that which traps capture (struct probe_view) */
	struct probe_gap *gaps;
	size_t nr_gaps;
};

/* Instances that are to be served from some hit on. */
struct tracer_change {
	struct tracer_config **configs; /* of the set's tracers; once in use: the former ones */
	bool *off;                      /* by ref */
	struct probe_view view;
	const struct probe **probes; /* the view's */
	struct probe_gap *gaps;
	size_t nr_gaps;
};

/* trace_spec_parse() with the tracers that there are. */
int tracer_parse_spec(const char *text, struct trace_spec *out, struct error *err);

/* Whether instances of these specs may live side by side: errors as trace_spec_parse() and
 * trace_specs_check_names(). No guest is needed. */
int tracer_check_specs(const char *const *specs, size_t nr_specs, struct error *err);

/* Whether the image shows a spec to be wrong: `check_image` of its tracer; an error with a column
 * points to `spec`. `boots`: the guest has no modules yet; of one that may have some only that is
 * looked at which no module can have. Other errors as tracer_parse_spec(). */
int tracer_check_image(const char *spec, const struct kernel_image *image, bool boots,
		       struct error *err);

/* The tracer that a spec asks for; the one whose events these are, also if they are summed up. */
const struct tracer_ops *tracer_ops_of(const struct trace_spec *spec);
const struct tracer_ops *tracer_source_of(const struct trace_spec *spec);

/* --- what is known of the task (task-fields.c) ------------------------------------------------ */

/* Words that ask for it, in the order of enum event_task_fields, whose bits theirs are if they come
 * first. */
#define TRACER_TASK_WORDS "pid", "tgid", "comm", "cgroup", "stack"

/*
 * Whether these of enum event_task_fields, and what the gate reads of the task (NULL: there is
 * none), can be recorded, as far as the image says. -ENOENT, -ENOTSUP: no, and *err says why.
 */
int tracer_check_task(const struct kernel *kernel, uint32_t fields, const struct gate *gate,
		      struct error *err);

/* --- all tracers ------------------------------------------------------------------------------ */

/*
 * Create all tracers of the ordered lane, for `specs` on that lane, whose events go to `streams`;
 * NULL: nowhere. A tracer without a spec may fail. Errors as tracer_check_specs(), or what a
 * tracer's create() and configure() say.
 */
int tracer_set_create(struct tracer_set *set, const char *const *specs,
		      const struct tracer_stream *streams, size_t nr_specs,
		      const struct tracer_context *context, struct error *err);
/* Leaves an empty set; also of one that is zeroed. */
void tracer_set_destroy(struct tracer_set *set);

/* No instance is served, nor can be any more: why. */
void tracer_set_give_up(struct tracer_set *set, const struct error *why);

/* Prepare to serve other specs; errors likewise. Hits may come meanwhile. */
int tracer_set_prepare(struct tracer_set *set, const char *const *specs,
		       const struct tracer_stream *streams, size_t nr_specs,
		       enum tracer_capture capture, struct tracer_change *out, struct error *err);
/* With the guest stopped: traps capture what the change's view does. */
void tracer_set_adopt(struct tracer_set *set, const struct tracer_change *change);
/* Between two hits: serve them from now on. */
void tracer_set_use(struct tracer_set *set, struct tracer_change *change);
/* The set has the change's gaps from now on. */
void tracer_set_take_gaps(struct tracer_set *set, struct tracer_change *change);
/* In use or not; also of one that is zeroed. */
void tracer_change_deinit(const struct tracer_set *set, struct tracer_change *change);

#endif
