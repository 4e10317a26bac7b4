/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_CTF_MAKE_H
#define SONDE_TESTS_LIB_CTF_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/ctf/codec.h"
#include "formats/event/kmem.h"

/* CTF traces of one vCPU for unit tests, also in the other byte order. All abort() on failure. */
enum { CTF_MAKE_CACHES = 40 }; /* ids 1 to this are named "cache-1" and so on */

struct ctf_made {
	struct ctf_identity identity;
	char *metadata; /* NUL-terminated */
	uint8_t *stream;
	size_t size;
};

/* A packet ends after every `per_packet` records (0: only where it is full). */
void ctf_make(struct ctf_made *made, bool big_endian, const struct kmem_record *records, size_t n,
	      size_t per_packet);
void ctf_made_free(struct ctf_made *made);

/* Write the files metadata and cpu0. */
void ctf_made_put(const struct ctf_made *made, const char *dir);

/*
 * n records, the same for the same seed: one third usual ones, one third with one member out of the
 * ordinary, one third with extreme values everywhere, time stepping back included. Not `hostile`:
 * legal kinds and ascending time only.
 */
void random_records(unsigned int seed, bool hostile, struct kmem_record *records, size_t n);

#endif
