/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_SYSCALLS_CALL_CHOICE_H
#define SONDE_FORMATS_SYSCALLS_CALL_CHOICE_H

#include "formats/cli/options.h"
#include "formats/filter/filter.h"
#include "formats/report/event-text.h"
#include "formats/syscalls/calls.h"

/*
 * Which system calls a user wants. The filters are on calls: name, pid, arg0 to arg5, returned, of
 * calls with a return ret, and duration in ns; and what of tgid, comm and cgroup the instance's
 * events have. A call has to pass any of them.
 */
struct syscall_choice;

/* `filters`: NULL, or none: all. `vcpus`: where calls began; NULL: all. Nothing is owned. -ENOMEM,
 * or what event_filters_bind() says. */
int syscall_choice_create(const struct event_filters *filters, const struct cli_vcpus *vcpus,
			  const struct trace_instance *instance, struct event_texts *texts,
			  struct syscall_choice **out, struct error *err);
/* NULL-safe. */
void syscall_choice_destroy(struct syscall_choice *choice);

bool syscall_choice_has(const struct syscall_choice *choice, const struct syscall_call *call);

#endif
