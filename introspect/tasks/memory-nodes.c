/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/tasks/percpu.h"

#include <errno.h>

enum { PAGE_SHIFT = 12, PFN_BITS = 40 };

/* Offsets in struct pglist_data. */
struct node_layout {
	struct btf_field first, spanned; /* page frames; holes included */
};

static int find_layout(const struct kernel *kernel, struct node_layout *out, struct error *err)
{
	const struct btf_types *btf = kernel->image->btf;
	int ret = kernel_image_check_btf(kernel->image, err);

	if (!ret)
		ret = btf_field(btf, "pglist_data", "node_start_pfn", &out->first, err);
	if (!ret)
		ret = btf_field(btf, "pglist_data", "node_spanned_pages", &out->spanned, err);
	return ret;
}

static int read_word(const struct kernel *kernel, uint64_t gva, uint64_t *out, struct error *err)
{
	return kernel_read(kernel, gva, out, sizeof(*out), err);
}

/* *out has no bytes if there is no such node, or it has no memory. */
static int read_node(const struct kernel *kernel, const struct node_layout *layout, uint64_t data,
		     struct memory_node *out, struct error *err)
{
	uint64_t first, spanned;
	int ret;

	if (!data)
		return 0;
	ret = read_word(kernel, data + layout->first.offset, &first, err);
	if (!ret)
		ret = read_word(kernel, data + layout->spanned.offset, &spanned, err);
	if (ret)
		return ret;
	if (first >> PFN_BITS || spanned >> PFN_BITS)
		return error_set_at(err, EPROTO, data, "a NUMA node of the guest is damaged");
	out->start = kernel_page_offset(kernel) + (first << PAGE_SHIFT);
	out->bytes = spanned << PAGE_SHIFT;
	return 0;
}

static void give_cpu(struct memory_node *nodes, size_t n, unsigned int cpu, uint32_t number)
{
	for (size_t i = 0; i < n; i++)
		if (nodes[i].number == number)
			nodes[i].cpus |= UINT64_C(1) << cpu;
}

/* A CPU that the kernel does not have yet belongs to none. */
static int read_cpus(const struct kernel *kernel, struct memory_node *nodes, size_t n,
		     struct error *err)
{
	const unsigned int vcpus = kernel->guest->nr_vcpus;
	int32_t own;
	int ret = percpu_displacement(kernel, "numa_node", NULL, &own, err);

	for (unsigned int cpu = 0; !ret && cpu < vcpus && cpu < MEMORY_NODE_CPUS; cpu++) {
		uint64_t base;
		uint32_t number;

		ret = percpu_base(kernel, cpu, &base, err);
		if (!ret && !kernel_read(kernel, base + (uint64_t)(int64_t)own, &number,
					 sizeof(number), NULL))
			give_cpu(nodes, n, cpu, number);
	}
	return ret;
}

int memory_nodes_read(const struct kernel *kernel, struct memory_node out[MEMORY_NODES_MAX],
		      size_t *n, struct error *err)
{
	const uint64_t table = kernel_symbol(kernel, "node_data");
	struct node_layout layout;
	uint32_t ids = 0;
	int ret;

	*n = 0;
	if (!table)
		return 0;
	ret = find_layout(kernel, &layout, err);
	if (!ret)
		ret = kernel_read_u32(kernel, "nr_node_ids", &ids, err);
	for (uint32_t i = 0; !ret && i < ids && i < MEMORY_NODES_MAX; i++) {
		struct memory_node node = {.number = i};
		uint64_t data;

		ret = read_word(kernel, table + i * sizeof(data), &data, err);
		if (!ret)
			ret = read_node(kernel, &layout, data, &node, err);
		if (!ret && node.bytes)
			out[(*n)++] = node;
	}
	if (!ret)
		ret = read_cpus(kernel, out, *n, err);
	if (ret)
		*n = 0;
	return ret;
}
