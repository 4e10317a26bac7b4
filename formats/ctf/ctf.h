/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_CTF_H
#define SONDE_FORMATS_CTF_CTF_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/ctf/codec.h"
#include "formats/trace/decoder.h"
#include "formats/trace/encoder.h"

/*
 * Traces in the Common Trace Format 1.8: a file `metadata` that describes them, and one file of
 * packets per vCPU. Each stream defines its ids, before the first event that uses them, so that
 * a stream that was cut off explains what is left of it.
 */
extern const struct encoder_ops ctf_encoder;
extern const struct decoder_ops ctf_decoder;

/*
 * As ctf_encoder.create, for a trace with a given identity, for instance of the other byte
 * order.
 */
int ctf_encoder_create(int dir_fd, struct cache_table *caches, const struct ctf_identity *identity,
		       struct trace_encoder **out);

/*
 * The file `metadata`: the trace's description in TSDL (CTF specification 1.8.3, section 7), as
 * plain text. It spells out the tables of schema.h for other readers; the ids of call sites, caches
 * and GFP flags that are known so far become enumerations, so that viewers show names.
 */
#define CTF_METADATA_NAME "metadata"

struct ctf_metadata {
	struct ctf_identity identity;
	const struct sidecar *sidecar; /* its info, caches and symbols are used */
	const uint64_t *sites, *gfps;  /* element i has id i + 1 */
	size_t nr_sites, nr_gfps;
};

/* The text, to be freed, NUL-terminated; NULL without memory. */
char *ctf_metadata_text(const struct ctf_metadata *metadata);

/*
 * Recognise a metadata text and find the trace's identity in it. -EINVAL and the reason if it
 * describes a trace that this program cannot read: of another tracer or another version, or
 * damaged.
 */
int ctf_metadata_parse(const void *text, size_t size, struct ctf_identity *identity,
		       struct error *err);

#endif
