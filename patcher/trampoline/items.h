/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_ITEMS_H
#define SONDE_PATCHER_TRAMPOLINE_ITEMS_H

#include "patcher/trampoline/fields.h"

/*
 * The parts of a trampoline that make it write a record per CAPTURE_MAX_ITEMS items of its call,
 * in the order in which they stand in it. What a function must preserve is saved on its stack and
 * used instead of arguments, which every record needs unchanged.
 */

/* The first item, and at c->chunk how many of those left go into the next record. */
void trampoline_items_begin(struct trampoline_code *c);
/* to = bytes of the next record. */
void trampoline_items_size(struct trampoline_code *c, enum asm_reg to);
void trampoline_items_copy(struct trampoline_code *c);
/* Write how many items the record has. */
void trampoline_items_count(struct trampoline_code *c);
/* Written or given up: on to the next record if there are items left. */
void trampoline_items_next(struct trampoline_code *c);

/* In the slow path: give up this record. */
void trampoline_items_drop(struct trampoline_code *c);

#endif
