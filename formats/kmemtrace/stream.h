/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_KMEMTRACE_STREAM_H
#define SONDE_FORMATS_KMEMTRACE_STREAM_H

#include "formats/event/record-stream.h"

/*
 * A stream of kmemtrace ABI records (formats/kmemtrace/kmemtrace.h). `caches` holds a little-endian
 * u16 cache id per record; where it ends, ids are 0. Returns 0 and the stream, or -ENOMEM.
 */
int kmemtrace_stream_create(unsigned int vcpu, struct byte_source records,
			    struct byte_source caches, struct record_stream **out);

#endif
