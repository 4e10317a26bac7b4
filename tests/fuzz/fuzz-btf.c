/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "guest-symbols/btf/btf.h"

/*
 * The input is a type section; header and strings are ours, so that names match and lookups get
 * deep. An input that brings its own header is parsed as it is, too.
 */
static const char strings[] = "\0s\0a\0b\0f\0e";
enum { HEADER = 24, MAX_TYPES = 1 << 14 };

static void look_up(const struct btf_types *btf)
{
	static const char *const members[] = {"a", "b", "a.b", "a.a.b", "b.", ".", ""};
	struct btf_prototype prototype;
	struct btf_field field;
	bool found;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		btf_field(btf, "s", members[i], &field, NULL);
	btf_struct_size(btf, "s");
	btf_enumerator(btf, "e", &found);
	btf_prototype(btf, "f", &prototype, NULL);
}

static void fuzz(const uint8_t *bytes, size_t size)
{
	struct btf_types *btf;

	if (btf_parse(bytes, size, &btf, NULL))
		return;
	look_up(btf);
	btf_destroy(btf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[HEADER + MAX_TYPES + sizeof(strings)];
	uint32_t types = (uint32_t)(size < MAX_TYPES ? size : MAX_TYPES);
	const uint32_t header[] = {0x1eb9f, HEADER, 0, types, types, sizeof(strings)};

	memcpy(bytes, header, sizeof(header));
	memcpy(bytes + HEADER, data, types);
	memcpy(bytes + HEADER + types, strings, sizeof(strings));
	fuzz(bytes, HEADER + types + sizeof(strings));
	fuzz(data, size);
	return 0;
}
