/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An instance in TSDL: its enumerations, its stream and its events. */
#include <inttypes.h>
#include <string.h>
#include "formats/ctf/internal.h"
#include "formats/event/kmem.h"

enum { TEXT_MAX = 512 };

/* --- enumerations: names for the ids that are known so far ------------------------------------ */

static void begin_enum(FILE *out, const char *name, unsigned int number, unsigned int bits)
{
	fprintf(out,
		"enum %s%u_%u : integer { size = %u; align = 1; signed = false; } {\n"
		"\t\"none\" = 0",
		name, bits, number, bits);
}

static void put_enumerator(FILE *out, const char *label, uint64_t value)
{
	fputs(",\n\t", out);
	ctf_metadata_put_string(out, label);
	fprintf(out, " = %" PRIu64, value);
}

typedef struct text code_text_fn(const struct sidecar *sidecar, uint64_t address);

static void put_addresses(FILE *out, const struct ctf_metadata *m, unsigned int number,
			  unsigned int bits, code_text_fn *text)
{
	const struct ctf_instance_ids *ids = &m->instances[number];

	for (size_t i = 0; i < ids->nr_code && i + 1 < UINT64_C(1) << bits; i++)
		put_enumerator(out, text(m->sidecar, ids->code[i].word[0]).s, i + 1);
	fputs("\n};\n\n", out);
}

static void put_code(FILE *out, const struct ctf_metadata *m, unsigned int number,
		     unsigned int bits)
{
	begin_enum(out, "code", number, bits);
	put_addresses(out, m, number, bits, sidecar_symbol_text);
}

static void put_functions(FILE *out, const struct ctf_metadata *m, unsigned int number,
			  unsigned int bits)
{
	begin_enum(out, "function", number, bits);
	put_addresses(out, m, number, bits, sidecar_function_text);
}

static void put_flags(FILE *out, const struct ctf_metadata *m, unsigned int number,
		      unsigned int bits)
{
	const struct ctf_instance_ids *ids = &m->instances[number];
	const struct trace_info *info = &m->sidecar->info;

	begin_enum(out, "flags", number, bits);
	for (size_t i = 0; i < ids->nr_flags && i + 1 < UINT64_C(1) << bits; i++) {
		char label[TEXT_MAX];

		gfp_flags_text(info->gfp_names, info->nr_gfp_names, ids->flags[i].word[0], label,
			       sizeof(label));
		put_enumerator(out, label, i + 1);
	}
	fputs("\n};\n\n", out);
}

static void put_strings(FILE *out, const struct ctf_metadata *m, unsigned int number,
			unsigned int bits)
{
	const struct ctf_instance_ids *ids = &m->instances[number];

	begin_enum(out, "string", number, bits);
	for (size_t i = 0; i < ids->nr_strings && i + 1 < UINT64_C(1) << bits; i++) {
		char label[EVENT_STRING_MAX + 1] = "";

		memcpy(label, ids->strings[i].word, EVENT_STRING_MAX);
		put_enumerator(out, label, i + 1);
	}
	fputs("\n};\n\n", out);
}

static void put_caches(FILE *out, const struct ctf_metadata *m, unsigned int number,
		       unsigned int bits)
{
	const struct sidecar *sidecar = m->sidecar;

	begin_enum(out, "cache", number, bits);
	for (size_t i = 0; i < sidecar->nr_caches; i++)
		if (sidecar->caches[i].id < UINT64_C(1) << bits)
			put_enumerator(out, sidecar->caches[i].name, sidecar->caches[i].id);
	fputs("\n};\n\n", out);
}

struct enumeration {
	enum event_field_type type;
	enum ctf_op op;
	const char *name;
	void (*put)(FILE *out, const struct ctf_metadata *m, unsigned int number,
		    unsigned int bits);
};

static const struct enumeration enumerations[] = {
	{EVENT_CODE, CTF_CODE, "code", put_code},
	{EVENT_FUNCTION, CTF_CODE, "function", put_functions},
	{EVENT_FLAGS, CTF_FLAGS, "flags", put_flags},
	{EVENT_DICTIONARY, CTF_CACHE, "cache", put_caches},
	{EVENT_STRING, CTF_STRING, "string", put_strings},
};

enum { NR_ENUMERATIONS = sizeof(enumerations) / sizeof(enumerations[0]), ID_BITS = 16 };

static bool is_of(const struct enumeration *e, const struct ctf_form *form,
		  const struct ctf_step *step)
{
	return e->type == form->class->fields[step->field].type && e->op == step->op;
}

static const char *enumeration_of(const struct ctf_form *form, const struct ctf_step *step)
{
	for (size_t i = 0; i < NR_ENUMERATIONS; i++) {
		if (is_of(&enumerations[i], form, step) && step->bits && step->bits <= ID_BITS)
			return enumerations[i].name;
	}
	return NULL;
}

/* Each width that an id has in the instance's events is an enumeration of its own. */
static void put_enumerations(FILE *out, const struct ctf_metadata *m, unsigned int number)
{
	const struct ctf_plan *plan = m->instances[number].plan;
	bool used[NR_ENUMERATIONS][ID_BITS + 1] = {{false}};

	for (size_t f = 0; f < plan->nr_forms; f++) {
		for (size_t s = 0; s < plan->forms[f].nr_steps; s++) {
			const struct ctf_step *step = &plan->forms[f].steps[s];

			for (size_t i = 0; i < NR_ENUMERATIONS; i++)
				if (is_of(&enumerations[i], &plan->forms[f], step) &&
				    step->bits <= ID_BITS)
					used[i][step->bits] = true;
		}
	}
	for (size_t i = 0; i < NR_ENUMERATIONS; i++)
		for (unsigned int bits = 1; bits <= ID_BITS; bits++)
			if (used[i][bits])
				enumerations[i].put(out, m, number, bits);
}

/* --- contexts: what other readers look for in there by LTTng's names ----------------------------
 */

static const struct context {
	const char *field;
	enum event_field_type type;
	const char *name; /* readers leave out the first underscore */
} contexts[] = {
	{"pid", EVENT_UINT, "_tid"},
	{"tgid", EVENT_UINT, "_pid"},
	{"comm", EVENT_STRING, "_procname"},
	{"cgroup", EVENT_UINT, "_cgroup"},
};

static const struct context *context_of(const struct event_field *field)
{
	for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++)
		if (field->type == contexts[i].type && event_field_is_own(field, contexts[i].field))
			return &contexts[i];
	return NULL;
}

/* Fields that begin at a byte: what has such fields begins at one, too. */
static bool has_aligned(const struct ctf_form *form)
{
	bool aligned = form->nr_texts;

	for (size_t i = 0; i < form->nr_steps; i++)
		aligned |= form->steps[i].op == CTF_BYTES;
	return aligned;
}

/* How many steps in front are of such fields: a context lies in front of an event's own fields. */
static size_t count_contexts(const struct ctf_form *form)
{
	unsigned int bits = 0;
	size_t n = 0;

	while (n < form->nr_steps && context_of(&form->class->fields[form->steps[n].field]))
		bits += form->steps[n++].bits;
	if (n == form->nr_steps + form->nr_texts || (has_aligned(form) && bits % 8))
		return 0;
	return n;
}

/* --- the stream and its events ---------------------------------------------------------------- */

static void put_stream(FILE *out, unsigned int number)
{
	fprintf(out,
		"stream {\n"
		"\tid = %u;\n"
		"\tevent.header := struct event_header_compact;\n"
		"\tpacket.context := struct {\n"
		"\t\tuint64_clock_t timestamp_begin;\n"
		"\t\tuint64_clock_t timestamp_end;\n"
		"\t\tuint64_t content_size;\n"
		"\t\tuint64_t packet_size;\n"
		"\t\tuint64_t packet_seq_num;\n"
		"\t\tuint64_t events_discarded;\n"
		"\t\tuint32_t cpu_id;\n"
		"\t\tuint32_t tables;\n"
		"\t\tuint32_t crc32c;\n"
		"\t};\n"
		"};\n\n",
		number);
}

static void begin_event(FILE *out, const char *name, unsigned int id, unsigned int number)
{
	fprintf(out,
		"event {\n"
		"\tname = \"%s\";\n"
		"\tid = %u;\n"
		"\tstream_id = %u;\n",
		name, id, number);
}

static void begin_fields(FILE *out)
{
	fputs("\tfields := struct {\n", out);
}

static void end_event(FILE *out)
{
	fputs("\t};\n};\n\n", out);
}

/* Other readers know pages by `order`. Names in an event differ. */
static struct text own_name_of(const struct ctf_form *form, const struct ctf_step *step)
{
	const struct event_class *class = form->class;
	const struct event_field *field = &class->fields[step->field];
	struct text out;
	size_t others = 0;

	for (size_t i = 0; i < class->nr_fields; i++)
		others += &class->fields[i] != field && class->fields[i].type == EVENT_PAGES;
	if (step->op != CTF_PAGES && step->op != CTF_ORDER)
		snprintf(out.s, sizeof(out.s), "%s", field->name);
	else
		snprintf(out.s, sizeof(out.s), "%s%sorder", others ? field->name : "",
			 others ? "_" : "");
	return out;
}

/* Words of TSDL (CTF 1.8.3, appendix C), and the types that put_types() names. */
static const char *const words[] = {
	"align",
	"callsite",
	"char",
	"clock",
	"const",
	"double",
	"enum",
	"env",
	"event",
	"float",
	"int",
	"integer",
	"long",
	"short",
	"signed",
	"stream",
	"floating_point",
	"string",
	"struct",
	"trace",
	"typealias",
	"typedef",
	"unsigned",
	"variant",
	"void",
	"uint5_t",
	"uint16_t",
	"uint32_t",
	"uint64_t",
	"uint27_clock_t",
	"uint64_clock_t",
};

/* Readers leave out the first underscore: so what begins with one needs another, too. */
static bool needs_underscore(const char *name)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(name, words[i]))
			return true;
	return name[0] == '_';
}

static struct text payload_name(const struct ctf_form *form, const struct ctf_step *step)
{
	const struct text own = own_name_of(form, step);
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%.*s", needs_underscore(own.s) ? "_" : "",
		 (int)sizeof(out.s) - 2, own.s);
	return out;
}

static struct text name_of(const struct ctf_form *form, const struct ctf_step *step)
{
	struct text out = payload_name(form, step);

	if (step < form->steps + count_contexts(form))
		snprintf(out.s, sizeof(out.s), "%s",
			 context_of(&form->class->fields[step->field])->name);
	return out;
}

static bool is_hex(const struct ctf_step *step, const struct event_field *field)
{
	bool as_it_is = step->op == CTF_NUMBER || step->op == CTF_SIGNED || step->op == CTF_ADDRESS;

	return as_it_is && (field->type == EVENT_HEX || field->type == EVENT_POINTER ||
			    event_field_is_code(field) || field->type == EVENT_FLAGS);
}

static void put_field(FILE *out, const struct ctf_form *form, const struct ctf_step *step,
		      unsigned int number)
{
	const struct event_field *field = &form->class->fields[step->field];
	const char *enumeration = enumeration_of(form, step);
	bool is_signed = step->op == CTF_SIGNED &&
			 (field->type == EVENT_INT || step->bits < 8 * field->size);

	if (!step->bits)
		return;
	if (step->op == CTF_TEXT)
		fprintf(out, "\t\tstring { encoding = UTF8; } %s;\n", name_of(form, step).s);
	else if (step->op == CTF_BYTES)
		fprintf(out,
			"\t\tinteger { size = 8; align = 8; signed = false; encoding = UTF8; } "
			"%s[%u];\n",
			name_of(form, step).s, field->size);
	else if (step->op == CTF_FRAMES)
		fprintf(out,
			"\t\tinteger { size = 64; align = 1; signed = false; base = 16; } "
			"%s[%u];\n",
			name_of(form, step).s, EVENT_STACK_WORDS);
	else if (enumeration)
		fprintf(out, "\t\tenum %s%u_%u %s;\n", enumeration, step->bits, number,
			name_of(form, step).s);
	else
		fprintf(out, "\t\tinteger { size = %u; align = 1; signed = %s; base = %d; } %s;\n",
			step->bits, is_signed ? "true" : "false", is_hex(step, field) ? 16 : 10,
			name_of(form, step).s);
}

static void put_form(FILE *out, const struct ctf_plan *plan, unsigned int id, unsigned int number)
{
	const struct ctf_form *form = &plan->forms[id];
	const size_t nr_contexts = count_contexts(form);

	begin_event(out, form->class->name, id, number);
	if (nr_contexts)
		fputs("\tcontext := struct {\n", out);
	for (size_t i = 0; i < nr_contexts; i++)
		put_field(out, form, &form->steps[i], number);
	if (nr_contexts)
		fputs("\t};\n", out);
	begin_fields(out);
	for (size_t i = nr_contexts; i < form->nr_steps + form->nr_texts; i++)
		put_field(out, form, &form->steps[i], number);
	end_event(out);
}

static void put_table(FILE *out, const struct ctf_table_layout *table)
{
	fputs("\t\tstruct {\n", out);
	for (const struct ctf_table_field *field = table->fields; field->name; field++) {
		if (field->bytes)
			fprintf(out,
				"\t\t\tinteger { size = %u; align = 8; signed = %s; base = %d; } "
				"%s;\n",
				8u * field->bytes, field->is_signed ? "true" : "false",
				field->is_hex ? 16 : 10, field->name);
		else
			fprintf(out, "\t\t\tstring %s;\n", field->name);
	}
	fprintf(out, "\t\t} %s[nr_%s];\n", table->name, table->name);
}

static void put_tables(FILE *out, const struct ctf_plan *plan, unsigned int number)
{
	const unsigned int nr_tables = ctf_plan_nr_tables(plan);

	begin_event(out, "sonde_tables", ctf_plan_id(plan, CTF_TABLES), number);
	begin_fields(out);
	for (unsigned int i = 0; i < nr_tables; i++)
		fprintf(out, "\t\tuint16_t nr_%s;\n", ctf_tables[i].name);
	for (unsigned int i = 0; i < nr_tables; i++)
		put_table(out, &ctf_tables[i]);
	end_event(out);
}

void ctf_metadata_put_instance(FILE *out, const struct ctf_metadata *metadata, unsigned int number)
{
	const struct ctf_plan *plan = metadata->instances[number].plan;

	put_enumerations(out, metadata, number);
	put_stream(out, number);
	for (unsigned int id = 0; id < plan->nr_forms; id++)
		put_form(out, plan, id, number);
	begin_event(out, "sonde_time", ctf_plan_id(plan, CTF_TIME), number);
	begin_fields(out);
	fputs("\t\tinteger { size = 64; align = 8; signed = true; } timestamp;\n", out);
	end_event(out);
	put_tables(out, plan, number);
}
