/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/trace-info.h"

#include "tests/lib/tap.h"

int main(void)
{
	/* The first has a hole, in which the second is. */
	struct trace_info info = {
		.nodes = {{.number = 0, .start = 0x1000, .bytes = 0x9000, .vcpus = 1},
			  {.number = 3, .start = 0x4000, .bytes = 0x1000, .vcpus = 1 << 2}},
		.nr_nodes = 2};

	ok(!trace_nodes_differ(&info, 0x1000, 0), "a vCPU of the memory's node");
	ok(trace_nodes_differ(&info, 0x9fff, 2), "one of another");
	ok(!trace_nodes_differ(&info, 0x4000, 2) && trace_nodes_differ(&info, 0x4fff, 0),
	   "memory in a hole is that of the node that has it");
	ok(!trace_nodes_differ(&info, 0x9fff, 1) && !trace_nodes_differ(&info, 0x9fff, 70),
	   "a vCPU of no node belongs to any");
	ok(!trace_nodes_differ(&info, 0xfff, 0) && !trace_nodes_differ(&info, 0xa000, 2),
	   "so does memory of no node");
	ok(trace_has_nodes(&info), "the trace has nodes");
	info.nr_nodes = 1;
	ok(!trace_has_nodes(&info), "one node is none");
	return tap_done();
}
