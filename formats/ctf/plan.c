/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/plan.h"

#include <endian.h>
#include <stdlib.h>

enum { ORDER_BITS = 8 };

/* Loads stay within the event's bytes, of which there are at least 8. */
static void set_load(struct ctf_step *step, unsigned int class_size)
{
	unsigned int load = step->at + 8u <= class_size ? step->at : class_size - 8u;
	unsigned int before = 8 * (step->at - load), unused = 64 - 8u * step->size;

	step->load = (uint16_t)load;
	step->right = (uint8_t)unused;
	step->left = (uint8_t)(__BYTE_ORDER == __BIG_ENDIAN ? before : unused - before);
}

static void add_step(struct ctf_form *form, const struct event_field *field, enum ctf_op op,
		     unsigned int bits)
{
	struct ctf_step *step = &form->steps[form->nr_steps + form->nr_texts];

	*(op == CTF_TEXT ? &form->nr_texts : &form->nr_steps) += 1;
	*step = ctf_step_of(field, op, bits);
	step->field = (uint8_t)(field - form->class->fields);
	if (!event_field_is_string(field))
		set_load(step, form->class->size);
}

static void add_field(struct ctf_form *form, const struct event_field *field)
{
	unsigned int bits = field->bits[form->form];
	enum ctf_op op = ctf_op_of(field, bits);

	add_step(form, field, op, bits);
	if (field->type == EVENT_PAGES && bits == 64)
		add_step(form, field, CTF_ORDER, ORDER_BITS);
	form->has_bytes |= op == CTF_BYTES || op == CTF_FRAMES;
}

/* Of the entries that a step's value may need. */
static size_t table_bytes(const struct ctf_step *step)
{
	switch ((enum ctf_op)step->op) {
	case CTF_CODE:
		return ctf_tables[CTF_TABLE_CODE].entry_bytes;
	case CTF_FLAGS:
		return ctf_tables[CTF_TABLE_FLAGS].entry_bytes;
	case CTF_STRING:
		return ctf_tables[CTF_TABLE_STRINGS].entry_bytes;
	case CTF_CACHE:
		return ctf_tables[CTF_TABLE_CACHES].entry_bytes;
	case CTF_STACK:
		return EVENT_STACK_WORDS * ctf_tables[CTF_TABLE_STACKS].entry_bytes;
	default:
		return 0;
	}
}

/* Where each field's bits go, behind a compact header. */
static void set_places(struct ctf_form *form)
{
	unsigned int pos = 8 * CTF_HEADER_BYTES;

	for (size_t i = 0; i < form->nr_steps; i++) {
		struct ctf_step *step = &form->steps[i];

		step->shift = (uint8_t)(pos % 64);
		step->fills = step->shift + step->bits >= 64;
		pos += step->bits;
		form->table_bytes += table_bytes(step);
	}
	form->size = (pos + 7) / 8;
}

/* Where each field's bits are behind the header, which ends at a byte. */
static void set_gets(struct ctf_form *form)
{
	unsigned int pos = 0;

	for (size_t i = 0; i < form->nr_steps; i++) {
		struct ctf_step *step = &form->steps[i];

		if (step->op == CTF_BYTES)
			pos = (pos + 7) / 8 * 8;
		step->byte = (uint16_t)(pos / 8);
		step->bit = (uint8_t)(pos % 8);
		if (step->op == CTF_BYTES)
			pos += 8u * step->size;
		else if (step->op == CTF_FRAMES)
			pos += EVENT_STACK_WORDS * 64;
		else
			pos += step->bits;
	}
	form->body_size = (pos + 7) / 8;
}

/* What has no fixed size comes last, so that all else has a fixed place. */
static void add_fields(struct ctf_form *form)
{
	const struct event_class *class = form->class;

	for (size_t i = 0; i < class->nr_fields; i++)
		if (class->fields[i].type != EVENT_LONG_STRING)
			add_field(form, &class->fields[i]);
	for (size_t i = 0; i < class->nr_fields; i++)
		if (class->fields[i].type == EVENT_LONG_STRING)
			add_field(form, &class->fields[i]);
}

static size_t count_forms(const struct event_class *classes, size_t nr_classes)
{
	size_t n = 0;

	for (size_t i = 0; i < nr_classes; i++)
		n += classes[i].nr_forms;
	return n;
}

/* An event that a form cannot express may have told the tables of its values before it is tried in
 * the next form. */
static size_t most_bytes(const struct ctf_plan *plan)
{
	size_t size = 0, table_bytes = 0;

	for (size_t i = 0; i < plan->nr_forms; i++) {
		const struct ctf_form *form = &plan->forms[i];

		size = size > form->size ? size : form->size;
		table_bytes = table_bytes > form->table_bytes ? table_bytes : form->table_bytes;
	}
	return size + table_bytes;
}

struct ctf_plan *ctf_plan_create(const struct event_class *classes, size_t nr_classes)
{
	size_t nr_forms = count_forms(classes, nr_classes);
	struct ctf_plan *plan = calloc(1, sizeof(*plan) + nr_forms * sizeof(plan->forms[0]));

	if (!plan)
		return NULL;
	plan->nr_classes = nr_classes;
	plan->most_class_size = sizeof(uint64_t);
	for (unsigned int i = 0; i < nr_classes; i++) {
		if (classes[i].size > plan->most_class_size)
			plan->most_class_size = classes[i].size;
		plan->first[i] = &plan->forms[plan->nr_forms];
		for (unsigned int n = 0; n < classes[i].nr_forms; n++) {
			struct ctf_form *form = &plan->forms[plan->nr_forms++];

			form->class = &classes[i];
			form->id = (unsigned int)(form - plan->forms);
			form->is_last = n + 1 == classes[i].nr_forms;
			form->class_index = i;
			form->form = n;
			add_fields(form);
			set_places(form);
			set_gets(form);
			plan->has_texts |= form->nr_texts;
			if (form->body_size > plan->most_body_size)
				plan->most_body_size = form->body_size;
		}
	}
	plan->most = most_bytes(plan);
	return plan;
}

unsigned int ctf_plan_max_id(const struct ctf_plan *plan, enum ctf_op op)
{
	uint64_t max = 0;

	for (size_t i = 0; i < plan->nr_forms; i++) {
		const struct ctf_form *form = &plan->forms[i];

		for (size_t s = 0; s < form->nr_steps; s++) {
			if (form->steps[s].op == op && form->steps[s].max > max)
				max = form->steps[s].max;
		}
	}
	return (unsigned int)max;
}

unsigned int ctf_plan_nr_tables(const struct ctf_plan *plan)
{
	return ctf_plan_max_id(plan, CTF_STACK) ? CTF_NR_TABLES : CTF_TABLE_STACKS;
}

/* --- tables ---------------------------------------------------------------------------------- */

/* clang-format off */
#define ID	{"id", 2, false, false}

const struct ctf_table_layout ctf_tables[CTF_NR_TABLES] = {
	[CTF_TABLE_NEAR] = {"near", {ID, {"address", 4, true, true}}, 6},
	[CTF_TABLE_CODE] = {"code", {ID, {"address", 8, false, true}}, 10},
	[CTF_TABLE_FLAGS] = {"flags", {ID, {"value", 8, false, true}}, 10},
	[CTF_TABLE_STRINGS] = {"strings", {ID, {"text", 0, false, false}}, 2 + 17},
	[CTF_TABLE_CACHES] = {"caches",
			      {ID, {"object_size", 8, false, false},
			       {"size", 8, false, false}, {"name", 0, false, false}},
			      18 + CTF_NAME_MAX + 1},
	[CTF_TABLE_STACKS] = {"stacks", {ID, {"caller", 2, false, false},
					 {"address", 8, false, true}}, 12},
};
