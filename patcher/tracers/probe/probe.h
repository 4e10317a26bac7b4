/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_PROBE_PROBE_H
#define SONDE_PATCHER_TRACERS_PROBE_PROBE_H

#include "formats/event/task.h"
#include "introspect/kernel/kernel.h"
#include "patcher/fetch/fetch.h"

struct probe_place {
	uint64_t function; /* gva; 0: that of a module */
	uint64_t inside;   /* gva of an instruction behind its beginning; 0: the call, or return */
	const char *name;  /* the probe's, or the image's */
};

/*
 * The function that a probe means, and its instruction; probe->inside is set. -ENOENT with the
 * nearest name; -ENOTSUP: it cannot be probed, or not all of its returns can be recorded;
 * -EADDRNOTAVAIL: several functions have the name; and those of displace_find(), by the bytes of
 * the kernel image. The running kernel may have other ones. Errors have the column in the
 * definition, as those of the next two functions have.
 */
int probe_find_place(struct fetch_probe *probe, const struct kernel *kernel,
		     struct probe_place *out, struct error *err);

/* The image's symbol, or function that can be probed, whose name is nearest; NULL: none is near. */
const char *probe_nearest(const struct kernel_image *image, const char *wanted, bool functions);

/*
 * Replace a probe's symbols by their addresses in the running kernel, and parameters, with the
 * chains of members behind them, by registers and steps in memory, as `types` have them: the
 * kernel's, or those of the function's module. `function` is the name that they know the function
 * by. -ENOENT, -EINVAL with the argument, what is wrong with it, and the nearest name; -ENOTSUP:
 * `types` is NULL, and they are needed.
 */
int probe_resolve(struct fetch_probe *probe, const char *function, const struct btf_types *types,
		  const struct kernel *kernel, struct error *err);

/*
 * The class of a probe's events: where it is, who calls, its arguments, and these of enum
 * event_task_fields; the pid always. Their bytes are a struct function_event, and behind it what is
 * recorded of the arguments (struct fetch_program), EVENT_LONG_STRING_MAX bytes for each long
 * string and long text, and the chain. Probes that are described alike have the same class, which
 * lives as long as the process: a trace may outlive its tracers. -ENOMEM; -EINVAL: there can be no
 * such class.
 */
int probe_class_of(const struct fetch_probe *probe, const struct fetch_program *program,
		   uint32_t task, const struct event_class **out, struct error *err);

#endif
