/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/ftrace-format.h"

#include <inttypes.h>
#include <string.h>
#include "formats/export/file.h"

/* Caches that a format names; readers search the list for each event. */
enum { MAX_CACHES = 4096, WORD_BYTES = 4 };

const char ftrace_header_page[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

const char ftrace_header_event[] = "# compressed entry header\n"
				   "\ttype_len    :    5 bits\n"
				   "\ttime_delta  :   27 bits\n"
				   "\tarray       :   32 bits\n"
				   "\n"
				   "\tpadding     : type == 29\n"
				   "\ttime_extend : type == 30\n"
				   "\ttime_stamp : type == 31\n"
				   "\tdata max type_len  == 28\n";

/* A text of foreign origin: what is not printable, or among `forbidden`, becomes '?'. */
static struct text without(const char *text, const char *forbidden)
{
	struct text out;

	clean_text(out.s, sizeof(out.s), text);
	for (char *at = out.s; *at; at++)
		if (strchr(forbidden, *at))
			*at = '?';
	return out;
}

/* --- records --------------------------------------------------------------------------------- */

/* Readers do not extend the sign of less than 4 bytes. */
static uint8_t stored_size(const struct event_field *field)
{
	if (field->type == EVENT_LONG_STRING)
		return WORD_BYTES; /* where it is, behind the fields */
	return field->type == EVENT_INT && field->size < WORD_BYTES ? WORD_BYTES : field->size;
}

void ftrace_class_init(struct ftrace_class *layout, const struct event_class *class, uint16_t id)
{
	unsigned int end = FTRACE_COMMON_BYTES;

	*layout = (struct ftrace_class){.class = class, .id = id};
	for (size_t i = 0; i < class->nr_fields; i++) {
		const struct event_field *field = &class->fields[i];
		uint8_t size = stored_size(field);
		unsigned int align = field->type == EVENT_STRING ? 1 : size;

		end = (end + align - 1) / align * align;
		layout->fields[i] = (struct ftrace_field){field, (uint16_t)end, size};
		end += size;
		layout->has_functions |= field->type == EVENT_FUNCTION;
		if (event_field_is_own(field, "pid") && field->type == EVENT_UINT)
			layout->pid = field;
		if (event_field_is_own(field, "comm") && field->type == EVENT_STRING)
			layout->comm = field;
	}
	layout->size = (uint16_t)((end + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES);
}

int32_t ftrace_pid(const struct ftrace_class *layout, const void *bytes)
{
	return layout->pid ? (int32_t)event_field_value(layout->pid, bytes) : FTRACE_NO_PID;
}

/* Appends it to the record, which has `size` bytes; returns how many then. */
static uint32_t put_string(const struct ftrace_field *f, const void *bytes, uint8_t *out,
			   uint32_t size)
{
	char *const text = (char *)out + size;
	uint32_t length;

	event_field_shown(f->field, bytes, text);
	length = (uint32_t)strlen(text) + 1;
	put_le32(out + f->at, length << 16 | size);
	return size + length;
}

static void put_field(const struct ftrace_field *f, const void *bytes, uint8_t *at)
{
	char text[EVENT_STRING_MAX + 1] = "";
	uint64_t value;

	if (f->field->type == EVENT_STRING) {
		event_field_text(f->field, bytes, text);
		memcpy(at, text, f->size);
		return;
	}
	value = event_field_value(f->field, bytes);
	switch (f->size) {
	case sizeof(uint8_t):
		*at = (uint8_t)value;
		break;
	case sizeof(uint16_t):
		put_le16(at, (uint16_t)value);
		break;
	case sizeof(uint32_t):
		put_le32(at, (uint32_t)value);
		break;
	default:
		put_le64(at, value);
	}
}

uint32_t ftrace_put_record(const struct ftrace_class *layout, const void *bytes,
			   uint8_t out[FTRACE_RECORD_MAX])
{
	const size_t nr_fields = layout->class->nr_fields;
	uint32_t size = layout->size;

	memset(out, 0, size);
	put_le16(out, layout->id);
	put_le32(out + 4, (uint32_t)ftrace_pid(layout, bytes));
	for (size_t i = 0; i < nr_fields; i++) {
		if (layout->fields[i].field->type == EVENT_LONG_STRING)
			size = put_string(&layout->fields[i], bytes, out, size);
		else
			put_field(&layout->fields[i], bytes, out + layout->fields[i].at);
	}
	for (; size % WORD_BYTES; size++)
		out[size] = 0;
	return size;
}

/* --- formats --------------------------------------------------------------------------------- */

static void print_common(struct export_file *out)
{
	export_text(out,
		    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n");
}

static void print_field(struct export_file *out, const struct ftrace_field *f)
{
	const bool is_signed = f->field->type == EVENT_INT;

	if (f->field->type == EVENT_LONG_STRING)
		export_printf(out,
			      "\tfield:__data_loc char[] %s;\toffset:%u;\tsize:%u;\tsigned:1;\n",
			      f->field->name, f->at, f->size);
	else if (f->field->type == EVENT_STRING)
		export_printf(out, "\tfield:char %s[%u];\toffset:%u;\tsize:%u;\tsigned:1;\n",
			      f->field->name, f->size, f->at, f->size);
	else
		export_printf(out, "\tfield:%c%u %s;\toffset:%u;\tsize:%u;\tsigned:%d;\n",
			      is_signed ? 's' : 'u', 8 * f->size, f->field->name, f->at, f->size,
			      is_signed);
}

static bool names_flags(const struct sidecar *sidecar)
{
	return sidecar && sidecar->info.nr_gfp_names;
}

static const char *conversion(const struct ftrace_field *f, const struct sidecar *sidecar)
{
	const bool is_long = f->size > WORD_BYTES;

	switch (f->field->type) {
	case EVENT_CODE:
	case EVENT_STACK:
		return "%pS";
	case EVENT_FUNCTION:
		return "%ps";
	case EVENT_DICTIONARY:
	case EVENT_STRING:
	case EVENT_LONG_STRING:
		return "%s";
	case EVENT_FLAGS:
		return names_flags(sidecar) ? "%s" : "0x%llx";
	case EVENT_HEX:
	case EVENT_POINTER:
		return is_long ? "0x%llx" : "0x%x";
	case EVENT_INT:
		return is_long ? "%lld" : "%d";
	default:
		return is_long ? "%llu" : "%u";
	}
}

static void print_caches(struct export_file *out, const char *field, const struct sidecar *sidecar)
{
	const size_t n = sidecar ? sidecar->nr_caches : 0;

	export_printf(out, "__print_symbolic(REC->%s, { 0, \"-\" }", field);
	for (size_t i = 0; i < n && i < MAX_CACHES; i++)
		export_printf(out, ", { %u, \"%s\" }", sidecar->caches[i].id,
			      without(sidecar->caches[i].name, "\"\\").s);
	export_text(out, ")");
}

static void print_flags(struct export_file *out, const char *field, const struct trace_info *info)
{
	const char *separator = "";

	export_printf(out, "(REC->%s) ? __print_flags(REC->%s, \"|\", ", field, field);
	for (size_t i = 0; i < info->nr_gfp_names; i++) {
		if (!info->gfp_names[i].mask)
			continue;
		export_printf(out, "%s{ 0x%" PRIx64 ", \"%s\" }", separator,
			      info->gfp_names[i].mask, without(info->gfp_names[i].name, "\"\\").s);
		separator = ", ";
	}
	export_text(out, ") : \"none\"");
}

static void print_argument(struct export_file *out, const struct ftrace_field *f,
			   const struct sidecar *sidecar)
{
	const char *name = f->field->name;

	if (f->field->type == EVENT_DICTIONARY)
		print_caches(out, name, sidecar);
	else if (f->field->type == EVENT_FLAGS && names_flags(sidecar))
		print_flags(out, name, &sidecar->info);
	else if (f->field->type == EVENT_LONG_STRING)
		export_printf(out, "__get_str(%s)", name);
	else
		export_printf(out, "%sREC->%s", event_field_is_code(f->field) ? "(void *)" : "",
			      name);
}

void ftrace_print_format(struct export_file *out, const struct ftrace_class *layout,
			 const struct sidecar *sidecar)
{
	const size_t n = layout->class->nr_fields;

	export_printf(out, "name: %s\nID: %u\nformat:\n", layout->class->name, layout->id);
	print_common(out);
	for (size_t i = 0; i < n; i++)
		print_field(out, &layout->fields[i]);
	export_text(out, "\nprint fmt: \"");
	for (size_t i = 0; i < n; i++)
		export_printf(out, "%s%s=%s", i ? " " : "", layout->class->fields[i].name,
			      conversion(&layout->fields[i], sidecar));
	export_text(out, "\"");
	for (size_t i = 0; i < n; i++) {
		export_text(out, ", ");
		print_argument(out, &layout->fields[i], sidecar);
	}
	export_text(out, "\n");
}

/* --- symbols --------------------------------------------------------------------------------- */

/* Sidecars have "function [module]", kallsyms has a tab between them. Readers skip names with '$'.
 */
static void print_symbol(struct export_file *out, uint64_t start, const char *name)
{
	const char *module = strstr(name, " [");
	struct text function;

	snprintf(function.s, sizeof(function.s), "%.*s",
		 module ? (int)(module - name) : (int)strlen(name), name);
	function = without(function.s, " ");
	if (function.s[0] == '$' || !function.s[0])
		export_printf(out, "%016" PRIx64 " t _%s", start, function.s);
	else
		export_printf(out, "%016" PRIx64 " t %s", start, function.s);
	if (module)
		export_printf(out, "\t%s", without(module + 1, " ").s);
	export_text(out, "\n");
}

void ftrace_print_address(struct export_file *out, uint64_t address)
{
	export_printf(out, "%016" PRIx64 " t 0x%" PRIx64 "\n", address, address);
}

static uint64_t end_of(const struct sidecar_symbol *symbol)
{
	uint64_t end;

	if (symbol->size && !__builtin_add_overflow(symbol->start, symbol->size, &end))
		return end;
	return symbol->address == UINT64_MAX ? UINT64_MAX : symbol->address + 1;
}

void ftrace_print_kallsyms(struct export_file *out, const struct sidecar *sidecar)
{
	const size_t n = sidecar ? sidecar->nr_symbols : 0;

	for (size_t i = 0; i < n; i++) {
		const struct sidecar_symbol *symbol = &sidecar->symbols[i];
		uint64_t end = end_of(symbol);

		print_symbol(out, symbol->start, symbol->name);
		if (i + 1 == n || sidecar->symbols[i + 1].start > end)
			ftrace_print_address(out, end);
	}
}
