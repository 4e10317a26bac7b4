/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_METADATA_H
#define SONDE_FORMATS_CTF_METADATA_H

#include <stddef.h>
#include <stdint.h>
#include "formats/ctf/packet.h"
#include "formats/base/error.h"
#include "formats/trace/sidecar.h"

/*
 * The file `metadata` of a CTF trace: its description in TSDL (CTF specification 1.8.3, section 7),
 * as plain text. The tables of formats/ctf/ctf.h are spelled out for other readers; the ids of call
 * sites, caches and GFP flags that are known so far become enumerations, so that viewers show
 * names.
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

/* What every such text ends with: the layout of packets and events. To be freed, or NULL. */
char *ctf_metadata_layout(void);

/*
 * Recognise a metadata text and find the trace's identity in it. -EINVAL and a text that says why
 * if it is not of a trace that this program can read: another tracer's, another version's, damaged.
 */
int ctf_metadata_parse(const void *text, size_t size, struct ctf_identity *identity,
		       struct error *err);

#endif
