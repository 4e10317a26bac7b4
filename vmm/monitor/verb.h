/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_VERB_H
#define SONDE_VMM_MONITOR_VERB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

/*
 * The monitor's verbs. To add one, write its function and its row in the verbs-*.c file of the
 * thing that it acts on. The monitor checks arguments against the row before it calls the function,
 * and lists the row in query-commands. `sonde ctl` runs any verb by its name.
 */
enum monitor_arg_type {
	MONITOR_ARG_STRING,
	MONITOR_ARG_BOOL,
	MONITOR_ARG_SIZE,    /* integer, 0 and up */
	MONITOR_ARG_ADDRESS, /* integer (negative: two's complement, as in QEMU), or string "0x..."
			      */
	MONITOR_ARG_STRINGS, /* list of strings */
};

struct monitor_arg {
	const char *name;
	enum monitor_arg_type type;
	bool required;
};

/* Implemented by the owner of the guest (vmm/run/owner.c, vmm/libvirt/attach/owner.c). Main thread
 * only. */
struct monitor_guest_ops {
	const char *(*status)(void *arg); /* a name of QMP's RunState */
	/* -EALREADY if the guest is so already. If `pauses` is false: -ENOTSUP, with the command
	 * that does it. */
	int (*pause)(void *arg, struct error *err);
	int (*resume)(void *arg, struct error *err);
	bool pauses;
	void (*quit)(void *arg); /* end the event loop */
	/* Host thread of a vCPU. NULL if the vCPUs belong to another process. */
	pid_t (*thread_id)(void *arg, unsigned int vcpu);
};

enum monitor_change { MONITOR_ADD, MONITOR_REMOVE, MONITOR_REPLACE };

/* Implemented by the recorder. Main thread only, but for translate() and those of a snapshot; each
 * error is one line for the user. */
struct monitor_trace_ops {
	/* Start tracing `specs`; none: those of the command line. */
	int (*start)(void *arg, const char *const *specs, size_t n, struct error *err);
	int (*stop)(void *arg, struct error *err);
	/* Begin to write to the trace what is only in memory. Ends with await_snapshot(), which may
	 * take long, and may be called when the recorder has gone. */
	int (*snapshot)(void *arg, void **snapshot, struct error *err);
	int (*await_snapshot)(void *snapshot, struct error *err);
	/* The reply to query-trace (a new object), or NULL if memory is out. */
	json_t *(*query)(void *arg);
	/*
	 * Change the instances of tracers, while tracing is on or off: add or replace one by a
	 * spec "[NAME=]TRACER[:...]", or remove one by its name. *reply may be set to a new object:
	 * what that took, and what the user is to be told of it. NULL: not possible.
	 */
	int (*change)(void *arg, enum monitor_change change, const char *text, json_t **reply,
		      struct error *err);
	/* The reply to query-instances (a new array), or NULL if memory is out. */
	json_t *(*instances)(void *arg);
	/* The reply to query-profile (a new object), of all profiles or those of this name; NULL on
	 * error. And count from 0 again. Both are NULL, or none is. */
	json_t *(*profiles)(void *arg, const char *name, struct error *err);
	int (*clear_profiles)(void *arg, const char *name, struct error *err);
	/* Likewise the reply to query-hist. */
	json_t *(*hists)(void *arg, const char *name, struct error *err);
	int (*clear_hists)(void *arg, const char *name, struct error *err);
	/*
	 * For memsave: guest-physical address of a kernel virtual address. NULL: memsave walks the
	 * page table of a vCPU, which under KPTI may be a user process's.
	 */
	int (*translate)(void *arg, uint64_t gva, uint64_t *gpa, struct error *err);
};

/* What the verbs act on. */
struct monitor_target {
	struct guest *guest;
	const struct monitor_guest_ops *ops;
	void *arg;
	const struct monitor_trace_ops *trace; /* NULL: tracing is not configured */
	void *trace_arg;
};

struct monitor;
struct monitor_job;
struct monitor_verbs;

/* One execution of a verb: on the main thread, or as a job (job.h), which must ask before it uses
 * the target, and lets the main thread stop the guest. */
struct monitor_call {
	struct monitor_job *job; /* or NULL */
	struct monitor *monitor; /* for events */
	const struct monitor_target *target;
	const struct monitor_verbs *verbs;
	json_t *args;   /* an object (empty if none were given) that has passed the check */
	json_t *result; /* out: a new reference; an empty object is returned if it stays NULL */
};

struct monitor_verb {
	const char *name;
	const char *help;               /* one line, no full stop */
	const struct monitor_arg *args; /* ends with a NULL name; NULL if it takes none */
	bool aside;                     /* may take long: runs as a job */
	/* Whether the verb works for this target, and is listed. NULL: always. */
	bool (*offered)(const struct monitor_target *target);
	/* Returns 0, or -errno with *err for the client. */
	int (*run)(struct monitor_call *call, struct error *err);
};

/* The verbs of verbs-*.c; each array ends with a NULL name. monitor_create() registers them. */
extern const struct monitor_verb monitor_guest_verbs[], monitor_memory_verbs[],
	monitor_trace_verbs[];

/* A table of verbs, sorted by name. NULL if memory is out. */
struct monitor_verbs *monitor_verbs_create(void);
/* NULL-safe. */
void monitor_verbs_destroy(struct monitor_verbs *verbs);

/* Add an array of verbs, which must live as long as the table. -EEXIST if a name is taken, -ENOMEM.
 */
int monitor_verbs_add(struct monitor_verbs *verbs, const struct monitor_verb *list,
		      struct error *err);

/* The verb of that name, or NULL. */
const struct monitor_verb *monitor_verbs_find(const struct monitor_verbs *verbs, const char *name);

/*
 * Check call->args (NULL: none) against the verb's row, then run it. -EINVAL if an argument is
 * unknown, missing or of the wrong type, else what the verb returns. call->result is a new
 * reference or NULL.
 */
int monitor_verb_run(const struct monitor_verb *verb, struct monitor_call *call, struct error *err);

/* Those that are offered: [{"name":..., "help":..., "args":[{"name":..., "type":...,
 * "required":...}]}], sorted by name. */
json_t *monitor_verbs_describe(const struct monitor_verbs *verbs,
			       const struct monitor_target *target);

/* The value of a SIZE or ADDRESS argument that has passed the check; 0 if absent. */
uint64_t monitor_arg_u64(json_t *args, const char *name);

#endif
