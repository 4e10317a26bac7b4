/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_CTF_MAKE_H
#define SONDE_TESTS_LIB_CTF_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/ctf/codec.h"
#include "formats/event/kmem.h"
#include "formats/trace/encoder.h"

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

/* An encoder that writes one stream, cpu0 of an instance, into a directory. */
struct ctf_maker {
	struct cache_table caches; /* empty at first */
	struct call_sites sites;
	struct encoder_input input;
	struct trace_encoder *encoder;
	struct stream_writer *stream;
};

/* The instance's classes must outlive the maker. */
void ctf_maker_init(struct ctf_maker *maker, const char *dir, const struct ctf_identity *identity,
		    const struct trace_instance *instance);
/* Write what the stream has gathered. */
void ctf_maker_flush(struct ctf_maker *maker);
void ctf_maker_deinit(struct ctf_maker *maker);

/*
 * n records, the same for the same seed: one third usual ones, one third with one member out of the
 * ordinary, one third with extreme values everywhere, time stepping back included. Not `hostile`:
 * legal kinds and ascending time only.
 */
void random_records(unsigned int seed, bool hostile, struct kmem_record *records, size_t n);

#endif
