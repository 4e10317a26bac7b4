/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-module-btf.h"

#include <stdlib.h>

static const uint64_t head = FAKE_LINK_TEXT + FAKE_SLIDE + FAKE_BTF_MODULES;

static void put_list(struct fake_kernel *fake, uint64_t first)
{
	fake_put64(fake, FAKE_PHYS_TEXT + FAKE_BTF_MODULES, first);
}

uint32_t fake_put_module_btf(struct fake_kernel *fake, uint64_t module_gpa, uint64_t gpa,
			     const struct fake_struct *structs, const char *const *prototypes)
{
	const struct btf_types *base = fake->image.btf;
	const uint64_t btf = gpa + FAKE_STRUCT_BTF, bytes = gpa + FAKE_BTF_BYTES;
	const size_t size = fake_btf_split(base, structs, prototypes, fake->ram + bytes,
					   FAKE_MODULE_BTF_ROOM - FAKE_BTF_BYTES);

	if (!size)
		abort();
	put_list(fake, fake_direct(gpa) + FAKE_LISTED_LIST);
	fake_put64(fake, gpa + FAKE_LISTED_LIST, head);
	fake_put64(fake, gpa + FAKE_LISTED_MODULE, fake_direct(module_gpa));
	fake_put64(fake, gpa + FAKE_LISTED_BTF, fake_direct(btf));
	fake_put64(fake, btf + FAKE_BTF_DATA, fake_direct(bytes));
	fake_put32(fake, btf + FAKE_BTF_SIZE, (uint32_t)size);
	fake_put32(fake, btf + FAKE_BTF_START_ID, btf_end_id(base));
	fake_put32(fake, btf + FAKE_BTF_START_STRING, btf_end_string(base));
	return (uint32_t)size;
}

void fake_clear_module_btf(struct fake_kernel *fake)
{
	put_list(fake, head);
}
