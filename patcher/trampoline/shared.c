/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/trampoline.h"

#include <errno.h>
#include <string.h>
#include "patcher/trampoline/code.h"

/* Where the function's return address lies, from RSP: above the flags; and, at an entry, above the
 * site's return address. */
enum { ENTRY_CALLER_AT = 16, RETURN_CALLER_AT = 8 };

/* Registers that no function takes parameters in: records are made with them. */
enum { ENTRY_CHANGED = 1 << ASM_RAX | 1 << ASM_R10 | 1 << ASM_R11 };

static int emit(const struct shared_spec *spec, struct shared_code *out, struct error *err)
{
	const bool returns = spec->point == POINT_RETURN;
	struct assembler a;
	struct direct_code records = {.a = &a,
				      .point = spec->point,
				      .kernel = spec->kernel,
				      .records = spec->records,
				      .n = spec->nr_records,
				      .caller_at = returns ? RETURN_CALLER_AT : ENTRY_CALLER_AT,
				      .keep_rdx = true,
				      .slow = out->slow};

	registers_choose(&records, returns ? 0 : ENTRY_CHANGED);
	assembler_init(&a, out->bytes, sizeof(out->bytes), spec->gva);
	code_enter(&a, spec->unprivileged);
	registers_push(&records);
	direct_emit(&records);
	registers_drop(&records);
	code_leave(&a, returns ? spec->next : 0, spec->unprivileged);
	direct_emit_slow(&records);
	out->size = (uint16_t)a.size;
	return assembler_finish(&a, err);
}

int shared_generate(const struct shared_spec *spec, struct decoder *decoder,
		    struct shared_code *out, struct error *err)
{
	int ret = direct_check(spec->records, spec->nr_records, spec->point, spec->kernel, err);

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
						.gva = spec->gva,
						.next = spec->next,
						.records = spec->records,
						.nr_records = spec->nr_records},
			  out->slow, spec->nr_records, decoder, err);
}
