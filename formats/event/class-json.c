/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/class-json.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/event/graph.h"
#include "formats/event/kmem.h"

enum { FIELD_NAME_MAX = 47, TABLE_BITS_MAX = 16, ORDER_BITS_MAX = 5 };

static const char *const type_names[EVENT_NR_TYPES] = {
	[EVENT_UINT] = "uint",   [EVENT_INT] = "int",
	[EVENT_HEX] = "hex",     [EVENT_POINTER] = "pointer",
	[EVENT_CODE] = "code",   [EVENT_FUNCTION] = "function",
	[EVENT_FLAGS] = "flags", [EVENT_DICTIONARY] = "cache",
	[EVENT_PAGES] = "pages", [EVENT_STRING] = "string",
	[EVENT_STACK] = "stack", [EVENT_LONG_STRING] = "long_string",
};

/* --- writing --------------------------------------------------------------------------------- */

static json_t *field_to_json(const struct event_field *field, unsigned int nr_forms)
{
	json_t *bits = json_array(), *object;
	int failed = 0;

	for (unsigned int i = 0; i < nr_forms; i++)
		failed |= json_array_append_new(bits, json_integer(field->bits[i]));
	object = json_pack("{ss ss si so}", "name", field->name, "type", type_names[field->type],
			   "size", (int)field->size, "bits", bits);
	if (field->implied)
		failed |= json_object_set_new(object, "implied", json_integer(field->implied));
	if (field->is_argument)
		failed |= json_object_set_new(object, "argument", json_true());
	if (failed) {
		json_decref(object);
		return NULL;
	}
	return object;
}

json_t *event_class_to_json(const struct event_class *class)
{
	json_t *fields = json_array();
	int failed = 0;

	for (size_t i = 0; i < class->nr_fields; i++)
		failed |= json_array_append_new(fields,
						field_to_json(&class->fields[i], class->nr_forms));
	if (failed) {
		json_decref(fields);
		return NULL;
	}
	return json_pack("{ss ss so}", "system", class->system, "name", class->name, "fields",
			 fields);
}

/* --- parsing --------------------------------------------------------------------------------- */

/* Identifiers only: they become words of TSDL and keys of JSON. */
static bool is_name(const char *name, size_t most)
{
	size_t length = strlen(name);

	if (!length || length > most || isdigit((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return false;
	}
	return true;
}

static char *read_name(const json_t *object, const char *key, size_t most)
{
	const char *name = json_string_value(json_object_get(object, key));

	return name && is_name(name, most) ? strdup(name) : NULL;
}

static bool read_type(const json_t *json, struct event_field *field)
{
	const char *name = json_string_value(json_object_get(json, "type"));

	for (enum event_field_type type = 0; name && type < EVENT_NR_TYPES; type++) {
		if (strcmp(type_names[type], name))
			continue;
		field->type = type;
		return true;
	}
	return false;
}

static bool size_is_possible(const struct event_field *field)
{
	if (field->type == EVENT_STRING)
		return field->size >= 1 && field->size <= EVENT_STRING_MAX;
	if (field->type == EVENT_LONG_STRING)
		return field->size == 1;
	if (event_field_is_code(field) || field->type == EVENT_FLAGS || field->type == EVENT_PAGES)
		return field->size == 8;
	if (field->type == EVENT_DICTIONARY)
		return field->size == 2;
	return field->size == 1 || field->size == 2 || field->size == 4 || field->size == 8;
}

/* Bits of a value that is written as the number of one, or as an order, are few. */
static unsigned int most_bits(const struct event_field *field)
{
	if (field->type == EVENT_PAGES)
		return ORDER_BITS_MAX;
	if (field->type == EVENT_LONG_STRING)
		return 0;
	if (event_field_is_code(field) || field->type == EVENT_FLAGS || field->type == EVENT_STRING)
		return TABLE_BITS_MAX;
	return 8u * field->size;
}

static bool read_bits(const json_t *json, struct event_field *field, unsigned int nr_forms)
{
	const json_t *bits = json_object_get(json, "bits");
	const bool always = field->type == EVENT_STACK || field->type == EVENT_LONG_STRING;
	unsigned int whole = 8u * field->size;

	if (json_array_size(bits) != nr_forms)
		return false;
	for (unsigned int i = 0; i < nr_forms; i++) {
		json_int_t n = json_integer_value(json_array_get(bits, i));

		if (n != whole && (n < 0 || n > most_bits(field)))
			return false;
		if ((i == nr_forms - 1 && n != whole) || (!n && always))
			return false;
		field->bits[i] = (uint8_t)n;
	}
	return true;
}

static int parse_field(const json_t *json, unsigned int nr_forms, struct event_field *field)
{
	int64_t size = 0, implied = 0;

	field->name = read_name(json, "name", FIELD_NAME_MAX);
	if (!field->name || !read_type(json, field) || json_read_signed(json, "size", &size) ||
	    json_read_signed(json, "implied", &implied))
		return -EINVAL;
	if (size < 1 || size > EVENT_STRING_MAX || implied < INT8_MIN || implied > INT8_MAX)
		return -EINVAL;
	field->size = (uint8_t)size;
	field->implied = (int8_t)implied;
	field->is_argument = json_is_true(json_object_get(json, "argument"));
	return size_is_possible(field) && read_bits(json, field, nr_forms) ? 0 : -EINVAL;
}

static bool names_differ(const struct event_class *class)
{
	for (size_t i = 0; i < class->nr_fields; i++) {
		if (event_field_find(class, class->fields[i].name) != &class->fields[i])
			return false;
	}
	return true;
}

/* Buffers for events, and for their lines, have room for so many large fields. */
static bool sizes_are_possible(const struct event_class *class)
{
	unsigned int stacks = 0, strings = 0;

	for (size_t i = 0; i < class->nr_fields; i++) {
		stacks += class->fields[i].type == EVENT_STACK;
		strings += class->fields[i].type == EVENT_LONG_STRING;
	}
	return stacks <= 1 && strings <= EVENT_MAX_LONG_STRINGS;
}

static bool is_same(const struct event_field *a, const struct event_field *b)
{
	const bool stacks = a->type == EVENT_STACK || b->type == EVENT_STACK;

	return a->size == b->size && (a->type == b->type || (!stacks && event_field_is_code(a) &&
							     event_field_is_code(b)));
}

/*
 * Where the known class has the field; false if it has none that is the same. The known class also
 * says which code addresses are functions: old traces do not.
 */
static bool find_place(const struct event_class *known, struct event_field *field)
{
	const struct event_field *same = known ? event_field_find(known, field->name) : NULL;

	if (!same || !is_same(same, field))
		return false;
	field->type = same->type;
	field->at = same->at;
	return true;
}

static int lay_out(struct event_class *class, struct event_field *fields)
{
	unsigned int end;

	class->known = event_class_known(class->system, class->name);
	end = class->known ? class->known->size : 0;
	for (size_t i = 0; i < class->nr_fields; i++) {
		unsigned int align = fields[i].type == EVENT_STRING ? 1 : fields[i].size;

		if (find_place(class->known, &fields[i]))
			continue;
		end = (end + align - 1) / align * align;
		fields[i].at = (uint16_t)end;
		end += event_field_bytes(&fields[i]);
	}
	end = (end + 7) / 8 * 8;
	class->size = (uint16_t)(end ? end : 8);
	return end <= EVENT_MAX_SIZE ? 0 : -EINVAL;
}

static int parse(const json_t *json, struct event_class *class)
{
	const json_t *array = json_object_get(json, "fields");
	size_t n = json_array_size(array), nr_forms;
	struct event_field *fields = calloc(n + 1, sizeof(*fields));
	int ret = 0;

	class->fields = fields;
	class->system = read_name(json, "system", EVENT_CLASS_NAME_MAX);
	class->name = read_name(json, "name", EVENT_CLASS_NAME_MAX);
	nr_forms = json_array_size(json_object_get(json_array_get(array, 0), "bits"));
	if (!fields)
		return -ENOMEM;
	if (!class->system || !class->name || !n || n > EVENT_MAX_FIELDS || !nr_forms ||
	    nr_forms > EVENT_FORMS)
		return -EINVAL;
	class->nr_forms = (uint8_t)nr_forms;
	for (; !ret && class->nr_fields < n; class->nr_fields++)
		ret = parse_field(json_array_get(array, class->nr_fields), class->nr_forms,
				  &fields[class->nr_fields]);
	if (ret)
		return ret;
	return names_differ(class) && sizes_are_possible(class) ? lay_out(class, fields) : -EINVAL;
}

int event_class_parse(const json_t *json, struct event_class *out, struct error *err)
{
	int ret;

	*out = (struct event_class){0};
	ret = parse(json, out);
	if (!ret)
		return 0;
	error_set(err, -ret, "event class %s: %s", out->name ? out->name : "without a name",
		  ret == -ENOMEM ? "out of memory" : "impossible, or of a type that is not known");
	event_class_deinit(out);
	return ret;
}

void event_class_deinit(struct event_class *class)
{
	for (size_t i = 0; i < class->nr_fields; i++)
		free((char *)(uintptr_t) class->fields[i].name);
	free((void *)(uintptr_t) class->fields);
	free((char *)(uintptr_t) class->system);
	free((char *)(uintptr_t) class->name);
	*class = (struct event_class){0};
}

/* --- the classes that this program knows ----------------------------------------------------- */

static bool is_called(const struct event_class *class, const char *system, const char *name)
{
	return !strcmp(class->system, system) && !strcmp(class->name, name);
}

const struct event_class *event_class_known(const char *system, const char *name)
{
	const struct {
		const struct event_class *classes;
		size_t n;
	} known[] = {{kmem_classes, KMEM_NR_CLASSES},
		     {function_class(FUNCTION_ALL), 1},
		     {graph_classes(GRAPH_ALL), GRAPH_NR_CLASSES},
		     {syscall_classes(SYSCALL_ALL), SYSCALL_NR_CLASSES}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		for (size_t k = 0; k < known[i].n; k++)
			if (is_called(&known[i].classes[k], system, name))
				return &known[i].classes[k];
	return NULL;
}
