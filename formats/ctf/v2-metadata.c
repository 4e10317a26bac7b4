/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include "formats/base/text.h"
#include "formats/ctf/v2.h"

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

static void put_field(FILE *out, const struct v2_field *field)
{
	bool is_signed = field->display == V2_SIGNED || field->display == V2_SIGNED_HEX;
	bool is_hex = field->display == V2_HEX || field->display == V2_SIGNED_HEX;

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
	for (unsigned int id = 0; id < V2_NR_EVENTS; id++) {
		const struct v2_event_class *class = &v2_event_classes[id];

		fprintf(out,
			"event {\n"
			"\tname = \"%s\";\n"
			"\tid = %u;\n"
			"\tstream_id = 0;\n"
			"\tfields := struct {\n",
			class->name, id);
		for (const struct v2_field *field = class->fields; field->name; field++)
			put_field(out, field);
		fputs("\t};\n};\n\n", out);
	}
}

char *v2_layout_text(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	put_stream(out);
	put_events(out);
	if (text_stream_close(out)) {
		free(text);
		return NULL;
	}
	return text;
}
