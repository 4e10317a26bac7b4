/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a jump covers that is put into a function, and whether it may. */
#include <errno.h>
#include <string.h>
#include "guest-symbols/functions/function-set.h"
#include "guest-symbols/image/mcount.h"
#include "patcher/text/body.h"

static int displace_insn(void *arg, const struct body *body, const struct insn *insn,
			 struct error *err)
{
	struct displaced *d = arg;

	if (insn->address != d->gva + d->size || d->size >= JUMP_SIZE)
		return 0;
	if (!insn->movable)
		return error_set_at(err, ENOTSUP, insn->address,
				    "an instruction there cannot be executed elsewhere");
	if (body_check_shown(body, insn->address, insn->size, err))
		return -EBUSY;
	memcpy(d->bytes + d->size, body->bytes + (insn->address - body->gva), insn->size);
	d->size += insn->size;
	return 0;
}

static int refuse_target(void *arg, const struct body *body, const struct insn *insn,
			 struct error *err)
{
	const struct displaced *d = arg;

	(void)body;
	if (insn->target && body_is_inside(insn->target, d->gva, d->size))
		return error_set_at(err, EBUSY, insn->address,
				    "a jump leads between the instructions that a jump covers");
	return 0;
}

/* The guest's ftrace, and what restores text after it, knows its sites alone. */
static int check_sites(const struct kernel *kernel, const struct displaced *d, struct error *err)
{
	const struct kernel_image *image = kernel->image;
	const uint64_t link = kernel_link(kernel, d->gva);

	if (site_in_range(image->mcount_sites, image->nr_mcount_sites, link - (SITE_SIZE - 1),
			  link + d->size))
		return error_set_at(err, ENOTSUP, d->gva, "the kernel has an mcount site there");
	return 0;
}

/* A label that is off is a NOP, of 5 bytes or 2, and so may be a static call. */
static bool may_be_label(const struct displaced *d)
{
	static const uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00}, nop2[] = {0x66, 0x90};

	return memmem(d->bytes, d->size, nop5, sizeof(nop5)) ||
	       memmem(d->bytes, d->size, nop2, sizeof(nop2));
}

/* The kernel rewrites some instructions, and knows others by their addresses. */
static int check_lists(const struct kernel *kernel, const struct displaced *d, struct error *err)
{
	const struct reserved_text *text;
	struct error unknown;
	const char *why;

	if (reserved_text_changing_of(kernel->image, &text, &unknown))
		return may_be_label(d) ? error_set_at(err, ENOTSUP, d->gva, "%s", unknown.text) : 0;
	why = reserved_text_find(text, kernel_link(kernel, d->gva), d->size);
	return why ? error_set_at(err, ENOTSUP, d->gva, "%s", why) : 0;
}

int function_displace(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
		      uint64_t size, uint64_t place, struct displaced *out, struct error *err)
{
	struct body body;
	int ret = body_read(kernel, gva, size, &body, err);

	if (ret)
		return ret;
	*out = (struct displaced){.gva = place};
	ret = body_for_each(&body, decoder, displace_insn, out, err);
	if (!ret && out->size < JUMP_SIZE)
		ret = error_set_at(err, ENOTSUP, place, "the function has no room for a jump");
	if (!ret)
		ret = body_for_each(&body, decoder, refuse_target, out, err);
	if (!ret)
		ret = check_sites(kernel, out, err);
	if (!ret)
		ret = check_lists(kernel, out, err);
	body_free(&body);
	return ret;
}
