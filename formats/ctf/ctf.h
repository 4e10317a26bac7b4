/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_CTF_H
#define SONDE_FORMATS_CTF_CTF_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/ctf/codec.h"
#include "formats/ctf/plan.h"
#include "formats/ctf/values.h"
#include "formats/trace/decoder.h"
#include "formats/trace/encoder.h"

/*
 * Traces in the Common Trace Format 1.8 (https://diamon.org/ctf/, specification 1.8.3): a file
 * `metadata` that describes them, and a file of packets for each instance and vCPU. sonde-trace(5)
 * describes the format for users.
 *
 * A packet explains itself: it ends with tables of what the ids in it stand for, and has a
 * checksum. What is wrong with one packet costs no other.
 */
extern const struct encoder_ops ctf_encoder;
extern const struct decoder_ops ctf_decoder;

/* Traces in format version 2, which sonde 0.1 wrote. */
extern const struct decoder_ops ctf_v2_decoder;

enum { CTF_VERSION = 3 }; /* "sonde_format" in the metadata; every change raises it */

/*
 * As ctf_encoder.create, for a trace with a given identity, for instance of the other byte
 * order.
 */
int ctf_encoder_create(const struct encoder_input *input, const struct ctf_identity *identity,
		       struct trace_encoder **out);

/*
 * The file `metadata`: the trace's description in TSDL (CTF specification 1.8.3, section 7), as
 * plain text, for other readers. Ids of call sites, caches, GFP flags and strings that are known so
 * far become enumerations, so that viewers show names. Fields of tasks in front of an event's
 * others are its context, by LTTng's names. The classes stand there once more, as JSON in a
 * comment: that is what ctf_metadata_parse() reads. The last line is the CRC-32C of all before it.
 */
#define CTF_METADATA_NAME "metadata"
/* The same without names of ids, for a reader that finds `metadata` damaged or missing: a flipped
 * bit there would else cost the whole trace. Traces of before have none. */
#define CTF_METADATA_COPY_NAME ".sonde.metadata"
enum { CTF_METADATA_MAX = 64 << 20 }; /* bytes: readers take no more */

struct ctf_instance_ids {
	const struct trace_instance *about;
	const char *suffix; /* of its files' names, behind "cpu0" */
	const struct ctf_plan *plan;
	struct ctf_value *code, *flags, *strings; /* element i has id i + 1 */
	size_t nr_code, nr_flags, nr_strings;
};

struct ctf_metadata {
	struct ctf_identity identity;
	const struct sidecar *sidecar; /* its info, caches and symbols are used */
	const struct ctf_instance_ids *instances;
	size_t nr_instances;
};

/* The text, to be freed, NUL-terminated; NULL without memory, or if it would have more than
 * CTF_METADATA_MAX bytes. */
char *ctf_metadata_text(const struct ctf_metadata *metadata);

/* What is read out of it. */
struct ctf_described {
	struct ctf_identity identity;
	struct trace_instance *instances; /* owned, with all that they point at */
	size_t nr_instances;
	bool damaged; /* the text's checksum is wrong */
};

/*
 * Returns 0 and what the text describes; 1 for a trace of sonde in format version 2; -EINVAL and
 * the reason for one that this program cannot read: of another tracer or another version, or
 * damaged.
 */
int ctf_metadata_parse(const void *text, size_t size, struct ctf_described *out, struct error *err);
void ctf_described_deinit(struct ctf_described *described);

/* What versions 2 and 3 have in common. The text is NUL-terminated. */
int ctf_metadata_version(const char *text, long *version, struct error *err);
int ctf_metadata_identity(const char *text, struct ctf_identity *identity, struct error *err);
int ctf_metadata_refuse(struct error *err, const char *why);

#endif
