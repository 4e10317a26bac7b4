/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_CODE_ARENA_H
#define SONDE_PATCHER_ENGINE_CODE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * The part of the guest's code memory whose pieces come and go while the guest runs. A free byte is
 * an INT3. One thread at a time.
 */
struct code_extent {
	uint32_t begin, end; /* offsets, multiples of CODE_ARENA_ALIGN */
};

enum { CODE_ARENA_ALIGN = 16 };

struct code_arena {
	uint64_t gva;   /* of bytes[0] in the guest */
	uint8_t *bytes; /* the host's view of the memory, borrowed */
	uint32_t size;
	struct code_extent *taken; /* sorted */
	size_t nr_taken, room;
	uint32_t used; /* behind it there was never any code */
};

/* Empty; fills the memory with INT3. `gva` is a multiple of CODE_ARENA_ALIGN. */
void code_arena_init(struct code_arena *arena, uint64_t gva, uint8_t *bytes, uint32_t size);
/* Also of one that is zeroed. The memory stays as it is. */
void code_arena_deinit(struct code_arena *arena);

/*
 * A piece of code of at most `max` bytes: `write` gets the address where it would run and room for
 * it, and returns its size or a negative errno. It is called again for each other free place if its
 * code is larger than the first. -ENOSPC says how many bytes are free. *reused: there was other code
 * before, which vCPUs may have executed.
 */
typedef int code_write_fn(void *arg, uint64_t gva, uint8_t *bytes, struct error *err);
int code_arena_add(struct code_arena *arena, code_write_fn *write, void *arg, size_t max,
		   uint64_t *gva, bool *reused, struct error *err);

/* Free the piece that begins at `gva`. No vCPU is inside, or will get there. */
void code_arena_remove(struct code_arena *arena, uint64_t gva);

#endif
