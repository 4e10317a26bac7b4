/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GRAPH_CALL_CHOICE_H
#define SONDE_FORMATS_GRAPH_CALL_CHOICE_H

#include "formats/filter/call-filter.h"
#include "formats/graph/calls.h"
#include "formats/report/event-text.h"

/*
 * Which calls a user wants that only their ends decide. The filters are on calls: name or ip,
 * parent_ip, pid, depth, returned, of calls with a return duration and self (without the calls in
 * it) in ns; tgid, comm, cgroup and ret, if the instance records them. A call has to pass any of
 * them.
 */

/* Nothing is owned. -ENOMEM, or what event_filters_bind() says. */
int graph_choice_create(const struct event_filters *filters, const struct trace_instance *instance,
			struct event_texts *texts, struct call_filter **out, struct error *err);

/* `seen`: the call has returned. `choice` may be NULL: all are wanted. */
bool graph_choice_has(const struct call_filter *choice, const struct graph_call *call, bool seen);

#endif
