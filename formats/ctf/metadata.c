/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/ctf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/base/crc32c.h"
#include "formats/base/json.h"
#include "formats/ctf/internal.h"
#include "formats/event/class-json.h"

enum { TEXT_MAX = 512, NS = 1000000000 };

/* A string literal. Quotes and backslashes, which names do not have, become '?'. */
void ctf_metadata_put_string(FILE *out, const char *text)
{
	char clean[TEXT_MAX];

	clean_text(clean, sizeof(clean), text);
	for (char *c = clean; *c; c++)
		if (*c == '"' || *c == '\\')
			*c = '?';
	fprintf(out, "\"%s\"", clean);
}

static void put_trace(FILE *out, const struct ctf_identity *identity)
{
	const uint8_t *u = identity->uuid;

	fprintf(out,
		"/* CTF 1.8 */\n\n"
		"trace {\n"
		"\tmajor = 1;\n"
		"\tminor = 8;\n"
		"\tuuid = "
		"\"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\";\n"
		"\tbyte_order = %s;\n"
		"\tpacket.header := struct {\n"
		"\t\tinteger { size = 32; align = 8; signed = false; base = 16; } magic;\n"
		"\t\tinteger { size = 8; align = 8; signed = false; base = 16; } uuid[16];\n"
		"\t\tinteger { size = 32; align = 8; signed = false; } stream_id;\n"
		"\t};\n"
		"};\n\n",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		u[13], u[14], u[15], identity->big_endian ? "be" : "le");
}

static void put_env_string(FILE *out, const char *key, const char *value)
{
	fprintf(out, "\t%s = ", key);
	ctf_metadata_put_string(out, value);
	fputs(";\n", out);
}

/* Viewers recognise a trace of a Linux kernel by "domain". */
static void put_env(FILE *out, const struct trace_info *info)
{
	unsigned int version[3] = {0};

	sscanf(info->tool_version, "%u.%u.%u", &version[0], &version[1], &version[2]);
	fprintf(out,
		"env {\n"
		"\ttracer_name = \"sonde\";\n"
		"\tsonde_format = %d;\n"
		"\ttracer_major = %u;\n"
		"\ttracer_minor = %u;\n"
		"\ttracer_patchlevel = %u;\n"
		"\tdomain = \"kernel\";\n"
		"\tsysname = \"Linux\";\n",
		CTF_VERSION, version[0], version[1], version[2]);
	put_env_string(out, "kernel_banner", info->banner);
	put_env_string(out, "kernel_build_id", info->build_id);
	put_env_string(out, "tracing_mode", info->mode);
	put_env_string(out, "tracers", info->tracers);
	fputs("};\n\n", out);
}

/* Whether the relation of the trace clock to the wall clock is known and fits into the format. */
static bool has_origin(const struct trace_info *info)
{
	return info->started_ns >= 0 && info->started_realtime_ns > info->started_ns &&
	       info->started_realtime_ns - info->started_ns <= INT64_MAX - CTF_CLOCK_MAX;
}

static void put_clock(FILE *out, const struct trace_info *info)
{
	int64_t offset = has_origin(info) ? info->started_realtime_ns - info->started_ns : 0;

	fputs("clock {\n\tname = guest;\n", out);
	put_env_string(out, "description", info->clock[0] ? info->clock : "guest");
	fprintf(out,
		"\tfreq = %d;\n"
		"\toffset_s = %" PRId64 ";\n"
		"\toffset = %" PRId64 ";\n"
		"\tabsolute = %s;\n"
		"};\n\n",
		NS, offset / NS, offset % NS, has_origin(info) ? "true" : "false");
}

static void put_types(FILE *out)
{
	fputs("typealias integer { size = 27; align = 1; signed = false; map = clock.guest.value; }"
	      " := uint27_clock_t;\n"
	      "typealias integer { size = 64; align = 8; signed = false; map = clock.guest.value; }"
	      " := uint64_clock_t;\n"
	      "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
	      "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
	      "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
	      "typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n\n"
	      "struct event_header_compact {\n"
	      "\tenum : uint5_t { compact = 0 ... 30, extended = 31 } id;\n"
	      "\tvariant <id> {\n"
	      "\t\tstruct {\n"
	      "\t\t\tuint27_clock_t timestamp;\n"
	      "\t\t} compact;\n"
	      "\t\tstruct {\n"
	      "\t\t\tuint32_t id;\n"
	      "\t\t\tuint64_clock_t timestamp;\n"
	      "\t\t} extended;\n"
	      "\t} v;\n"
	      "} align(8);\n\n",
	      out);
}

/* The classes, for ourselves. */
static json_t *instance_json(const struct ctf_instance_ids *ids)
{
	json_t *classes = json_array();
	int failed = 0;

	for (size_t i = 0; i < ids->about->nr_classes; i++)
		failed |= json_array_append_new(classes,
						event_class_to_json(&ids->about->classes[i]));
	if (failed) {
		json_decref(classes);
		return NULL;
	}
	return json_pack("{so so so so}", "name", json_from_text(ids->about->name), "spec",
			 json_from_text(ids->about->spec), "suffix", json_from_text(ids->suffix),
			 "classes", classes);
}

/* Slashes are escaped, so that nothing in it ends the comment. */
static bool put_block(FILE *out, const struct ctf_metadata *metadata)
{
	json_t *instances = json_array(), *root;
	int failed = 0;
	char *text;

	for (size_t i = 0; i < metadata->nr_instances; i++)
		failed |= json_array_append_new(instances, instance_json(&metadata->instances[i]));
	root = json_pack("{so}", "instances", instances);
	text = root && !failed ? json_dumps(root, JSON_ESCAPE_SLASH | JSON_ENSURE_ASCII) : NULL;
	json_decref(root);
	if (text)
		fprintf(out, CTF_BLOCK_BEGIN "%s" CTF_BLOCK_END "\n", text);
	free(text);
	return text;
}

enum { MOST_BYTES = CTF_METADATA_MAX - sizeof(CTF_CRC_BEGIN "01234567" CTF_CRC_END) };

/* The text without its last line. */
static char *make_text(const struct ctf_metadata *metadata, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);
	bool failed;

	if (!out)
		return NULL;
	put_trace(out, &metadata->identity);
	put_env(out, &metadata->sidecar->info);
	put_clock(out, &metadata->sidecar->info);
	put_types(out);
	for (unsigned int i = 0; i < metadata->nr_instances && ftell(out) <= MOST_BYTES; i++)
		ctf_metadata_put_instance(out, metadata, i);
	failed = !put_block(out, metadata) || ftell(out) > MOST_BYTES;
	if (text_stream_close(out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

char *ctf_metadata_text(const struct ctf_metadata *metadata)
{
	size_t size;
	char *text = make_text(metadata, &size), *whole = NULL;

	if (text && asprintf(&whole, "%s" CTF_CRC_BEGIN "%08x" CTF_CRC_END, text,
			     crc32c(0, text, size)) < 0)
		whole = NULL;
	free(text);
	return whole;
}
