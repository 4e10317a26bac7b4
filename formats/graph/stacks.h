/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GRAPH_STACKS_H
#define SONDE_FORMATS_GRAPH_STACKS_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/u64-map.h"

/*
 * Which stacks are an interrupt's. A trace does not say where they are. Each belongs to a CPU, whose
 * tasks meet there in turn: one comes back after another. A task's own may become another one's, but
 * no task comes back to it then.
 */
struct graph_stacks {
	struct u64_map pages;
};

void graph_stacks_init(struct graph_stacks *stacks);
void graph_stacks_deinit(struct graph_stacks *stacks);
/* A task has a call with this frame. If there is no room for more stacks, a new one is not noted.
 */
void graph_stacks_note(struct graph_stacks *stacks, uint64_t frame, uint64_t task);
/* Whether tasks take turns where this frame is. False as long as that is not known. */
bool graph_stacks_is_shared(const struct graph_stacks *stacks, uint64_t frame);

#endif
