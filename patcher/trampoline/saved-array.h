/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_SAVED_ARRAY_H
#define SONDE_PATCHER_TRAMPOLINE_SAVED_ARRAY_H

#include "patcher/trampoline/fields.h"

/*
 * Where a call has its array, kept in a table (struct ring_saved_array) from its entry to its
 * return, when no register holds it any more. Before anything is reserved, so that a full ring
 * changes nothing.
 */

/* ITEMS_SAVED. Nothing is kept if the table has no place. */
void trampoline_save_array(struct trampoline_code *c);

/*
 * ITEMS_RETURNED: words = the gva of the first one that is the call's work, skip = how many lie in
 * front, c->saved = FIELD_SAVED; what was kept is free again. If nothing was, skip is as many as a
 * call can have. Changes R11, R13, R14, which may be `skip`, and the scratch register.
 */
void trampoline_find_saved_array(struct trampoline_code *c, enum asm_reg words, enum asm_reg skip);

#endif
