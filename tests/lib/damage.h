/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_DAMAGE_H
#define SONDE_TESTS_LIB_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/event/kmem.h"

/* Traces to be damaged, and their damage. All of these abort() when the machine fails them. */

enum { DAMAGE_MOST_RECORDS = 4200 }; /* of about 16 bytes: 64 KiB */

/* Objects that are allocated and freed, with addresses of `bits`. */
void damage_make_records(struct kmem_record *records, size_t n, unsigned int bits);

/* A trace of n such records, in packets of 60, as a recorder leaves it. */
void damage_make_trace(const char *dir, size_t n);

/*
 * Write dir/name with some of its bytes changed, left out or doubled: which, comes from the number
 * `round`. `bytes` are those of the whole file. Returns whether it differs from that.
 */
bool damage_put(const char *dir, const char *name, const void *bytes, size_t size, uint64_t round);

/* A number from the environment. */
uint64_t damage_setting(const char *name, uint64_t otherwise);

#endif
