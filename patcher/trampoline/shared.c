/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/trampoline.h"

#include <errno.h>
#include <string.h>
#include "patcher/trampoline/code.h"

enum { CALLER_AT = 16 }; /* from RSP: above the flags and the site's return address */

static int emit(const struct shared_spec *spec, struct shared_code *out, struct error *err)
{
	struct assembler a;
	struct direct_code records = {.a = &a,
				      .kernel = spec->kernel,
				      .records = spec->records,
				      .n = spec->nr_records,
				      .caller_at = CALLER_AT,
				      .keep_rdx = true,
				      .slow = out->slow};

	assembler_init(&a, out->bytes, sizeof(out->bytes), spec->gva);
	code_enter(&a, spec->unprivileged);
	direct_emit(&records);
	code_leave(&a, 0, spec->unprivileged);
	direct_emit_slow(&records);
	out->size = (uint16_t)a.size;
	return assembler_finish(&a, err);
}

int shared_generate(const struct shared_spec *spec, struct decoder *decoder,
		    struct shared_code *out, struct error *err)
{
	int ret = direct_check(spec->records, spec->nr_records, spec->kernel, err);

	if (ret)
		return ret;
	if (!spec->nr_records)
		return error_set(err, EINVAL, "shared code without records");
	memset(out, 0, sizeof(*out));
	ret = emit(spec, out, err);
	if (ret)
		return ret;
	return code_check(&(struct code_region){.bytes = out->bytes,
						.size = out->size,
						.gva = spec->gva},
			  out->slow, spec->nr_records, decoder, err);
}
