/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_SYSCALLS_SYSCALL_TEXT_H
#define SONDE_FORMATS_SYSCALLS_SYSCALL_TEXT_H

#include <stdbool.h>
#include <stdio.h>
#include "formats/filter/filter.h"
#include "formats/report/event-text.h"

/*
 * Prints the system calls of an instance of the syscalls tracer when they have returned, a line
 * each, with the arguments by name where the trace has the declarations of the guest's kernel:
 *
 *	[vCPU] seconds TASK-PID openat(dfd=-100, filename=0x7ffd8a0, flags=0x8000, mode=0) = 3 <12.3
 *us>
 *
 * or as a JSON object. The time is that of the entry.
 */
struct syscall_text;

struct syscall_text_options {
	bool json;
	const struct event_filters *filters; /* on calls (call-choice.h); NULL, or none: all */
	const struct cli_vcpus *vcpus; /* where they began; NULL: all */
	const struct trace_instance *instance; /* whose calls they are */
	const char *prototypes;                /* of it, or NULL */
};

/* Nothing is owned. Errors of writing stay in `out`. -ENOMEM, or what event_filters_bind() says. */
int syscall_text_create(FILE *out, struct event_texts *texts,
			const struct syscall_text_options *options, struct syscall_text **text,
			struct error *err);
/* NULL-safe. */
void syscall_text_destroy(struct syscall_text *text);

/* The next event; one of another tracer is ignored. -ENOMEM. */
int syscall_text_put(struct syscall_text *text, const struct event *event);
/* The trace ends. -ENOMEM. */
int syscall_text_end(struct syscall_text *text);
bool syscall_text_has_printed(const struct syscall_text *text);

#endif
