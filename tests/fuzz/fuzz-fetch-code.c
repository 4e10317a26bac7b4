/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs of dynamic probes: their code records what the interpreter reads. */
#include <stdlib.h>
#include "tests/lib/fetch-oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fetch_helpers helpers;
	struct fetch_draw draw = {data, size};
	struct fetch_program program;
	struct fetch_probe probe;
	enum fake_site_kind kind;
	unsigned int faults = 0;

	if (!size)
		return 0;
	if (!helpers.read_kernel)
		helpers = fetch_oracle_helpers();
	fake_random_seed(fetch_draw_below(&draw, 1 << 16));
	kind = (enum fake_site_kind)fetch_draw_below(&draw, FAKE_INSIDE + 1);
	fetch_oracle_fill();
	fetch_draw_probe(&draw, kind, &probe);
	program = fetch_program_of(&probe, &helpers);
	if (!fetch_oracle_agrees(kind, &program, &faults))
		abort();
	return 0;
}
