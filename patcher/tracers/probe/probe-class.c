/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/probe/probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/class-json.h"
#include "formats/event/function.h"

enum {
	WORD = 8,
	ID_BITS = 16,
	FIELD_NAME_SIZE = FETCH_ELEMENT_NAME_SIZE + 8,
};

/* A class with all that it points to. */
struct made_class {
	struct event_class class;
	struct event_field fields[EVENT_MAX_FIELDS];
	char system[FETCH_NAME_SIZE], name[FETCH_NAME_SIZE];
	char names[EVENT_MAX_FIELDS][FIELD_NAME_SIZE];
	struct made_class *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made_class *all;

/* --- fields ---------------------------------------------------------------------------------- */

/* In the first form `bits`, in the second one as it is. -EINVAL: there is one of this name. */
static int add_field(struct made_class *m, const char *name, enum event_field_type type,
		     uint8_t size, size_t at, unsigned int bits, struct error *err)
{
	const size_t i = m->class.nr_fields;

	if (event_field_find(&m->class, name))
		return error_set(err, EINVAL, "two fields have the name '%s'", name);
	snprintf(m->names[i], sizeof(m->names[i]), "%s", name);
	m->fields[i] = (struct event_field){.name = m->names[i],
					    .type = type,
					    .size = size,
					    .at = (uint16_t)at,
					    .bits = {(uint8_t)bits, (uint8_t)(8 * size)}};
	m->class.nr_fields++;
	return 0;
}

/* Sonde's own makes room for an argument of its name: see event_field_is_own(). */
static const char *own_name(const struct fetch_program *program, const char *name,
			    char out[FIELD_NAME_SIZE])
{
	bool taken = false;

	for (size_t i = 0; i < program->nr_args; i++)
		taken |= !strcmp(program->args[i].name, name);
	return event_own_name(name, taken, out, FIELD_NAME_SIZE);
}

static enum event_field_type type_of(const struct fetch_arg *arg)
{
	static const enum event_field_type types[] = {
		[FETCH_UNSIGNED] = EVENT_UINT, [FETCH_SIGNED] = EVENT_INT,
		[FETCH_HEX] = EVENT_HEX,       [FETCH_CHARACTER] = EVENT_STRING,
		[FETCH_CODE] = EVENT_CODE,     [FETCH_STRING] = EVENT_STRING};

	return fetch_is_long(arg) || fetch_is_long_text(arg) ? EVENT_LONG_STRING : types[arg->show];
}

static unsigned int first_bits(enum event_field_type type, unsigned int size)
{
	if (type == EVENT_CODE)
		return ID_BITS;
	return type == EVENT_STRING && size == EVENT_STRING_MAX ? 10 : 8 * size;
}

/* Of an argument. */
static int add_value(struct made_class *m, const char *name, enum event_field_type type,
		     uint8_t size, size_t at, unsigned int bits, struct error *err)
{
	int ret = add_field(m, name, type, size, at, bits, err);

	if (!ret)
		m->fields[m->class.nr_fields - 1].is_argument = true;
	return ret;
}

/* Behind all other arguments. */
static int add_long_string(struct made_class *m, const struct fetch_arg *arg, struct error *err)
{
	const size_t at = m->class.size;

	m->class.size = (uint16_t)(at + EVENT_LONG_STRING_MAX);
	return add_value(m, arg->name, EVENT_LONG_STRING, 1, at, 8, err);
}

static int add_argument(struct made_class *m, const struct fetch_program *program,
			const struct fetch_arg *arg, struct error *err)
{
	const enum event_field_type type = type_of(arg);
	const bool is_text = type == EVENT_STRING;
	const size_t at = sizeof(struct function_event) + fetch_place(program, arg);
	const unsigned int elements = is_text ? 1 : arg->count;
	const uint8_t size = (uint8_t)(is_text ? arg->size * arg->count : arg->size);
	char name[FIELD_NAME_SIZE];
	int ret = 0;

	if (type == EVENT_LONG_STRING)
		return add_long_string(m, arg, err);
	for (unsigned int i = 0; !ret && i < elements; i++) {
		snprintf(name, sizeof(name), elements > 1 ? "%s_%u" : "%s", arg->name, i);
		ret = add_value(m, name, type, size, at + i * size, first_bits(type, size), err);
	}
	return ret;
}

static int add_place(struct made_class *m, const struct fetch_probe *probe, struct error *err)
{
	const size_t parent = offsetof(struct function_event, parent_ip);

	if (probe->inside)
		return add_field(m, "__probe_ip", EVENT_CODE, WORD, 0, ID_BITS, err);
	if (probe->returns)
		return add_field(m, "__probe_ret_ip", EVENT_CODE, WORD, parent, ID_BITS, err);
	return add_field(m, "__probe_ip", EVENT_FUNCTION, WORD, 0, ID_BITS, err);
}

/* So the task's fields, which are a context, can be in front of fields that begin at a byte: of
 * strings. */
static void fill_byte(struct made_class *m)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < m->class.nr_fields; i++)
		bits += m->fields[i].bits[0];
	m->fields[m->class.nr_fields - 1].bits[0] += (uint8_t)(-bits % 8);
}

#define AT(member) offsetof(struct function_event, member)

/* To a class without fields; but for the call chain. */
static void add_task(struct made_class *m, const struct fetch_program *program, uint32_t fields)
{
	static const struct event_task_places places = {
		.pid = AT(pid), .tgid = AT(tgid), .comm = AT(comm), .cgroup = AT(cgroup)};
	const struct event_class plain = m->class;

	event_class_add_task(&plain, (fields & EVENT_TASK_ALL) | EVENT_TASK_PID, &places, m->fields,
			     &m->class);
	for (size_t i = 0; i < m->class.nr_fields; i++)
		m->fields[i].name = own_name(program, m->fields[i].name, m->names[i]);
	fill_byte(m);
}

static int add_fields(struct made_class *m, const struct fetch_probe *probe,
		      const struct fetch_program *program, struct error *err)
{
	const uint8_t fault_bytes = fetch_fault_bytes(program);
	char name[FIELD_NAME_SIZE];
	int ret = add_place(m, probe, err);

	if (!ret && program->has_faults)
		ret = add_field(m, own_name(program, "faults", name), EVENT_HEX, fault_bytes,
				sizeof(struct function_event), 8u * fault_bytes, err);
	for (size_t i = 0; !ret && i < program->nr_args; i++) {
		ret = add_argument(m, program, &program->args[i], err);
		if (ret && err)
			err->column = program->args[i].column;
	}
	return ret;
}

_Static_assert(sizeof(struct function_event) + FETCH_MAX_BYTES + FETCH_LARGE_HEAD +
			       EVENT_STACK_WORDS * WORD <=
		       EVENT_MAX_SHORT_SIZE,
	       "an event of all values and a call chain");
_Static_assert((int)FETCH_MAX_LONG_STRINGS == (int)EVENT_MAX_LONG_STRINGS &&
		       (int)FETCH_LONG_STRING == (int)EVENT_LONG_STRING_MAX,
	       "and of all long strings");

static int add_stack(struct made_class *m, const struct fetch_program *program, struct error *err)
{
	const size_t at = m->class.size;
	char name[FIELD_NAME_SIZE];

	m->class.size = (uint16_t)(at + EVENT_STACK_WORDS * WORD);
	return add_field(m, own_name(program, "stack", name), EVENT_STACK, WORD, at, ID_BITS, err);
}

/* --- classes --------------------------------------------------------------------------------- */

static bool fields_equal(const struct event_class *a, const struct event_class *b)
{
	for (size_t i = 0; i < a->nr_fields; i++) {
		const struct event_field *x = &a->fields[i], *y = &b->fields[i];

		if (strcmp(x->name, y->name) != 0 || x->type != y->type || x->size != y->size ||
		    x->at != y->at || memcmp(x->bits, y->bits, sizeof(x->bits)) != 0)
			return false;
	}
	return true;
}

static bool is_equal(const struct made_class *a, const struct made_class *b)
{
	return !strcmp(a->system, b->system) && !strcmp(a->name, b->name) &&
	       a->class.size == b->class.size && a->class.nr_fields == b->class.nr_fields &&
	       fields_equal(&a->class, &b->class);
}

/* The one that is like it, which may be itself. */
static struct made_class *keep(struct made_class *m)
{
	struct made_class *same;

	pthread_mutex_lock(&lock);
	for (same = all; same && !is_equal(same, m); same = same->next)
		;
	if (!same) {
		m->next = all;
		all = same = m;
	}
	pthread_mutex_unlock(&lock);
	return same;
}

int probe_class_of(const struct fetch_probe *probe, const struct fetch_program *program,
		   uint32_t task, const struct event_class **out, struct error *err)
{
	struct made_class *m, *kept;
	int ret;

	if (event_class_known(probe->group, probe->name))
		return error_set_column(err, EINVAL, probe->name_column,
					"'%s/%s' is an event of another tracer: choose "
					"another group",
					probe->group, probe->name);
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(m->system, probe->group, sizeof(m->system));
	memcpy(m->name, probe->name, sizeof(m->name));
	m->class = (struct event_class){
		.system = m->system,
		.name = m->name,
		.fields = m->fields,
		.nr_forms = 2,
		.size = (uint16_t)(sizeof(struct function_event) + program->bytes)};
	add_task(m, program, task);
	ret = add_fields(m, probe, program, err);
	if (!ret && task & EVENT_TASK_STACK)
		ret = add_stack(m, program, err);
	kept = ret ? NULL : keep(m);
	if (kept != m)
		free(m);
	if (!ret)
		*out = &kept->class;
	return ret;
}
