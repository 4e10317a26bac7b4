/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_KMEMTRACE_KMEMTRACE_H
#define SONDE_FORMATS_KMEMTRACE_KMEMTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/event/kmem.h"
#include "formats/trace/decoder.h"
#include "formats/trace/encoder.h"

/*
 * Traces as a kmemtrace kernel of 2008 gives them: a file of records per vCPU, `abi_version` and
 * `total_overruns`. Beside them stands `caches<n>`: a little-endian u16 cache id for each record.
 */
extern const struct encoder_ops kmemtrace_encoder;
extern const struct decoder_ops kmemtrace_decoder;

/*
 * The binary record of kmemtrace ABI version 1, as Documentation/ABI/testing/debugfs-kmemtrace and
 * struct kmemtrace_event of the 2008 patch define it: packed, 56 bytes, in the byte order of the
 * machine that wrote it. A record may be longer: readers skip the bytes they do not know.
 */
enum {
	KMEMTRACE_ABI_VERSION = 1,
	KMEMTRACE_RECORD_SIZE = 56,
	KMEMTRACE_HEADER_SIZE = 4, /* the bytes of a record that hold its size */
};

/* Encode one record, little-endian. record->cache is not part of the ABI and not written. */
void kmemtrace_encode(const struct kmem_record *record, uint8_t out[KMEMTRACE_RECORD_SIZE]);

/*
 * Find a stream's byte order from its first record's header. It is the order in which the size
 * is possible and, if both are, smaller. Sets *swap to whether the stream is big-endian. Returns
 * false if the size is below 56 in both orders.
 */
bool kmemtrace_detect_order(const uint8_t header[KMEMTRACE_HEADER_SIZE], bool *swap);

/* Size in bytes that a record's header announces. Below 56 it is impossible. */
uint16_t kmemtrace_size(const uint8_t header[KMEMTRACE_HEADER_SIZE], bool swap);

/* Decode the first 56 bytes of a record. The ids are not checked; record->cache is 0. */
void kmemtrace_decode(const uint8_t in[KMEMTRACE_RECORD_SIZE], bool swap,
		      struct kmem_record *record);

#endif
