/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/ctf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/event/kmem.h"

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
	const struct trace_info *info = &m->sidecar->info;

	begin_enum(out, "call_site", CTF_SITE_BITS);
	for (size_t i = 0; i < m->nr_sites; i++)
		put_enumerator(out, sidecar_symbol_text(m->sidecar, m->sites[i]).s, i + 1);
	end_enum(out);
	begin_enum(out, "gfp_flags", CTF_GFP_BITS);
	for (size_t i = 0; i < m->nr_gfps; i++) {
		char label[TEXT_MAX];

		gfp_flags_text(info->gfp_names, info->nr_gfp_names, m->gfps[i], label,
			       sizeof(label));
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

/* --- recognising it -------------------------------------------------------------------------- */

/*
 * This is no TSDL parser. The layout of packets and events has to be, to the letter, the one
 * that this program writes. The few things that differ stand in a line each, as they are written
 * above. Strings in the text have no line breaks, so that none can pass for such a line.
 */
enum { LINE_MAX = 160 };

/*
 * The value of the first line "<key> = <value>;", without quotes. Returns false if there is none
 * or it is too long.
 */
static bool find_value(const char *text, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *end;

		line += strspn(line, "\n\t ");
		if (strncmp(line, key, length) || strncmp(line + length, " = ", 3))
			continue;
		line += length + 3;
		line += *line == '"';
		end = line + strcspn(line, "\";\n");
		if ((size_t)(end - line) >= size)
			return false;
		memcpy(value, line, (size_t)(end - line));
		value[end - line] = '\0';
		return true;
	}
	return false;
}

static bool parse_uuid(const char *text, uint8_t uuid[CTF_UUID_SIZE])
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t n = 0;

	if (strlen(text) != strlen(form))
		return false;
	for (size_t i = 0; form[i]; i++) {
		char digits[3] = {text[i], form[i] == 'x' ? text[i + 1] : '\0'};

		if (form[i] == '-' && text[i] != '-')
			return false;
		if (form[i] == '-')
			continue;
		if (strspn(digits, "0123456789abcdefABCDEF") != 2)
			return false;
		uuid[n++] = (uint8_t)strtoul(digits, NULL, 16);
		i++;
	}
	return true;
}

static int refuse(struct error *err, const char *why)
{
	return error_set(err, EINVAL, "%s: %s", CTF_METADATA_NAME, why);
}

static int check_tracer(const char *text, struct error *err)
{
	char value[LINE_MAX], name[LINE_MAX];

	if (!find_value(text, "tracer_name", value, sizeof(value)))
		return refuse(err,
			      "names no tracer, so sonde did not write it; babeltrace2 reads it");
	clean_text(name, sizeof(name), value);
	if (strcmp(name, "sonde"))
		return error_set(err, EINVAL,
				 "%s: a CTF trace of '%s', not of sonde; babeltrace2 reads it",
				 CTF_METADATA_NAME, name);
	if (!find_value(text, "sonde_format", value, sizeof(value)))
		return refuse(err, "has no sonde_format");
	if (strtol(value, NULL, 10) != CTF_VERSION) {
		clean_text(name, sizeof(name), value);
		return error_set(err, EINVAL, "%s: sonde_format %s; this program reads %d",
				 CTF_METADATA_NAME, name, CTF_VERSION);
	}
	return 0;
}

static int check_layout(const char *text, struct error *err)
{
	char *layout = make_text(NULL);
	size_t size = layout ? strlen(layout) : 0, text_size = strlen(text);
	bool same = layout && text_size >= size && !strcmp(text + text_size - size, layout);

	if (!layout)
		return error_set(err, ENOMEM, "out of memory");
	free(layout);
	return same ? 0 : refuse(err, "damaged, or changed: it does not describe sonde's events");
}

static int parse_text(const char *text, struct ctf_identity *identity, struct error *err)
{
	static const uint8_t packets[2][4] = {{0x57, 0x1d, 0xd1, 0x75}, {0x75, 0xd1, 0x1d, 0x57}};
	char value[LINE_MAX];
	int ret;

	if (!memcmp(text, packets[0], 4) || !memcmp(text, packets[1], 4))
		return refuse(err,
			      "is in packets, so sonde did not write it; babeltrace2 reads it");
	if (strncmp(text, "/* CTF 1.8", strlen("/* CTF 1.8")))
		return refuse(err, "does not begin with /* CTF 1.8");
	ret = check_tracer(text, err);
	if (ret)
		return ret;
	if (!find_value(text, "uuid", value, sizeof(value)) || !parse_uuid(value, identity->uuid))
		return refuse(err, "has no valid uuid");
	if (!find_value(text, "byte_order", value, sizeof(value)) ||
	    (strcmp(value, "le") && strcmp(value, "be")))
		return refuse(err, "has no valid byte_order");
	identity->big_endian = !strcmp(value, "be");
	return check_layout(text, err);
}

int ctf_metadata_parse(const void *text, size_t size, struct ctf_identity *identity,
		       struct error *err)
{
	char *copy = calloc(1, size + 4);
	int ret;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(copy, text, size);
	ret = parse_text(copy, identity, err);
	free(copy);
	return ret;
}