/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ORC tables of any bytes, as a guest's memory may have them. The input begins with a byte of the
 * kernel's flavour; it overwrites the tables of a tiny kernel's image, addresses first, and what is
 * left are addresses to look up.
 */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/orc/orc-table.h"
#include "tests/lib/fake-kernel.h"

enum { NR_FLAVOURS = 2, IP_BYTES = 4 * FAKE_NR_ORC, ENTRY_BYTES = 6 * FAKE_NR_ORC };

static struct fake_kernel kernels[NR_FLAVOURS];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	if (fake_kernel_create(&kernels[0], FAKE_5_10, 4) ||
	    fake_kernel_create(&kernels[1], FAKE_6_12, 4))
		abort();
	return 0;
}

static void look_up(const struct orc_table *table, uint64_t link)
{
	struct orc_entry entry;

	if (orc_table_find(table, link, &entry) &&
	    (entry.kind > ORC_KIND_REGS_PARTIAL || entry.sp_base > ORC_BASE_OTHER ||
	     entry.bp_base > ORC_BASE_OTHER))
		abort();
}

/* The same bytes as tables of a module, whose addresses ascend or are refused. */
static void look_up_module(const struct fake_kernel *fake, const uint8_t *data, size_t size)
{
	const size_t n = size / (4 + 6);
	struct orc_table table;

	if (!orc_table_init_module(&fake->kernel.known.orc, data, FAKE_LINK_TEXT, data + 4 * n, n,
				   &table))
		return;
	for (size_t at = 0; size - at >= 8; at += 8) {
		uint64_t gva;

		memcpy(&gva, data + at, sizeof(gva));
		look_up(&table, gva);
		look_up(&table, FAKE_LINK_TEXT + gva % FAKE_IMAGE_SIZE);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fake_kernel *fake;
	struct orc_table table;
	uint64_t link;

	if (size < 1 + IP_BYTES + ENTRY_BYTES)
		return 0;
	fake = &kernels[data[0] % NR_FLAVOURS];
	memcpy(fake->image.init_bytes + FAKE_ORC_IPS, data + 1, IP_BYTES);
	memcpy(fake->image.init_bytes + FAKE_ORC_ENTRIES, data + 1 + IP_BYTES, ENTRY_BYTES);
	look_up_module(fake, data + 1, size - 1);
	orc_table_init(&fake->image, &table);
	if (!orc_table_is_usable(&table))
		return 0;
	for (size_t at = 1 + IP_BYTES + ENTRY_BYTES; size - at >= sizeof(link);
	     at += sizeof(link)) {
		memcpy(&link, data + at, sizeof(link));
		look_up(&table, link);
		look_up(&table, FAKE_LINK_TEXT + link % FAKE_IMAGE_SIZE);
	}
	return 0;
}
