/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/trace-info.h"

enum { NODE_VCPUS = 64 };

/* A hole in one node may be another one's memory: the smallest that has the address. */
static const struct trace_node *node_at(const struct trace_info *info, uint64_t ptr)
{
	const struct trace_node *best = NULL;

	for (size_t i = 0; i < info->nr_nodes; i++) {
		const struct trace_node *node = &info->nodes[i];

		if (ptr - node->start < node->bytes && (!best || node->bytes < best->bytes))
			best = node;
	}
	return best;
}

static const struct trace_node *node_of(const struct trace_info *info, unsigned int vcpu)
{
	for (size_t i = 0; vcpu < NODE_VCPUS && i < info->nr_nodes; i++)
		if (info->nodes[i].vcpus >> vcpu & 1)
			return &info->nodes[i];
	return NULL;
}

bool trace_nodes_differ(const struct trace_info *info, uint64_t ptr, unsigned int vcpu)
{
	const struct trace_node *memory = node_at(info, ptr), *near = node_of(info, vcpu);

	return memory && near && memory != near;
}
