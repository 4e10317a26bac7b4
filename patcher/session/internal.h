/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_SESSION_INTERNAL_H
#define SONDE_PATCHER_SESSION_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "introspect/kernel/module-orc.h"
#include "introspect/kernel/modules.h"
#include "introspect/tasks/percpu.h"
#include "patcher/coexist/boot-window.h"
#include "patcher/coexist/ftrace.h"
#include "patcher/coexist/kprobe-table.h"
#include "patcher/coexist/kprobes.h"
#include "patcher/coexist/text-locks.h"
#include "patcher/engine/engine.h"
#include "patcher/engine/trap-reader.h"
#include "patcher/probe/call-table.h"
#include "patcher/session/session.h"
#include "patcher/plan/shared-slots.h"
#include "patcher/plan/site-table.h"
#include "patcher/text/function.h"
#include "patcher/text/traps.h"
#include "patcher/tracers/tracer.h"

/*
 * Inside of a trace session: session.c starts and stops, switch.c chooses the engine, change.c
 * changes the instances (ordered.c and direct.c those of their lanes), dispatch.c is what vCPUs'
 * threads do in between, asks.c what a guest without traps asks meanwhile, leaving.c holds one
 * with traps, cpus.c follows its CPUs, pids.c says whose calls pass, sampler.c bounds the rate of
 * traps, profiles.c keeps what was counted, status.c reports.
 */

/*
 * Functions at whose beginning a guest without traps waits for the session: it changes its own
 * text, or leaves its kernel, which the tracer gives way to; or it suspends, or has loaded a
 * module. One thread of the ring engine answers.
 */
enum session_ask {
	ASK_FTRACE,
	ASK_KPROBES,
	ASK_HIBERNATION,
	ASK_KEXEC,
	SESSION_YIELDS,
	ASK_SUSPEND = SESSION_YIELDS, /* which is refused */
	ASK_MODULES,
	SESSION_ASKS,
};

struct session_asks {
	struct engine_asks config;
	enum session_ask kinds[ENGINE_MAX_ASKS]; /* by the engine's number */
	struct error missing[SESSION_ASKS];      /* why the guest cannot ask; code 0: it can */
	bool active;       /* patches may be in the guest; changes with the guest stopped */
	uint64_t asked_ns; /* host time of the last question about ftrace; on the engine's thread */
};

/*
 * A bound on the rate of traps. When max_rate calls were seen within a second, the traps are
 * removed until the second is over. Calls meanwhile are not seen; the time is counted. Times are
 * the trace clock, which is 0 as long as it is not known. One thread at a time; second_ns and out
 * are for any.
 */
struct sampler {
	uint64_t max_rate;          /* calls per second; 0: no bound */
	_Atomic uint64_t second_ns; /* when the second has begun */
	uint64_t calls;             /* in it */
	atomic_bool out;            /* the traps are removed */
	uint64_t out_since_ns;

	uint64_t times;  /* that they were removed */
	uint64_t out_ns; /* in all, without the present gap */
	uint64_t on_ns;  /* that tracing was on, gaps included */
	uint64_t on_since;
	uint64_t on_since_host; /* host monotonic; 0: it is off */
};

/*
 * How a session opens the streams of instances of the direct lane. open() fills in sinks[vcpu] and
 * returns the instance's number, or a negative errno.
 */
struct stream_ops {
	int (*open)(struct trace_session *session, const struct trace_instance *instance,
		    struct event_sink **sinks, struct error *err);
	void (*close)(struct trace_session *session, int number);
	/* A stream goes on with another spec. May be NULL. */
	void (*set_spec)(struct trace_session *session, int number, const char *spec);
	/* Events that were lost in front of a stream, more than told before; and all that the
	 * stream itself has lost. Both may be NULL. */
	void (*add_lost)(struct trace_session *session, int number, uint64_t n);
	uint64_t (*lost)(struct trace_session *session, int number);
	struct event_output output;
};

/* Where the events of an instance of the direct lane go, whose spec may change meanwhile. */
struct instance_stream {
	struct instance_stream *next;
	int number;
	struct event_sink **sinks; /* by vCPU */
	_Atomic uint64_t records;
	bool ordered;
	_Atomic uint64_t lost; /* direct lane: by its rings */
	uint64_t lost_before;  /* ordered lane: when it was opened */
	uint64_t told;         /* to stream_ops.add_lost */
	unsigned int users;    /* instances; 0: it is closed when no more records come */
};

/*
 * A named tracer. Instances of the ordered lane share a tracer (trace_session.tracers); one of the
 * direct lane has its own.
 */
struct session_instance {
	struct session_instance *next; /* of those that are leaving */
	struct trace_spec spec;
	const struct tracer_ops *ops;
	struct tracer *tracer;          /* direct lane; NULL until it is needed */
	struct instance_stream *stream; /* likewise */
	uint64_t id;
	/* By whether the guest decides on pids, and by enum tracer_decider; NULL until they are
	 * asked for. */
	char *conditions[2][2];
	bool active;
	bool begun; /* has been active */
	bool asked; /* tracing was on while it was there */
	bool late;  /* it was listed when tracing had been on before */
	struct error failure; /* direct lane: why the last plan left it out; code 0: it did not */
	/* What the user is to be told of it: of the last plan, or of tracer_ops.note. */
	struct function_notes notes;
	size_t sites;
	struct site_refusals refused; /* their names are the session's site table's */
	/* Direct lane: by site of that table, whether it is to be recorded; how many of these the
	 * plan has, and has refused. */
	bool *wanted;
	size_t planned, planned_refused;
	size_t planned_outside; /* of the kernel's image */
	/* With returns: what those of the image may jump to. */
	struct function_tails *tails;
};

/* What an instance has counted; it may be gone. */
struct session_profile {
	struct session_profile *next; /* a later one */
	char name[TRACE_NAME_SIZE];
	char *spec;
	struct profile *profile; /* NULL: `hist` */
	struct hist *hist;
};

/*
 * Modules come and go while functions are recorded. do_init_module() runs when the sites of a
 * module are in the kernel's list, and none of its functions has been called: its site rings a
 * bell, and the vCPU waits there until the thread that starts and stops has followed. In a guest
 * without port traps the function asks (ASK_MODULES), which rings the same bell.
 */
struct module_bell {
	pthread_mutex_t lock;
	pthread_cond_t heard_one;
	uint64_t rung, heard; /* how often; under lock */
	bool open;            /* someone hears it; under lock */
	atomic_bool asking; /* do_init_module() asks */
	unsigned int tries; /* to make it ask, since the bell was closed */
	/* Of the thread that answers: the last question, and how often the bell had rung then. */
	uint64_t asked, ticket;
	/* Of the thread that starts and stops: the site; whether the guest held it at the last
	 * look. */
	uint64_t site;
	bool was_held;
};

struct instance_list {
	struct session_instance *v[TRACE_MAX_INSTANCES];
	size_t n;
};

struct trace_session {
	struct guest *guest;
	const struct kernel_image *image;
	struct trace_writer *writer;
	struct kernel kernel;
	struct task_stacks stacks; /* for the plan's patches; all 0: not known yet */
	bool located;
	bool enabled;
	bool withdrawn; /* though it is enabled: a stop has failed behind the engine's part */
	uint64_t starts;
	bool from_first_allocation;

	struct instance_list instances;
	const struct stream_ops *stream_ops;
	uint64_t last_id;                 /* of an instance */
	struct session_instance *leaving; /* no longer wanted, but records may still come */
	struct instance_stream *streams;
	struct session_profile *profiles;
	struct tracer_set tracers;           /* of the ordered lane */
	struct event_batch batch;            /* of their events */
	struct ordered_change *ordered;      /* the last one, until it has taken effect */
	/* Of which tasks the ordered lane's instances want calls: what the engine is told, and, on
	 * the thread that emits hits, what of that has taken effect. */
	struct pid_gate pids, pids_in_effect;
	atomic_bool has_pid_gate;            /* the engine lets only these pass */
	bool plans_pid_gate;                 /* what was planned last would have one */
	struct site_table sites;             /* that the direct lane is planned from */
	struct module_slots_seen slots_seen; /* when they were read */
	unsigned int learn_tries;            /* since then, of instances that lack something */
	bool modules_lead_in;                /* struct lane_plan; of the last one */
	bool direct_pending;                 /* instances of the direct lane wait for rings */
	struct error direct_failure; /* why they do not record, though rings came; or code 0 */
	bool narrow_due; /* fields may be captured that no instance asks for */
	struct module_bell bell;
	/* session_look_is_due(): for modules, CPUs, a crash */
	uint64_t next_follow, next_cpus, next_crash;
	bool crashed; /* the guest, which has a crash kernel */
	struct module_orcs *module_orcs;
	uint64_t next_orcs; /* when they may be read again */

	struct decoder *decoder;
	struct call_table *calls; /* that have not returned */
	struct trap_table traps;
	struct patch_plan plan;
	struct oneshots oneshots;
	struct boot_window boot;
	struct ftrace_handoff ftrace;
	struct kprobe_handoff kprobes;
	struct session_asks asks;
	const char *_Atomic leaving_kernel; /* what the guest does; NULL: it stays */
	uint64_t online_cpus;               /* the guest's mask at the last look ... */
	uint64_t departures;                /* ... which of them had been off line when ... */
	uint64_t ram_pages;                 /* ... and how many pages it had; 0: not known */
	uint64_t next_memory;               /* the backend may be asked again what the RAM is ... */
	uint64_t memory_settled;            /* ... which may change until then */
	bool knows_departures;              /* departure_at is the per-CPU variable's place */
	int32_t departure_at;
	uint64_t checked_online, checked_departures; /* what the CPUs were last checked for */
	bool tsc_unstable;                  /* the guest's own verdict at the last look ... */
	bool tsc_was_unstable;              /* ... and when tracing began */
	uint64_t tsc_unstable_ns;           /* when it was first seen since then; 0: never */
	uint64_t cpus_changed_ns;           /* when CPUs last came or went since then; 0: never */
	pthread_mutex_t nodes_lock;         /* of: */
	struct memory_node nodes[MEMORY_NODES_MAX];
	size_t nr_nodes;
	struct first_error cpus_differ; /* why they cannot be traced as before */
	uint64_t leaving_ms;            /* host time since which, in a guest with traps */
	struct sampler sampler;
	struct site_refusal *refused; /* room to report all refusals */
	struct probe_gap *gaps;       /* likewise, what is not traced ... */
	size_t gaps_room;             /* ... so many */
	struct first_error failure;
	struct patch_outcome restored;

	struct trace_options options;
	struct trap_reader reader;
	struct engine *trap_engine, *ring_engine; /* the latter NULL unless wanted */
	/* The engine that is installed or being left, else trap_engine. Becomes ring_engine with
	 * the guest stopped, and trap_engine again on the thread that starts and stops. */
	struct engine *_Atomic engine;
	atomic_bool had_rings;      /* the last start installed them */
	atomic_bool switch_pending; /* rings are wanted, and may still come */
	atomic_bool refreshing;     /* the engine wants to be refreshed */
	_Atomic uint64_t next_poll; /* ns; when to try either again */
	struct error no_rings; /* why the last start stays with traps; code 0: no reason. Not read
				  while the switch is pending. */

	struct live_counters counters;
	/* Of functions, those of modules that are gone included. */
	struct kernel_names *names;
	uint64_t names_ns; /* when they were read, host monotonic */
	bool names_due;    /* the next look-up reads them, even where that stops the guest */
};

/* --- session.c -------------------------------------------------------------------------------- */

/* Plan what the tracers want, from what stands in guest memory now. */
int session_plan(struct trace_session *session, struct error *err);
/* What a tick reads of the guest: at each, or seldom if a read stops the guest. *next is in ns of
 * the host's monotonic clock, at first 0. */
bool session_look_is_due(const struct trace_session *session, uint64_t *next);

/* --- switch.c --------------------------------------------------------------------------------- */

/* Create what is not there yet. Before anything is installed. */
int session_create_engines(struct trace_session *session, struct error *err);
/* A trace_patience_fn; arg is the session. Where a vCPU puts events itself, it waits for a disk as
 * long as the guest's watchdogs allow. */
unsigned int session_patience_ms(void *arg);
/*
 * With the guest stopped and traps in place: install rings instead. 0 also if they are impossible,
 * which is noted: the traps stay.
 */
int session_switch(struct trace_session *session, struct error *err);
/* Before patches of several instructions come into the text. After an error `stacks` is as before:
 * in a guest that boots there is nothing yet that leads to its tasks. */
int session_find_stacks(struct trace_session *session);
/* After -ETXTBSY, as a task may be where the guest's text is to be changed: waits for a moment,
 * while the guest runs. False: it has been tried often enough. *tries is 0 at first. */
bool session_tries_again(unsigned int *tries);
/* With the guest stopped, for guests that have no traps: rings, or an error. */
int session_start_without_traps(struct trace_session *session, struct error *err);
/* After a trap was served, or on the thread that starts and stops: try to install or refresh rings
 * if it is time. */
void session_poll(struct trace_session *session);
/* engine_ops.finish; then tracing can start again. */
int session_finish(struct trace_session *session, struct error *err);
/* engine_ops.end. *outcome may be NULL. */
int session_end_engine(struct trace_session *session, struct patch_outcome *outcome,
		       struct error *err);

/* --- asks.c ----------------------------------------------------------------------------------- */

/* Once: who answers. */
void session_asks_init(struct trace_session *session);
/* Where the guest is to ask, of a guest without traps. While it runs, or stopped. */
void session_asks_find(struct trace_session *session);
/*
 * -EBUSY: a kprobe of the guest is registered where one of these functions would ask, of those that
 * many tasks may be in, or of the others. It has copied what the jump would replace, also while it
 * is disabled and shows in no text. -ENOMEM.
 */
int session_asks_check_places(const struct trace_session *session, bool many, struct error *err);
/* Whether the guest asks, or shows by a trap, before it does this. */
bool session_is_asked(const struct trace_session *session, enum session_ask kind);
/* The guest's name for what it does, and the function that begins it. */
const char *session_ask_name(enum session_ask kind);
const char *session_ask_function(enum session_ask kind);
/* What the guest does when it leaves its kernel by this; NULL: it stays. */
const char *session_ask_leaving(enum session_ask kind);

/* --- leaving.c -------------------------------------------------------------------------------- */

/* With the guest, which has traps, stopped: from now on it waits before it leaves its kernel.
 * oneshot_disarm_all() lets it go. */
int session_watch_leaving(struct trace_session *session, struct error *err);

/* --- cpus.c ----------------------------------------------------------------------------------- */

void session_cpus_init(struct trace_session *session);
void session_cpus_deinit(struct trace_session *session);
/* Before a start: wait for some seconds until each vCPU was seen in the guest's kernel, as it may
 * run a guest of its own. */
void session_see_cpus(struct trace_session *session);
/* At a start: those that are on line now were checked. */
void session_note_cpus(struct trace_session *session);
/* Some times per second while tracing: check again when the guest has changed them. */
void session_follow_cpus(struct trace_session *session);
/* What is read of the guest's memory from now on may have been plugged in. */
void session_follow_memory(struct trace_session *session);
/* Some times per second while tracing: find out whether the guest has left for its crash kernel. */
void session_watch_crash(struct trace_session *session);
/* Any thread: the nodes of trace_info. */
void session_describe_nodes(struct trace_session *session, struct trace_info *info);

/* --- instances.c ------------------------------------------------------------------------------ */

extern const struct stream_ops session_streams; /* those of the writer */

/* What the specs ask for: those of `current` with the same name and spec, the others new. */
int instances_parse(const char *const *specs, size_t n, const struct instance_list *current,
		    struct instance_list *out, struct error *err);
/* Those of `list` that are not in `kept` leave. */
void instances_drop(struct trace_session *session, struct instance_list *list,
		    const struct instance_list *kept);
/* Until an instance that is leaving has given up a name that is new in `list`. -EAGAIN: that takes
 * long. */
int instances_await_names(struct trace_session *session, const struct instance_list *list,
			  struct error *err);
/* Streams of all, tracers of the direct lane's. A new spec of the same name as one in `current`,
 * or as one that still records, goes on with its stream if it has the same fields. */
int instances_prepare(struct trace_session *session, struct instance_list *list,
		      const struct instance_list *current, struct error *err);
/* Whether its classes are not known before its tracer has learnt them. */
bool instance_is_open(const struct session_instance *instance);
/* Likewise of one whose tracer has learnt its classes since then, if it has no stream yet. */
int instances_give_stream(struct trace_session *session, struct session_instance *instance,
			  struct error *err);
/* The specs of the ordered lane, and their streams; both have room for all instances. */
size_t instances_ordered(const struct trace_session *session, const struct instance_list *list,
			 const char **specs, struct tracer_stream *streams);
/* Events that its streams' rings, its tracer and the writer have lost of an instance. */
uint64_t instances_lost(struct trace_session *session, const struct session_instance *instance);
/* Tell the streams what was lost in front of them. */
void instances_tell_losses(struct trace_session *session);
/* Whether any is of the direct lane. */
bool instances_have_direct(const struct instance_list *list);
/* Destroy those that have left, and close streams that get no more records. */
void instances_reap(struct trace_session *session);
/* Tracing is on with these. */
void instances_note_asked(struct instance_list *list);
/* All of them, without an engine. */
void instances_destroy(struct trace_session *session);

/* --- profiles.c ------------------------------------------------------------------------------- */

/* Keep what an instance counts, which has its tracer. -ENOMEM. */
int profiles_add(struct trace_session *session, const struct session_instance *instance,
		 struct error *err);
/* All of them. */
void profiles_destroy(struct trace_session *session);

/* --- change.c --------------------------------------------------------------------------------- */

/* While tracing is on: trace the instances in `next` from now on. After an error all is as before.
 * Errors as trace_session_set_instances(). */
int session_change(struct trace_session *session, struct instance_list *next, struct error *err);
/* If a change has taken effect that session_change() did not wait for any longer: capture no more
 * than the instances ask for. */
void session_narrow(struct trace_session *session);

/* --- ordered.c -------------------------------------------------------------------------------- */

/*
 * A change of the ordered lane's instances: *out, or NULL if they stay. Hits go to the instances of
 * before until it has taken effect, which is between two hits, behind all of before its settling.
 * -EAGAIN: the change before has not taken effect yet.
 */
struct ordered_change;
int ordered_prepare(struct trace_session *session, const struct instance_list *next,
		    struct ordered_change **out, struct error *err);
/* When the last change has taken effect: a change to the same instances, whose probes capture
 * nothing that none of them asks for; NULL: they do not now. */
int ordered_prepare_narrow(struct trace_session *session, const struct instance_list *next,
			   struct ordered_change **out);
/* Before patches change: from then on returns of probes that go may pass unseen. */
void ordered_begin(struct ordered_change *change);
/* Whether that of a call which is open may: a call_table_fn of the session. From any thread. */
bool ordered_is_leaving(void *session, const struct open_call *call);
/* Before it is settled. */
void ordered_discard(struct ordered_change *change);

/* The plan's patches that are off from then on (patch_plan_find_off()); NULL for NULL. */
const bool *ordered_off(const struct ordered_change *change);
/* What the probes capture from then on, if that is not what they do now; else NULL. */
const struct probe_view *ordered_view(const struct ordered_change *change);
/* Whether patches, or what they lead to, are others than now. */
bool ordered_patches_change(const struct ordered_change *change);
/* With the guest stopped, and patches that lead to what captures this: traps do, too. NULL: they go
 * on. */
void ordered_adopt(struct ordered_change *change);
/* The patches are as it wants them. It is the session's from now on. Probes that come take hits
 * when it takes effect: a hit of before is of a call whose return may not have been recorded. */
void ordered_settle(struct trace_session *session, struct ordered_change *change);
/* Wait for the last change to take effect, for two seconds at most; whether it has. */
bool ordered_await(struct trace_session *session);
bool ordered_is_pending(struct trace_session *session);
/* Without an engine: forget the last change. */
void ordered_forget(struct trace_session *session);

/* --- direct.c --------------------------------------------------------------------------------- */

/*
 * Lead the direct lane from what it records now to what the direct instances in `list` want, which
 * are prepared; and the plan's patches to those of `ordered`; NULL: they go on. The guest runs,
 * with rings. Errors as trace_session_set_instances().
 */
int direct_apply(struct trace_session *session, struct instance_list *list,
		 struct ordered_change *ordered, struct error *err);
/* Likewise for the session's instances, when modules have come or gone. */
int direct_follow(struct trace_session *session, struct error *err);
/* Only the plan's patches. */
int direct_keep_wants(struct trace_session *session, struct ordered_change *ordered,
		      struct error *err);
/* -ENOTSUP: instances of the direct lane need what this kernel's image lacks. */
int direct_check_image(const struct trace_session *session, struct error *err);
/* While the guest boots, before it has modules: the functions that instances mean can be there.
 * -ENOENT. */
int direct_check_functions(const struct trace_session *session, const struct instance_list *list,
			   struct error *err);
/* -ENOTSUP: rings will not come, and why. */
int direct_no_rings(const struct trace_session *session, struct error *err);
/* What they would record, without changing anything. */
int direct_plan(struct trace_session *session, struct instance_list *list, struct error *err);
/* Whether instances of the direct lane record now. */
bool direct_is_active(const struct trace_session *session);
/* Functions and refusals of an instance, with the sites that others of the guest hold now. */
void direct_count_sites(const struct trace_session *session, struct session_instance *instance);
/* If rings have come, start the instances that wait for them. `meanwhile`: tracing is on; one that
 * means no function is left out, and keeps why. */
int direct_start(struct trace_session *session, bool meanwhile, struct error *err);
/* So many of its sites changed while the guest was stopped, since this time on the monotonic clock.
 */
void direct_note_switch(struct trace_session *session, size_t sites, uint64_t since_ns);
/* Rings are gone, or not there yet. */
void direct_forget(struct trace_session *session);

/* --- pids.c ----------------------------------------------------------------------------------- */

/* What the gate is to say for these instances; `on`: one of them asks for tasks. */
void pids_of(const struct instance_list *list, struct pid_gate *out);
/* Before the engines are installed: for the session's instances. */
void pids_prepare(struct trace_session *session);
/* With the guest stopped: the engine was installed. */
void pids_begin(struct trace_session *session);
/* The guest asks for these from now on; and all hits of before were emitted. */
void pids_change(struct trace_session *session, const struct pid_gate *next);
void pids_take_effect(struct trace_session *session, const struct pid_gate *next);

/* After a plan, with all its patches: what a start would do. */
void pids_plan(struct trace_session *session);
/* Whether the guest decides on the pids of the ordered lane's instances: it does, or will as soon
 * as rings come; or after a plan, it would. */
bool pids_are_decided(const struct trace_session *session);

/* Whether calls of this task are wanted, or come in any case. On the thread that emits hits. */
static inline bool pids_want(const struct trace_session *session, uint32_t pid)
{
	return !session->has_pid_gate || pid_gate_passes(&session->pids_in_effect, pid);
}

/* --- inside.c --------------------------------------------------------------------------------- */

/* gva of the instruction in the middle of a function that an instance of the direct lane, with a
 * tracer, records; 0: none. */
uint64_t inside_of(const struct session_instance *instance);
/* The plan's places of that kind, and those of the list, as they are now. -ENOMEM. */
int inside_read(struct trace_session *session, const struct instance_list *list,
		const struct kprobe_table *kprobes, struct inside_places *out, struct error *err);

/* --- status.c --------------------------------------------------------------------------------- */

/* Names that were read just now: taken over, with the older ones of functions that are gone. */
void session_keep_names(struct trace_session *session, struct kernel_names *names);

/* --- modules.c -------------------------------------------------------------------------------- */

void modules_init(struct trace_session *session);
void modules_deinit(struct trace_session *session);
/* The site at which modules ring, of this table; 0: there is none, modules are polled for. */
uint64_t modules_bell_site(const struct trace_session *session, const struct site_table *table,
			   const struct shared_sites *sites);
/* The site at which vCPUs ring from now on, and are waited for; 0: none. `follows`: functions of
 * modules are wanted; else the bell is closed, and those that wait go on. */
void modules_open_bell(struct trace_session *session, uint64_t site, bool follows);
/* If the bell is open, and the guest can ask: make it ask, unless a task may be where it would. */
void modules_begin_asking(struct trace_session *session);
/* A task is about to call a module's first function (ASK_MODULES). On the engine's thread. */
enum engine_answer modules_answer(struct trace_session *session, uint64_t question);
/* Record the functions of modules that have come, and forget those that are gone. */
int modules_follow(struct trace_session *session, struct error *err);
/* Read the ORC tables of modules, if stacks need some that are not there. */
void modules_read_orcs(struct trace_session *session);
/* engine_config.bell; arg is the session. */
void session_on_bell(void *arg);

/* --- dispatch.c ------------------------------------------------------------------------------- */

/* The trap handler (guest_trap_fn); arg is the session. */
bool session_on_trap(void *arg, struct guest_trap *trap);
/* engine_emit_fn, and that hits have been emitted; arg is the session. */
void session_emitted(void *arg);
probe_take_fn *session_taker(const struct probe_ref *ref);
size_t session_take_run(void *arg, const struct probe_run *run);
void session_emit(void *arg, const struct probe_ref *ref, enum probe_point point,
		  const struct probe_hit *hit);
/* Events that the boot window caught at other places; arg is the session. */
void session_boot_entry(void *arg, uint64_t site, const struct guest_trap *trap);
void session_boot_return(void *arg, const struct guest_trap *trap);
/* The return of this call is not waited for: forget the array that is saved for it, if any. On the
 * thread that emits hits. */
void session_forget_array(struct trace_session *session, const struct probe *probe, uint64_t key);
/* Forget open calls, and count them as unfinished. */
void session_forget_open_calls(struct trace_session *session);

/* --- sampler.c -------------------------------------------------------------------------------- */

/* Tracing is on from now on, or off. Counters are kept. */
void sampler_begin(struct sampler *sampler, uint64_t max_rate, uint64_t now_ns);
void sampler_end(struct sampler *sampler, uint64_t now_ns);
/* Fill in the sampler's counters, up to now. */
void sampler_counts(const struct sampler *sampler, uint64_t now_ns, struct trace_counters *out);
/* After a trap was served: remove the traps if there were too many calls. */
void session_sample(struct trace_session *session, bool is_call);
/* Put the traps back if it is time. */
int session_end_gap(struct trace_session *session, struct error *err);
/* There were no traps in the last `ns`. */
void session_gap(struct trace_session *session, uint64_t ns);

#endif
