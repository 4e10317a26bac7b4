/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-patches.h"

#include <stdlib.h>
#include <string.h>

const uint8_t fake_patch_old[SITE_SIZE] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
const uint8_t fake_patch_new[SITE_SIZE] = {0xe6, 0xe4, 0x0f, 0x1f, 0x00};
const uint8_t fake_patch_theirs[SITE_SIZE] = {0xe8, 1, 2, 3, 4};

struct patch fake_patch_at(uint64_t offset)
{
	struct patch p = {.gva = fake_gva(offset), .size = SITE_SIZE, .function = "fn"};

	memcpy(p.old_bytes, fake_patch_old, SITE_SIZE);
	memcpy(p.new_bytes, fake_patch_new, SITE_SIZE);
	return p;
}

void fake_patch_put(struct fake_guest *fg, struct patch_set *set, uint64_t offset)
{
	struct patch p = fake_patch_at(offset);

	fake_code(fg, offset, fake_patch_old, SITE_SIZE);
	if (patch_set_add(set, &p, NULL))
		abort();
}

bool fake_patch_is(struct fake_guest *fg, uint64_t offset, const uint8_t *bytes)
{
	return !memcmp(fake_text(fg, offset), bytes, SITE_SIZE);
}
