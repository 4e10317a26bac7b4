/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which code writes events of a class: here that of the function tracer. */
#include "formats/ctf/put-inline.h"
#include "formats/event/function-fields.h"
#include "formats/event/kmem.h"

PUT_CALLS(put_ip, function_ip)
PUT_CALLS(put_ip_parent, function_ip_parent)
PUT_CALLS(put_ip_pid, function_ip_pid)
PUT_CALLS(put_ip_parent_pid, function_ip_parent_pid)
PUT_CALLS(put_ip_comm, function_ip_comm)
PUT_CALLS(put_ip_parent_comm, function_ip_parent_comm)
PUT_CALLS(put_ip_pid_comm, function_ip_pid_comm)
PUT_CALLS(put_ip_parent_pid_comm, function_ip_parent_pid_comm)

static const struct ctf_put_calls function[FUNCTION_SETS] = {
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

/* How events of a class of the direct lane are written in its first form; NULL: as any other. */
static const struct ctf_put_calls *find_calls(const struct event_class *class)
{
	const struct event_class *first = function_class(0);

	if (class < first || class >= first + FUNCTION_SETS)
		return ctf_put_graph(class);
	return function[class - first].one ? &function[class - first] : NULL;
}

ctf_put_fn *ctf_put_known(const struct event_class *class, unsigned int form)
{
	const struct ctf_put_calls *calls = find_calls(class);

	if (class >= kmem_classes && class < kmem_classes + KMEM_NR_CLASSES)
		return ctf_put_kmem(class, form);
	return calls && !form ? calls->one : NULL;
}

ctf_put_run_fn *ctf_put_run_known(const struct event_class *class)
{
	const struct ctf_put_calls *calls = find_calls(class);

	return calls ? calls->run : NULL;
}

ctf_put_mix_fn *ctf_put_mix_known(const struct event_class *classes)
{
	return classes == kmem_classes ? ctf_put_kmem_mix : ctf_put_graph_mix(classes);
}
