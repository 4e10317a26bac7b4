/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_VERBS_H
#define SONDE_VMM_MONITOR_VERBS_H

#include <stdint.h>
#include <sys/types.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"
#include "vmm/monitor/trace.h"
#include "vmm/monitor/monitor.h"

/*
 * The verbs, one register function for each vmm/monitor-verbs-*.c file. What a verb works on is
 * handed in as a small struct, which must live as long as the monitor. All return 0, or -EEXIST or
 * -ENOMEM.
 */

/* qmp_capabilities, query-commands, query-version. Called by monitor_create(). */
int monitor_verbs_self_register(struct monitor *monitor, struct monitor_verbs *verbs,
				struct error *err);

/* The machine as the verbs see it; vmm/monitor/vm.c has the real one. */
struct monitor_machine {
	const char *(*status)(void *arg); /* QMP's RunState names */
	/* Both return -EALREADY if there is nothing to do. */
	int (*pause)(void *arg, struct error *err);
	int (*resume)(void *arg, struct error *err);
	void (*quit)(void *arg); /* ends the event loop */
	pid_t (*thread_id)(void *arg, unsigned int vcpu);
	void *arg;
	struct guest *guest;
};

/* query-status, query-cpus-fast, stop, cont, quit. */
int monitor_verbs_vm_register(struct monitor *monitor, const struct monitor_machine *machine,
			      struct error *err);

struct monitor_memory {
	struct guest *guest;
	/* See monitor_trace_ops; NULL: walk the page table of the vCPU that cpu-index names. */
	int (*translate)(void *arg, uint64_t gva, uint64_t *gpa, struct error *err);
	void *arg;
};

/* pmemsave, memsave. */
int monitor_verbs_memory_register(struct monitor *monitor, const struct monitor_memory *memory,
				  struct error *err);

struct monitor_trace {
	const struct monitor_trace_ops *ops; /* NULL: tracing is not configured */
	void *arg;
	struct monitor *monitor; /* told TRACE_STARTED and TRACE_STOPPED */
};

/* trace-start, trace-stop, query-trace. */
int monitor_verbs_trace_register(struct monitor *monitor, const struct monitor_trace *trace,
				 struct error *err);

#endif
