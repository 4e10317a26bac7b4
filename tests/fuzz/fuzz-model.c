/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "formats/allocators/simulation.h"

/* A model that was accepted can run: sizes of all magnitudes, on two CPUs. */
static void run(const struct model *model)
{
	struct simulation *simulation;
	uint64_t size = 1;

	if (simulation_create(model, 2, &simulation, NULL))
		return;
	for (uint64_t i = 0; i < 512; i++, size = size * 3 % 20011 + 1) {
		const struct allocation allocation = {.ptr = 4096 + i % 200,
						      .cache = i % 3 ? "kmalloc-64" : "dentry",
						      .object_size = size,
						      .taken = size,
						      .requested = size,
						      .call_site = size,
						      .node = -1,
						      .cpu = i & 1,
						      .is_kmalloc = i % 3};

		if (simulation_alloc(simulation, &allocation))
			break;
		simulation_free(simulation, 4096 + i * 7 % 200, i >> 1 & 1);
	}
	simulation_destroy(simulation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model model;

	if (!model_parse("m", (const char *)data, size, &model, NULL))
		run(&model);
	return 0;
}
