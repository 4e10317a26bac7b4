/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of functions in a sidecar, and in the file beside it while a trace is recorded. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/trace/sidecar-internal.h"

enum { MAX_SYMBOLS = 1 << 20 };

/* --- looking up ------------------------------------------------------------------------------ */

static uint64_t symbol_start(const void *symbols, size_t i)
{
	return ((const struct sidecar_symbol *)symbols)[i].start;
}

const struct sidecar_symbol *sidecar_symbol(const struct sidecar *sidecar, uint64_t address)
{
	size_t above =
		sidecar ? search_above(sidecar->nr_symbols, address, symbol_start, sidecar->symbols)
			: 0;
	const struct sidecar_symbol *symbol;

	if (!above)
		return NULL;
	symbol = &sidecar->symbols[above - 1];
	return address == symbol->address || address - symbol->start < symbol->size ? symbol : NULL;
}

static struct text nameless_text(uint64_t address)
{
	struct text out;

	if (address == EVENT_STACK_CUT)
		snprintf(out.s, sizeof(out.s), "[cut]");
	else
		snprintf(out.s, sizeof(out.s), "0x%" PRIx64, address);
	return out;
}

struct text sidecar_symbol_text(const struct sidecar *sidecar, uint64_t address)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, address);
	struct text out;

	if (symbol)
		snprintf(out.s, sizeof(out.s), "%s+0x%" PRIx64 "/0x%" PRIx64, symbol->name,
			 address - symbol->start, symbol->size);
	else
		out = nameless_text(address);
	return out;
}

struct text sidecar_function_text(const struct sidecar *sidecar, uint64_t address)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, address);
	struct text out;

	if (symbol)
		snprintf(out.s, sizeof(out.s), "%s", symbol->name);
	else
		out = nameless_text(address);
	return out;
}

/* A call is before the address that it returns to. What is at the begin of a function is no return
 * address, but the function's own. */
size_t sidecar_call_frames(const struct sidecar *sidecar, uint64_t call_site,
			   struct source_frame *out)
{
	struct source_lines *lines = sidecar ? sidecar->lines : NULL;
	const struct sidecar_symbol *symbol = lines ? sidecar_symbol(sidecar, call_site) : NULL;
	char build_id[2 * sizeof(symbol->build_id.bytes) + 1] = "";
	struct source_code code = {call_site - 1, "", 0, 0, build_id};

	if (!lines)
		return 0;
	if (symbol) {
		code.address = call_site - (symbol->start != call_site);
		code.function = symbol->name;
		code.start = symbol->start;
		code.size = symbol->size;
		hex_encode(build_id, symbol->build_id.bytes, symbol->build_id.size);
	}
	return lines->find(lines, &code, out);
}

struct text sidecar_source_text(const struct sidecar *sidecar, uint64_t call_site)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];

	return source_text(frames, sidecar_call_frames(sidecar, call_site, frames));
}

struct text sidecar_call_text(const struct sidecar *sidecar, uint64_t call_site)
{
	const struct text symbol = sidecar_symbol_text(sidecar, call_site);
	const struct text source = sidecar_source_text(sidecar, call_site);
	struct text out;

	if (!*source.s)
		return symbol;
	snprintf(out.s, sizeof(out.s), "%.200s (%.400s)", symbol.s, source.s);
	return out;
}

int sidecar_put_source(json_t *object, const struct sidecar *sidecar, uint64_t call_site)
{
	struct source_frame frames[SOURCE_MAX_FRAMES];
	const size_t n = sidecar_call_frames(sidecar, call_site, frames);

	return n ? json_object_set_new(object, "source", source_json(frames, n)) : 0;
}

/* --- printing -------------------------------------------------------------------------------- */

static int put_returned(json_t *object, const struct sidecar_returned *returned)
{
	if (!returned->bytes)
		return 0;
	return json_object_set_new(object, "returned", json_from_text(returned->name)) |
	       json_object_set_new(object, "returned_bytes", json_from_count(returned->bytes));
}

static int put_build_id(json_t *object, const struct sidecar_build_id *id)
{
	char text[2 * sizeof(id->bytes) + 1] = "";

	if (!id->size)
		return 0;
	hex_encode(text, id->bytes, id->size);
	return json_object_set_new(object, "build_id", json_from_text(text));
}

static json_t *to_json(const struct sidecar_symbol *symbol)
{
	json_t *object =
		json_pack("{so so so so}", "address", json_from_address(symbol->address), "name",
			  json_from_text(symbol->name), "start", json_from_address(symbol->start),
			  "size", json_from_count(symbol->size));

	if (object && !put_returned(object, &symbol->returned) &&
	    !put_build_id(object, &symbol->build_id))
		return object;
	json_decref(object);
	return NULL;
}

/* As JSON, whose other escapes clean_text() leaves nothing for. */
static size_t escaped_size(const char *text)
{
	size_t n = strlen(text);

	for (; *text; text++)
		n += *text == '"' || *text == '\\';
	return n;
}

size_t sidecar_symbol_bytes(const struct sidecar_symbol *symbol)
{
	static const char rest[] = "{\"address\":\"0x0123456789abcdef\",\"name\":\"\",\"start\":"
				   "\"0x0123456789abcdef\","
				   "\"size\":9223372036854775807,\"returned\":\"\","
				   "\"returned_bytes\":9223372036854775807,\"build_id\":\"\", "
				   "\"crc32c\": \"01234567\"}\n";

	return sizeof(rest) + escaped_size(symbol->name) + escaped_size(symbol->returned.name) +
	       2 * (size_t)symbol->build_id.size;
}

int sidecar_print_symbols(FILE *out, const struct sidecar *sidecar)
{
	int ret = 0;

	putc('[', out);
	for (size_t i = 0; !ret && i < sidecar->nr_symbols; i++) {
		json_t *object = to_json(&sidecar->symbols[i]);

		fputs(i ? ",\n  " : "\n  ", out);
		ret = object && !json_dumpf(object, out, JSON_PRESERVE_ORDER) ? 0 : -ENOMEM;
		json_decref(object);
	}
	fputs(sidecar->nr_symbols ? "\n ]" : "]", out);
	return ret;
}

int sidecar_print_symbol(FILE *out, const struct sidecar_symbol *symbol)
{
	json_t *object = to_json(symbol);
	char *text = json_dump_with_checksum(object, JSON_COMPACT | JSON_PRESERVE_ORDER);

	json_decref(object);
	if (!text)
		return -ENOMEM;
	fputs(text, out);
	putc('\n', out);
	free(text);
	return 0;
}

void sidecar_names_file(const char *sidecar_name, char *out, size_t size)
{
	const char *end = strrchr(sidecar_name, '.');

	snprintf(out, size, "%.*s.names", (int)(end - sidecar_name), sidecar_name);
}

/* --- parsing --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct sidecar_symbol *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void sort(struct sidecar *sidecar)
{
	if (sidecar->nr_symbols)
		qsort(sidecar->symbols, sidecar->nr_symbols, sizeof(*sidecar->symbols), compare);
}

/* Traces of earlier versions, and most functions, have none. */
static int parse_returned(const json_t *item, struct sidecar_returned *out)
{
	const char *name = json_string_value(json_object_get(item, "returned"));

	if (!name)
		return 0;
	snprintf(out->name, sizeof(out->name), "%s", name);
	clean_text(out->name, sizeof(out->name), out->name);
	return json_read_count(item, "returned_bytes", &out->bytes);
}

/* Likewise. What is none is as good as none. */
static void parse_build_id(const json_t *item, struct sidecar_build_id *out)
{
	const char *text = json_string_value(json_object_get(item, "build_id"));
	const size_t digits = text ? strlen(text) : 0;

	if (digits && digits % 2 == 0 && digits <= 2 * sizeof(out->bytes) &&
	    hex_decode(out->bytes, text, digits / 2))
		out->size = (uint8_t)(digits / 2);
}

static int parse(const json_t *item, struct sidecar_symbol *symbol)
{
	int ret = json_is_object(item) ? sidecar_get_name(item, &symbol->name) : -EINVAL;

	ret = ret ? ret : json_read_address(item, "address", &symbol->address);
	ret = ret ? ret : json_read_address(item, "start", &symbol->start);
	ret = ret ? ret : json_read_count(item, "size", &symbol->size);
	if (!ret)
		parse_build_id(item, &symbol->build_id);
	return ret ? ret : parse_returned(item, &symbol->returned);
}

int sidecar_parse_symbols(const json_t *root, struct sidecar *sidecar)
{
	const json_t *array;
	int ret = sidecar_begin_array(root, "symbols", sizeof(*sidecar->symbols), MAX_SYMBOLS,
				      &sidecar->symbols, &sidecar->nr_symbols, &array);

	for (size_t i = 0; !ret && i < sidecar->nr_symbols; i++)
		ret = parse(json_array_get(array, i), &sidecar->symbols[i]);
	if (!ret)
		sort(sidecar);
	return ret;
}

/* --- adding ---------------------------------------------------------------------------------- */

static bool covers(const struct sidecar_symbol *symbol, uint64_t start)
{
	return symbol->start == start || start - symbol->start < symbol->size;
}

/* What the sidecar had when adding began is sorted. */
static bool is_known(const struct sidecar *sidecar, size_t nr_before, uint64_t start)
{
	size_t above = search_above(nr_before, start, symbol_start, sidecar->symbols);

	return above && covers(&sidecar->symbols[above - 1], start);
}

int sidecar_add_symbols(struct sidecar *sidecar, const struct sidecar_symbol *symbols, size_t n)
{
	const size_t before = sidecar->nr_symbols;
	struct sidecar_symbol *bigger;
	int ret = 0;

	if (n > MAX_SYMBOLS - before)
		n = MAX_SYMBOLS - before;
	bigger = reallocarray(sidecar->symbols, before + n + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	sidecar->symbols = bigger;
	for (size_t i = 0; !ret && i < n; i++) {
		struct sidecar_symbol *added = &bigger[sidecar->nr_symbols];

		if (is_known(sidecar, before, symbols[i].start))
			continue;
		*added = symbols[i];
		added->name = strdup(symbols[i].name);
		ret = added->name ? 0 : -ENOMEM;
		if (added->name)
			clean_text(added->name, strlen(added->name) + 1, added->name);
		sidecar->nr_symbols += !ret;
	}
	sort(sidecar);
	return ret;
}

struct symbol_list {
	struct sidecar_symbol *items;
	size_t count, room;
};

/* The name is the list's from now on. */
static int append(struct symbol_list *list, const struct sidecar_symbol *symbol)
{
	size_t room = list->room ? 2 * list->room : 256;
	struct sidecar_symbol *bigger = list->items;

	if (list->count == list->room) {
		bigger = list->count < MAX_SYMBOLS ? reallocarray(bigger, room, sizeof(*bigger))
						   : NULL;
		if (!bigger)
			return -ENOMEM;
		list->items = bigger;
		list->room = room;
	}
	list->items[list->count++] = *symbol;
	return 0;
}

/* Whether the checksum of a line is right, or not needed. */
static bool take_checksum(const struct sidecar *sidecar, json_t *object, const char *line,
			  size_t size)
{
	/* Marked, it must have one. */
	if (sidecar->has_checksums && json_object_set_new(object, JSON_CHECKSUM_MARK, json_true()))
		return false;
	return json_take_checksum(object, line, size);
}

/* A line that is no symbol is passed over. */
static int append_line(struct sidecar *sidecar, struct symbol_list *list, const char *line,
		       size_t size)
{
	struct sidecar_symbol symbol = {0};
	json_t *object = json_loadb(line, size, 0, NULL);
	int ret = take_checksum(sidecar, object, line, size) ? parse(object, &symbol) : -EINVAL;

	json_decref(object);
	if (!ret)
		ret = append(list, &symbol);
	if (ret)
		free(symbol.name);
	if (ret != -ENOMEM && ret)
		sidecar->damaged_names += sidecar->has_checksums;
	return ret == -ENOMEM ? ret : 0;
}

int64_t sidecar_add_names(struct sidecar *sidecar, const char *text, size_t size)
{
	const char *line = text, *end;
	struct symbol_list list = {0};
	int ret = 0;

	while (!ret && (end = memchr(line, '\n', size - (size_t)(line - text)))) {
		ret = append_line(sidecar, &list, line, (size_t)(end - line));
		line = end + 1;
	}
	if (!ret)
		ret = sidecar_add_symbols(sidecar, list.items, list.count);
	for (size_t i = 0; i < list.count; i++)
		free(list.items[i].name);
	free(list.items);
	return ret ? ret : line - text;
}
