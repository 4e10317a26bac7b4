/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA nodes of a fake kernel, with per-CPU variables in both places that kernels have them in. */
#include "introspect/tasks/percpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/fake-btf.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

enum {
	VCPUS = 3,
	AREA = 0x1000,     /* of one CPU */
	OFFSETS = 0x30000, /* image offsets: __per_cpu_offset, node_data, nr_node_ids ... */
	NODE_DATA = 0x31000,
	NR_IDS = 0x31800,
	PERCPU = 0x40000, /* ... and __per_cpu_start where variables are linked like others */
	NUMA_NODE = 0x80,
	NODES = FAKE_HEAP_GPA + VCPUS * AREA,
	NODE_SIZE = 0x200,
	FIRST = 0x100,
	SPANNED = 0x110,
	PAGE = 4096,
};

static struct fake_kernel fake;

static bool use_symbols(uint64_t percpu, bool has_numa)
{
	char map[1024];
	int n = snprintf(map, sizeof(map),
			 "%016llx T _text\n%016llx D __per_cpu_offset\n%016llx D init_top_pgt\n"
			 "%016llx D page_offset_base\n%016llx A numa_node\n%016llx D nr_node_ids\n",
			 FAKE_LINK_TEXT, FAKE_LINK_TEXT + OFFSETS,
			 FAKE_LINK_TEXT + FAKE_INIT_TOP_PGT, FAKE_LINK_TEXT + FAKE_PAGE_OFFSET_BASE,
			 (unsigned long long)percpu + NUMA_NODE, FAKE_LINK_TEXT + NR_IDS);

	if (has_numa)
		n += snprintf(map + n, sizeof(map) - (size_t)n, "%016llx D node_data\n",
			      FAKE_LINK_TEXT + NODE_DATA);
	return !fake_kernel_set_symbols(&fake, map, (size_t)n);
}

static bool use_btf(const char *spanned)
{
	const struct fake_struct structs[] = {
		{"pglist_data",
		 NODE_SIZE,
		 {{"node_start_pfn", FIRST, 8, 0, 0}, {spanned, SPANNED, 8, 0, 0}}},
		{NULL, 0, {{NULL, 0, 0, 0, 0}}},
	};

	return !fake_kernel_set_structs(&fake, structs);
}

static void put_node(unsigned int number, uint64_t first, uint64_t spanned)
{
	const uint64_t at = NODES + number * NODE_SIZE;

	fake_put64(&fake, FAKE_PHYS_TEXT + NODE_DATA + number * 8, fake_direct(at));
	fake_put64(&fake, at + FIRST, first);
	fake_put64(&fake, at + SPANNED, spanned);
}

static void put_cpu(bool real_addresses, unsigned int cpu, uint32_t node)
{
	const uint64_t area = FAKE_HEAP_GPA + cpu * AREA;
	const uint64_t start = real_addresses ? FAKE_LINK_TEXT + FAKE_SLIDE + PERCPU : 0;

	fake_put64(&fake, FAKE_PHYS_TEXT + OFFSETS + cpu * 8, fake_direct(area) - start);
	fake_put32(&fake, area + NUMA_NODE, node);
}

/* Nodes 0 and 2 have memory, node 1 has none, and there is no node 3. vCPUs 0 and 2 are node 2's.
 */
static bool start(bool real_addresses)
{
	if (!ok(!fake_kernel_create(&fake, FAKE_6_12, 4) &&
			use_symbols(real_addresses ? FAKE_LINK_TEXT + PERCPU : 0, true) &&
			use_btf("node_spanned_pages") && !fake_kernel_set_vcpus(&fake, VCPUS),
		"a kernel is made"))
		return false;
	fake_put32(&fake, FAKE_PHYS_TEXT + NR_IDS, 4);
	put_node(0, 1, 999);
	put_node(1, 0, 0);
	put_node(2, 1000, 24);
	put_cpu(real_addresses, 0, 2);
	put_cpu(real_addresses, 1, 0);
	put_cpu(real_addresses, 2, 2);
	return true;
}

static void test_nodes(bool real_addresses)
{
	struct memory_node nodes[MEMORY_NODES_MAX];
	size_t n;

	if (!start(real_addresses))
		return;
	ok(!memory_nodes_read(&fake.kernel, nodes, &n, NULL) && n == 2,
	   "the two nodes that have memory are found");
	ok(nodes[0].number == 0 && nodes[0].start == FAKE_PAGE_OFFSET + PAGE &&
		   nodes[0].bytes == 999 * PAGE && nodes[0].cpus == 1 << 1,
	   "the first has its memory and its vCPU");
	ok(nodes[1].number == 2 && nodes[1].start == FAKE_PAGE_OFFSET + 1000 * PAGE &&
		   nodes[1].bytes == 24 * PAGE && nodes[1].cpus == (1 << 0 | 1 << 2),
	   "so has the other");
	fake_kernel_destroy(&fake);
}

static int read_with(const char *want)
{
	struct memory_node nodes[MEMORY_NODES_MAX];
	struct error err = {0};
	size_t n;
	int ret = memory_nodes_read(&fake.kernel, nodes, &n, &err);

	if (ret && !strstr(err.text, want))
		tap_diag("%s", err.text);
	return n || (ret && !strstr(err.text, want)) ? 1 : ret;
}

static void test_refusals(void)
{
	if (!start(false))
		return;
	put_node(2, UINT64_C(1) << 60, 24);
	is_u64((uint64_t)-read_with("a NUMA node of the guest is damaged"), EPROTO,
	       "a frame number that no guest has is damage");
	fake_put64(&fake, FAKE_PHYS_TEXT + NODE_DATA + 16, 0xffff000000000000);
	is_u64((uint64_t)-read_with(""), EFAULT, "so is a node that is not mapped");
	use_btf("other");
	is_u64((uint64_t)-read_with("node_spanned_pages"), ENOENT, "BTF without a member is told");
	use_symbols(0, false);
	ok(!read_with(""), "a kernel without NUMA has no nodes");
	fake_kernel_destroy(&fake);
}

int main(void)
{
	test_nodes(false);
	test_nodes(true);
	test_refusals();
	return tap_done();
}
