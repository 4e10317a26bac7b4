/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/ctf/ctf.h"
#include "formats/event/gfp-flags.h"
#include "formats/report/trace-text.h"

enum { TEXT_MAX = 512, NS = 1000000000 };

/* A string literal. Quotes and backslashes, which names do not have, become '?'. */
static void put_string(FILE *out, const char *text)
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
	put_string(out, value);
	fputs(";\n", out);
}

/* "domain" is what viewers know a trace of a Linux kernel by. */
static void put_env(FILE *out, const struct trace_info *info)
{
	unsigned int version[3] = {0};

	sscanf(SONDE_VERSION, "%u.%u.%u", &version[0], &version[1], &version[2]);
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

/* Whether it is known how the trace clock relates to the wall clock, and that can be said. */
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

static void put_stream(FILE *out)
{
	fputs("typealias integer { size = 27; align = 1; signed = false; map = clock.guest.value; }"
	      " := uint27_clock_t;\n"
	      "typealias integer { size = 64; align = 8; signed = false; map = clock.guest.value; }"
	      " := uint64_clock_t;\n"
	      "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
	      "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
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
	      "} align(8);\n\n"
	      "stream {\n"
	      "\tid = 0;\n"
	      "\tevent.header := struct event_header_compact;\n"
	      "\tpacket.context := struct {\n"
	      "\t\tuint64_clock_t timestamp_begin;\n"
	      "\t\tuint64_clock_t timestamp_end;\n"
	      "\t\tuint64_t content_size;\n"
	      "\t\tuint64_t packet_size;\n"
	      "\t\tuint64_t packet_seq_num;\n"
	      "\t\tuint64_t events_discarded;\n"
	      "\t\tuint32_t cpu_id;\n"
	      "\t};\n"
	      "};\n\n",
	      out);
}

static void begin_enum(FILE *out, const char *name, unsigned int bits)
{
	fprintf(out,
		"enum %s : integer { size = %u; align = 1; signed = false; } {\n"
		"\t\"none\" = 0",
		name, bits);
}

static void put_enumerator(FILE *out, const char *label, uint64_t value)
{
	fputs(",\n\t", out);
	put_string(out, label);
	fprintf(out, " = %" PRIu64, value);
}

static void end_enum(FILE *out)
{
	fputs("\n};\n\n", out);
}

static void put_caches(FILE *out, const char *name, unsigned int bits,
		       const struct sidecar *sidecar)
{
	begin_enum(out, name, bits);
	for (size_t i = 0; i < sidecar->nr_caches; i++)
		if (sidecar->caches[i].id < 1u << bits)
			put_enumerator(out, sidecar->caches[i].name, sidecar->caches[i].id);
	end_enum(out);
}

static void put_ids(FILE *out, const struct ctf_metadata *m)
{
	begin_enum(out, "call_site", CTF_SITE_BITS);
	for (size_t i = 0; i < m->nr_sites; i++)
		put_enumerator(out, text_symbol(m->sidecar, m->sites[i]).s, i + 1);
	end_enum(out);
	begin_enum(out, "gfp_flags", CTF_GFP_BITS);
	for (size_t i = 0; i < m->nr_gfps; i++) {
		char label[TEXT_MAX];

		gfp_flags_text(&m->sidecar->info, m->gfps[i], label, sizeof(label));
		put_enumerator(out, label, i + 1);
	}
	end_enum(out);
	put_caches(out, "cache", CTF_SMALL_CACHE_BITS, m->sidecar);
	put_caches(out, "cache16", 16, m->sidecar);
	fputs("enum event_id : integer { size = 8; align = 1; signed = false; } "
	      "{ \"null\" = 0, \"alloc\" = 1, \"free\" = 2 };\n"
	      "enum type_id : integer { size = 8; align = 1; signed = false; } "
	      "{ \"kmalloc\" = 0, \"cache\" = 1, \"pages\" = 2 };\n\n",
	      out);
}

static void put_field(FILE *out, const struct ctf_field *field)
{
	bool is_signed = field->display == CTF_SIGNED || field->display == CTF_SIGNED_HEX;
	bool is_hex = field->display == CTF_HEX || field->display == CTF_SIGNED_HEX;

	if (field->enumeration)
		fprintf(out, "\t\tenum %s %s;\n", field->enumeration, field->name);
	else if (!field->bits)
		fprintf(out, "\t\tstring %s;\n", field->name);
	else
		fprintf(out, "\t\tinteger { size = %u; align = 1; signed = %s; base = %d; } %s;\n",
			field->bits, is_signed ? "true" : "false", is_hex ? 16 : 10, field->name);
}

static void put_events(FILE *out)
{
	for (unsigned int id = 0; id < CTF_NR_EVENTS; id++) {
		const struct ctf_event_class *class = &ctf_event_classes[id];

		fprintf(out,
			"event {\n"
			"\tname = \"%s\";\n"
			"\tid = %u;\n"
			"\tstream_id = 0;\n"
			"\tfields := struct {\n",
			class->name, id);
		for (const struct ctf_field *field = class->fields; field->name; field++)
			put_field(out, field);
		fputs("\t};\n};\n\n", out);
	}
}

/* Only the layout, without metadata. */
static char *make_text(const struct ctf_metadata *metadata)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int failed;

	if (!out)
		return NULL;
	if (metadata) {
		put_trace(out, &metadata->identity);
		put_env(out, &metadata->sidecar->info);
		put_clock(out, &metadata->sidecar->info);
		put_ids(out, metadata);
	}
	put_stream(out);
	put_events(out);
	failed = ferror(out);
	if (fclose(out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

char *ctf_metadata_text(const struct ctf_metadata *metadata)
{
	return make_text(metadata);
}

char *ctf_metadata_layout(void)
{
	return make_text(NULL);
}
