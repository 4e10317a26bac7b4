/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Long strings, out of a record of the guest's into an event, whatever the guest says of them. */
#include <stdlib.h>
#include <string.h>
#include "formats/event/function.h"
#include "patcher/engine/direct.h"
#include "tests/lib/tap.h"

enum { STRINGS = 2, ROOM = STRINGS * FETCH_LONG_STRING, BEHIND = 64, FILL = 0xee };

static struct fetch_probe probe;
static struct fetch_program program;
static struct direct_want want;
static struct direct_layout layout;
static struct direct_plan plan;
static _Alignas(8) uint8_t record[4096], events[DIRECT_EVENTS_BYTES];

static void setup(void)
{
	const struct fetch_helpers helpers = {0};
	struct error err;

	if (fetch_parse("p f a=+0(%di):string n=%si b=+0(%di):ustring", &probe, &err))
		abort();
	program = fetch_program_of(&probe, &helpers);
	want = (struct direct_want){.fields = DIRECT_PID, .fetch = &program};
	layout = direct_layout_of(want.fields, &program);
	direct_plan_make(&plan, &want, &layout);
	memset(record, FILL, sizeof(record));
	memset(events, FILL, sizeof(events));
}

static void set_length(size_t argument, uint32_t length)
{
	memcpy(record + layout.values + fetch_place(&program, &probe.args[argument]), &length,
	       sizeof(length));
}

/* A record that has so many bytes for its strings. */
static void read_record(uint32_t bytes)
{
	uint64_t ip = 0;
	const struct direct_run run = {
		.size = layout.size + bytes, .n = 1, .first = record, .ip = &ip};

	direct_read(&plan, &run, events);
}

static uint8_t *string(size_t i)
{
	return events + sizeof(struct function_event) + program.bytes + i * FETCH_LONG_STRING;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return true;
}

/* Nothing is written behind the event. */
static bool is_within(void)
{
	for (size_t i = plan.stride; i < plan.stride + (size_t)BEHIND; i++)
		if (events[i] != FILL)
			return false;
	return true;
}

static void test_two(void)
{
	setup();
	set_length(0, 5);
	set_length(2, 10);
	memcpy(record + layout.size, "/etc\0..", 8);
	memcpy(record + layout.size + 8, "/usr/bin/\0.....", 16);
	read_record(24);
	is_u64(plan.stride, sizeof(struct function_event) + program.bytes + ROOM,
	       "an event has room for both");
	is_str((char *)string(0), "/etc", "the first string");
	is_str((char *)string(1), "/usr/bin/", "the second one begins at the next word");
	ok(is_zero(string(0) + 5, FETCH_LONG_STRING - 5) &&
		   is_zero(string(1) + 10, FETCH_LONG_STRING - 10),
	   "what is behind a string in its last word is left out");
	ok(is_within(), "nothing is written behind the event");
}

static void test_cut(void)
{
	setup();
	set_length(0, FETCH_LONG_STRING);
	set_length(2, 0);
	memset(record + layout.size, 'x', FETCH_LONG_STRING);
	read_record(FETCH_LONG_STRING);
	ok(!memchr(string(0), 0, FETCH_LONG_STRING), "a string that was cut has no NUL");
	ok(is_zero(string(1), FETCH_LONG_STRING), "one that could not be read is empty");
}

static void test_lies(void)
{
	static const uint32_t lies[] = {257, 4096, INT32_MAX, UINT32_MAX};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		setup();
		set_length(0, lies[i]);
		set_length(2, lies[i]);
		memset(record + layout.size, 'x', ROOM);
		read_record(40);
		ok(!memcmp(string(0), record + layout.size, 40) &&
			   is_zero(string(0) + 40, ROOM - 40) && is_within(),
		   "a length of %#x ends with the record", lies[i]);
		read_record(ROOM);
		ok(!memcmp(string(0), record + layout.size, ROOM) && is_within(),
		   "and with the room that a string has");
		read_record(0);
		ok(is_zero(string(0), ROOM) && is_within(), "a record without strings has none");
	}
}

/* Records of one size behind each other, whose characters are behind each other's. */
static void test_texts(void)
{
	enum { RECORDS = 3, CHARACTERS = 64 };
	const struct fetch_helpers helpers = {0};
	uint64_t ip[RECORDS] = {0};
	struct direct_run run = {.n = RECORDS, .first = record, .ip = ip};
	struct error err;
	uint8_t *text;

	setup();
	if (fetch_parse("p f n=%si a=+0(%di):char[64] b=+8(%di):char[17]", &probe, &err))
		abort();
	program = fetch_program_of(&probe, &helpers);
	layout = direct_layout_of(want.fields, &program);
	direct_plan_make(&plan, &want, &layout);
	is_u64(plan.stride, sizeof(struct function_event) + program.bytes + ROOM,
	       "an event has room for two arrays of characters");
	run.size = layout.size;
	for (size_t i = 0; i < RECORDS; i++) {
		uint8_t *values = record + i * layout.size + layout.values;

		memset(values + fetch_place(&program, &probe.args[1]), 'a' + (int)i, CHARACTERS);
		memcpy(values + fetch_place(&program, &probe.args[2]), "/dev\0/null......", 17);
	}
	direct_read(&plan, &run, events);
	for (size_t i = 0; i < RECORDS; i++) {
		text = events + i * plan.stride + sizeof(struct function_event) + program.bytes;
		ok(text[0] == 'a' + i && text[CHARACTERS - 1] == 'a' + i &&
			   is_zero(text + CHARACTERS, FETCH_LONG_STRING - CHARACTERS),
		   "those of record %zu end with a NUL", i);
		is_str((char *)text + FETCH_LONG_STRING, "/dev", "and with one of their own");
	}
	for (size_t i = 0; i < BEHIND; i++)
		if (events[RECORDS * plan.stride + i] != FILL)
			run.n = 0;
	is_u64(run.n, RECORDS, "nothing is written behind the events");
	run.n = 1;
	memset(events, FILL, sizeof(events));
	direct_read(&plan, &run, events);
	text = events + sizeof(struct function_event) + program.bytes;
	ok(text[0] == 'a' && is_zero(text + CHARACTERS, FETCH_LONG_STRING - CHARACTERS) &&
		   is_within(),
	   "a record by itself is read alike");
}

static uint64_t slice_words(uint32_t fields, uint16_t values, uint16_t items)
{
	const struct direct_layout l = direct_layout_with(fields | DIRECT_STACK, values, items);

	ok(l.values == l.stack + offsetof(struct direct_stack, words) + 8 * l.stack_words &&
		   l.size == l.values + values,
	   "what a probe fetches follows a slice of the stack");
	return l.stack_words;
}

/* As much of the stack as a record has room for. */
static void test_slices(void)
{
	const uint32_t all = DIRECT_ENTRY_FIELDS;

	is_u64(direct_layout(all & ~(uint32_t)DIRECT_STACK).stack_words, 0,
	       "a record without a slice has no words of one");
	is_u64(slice_words(all, 0, 0), STACK_MAX_WORDS, "beside all fields of a task and a call");
	is_u64(slice_words(0, 128, 0), STACK_MAX_WORDS, "beside some values");
	is_u64(slice_words(0, 512, 1024), (RING_MAX_RECORD - 16 - 24 - 512 - 1024) / 8,
	       "fewer beside many");
	is_u64(slice_words(0, 512, 1792), STACK_LEAST_WORDS, "but as many as are of use");
	ok(direct_layout_with(DIRECT_STACK, 512, 1792).size + 1792 > RING_MAX_RECORD,
	   "even if that makes the record too large");
}

int main(void)
{
	test_slices();
	test_two();
	test_cut();
	test_lies();
	test_texts();
	return tap_done();
}
