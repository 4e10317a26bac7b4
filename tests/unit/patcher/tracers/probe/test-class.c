/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The class of a dynamic probe's events, with and without the task and a call chain. */
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/probe/probe.h"
#include "tests/lib/tap.h"

static const struct event_class *class_of(const char *definition, uint32_t task)
{
	const struct fetch_helpers helpers = {0};
	const struct event_class *class;
	struct fetch_program program;
	struct fetch_probe probe;
	struct error err = {0};

	if (fetch_parse(definition, &probe, &err))
		abort();
	program = fetch_program_of(&probe, &helpers);
	if (!probe_class_of(&probe, &program, task, &class, &err))
		return class;
	tap_diag("%s", err.text);
	return NULL;
}

static void test_stack(void)
{
	static const char definition[] = "p:my/read vfs_read file=%di count=%dx:u32";
	const struct event_class *plain = class_of(definition, 0);
	const struct event_class *with = class_of(definition, EVENT_TASK_STACK);
	const struct event_field *stack = with ? event_field_find(with, "stack") : NULL;

	ok(plain && with && plain != with, "probes with and without a call chain differ in class");
	ok(stack && stack->type == EVENT_STACK && stack->at == plain->size,
	   "the chain lies behind the values");
	ok(with && with->size == plain->size + EVENT_STACK_WORDS * sizeof(uint64_t),
	   "and ends the event");
	ok(class_of(definition, EVENT_TASK_STACK) == with,
	   "the same probe has the same class again");
	ok(!event_field_find(plain, "stack"), "without the word there is none");
}

/* In front, as contexts of other readers have to be. */
static void test_task(void)
{
	static const char *const want[] = {"pid", "tgid", "comm", "cgroup", "__probe_ip", "count"};
	static const char definition[] = "p:my/task vfs_read count=%dx:u32";
	const struct event_class *class = class_of(definition, EVENT_TASK_ALL);
	const struct event_class *plain = class_of(definition, 0);

	ok(class && class->nr_fields == sizeof(want) / sizeof(want[0]), "a probe with the task");
	for (size_t i = 0; class && i < class->nr_fields; i++)
		is_str(class->fields[i].name, want[i], "its fields are in this order");
	ok(plain && plain->nr_fields == 3 && plain->size == class->size, "without, it has the pid");
}

static void test_largest(void)
{
	char definition[1000] = "p:my/all vfs_read";
	const struct event_class *class;

	for (int i = 0; i < FETCH_MAX_ARGS - 1; i++)
		strcat(definition, i < FETCH_MAX_LONG_STRINGS ? " +0(%di):string" : " %di");
	strcat(definition, " +0(%di):u8[32]");
	class = class_of(definition, EVENT_TASK_ALL | EVENT_TASK_STACK);
	ok(class && event_field_find(class, "faults")->size == 8,
	   "one of more than 32 fields has 64 bits for faults");
	ok(class && class->size <= EVENT_MAX_SIZE && class->nr_fields <= EVENT_MAX_FIELDS,
	   "an event of many values has room for the task and a chain");
}

/* "NAME ...", those of arguments with a + in front. */
static const char *names_of(const struct event_class *class)
{
	static char text[400];

	*text = '\0';
	for (size_t i = 0; class && i < class->nr_fields; i++) {
		strcat(text, i ? " " : "");
		strcat(text, class->fields[i].is_argument ? "+" : "");
		strcat(text, class->fields[i].name);
	}
	return text;
}

/* As the kernel's names for what all events have. */
static void test_names(void)
{
	const uint32_t all = EVENT_TASK_ALL | EVENT_TASK_STACK;
	const struct event_class *class;

	class = class_of("p:my/twice f pid=%di comm=$comm stack=%si faults=+0(%di) string=%dx",
			 all);
	is_str(names_of(class),
	       "common_pid tgid common_comm cgroup __probe_ip common_faults +pid +comm +stack "
	       "+faults +string common_stack",
	       "an argument may have the name of what is recorded beside it");
	ok(!strcmp(event_field_own(class, "pid")->name, "common_pid") &&
		   !strcmp(event_field_own(class, "tgid")->name, "tgid"),
	   "which is found all the same");
	class = class_of("p:my/free f tgid=%di comm=$comm faults=%si", 0);
	is_str(names_of(class), "pid __probe_ip +tgid +comm +faults",
	       "what is not recorded leaves its name as it is");
	ok(!event_field_own(class, "tgid") && !event_field_own(class, "faults"),
	   "and is not taken for recorded");
	ok(!class_of("p:my/three f comm=%di common_comm=%si", EVENT_TASK_COMM),
	   "a third field of that name is refused");
}

static void test_strings(void)
{
	const struct event_class *class = class_of(
		"p:my/two f a=+0(%di):string b=%si:u32 c=+8(%di):ustring $comm", EVENT_TASK_STACK);
	const struct event_field *a = event_field_find(class, "a"),
				 *c = event_field_find(class, "c");

	ok(a->type == EVENT_LONG_STRING && c->type == EVENT_LONG_STRING &&
		   event_field_find(class, "arg4")->type == EVENT_STRING,
	   "a string in memory is a long one, a task's name is short");
	ok(a->at == event_field_find(class, "arg4")->at + EVENT_STRING_MAX &&
		   c->at == a->at + EVENT_LONG_STRING_MAX &&
		   event_field_find(class, "stack")->at == c->at + EVENT_LONG_STRING_MAX,
	   "they lie behind all other values, in front of the chain");
}

static void test_characters(void)
{
	const struct event_class *class =
		class_of("p:my/text f a=+0(%di):char[16] b=+0(%di):char[17] c=+8(%di):string", 0);
	const struct event_field *a = event_field_find(class, "a"),
				 *b = event_field_find(class, "b");

	ok(a->type == EVENT_STRING && a->size == 16, "an array of 16 characters is a short string");
	ok(b->type == EVENT_LONG_STRING && b->at > a->at + 16 &&
		   event_field_find(class, "c")->at == b->at + EVENT_LONG_STRING_MAX &&
		   class->size == b->at + 2 * EVENT_LONG_STRING_MAX,
	   "one of more is a long one, beside those of memory");
}

/* They are a context in CTF, behind which strings make the other fields begin at a byte. */
static void test_contexts(void)
{
	bool whole = true;

	for (uint32_t task = 0; task <= EVENT_TASK_ALL; task++) {
		const struct event_class *class = class_of("p:my/whole f a=+0(%di):string", task);
		const struct event_field *field = class->fields;
		unsigned int bits = 0;

		for (; strcmp(field->name, "__probe_ip") != 0; field++) {
			bits += field->bits[0];
			whole &= field->type != EVENT_STRING || field->bits[0] <= 16;
		}
		whole &= bits && bits % 8 == 0;
	}
	ok(whole, "what is recorded of the task takes whole bytes");
}

int main(void)
{
	test_stack();
	test_task();
	test_strings();
	test_characters();
	test_contexts();
	test_largest();
	test_names();
	return tap_done();
}
