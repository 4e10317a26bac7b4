/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random classes of events with random values: what was written is read, and babeltrace2 reads it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/crc32c.h"
#include "formats/ctf/ctf.h"
#include "formats/trace/reader.h"
#include "tests/lib/babeltrace.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { CLASSES = 3, FIELDS = 8, EVENTS = 400, ROUNDS = 24, NAME = 16 };

struct made_class {
	struct event_class class;
	struct event_field fields[FIELDS];
	char name[NAME], names[FIELDS][NAME];
};

static unsigned int seed;

static unsigned int below(unsigned int n)
{
	return (unsigned int)rand_r(&seed) % n;
}

static uint64_t random64(void)
{
	uint64_t value = 0;

	for (int i = 0; i < 5; i++)
		value = value << 15 ^ (uint64_t)rand_r(&seed);
	return value >> below(64);
}

static uint8_t bits_of(const struct event_field *field)
{
	unsigned int whole = 8u * field->size;

	switch (field->type) {
	case EVENT_CODE:
	case EVENT_FUNCTION:
	case EVENT_FLAGS:
	case EVENT_STRING:
	case EVENT_STACK:
		return (uint8_t)(1 + below(16));
	case EVENT_PAGES:
		return (uint8_t)(1 + below(5));
	case EVENT_LONG_STRING:
		return 8;
	default:
		return (uint8_t)below(whole + 1);
	}
}

/* An event has room for one stack. */
static void make_field(struct event_field *field, char *name, unsigned int i, unsigned int forms,
		       bool *has_stack)
{
	static const uint8_t sizes[] = {1, 2, 4, 8};
	/* of TSDL's words, types, and what lies in front of an event's fields */
	static const char *const words[FIELDS] = {"string", "_Bool", "event", "uint64_clock_t",
						  "_name",  "name",  "pid",   "timestamp"};

	if (below(2))
		snprintf(name, NAME, "field_%u", i);
	else
		snprintf(name, NAME, "%s", words[i]);
	field->is_argument = below(2);
	field->name = name;
	do
		field->type = below(EVENT_NR_TYPES);
	while (field->type == EVENT_STACK && *has_stack);
	*has_stack |= field->type == EVENT_STACK;
	field->size = sizes[below(4)];
	if (event_field_is_code(field) || field->type == EVENT_FLAGS || field->type == EVENT_PAGES)
		field->size = 8;
	if (field->type == EVENT_DICTIONARY)
		field->size = 2;
	if (field->type == EVENT_LONG_STRING)
		field->size = 1;
	if (field->type == EVENT_STRING)
		field->size = (uint8_t)(1 + below(EVENT_STRING_MAX));
	for (unsigned int form = 0; form < forms; form++)
		field->bits[form] = form + 1 == forms ? (uint8_t)(8 * field->size) : bits_of(field);
	field->implied = event_field_is_string(field) ? 0 : (int8_t)(below(3) - 1);
}

static void make_class(struct made_class *made, unsigned int number)
{
	bool has_stack = false;
	unsigned int at = 0;

	memset(made, 0, sizeof(*made));
	snprintf(made->name, sizeof(made->name), "class_%u", number);
	made->class = (struct event_class){.system = "test",
					   .name = made->name,
					   .fields = made->fields,
					   .nr_fields = 1 + below(FIELDS),
					   .nr_forms = (uint8_t)(1 + below(EVENT_FORMS))};
	for (unsigned int i = 0; i < made->class.nr_fields; i++) {
		make_field(&made->fields[i], made->names[i], i, made->class.nr_forms, &has_stack);
		made->fields[i].at = (uint16_t)at;
		at += event_field_bytes(&made->fields[i]);
	}
	made->class.size = (uint16_t)((at + 7) / 8 * 8);
}

/* Few addresses, so that chains have parts in common. */
static void make_stack(uint64_t *words)
{
	unsigned int n = below(EVENT_STACK_WORDS);

	for (unsigned int i = 0; i < n; i++)
		words[i] = UINT64_C(0xffffffff81000000) + i * 16 + below(2);
	if (below(2))
		words[n] = EVENT_STACK_CUT;
}

/* Many are empty, or nearly or just too long. What is not shown of one that is cut is no part of
 * it. */
static void make_long_string(uint8_t *bytes)
{
	const unsigned int most = EVENT_LONG_STRING_MAX;
	const unsigned int n = below(2) ? below(40) : most - 3 + below(4);

	for (unsigned int i = 0; i < n; i++)
		bytes[i] = (uint8_t)('a' + below(26));
	if (n == most)
		bytes[n - 1] = '.';
}

/* A value that the field can have; a string is printable, as the writer makes it. */
static void make_value(const struct event_field *field, uint8_t *bytes)
{
	uint64_t value = random64(), words[EVENT_STACK_WORDS] = {0};

	if (field->type == EVENT_STACK) {
		make_stack(words);
		memcpy(bytes + field->at, words, sizeof(words));
		return;
	}
	if (field->type == EVENT_LONG_STRING) {
		make_long_string(bytes + field->at);
		return;
	}
	if (below(4) == 0)
		value = (uint64_t)(int64_t)field->implied;
	if (field->type == EVENT_PAGES && below(2))
		value = UINT64_C(4096) << below(20);
	if (field->type == EVENT_STRING) {
		for (unsigned int i = 0; i < below(field->size + 1u); i++)
			bytes[field->at + i] = (uint8_t)('a' + below(26));
		return;
	}
	memcpy(bytes + field->at, &value, field->size);
}

struct made_event {
	unsigned int class;
	int64_t ns;
	uint8_t bytes[EVENT_MAX_SIZE];
};

static void make_events(const struct made_class *classes, struct made_event *events)
{
	int64_t now = 1000;

	memset(events, 0, EVENTS * sizeof(*events));
	for (unsigned int i = 0; i < EVENTS; i++) {
		const struct event_class *class;

		events[i].class = below(CLASSES);
		class = &classes[events[i].class].class;
		now += below(20) ? below(5000) : (unsigned int)random64() >> 8;
		events[i].ns = below(30) ? now : (int64_t)random64() - 1000000;
		for (size_t f = 0; f < class->nr_fields; f++)
			make_value(&class->fields[f], events[i].bytes);
	}
}

static void write_events(const char *dir, const struct event_class *classes,
			 const struct made_event *events, bool big_endian)
{
	const struct ctf_identity identity = {.uuid = {1, 2, 3}, .big_endian = big_endian};
	const struct trace_instance instance = {
		.name = "any", .spec = "any */ spec", .classes = classes, .nr_classes = CLASSES};
	static const struct sidecar none;
	struct ctf_maker maker;
	struct stream_writer *w;

	ctf_maker_init(&maker, dir, &identity, &instance);
	w = maker.stream;
	for (unsigned int i = 0; i < EVENTS; i++) {
		if ((!w->ready && w->ops->prepare(w, events[i].ns)) ||
		    w->ops->put(w, events[i].class, events[i].ns, events[i].bytes) ||
		    (!below(90) && w->ops->flush(w)))
			abort();
	}
	ctf_maker_flush(&maker);
	if (maker.encoder->ops->describe(maker.encoder, &none, NULL))
		abort();
	ctf_maker_deinit(&maker);
}

/* The same class, and each field with the value that was written. */
static bool is_same(const struct event *event, const struct event_class *class,
		    const struct made_event *want)
{
	bool same = event->ns == want->ns && !strcmp(event->class->name, class->name) &&
		    event->class->nr_fields == class->nr_fields;

	for (size_t i = 0; same && i < class->nr_fields; i++) {
		const struct event_field *from = &class->fields[i], *to = &event->class->fields[i];

		same = !strcmp(from->name, to->name) && from->type == to->type &&
		       from->is_argument == to->is_argument &&
		       !memcmp(want->bytes + from->at, (const uint8_t *)event->bytes + to->at,
			       event_field_bytes(from));
	}
	return same;
}

static unsigned int count_same(const char *dir, const struct event_class *classes,
			       const struct made_event *events)
{
	struct trace_reader *reader;
	struct event event;
	unsigned int n = 0;

	if (trace_reader_open(dir, &reader, NULL))
		return 0;
	while (n < EVENTS && trace_reader_next(reader, &event, NULL) == 1 &&
	       is_same(&event, &classes[events[n].class], &events[n]))
		n++;
	trace_reader_close(reader);
	return n;
}

static void test_round_trip(void)
{
	struct made_class made[CLASSES];
	struct made_event *events = calloc(EVENTS, sizeof(*events));

	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct scratch dir = scratch_make();
		struct event_class classes[CLASSES];
		unsigned int same;

		seed = round + 1;
		for (unsigned int i = 0; i < CLASSES; i++) {
			make_class(&made[i], i);
			classes[i] = made[i].class;
		}
		make_events(made, events);
		write_events(dir.path, classes, events, round % 2);
		same = count_same(dir.path, classes, events);
		ok(same == EVENTS, "events of random classes %u come back, %s-endian", round,
		   round % 2 ? "big" : "little");
		if (same < EVENTS)
			tap_diag("up to event %u, of class %u", same, events[same].class);
		ok(!babeltrace_run("", dir.path, NULL), "babeltrace2 reads them");
		scratch_remove(&dir);
	}
	free(events);
}

/* The last line is the checksum: whatever changes is noticed. */
static void test_metadata(void)
{
	struct scratch dir = scratch_make();
	struct made_class made[CLASSES];
	struct event_class classes[CLASSES];
	struct made_event *events = calloc(EVENTS, sizeof(*events));
	struct ctf_described described;
	size_t size, wrong = 0;
	char *text;

	seed = 7;
	for (unsigned int i = 0; i < CLASSES; i++) {
		make_class(&made[i], i);
		classes[i] = made[i].class;
	}
	make_events(made, events);
	write_events(dir.path, classes, events, false);
	text = file_get(dir.path, CTF_METADATA_NAME, &size);
	ok(!ctf_metadata_parse(text, size, &described, NULL) && !described.damaged,
	   "the metadata is whole");
	is_str(described.instances[0].spec, "any */ spec",
	       "a spec that looks like the end of a comment comes back");
	ctf_described_deinit(&described);
	for (size_t i = 0; i < size; i++) {
		int ret;

		text[i] ^= 1 << i % 7;
		ret = ctf_metadata_parse(text, size, &described, NULL);
		wrong += !ret && !described.damaged;
		if (!ret)
			ctf_described_deinit(&described);
		text[i] ^= 1 << i % 7;
	}
	is_u64(wrong, 0, "a changed bit in any byte of the metadata is noticed");
	free(text);
	free(events);
	scratch_remove(&dir);
}

static void test_crc(void)
{
	uint8_t bytes[100] = {0};
	unsigned int wrong = 0;

	seed = 3;
	is_u64(crc32c(0, "123456789", 9), 0xe3069283, "the check value of CRC-32C");
	is_u64(crc32c_by_table(0, "123456789", 9), 0xe3069283, "the same by the table");
	for (unsigned int i = 0; i < 1000; i++) {
		unsigned int from = below(50), size = below(50), part = below(size + 1);

		bytes[below(100)] = (uint8_t)below(256);
		wrong += crc32c(i, bytes + from, size) != crc32c_by_table(i, bytes + from, size);
		wrong += crc32c(crc32c(i, bytes + from, part), bytes + from + part, size - part) !=
			 crc32c(i, bytes + from, size);
	}
	is_u64(wrong, 0, "the instruction and the table agree, in parts as well");
}

int main(void)
{
	test_crc();
	test_metadata();
	test_round_trip();
	return tap_done();
}
