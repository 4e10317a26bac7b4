/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_STREAM_H
#define SONDE_FORMATS_CTF_STREAM_H

#include "formats/ctf/packet.h"
#include "formats/event/record-stream.h"
#include "formats/trace/sidecar.h"

/* Told of each cache that a stream defines. Returns 0 or -errno, which ends the reading. */
typedef int ctf_cache_fn(void *arg, const struct sidecar_cache *cache);

/*
 * A stream of a CTF trace of ours (formats/ctf/ctf.h), in whole packets but perhaps for the last
 * one, of which all whole events are read. Returns 0 and the stream, or -ENOMEM.
 */
int ctf_stream_create(unsigned int vcpu, struct byte_source records,
		      const struct ctf_identity *identity, ctf_cache_fn *on_cache, void *arg,
		      struct record_stream **out);

#endif
