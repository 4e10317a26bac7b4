/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fields of a dynamic probe that could not be read, as lines and as JSON: with 32 bits of faults,
 * and with 64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/report/event-text.h"
#include "tests/lib/tap.h"

enum { FIELDS = 64 };

static struct event_field fields[FIELDS + 1] = {{.name = "faults", .type = EVENT_HEX}};
static char names[FIELDS][sizeof("f_18446744073709551615")];

/* A class of `n` bytes behind `size` bytes of faults. */
static void make_class(uint8_t size, size_t n, struct event_class *class)
{
	fields[0].size = size;
	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "f_%zu", i);
		fields[1 + i] = (struct event_field){.name = names[i],
						     .type = EVENT_UINT,
						     .size = 1,
						     .at = (uint16_t)(size + i)};
	}
	*class = (struct event_class){.system = "s",
				      .name = "e",
				      .fields = fields,
				      .nr_fields = 1 + n,
				      .size = (uint16_t)((size + n + 7) & ~(size_t)7),
				      .nr_forms = 1};
}

static const char *printed(const struct event_class *class, uint64_t faults, bool json)
{
	static char text[8192];
	uint8_t bytes[8 + FIELDS] = {0};
	const struct event event = {.class = class, .bytes = bytes};
	struct event_printer *printer;
	struct event_texts *texts;
	FILE *file = tmpfile();
	size_t n;

	memcpy(bytes, &faults, fields[0].size);
	memset(bytes + fields[0].size, 7, FIELDS);
	if (!file || event_texts_create(NULL, &texts, NULL) ||
	    event_printer_create(fileno(file), json, texts, &printer, NULL) ||
	    event_printer_put(printer, &event) || event_printer_flush(printer))
		abort();
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	event_printer_destroy(printer);
	event_texts_destroy(texts);
	return text;
}

/* Each fault, and only that one, is shown. */
static void test_bits(uint8_t size, size_t n)
{
	struct event_class class;
	unsigned int right = 0;
	char want[40];

	make_class(size, n, &class);
	for (size_t i = 0; i < n; i++) {
		const char *text = printed(&class, UINT64_C(1) << i, false);
		const char *at = strstr(text, "(fault)");

		snprintf(want, sizeof(want), " f_%zu=(fault)", i);
		right += strstr(text, want) && !strstr(at + 1, "(fault)");
		snprintf(want, sizeof(want), "\"f_%zu\":null", i);
		right += strstr(printed(&class, UINT64_C(1) << i, true), want) != NULL;
	}
	ok(right == 2 * n, "each of %zu faults of %d bits is shown at its field", n, 8 * size);
	ok(!strstr(printed(&class, 0, false), "fault") && !strstr(printed(&class, 0, true), "null"),
	   "without one all fields have their values");
}

/* An argument may have the name of what is recorded beside it. */
static void test_arguments(void)
{
	static const struct event_field own[] = {
		{.name = "common_faults", .type = EVENT_HEX, .size = 4, .at = 0},
		{.name = "faults", .type = EVENT_HEX, .size = 4, .at = 4, .is_argument = true},
		{.name = "vcpu", .type = EVENT_UINT, .size = 1, .at = 8, .is_argument = true}};
	struct event_class class = {.system = "s",
				    .name = "e",
				    .fields = own,
				    .nr_fields = 3,
				    .size = 16,
				    .nr_forms = 1};
	const char *text;

	fields[0].size = 4;
	text = printed(&class, 2, false);
	ok(strstr(text, " faults=0x7070707 vcpu=(fault)"), "it is shown as others are: %s", text);
	text = printed(&class, 2, true);
	ok(strstr(text, "\"vcpu\":0") && strstr(text, "\"vcpu_\":null"),
	   "and has a key of its own beside those of each event: %s", text);
	class.fields++;
	class.nr_fields--;
	text = printed(&class, 0, false);
	ok(strstr(text, " faults=0x7070707 vcpu=7"), "no argument says what are faults: %s", text);
}

int main(void)
{
	test_bits(4, 32);
	test_bits(8, 33);
	test_bits(8, FIELDS);
	test_arguments();
	return tap_done();
}
