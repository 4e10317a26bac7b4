/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The types of a module, in guest memory that the input changes. Input: one byte; if it is odd,
 * what follows is the module's section, behind a header of ours if it is 3 more than a multiple of
 * 4; else {place u32, value u64} each, of which odd places are in what the kernel keeps of the
 * module.
 */
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/module-btf.h"
#include "tests/lib/fake-module-btf.h"

enum {
	MODULE_GPA = FAKE_HEAP_GPA,
	KALLSYMS_GPA = FAKE_HEAP_GPA + 0x1000,
	BTF_GPA = FAKE_HEAP_GPA + 0x2000,
	SECTION_GPA = BTF_GPA + FAKE_BTF_BYTES,
	HEADER = 24,
	MAX_TYPES = 1 << 14,
	MAX_WORDS = 256,
	WORD = 8,
};

struct undo {
	uint64_t place, old;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fake_struct structs[] = {
	{"s", 96, {{"a", 8, 4, 0, 0}, {"b", 16, 8, 0, 0}}},
	{NULL, 0, {{NULL, 0, 0, 0, 0}}},
};
static const char *const prototypes[] = {"int f(struct s *s, struct module *b)", NULL};
static const char strings[] = "\0s\0a\0b\0f\0e";

static struct fake_kernel fake;
static struct budget budget;
static uint8_t *before; /* the section's memory */

static void create(void)
{
	if (fake_kernel_create(&fake, FAKE_6_12, 4))
		abort();
	budget_init(&budget, BUDGET_OF_A_GUEST);
	fake.kernel.guest->budget = &budget;
	fake_put_module(&fake, MODULE_GPA, "m", 0xffffffffc0100000ull, 0x1000, KALLSYMS_GPA);
	fake_put_module_btf(&fake, MODULE_GPA, BTF_GPA, structs, prototypes);
	before = malloc(FAKE_RAM);
	if (!before)
		abort();
	memcpy(before, fake.ram, FAKE_RAM);
}

static void look_up(const struct btf_types *types)
{
	static const char *const members[] = {"a", "b", "a.b", "a.a.b", "x", "b.", "."};
	struct btf_prototype prototype;
	struct btf_field field;
	uint32_t type;
	bool found;

	btf_enumerator(types, "e", &found);
	btf_struct_size(types, "s");
	if (btf_prototype(types, "f", &prototype, NULL))
		return;
	for (unsigned int i = 0; i < prototype.nr_params; i++) {
		btf_value(types, prototype.params[i].type_id);
		btf_is_aligned(types, prototype.params[i].type_id);
		for (size_t k = 0; k < sizeof(members) / sizeof(members[0]); k++)
			if (!btf_follow(types, prototype.params[i].type_id, members[k], &field,
					&type, NULL) ||
			    !btf_member(types, prototype.params[i].type_id, members[k], &field,
					&type, NULL))
				btf_value(types, type);
	}
}

static void read_types(void)
{
	struct module_btf btf;

	if (!module_btf_read(&fake.kernel, "m", &btf, NULL)) {
		look_up(btf.types);
		module_btf_deinit(&btf);
	}
	if (atomic_load(&budget.used))
		abort();
}

static void put_section(const uint8_t *data, size_t size, bool has_header)
{
	const uint32_t types = (uint32_t)(size < MAX_TYPES ? size : MAX_TYPES);
	const uint32_t header[] = {0x1eb9f, HEADER, 0, types, types, sizeof(strings)};
	uint8_t *at = fake.ram + SECTION_GPA;
	uint32_t all = types;

	if (!has_header) {
		memcpy(at, data, types);
	} else {
		memcpy(at, header, sizeof(header));
		memcpy(at + HEADER, data, types);
		memcpy(at + HEADER + types, strings, sizeof(strings));
		all += HEADER + sizeof(strings);
	}
	fake_put32(&fake, BTF_GPA + FAKE_STRUCT_BTF + FAKE_BTF_SIZE, all);
	read_types();
	memcpy(fake.ram + BTF_GPA, before + BTF_GPA, FAKE_BTF_BYTES + all);
}

static uint64_t choose_place(uint32_t word)
{
	if (word & 1)
		return BTF_GPA + (word >> 2) % FAKE_MODULE_BTF_ROOM;
	if (word & 2)
		return MODULE_GPA + (word >> 2) % 0x1000;
	return (word >> 2) % (FAKE_RAM - WORD);
}

static void change_words(const uint8_t *data, size_t size)
{
	struct undo undo[MAX_WORDS];
	uint32_t place;
	size_t n = 0;

	for (; n < MAX_WORDS && size >= sizeof(place) + WORD; size -= sizeof(place) + WORD) {
		memcpy(&place, data, sizeof(place));
		undo[n].place = choose_place(place);
		memcpy(&undo[n].old, fake.ram + undo[n].place, WORD);
		memcpy(fake.ram + undo[n++].place, data + sizeof(place), WORD);
		data += sizeof(place) + WORD;
	}
	read_types();
	while (n--)
		memcpy(fake.ram + undo[n].place, &undo[n].old, WORD);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!fake.ram)
		create();
	if (!size)
		return 0;
	if (data[0] & 1)
		put_section(data + 1, size - 1, data[0] & 2);
	else
		change_words(data + 1, size - 1);
	return 0;
}
