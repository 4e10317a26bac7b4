/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_TRAP_TABLE_H
#define SONDE_PATCHER_TEXT_TRAP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/base/u64-map.h"
#include "introspect/guest/guest.h"
#include "patcher/probe/probe.h"

/* What a vCPU that executes the OUT at `gva` means. */
enum trap_kind {
	TRAP_ENTRY,   /* a probe's function was entered; go on behind the site */
	TRAP_RETURN,  /* a return slot; return for the guest, or go to the thunk that stood there */
	TRAP_ONESHOT, /* the text at this place belongs to the guest again before it goes on */
};

typedef void oneshot_fn(void *arg, const struct guest_trap *trap);

struct trap {
	uint64_t gva;
	enum trap_kind kind;
	const struct probe_ref *ref; /* TRAP_ENTRY */
	uint64_t thunk;              /* TRAP_RETURN: gva to go to, 0 = return */
	struct capture capture;      /* TRAP_RETURN: what all functions that end here want */
	oneshot_fn *fn;              /* TRAP_ONESHOT */
	void *arg;
	uint8_t original[GUEST_TRAP_SIZE]; /* TRAP_ONESHOT: what stood there */
};

/*
 * Traps by address. Lookup takes no lock: the table changes only while no vCPU can be in a trap
 * handler (guest stopped) or on the only vCPU that runs.
 */
struct trap_table {
	struct u64_map by_gva; /* -> struct trap */
};

/* An empty one; what it holds is freed by trap_table_deinit(). */
void trap_table_init(struct trap_table *table);
void trap_table_deinit(struct trap_table *table);

/* Add or replace. The pointer trap_table_find() gives is valid until the next put or remove. */
int trap_table_put(struct trap_table *table, const struct trap *trap, struct error *err);
void trap_table_remove(struct trap_table *table, uint64_t gva);
struct trap *trap_table_find(const struct trap_table *table, uint64_t gva);
#endif
