/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/identify.h"

enum {
	PADDING = SLOT_MAX_SIZE, /* behind a function's end: INT3 that a trailing `ret` may use */
	INT3 = 0xcc,
};

int body_read(const struct kernel *kernel, uint64_t gva, uint64_t size, struct body *body,
	      struct error *err)
{
	int ret;

	if (size == 0 || size > FUNCTION_MAX_SIZE)
		return error_set_at(err, E2BIG, gva, "function of %llu bytes is not decoded",
				    (unsigned long long)size);
	*body = (struct body){.gva = gva, .size = size, .bytes_size = size + PADDING};
	body->bytes = malloc(2 * body->bytes_size);
	if (!body->bytes)
		return error_set(err, ENOMEM, "out of memory");
	body->now = body->bytes + body->bytes_size;
	ret = kernel_read(kernel, gva, body->now, body->bytes_size, err);
	if (ret) {
		body_free(body);
		return ret;
	}
	memcpy(body->bytes, body->now, body->bytes_size);
	guest_kprobes_restore(kernel, gva, body->bytes, body->bytes_size);
	return 0;
}

void body_free(struct body *body)
{
	free(body->bytes);
	body->bytes = body->now = NULL;
}

int body_check_shown(const struct body *body, uint64_t gva, size_t size, struct error *err)
{
	const size_t at = gva - body->gva;

	return memcmp(body->bytes + at, body->now + at, size)
		       ? error_set_at(err, EBUSY, gva, "a kprobe of the guest is there")
		       : 0;
}

static bool is_linked_int3(const struct kernel *kernel, uint64_t gva)
{
	const uint8_t *linked = kernel_image_bytes(kernel->image, kernel_link(kernel, gva), 1);

	return linked && *linked == INT3;
}

/* ud2 is what compilers write where the code cannot go on. */
static bool may_not_return(const struct insn *insn, const uint8_t *bytes)
{
	static const uint8_t ud2[] = {0x0f, 0x0b};

	return insn->kind == INSN_CALL_REL ||
	       (insn->size == sizeof(ud2) && !memcmp(bytes, ud2, sizeof(ud2)));
}

static bool is_filler(const struct kernel *kernel, const struct insn *insn,
		      const struct insn *before, const uint8_t *bytes)
{
	if (!before)
		return false;
	switch (before->kind) {
	case INSN_RET:
	case INSN_JMP_REL:
	case INSN_JMP_INDIRECT:
	case INSN_INT3:
		return true;
	default:
		return is_linked_int3(kernel, insn->address) && may_not_return(before, bytes);
	}
}

bool body_shows_hidden(const struct kernel *kernel, uint64_t gva, const uint8_t *bytes, size_t size,
		       const struct insn *insn, const struct insn *before)
{
	const uint64_t at = insn->kind == INSN_INT3 ? insn->address : insn->target;

	if (at - gva >= size || bytes[at - gva] != INT3)
		return false;
	if (!kernel->image->in_memory && is_linked_int3(kernel, at))
		return false;
	return insn->kind != INSN_INT3 ||
	       !is_filler(kernel, insn, before, before ? bytes + (before->address - gva) : NULL);
}

/* Decode linearly: compilers put no data into kernel functions. */
int body_for_each(const struct body *body, struct decoder *decoder, body_fn *fn, void *arg,
		  struct error *err)
{
	size_t pos = 0;
	struct insn insn;
	int ret;

	while (pos < body->size) {
		ret = decoder_decode(decoder, body->bytes + pos, body->size - pos, body->gva + pos,
				     &insn, err);
		if (!ret)
			ret = fn(arg, body, &insn, err);
		if (ret)
			return ret;
		pos += insn.size;
	}
	return 0;
}
