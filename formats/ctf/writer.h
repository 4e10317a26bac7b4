/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_WRITER_H
#define SONDE_FORMATS_CTF_WRITER_H

#include "formats/ctf/dictionary.h"
#include "formats/ctf/packet.h"
#include "formats/trace/encoder.h"

/*
 * One vCPU's file of a CTF trace. Records are gathered into packets of at most 64 KiB, which are
 * written whole, each as long as its content. What ids stand for is defined in the stream, before
 * the first event that uses them: a stream that was cut off explains all that is left of it.
 */
enum { CTF_PACKET_MAX = 64 << 10 };

/* What the streams of a trace share. */
struct ctf_trace {
	int dir_fd;
	struct ctf_identity identity;
	struct ctf_dictionary sites, gfps;
	struct cache_table *caches;
};

/* Create the file, which must not exist; `trace` must outlive the stream. Returns 0 or -errno. */
int ctf_writer_create(struct ctf_trace *trace, unsigned int vcpu, struct stream_writer **out);

/* The text of `metadata` with the ids that are in use now, to be freed by the caller; NULL if there
 * is no memory. */
char *ctf_trace_metadata(struct ctf_trace *trace, const struct sidecar *sidecar);

#endif
