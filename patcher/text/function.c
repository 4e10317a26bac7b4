/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/function.h"

#include <errno.h>
#include <string.h>
#include "guest-symbols/functions/function-set.h"
#include "patcher/text/body.h"

enum { RUN_MAX = 64 }; /* bytes decoded where no symbol has a size */

struct site_check {
	uint64_t site;
	bool seen;
};

static int check_insn(void *arg, const struct body *body, const struct insn *insn,
		      struct error *err)
{
	struct site_check *check = arg;

	(void)body;
	if (insn->address == check->site && insn->size == SITE_SIZE)
		check->seen = true;
	if (insn->target && body_is_inside(insn->target, check->site, SITE_SIZE))
		return error_set_at(err, EBUSY, insn->address, "a jump leads into the mcount site");
	return 0;
}

int function_check_site(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
			uint64_t size, uint64_t site, struct error *err)
{
	struct site_check check = {.site = site};
	struct body body;
	int ret;

	ret = body_read(kernel, gva, size, &body, err);
	if (ret)
		return ret;
	ret = body_for_each(&body, decoder, check_insn, &check, err);
	body_free(&body);
	if (ret)
		return ret;
	if (!check.seen)
		return error_set_at(err, EBUSY, site,
				    "the mcount site is not one 5-byte instruction");
	return 0;
}

/* --- exits ------------------------------------------------------------------------------------ */

enum { NR_BEFORE = JUMP_SIZE - 1 }; /* instructions: as many as an epilogue may have */

struct exit_search {
	const struct kernel *kernel;
	struct decoder *decoder;
	struct function *function;
	uint64_t thunk;    /* by which functions return now */
	unsigned int part; /* being decoded */
	bool epilogues;
	uint64_t before[NR_BEFORE]; /* addresses of the last instructions, the last one first */
	struct insn last;
};

static bool in_part(const struct function_part *part, uint64_t gva)
{
	return gva >= part->gva && gva < part->gva + part->size;
}

static bool in_known_part(const struct function *f, uint64_t gva)
{
	for (unsigned int i = 0; i < f->nr_parts; i++)
		if (in_part(&f->parts[i], gva))
			return true;
	return false;
}

static int add_exit(struct function *f, const struct body *body, uint64_t gva, struct slot slot,
		    struct error *err)
{
	struct function_exit *exit;

	if (f->nr_exits == FUNCTION_MAX_EXITS)
		return error_set_at(err, E2BIG, gva, "more than %d function exits",
				    FUNCTION_MAX_EXITS);
	if (body_check_shown(body, gva, slot.size, err))
		return error_set_at(err, EBUSY, gva,
				    "a kprobe of the guest is at an exit: its result cannot be "
				    "recorded");
	exit = &f->exits[f->nr_exits++];
	exit->gva = gva;
	exit->slot = slot;
	memcpy(exit->bytes, body->bytes + (gva - body->gva), slot.size);
	return 0;
}

static struct slot slot_at(const struct body *body, const struct insn *insn)
{
	size_t pos = insn->address - body->gva;

	return slot_classify(body->bytes + pos, body->bytes_size - pos, insn->address);
}

static bool is_return_thunk(const struct exit_search *search, uint64_t gva)
{
	return function_is_return_thunk(search->kernel, search->thunk, gva);
}

/*
 * Before alternatives are applied, static_cpu_has() jumps to a few instructions in .altinstr_aux,
 * which has no symbols: they end with a jump back.
 */
static int part_of_run(const struct exit_search *search, uint64_t gva, struct function_part *part,
		       struct error *err)
{
	uint8_t bytes[RUN_MAX];
	struct insn insn = {0};
	int ret = kernel_read(search->kernel, gva, bytes, sizeof(bytes), err);

	*part = (struct function_part){.gva = gva};
	while (!ret && insn.kind != INSN_JMP_REL) {
		ret = decoder_decode(search->decoder, bytes + part->size,
				     sizeof(bytes) - part->size, gva + part->size, &insn, err);
		part->size += insn.size;
	}
	return ret;
}

static int part_at(const struct exit_search *search, const struct insn *insn,
		   struct function_part *part, struct error *err)
{
	const struct kernel *kernel = search->kernel;
	uint64_t link = kernel_link(kernel, insn->target);
	const struct symbol *s = symbols_covering(kernel->image->symbols, link);

	if (kernel_in_image(kernel, insn->target) && !kernel_image_is_text(kernel->image, link))
		return part_of_run(search, insn->target, part, err);
	if (!s || !kernel_image_is_text(kernel->image, s->address) || !s->size)
		return error_set_at(err, ENOTSUP, insn->address,
				    "a jump leads to no known function");
	/* with names of mitigations between: __x86_indirect_its_thunk_rax */
	if (!strncmp(s->name, "__x86_indirect_", strlen("__x86_indirect_")))
		return error_set_at(err, ENOTSUP, insn->address,
				    "the function ends in an indirect tail call");
	*part = (struct function_part){kernel_gva(kernel, s->address), s->size};
	if (!strstr(s->name, ".cold") && function_is_common_exit(kernel, part->gva))
		return error_set_at(err, ENOTSUP, insn->address,
				    "very many functions end in what a jump leads to");
	return 0;
}

/* A jump out of the function: into another part of it, or a tail call. */
static int follow(struct exit_search *search, const struct insn *insn, struct error *err)
{
	struct function *f = search->function;

	if (is_return_thunk(search, insn->target))
		return error_set_at(err, ENOTSUP, insn->address,
				    "a jump to a return thunk is no return slot");
	if (in_known_part(f, insn->target))
		return 0;
	if (f->nr_parts == FUNCTION_MAX_PARTS)
		return error_set_at(err, E2BIG, insn->address, "more than %d parts and tail calls",
				    FUNCTION_MAX_PARTS);
	return part_at(search, insn, &f->parts[f->nr_parts++], err);
}

static void note_before(struct exit_search *search, const struct insn *insn)
{
	memmove(search->before + 1, search->before,
		sizeof(search->before) - sizeof(search->before[0]));
	search->before[0] = insn->address;
	search->last = *insn;
}

/* Where a slot begins that ends with the `ret` and `room` bytes in all; 0: nowhere. */
static uint64_t find_epilogue(const struct exit_search *search, const struct body *body,
			      uint64_t ret, uint8_t room)
{
	for (size_t i = 0; i < NR_BEFORE && search->before[i]; i++) {
		const uint64_t gva = search->before[i];

		if (!epilogue_is_known(body->bytes + (gva - body->gva), ret - gva))
			return 0;
		if (ret - gva + room >= JUMP_SIZE)
			return gva;
	}
	return 0;
}

/* `ret`, or `repz ret`, as compilers wrote it for AMD's K8. */
static bool is_plain_return(const struct body *body, const struct insn *insn)
{
	const uint8_t *bytes = body->bytes + (insn->address - body->gva);

	return (insn->size == 1 && bytes[0] == 0xc3) ||
	       (insn->size == 2 && bytes[0] == 0xf3 && bytes[1] == 0xc3);
}

static int add_return(struct exit_search *search, const struct body *body, const struct insn *insn,
		      struct slot slot, struct error *err)
{
	const uint8_t room = slot.state == SLOT_RET ? slot.size : insn->size;
	uint64_t gva = insn->address;

	if (search->epilogues && room < JUMP_SIZE && is_plain_return(body, insn))
		gva = find_epilogue(search, body, insn->address, room);
	if (gva && gva < insn->address) {
		slot = (struct slot){.state = SLOT_EPILOGUE,
				     .size = (uint8_t)(insn->address - gva + room),
				     .epilogue = (uint8_t)(insn->address - gva)};
		return add_exit(search->function, body, gva, slot, err);
	}
	if (slot.state != SLOT_RET)
		return error_set_at(
			err, ENOTSUP, insn->address,
			"its result cannot be recorded: a `ret` has no room for a patch");
	return add_exit(search->function, body, insn->address, slot, err);
}

/* What a breakpoint hides may be an exit. */
static int check_hidden(const struct exit_search *search, const struct body *body,
			const struct insn *insn, struct error *err)
{
	const struct insn *before = search->before[0] ? &search->last : NULL;

	if (body_shows_hidden(search->kernel, body->gva, body->bytes, body->size, insn, before))
		return error_set_at(err, EBUSY, insn->address,
				    "its result cannot be recorded: an INT3 is in the function, "
				    "maybe a breakpoint of the guest");
	return 0;
}

static int find_exit(void *arg, const struct body *body, const struct insn *insn, struct error *err)
{
	struct exit_search *search = arg;
	const struct function_part *own = &search->function->parts[search->part];
	struct slot slot = slot_at(body, insn);

	if (slot.state == SLOT_TRAP)
		return error_set_at(err, EBUSY, insn->address, "a trap of another Sonde is there");
	if (check_hidden(search, body, insn, err))
		return -EBUSY;
	switch (insn->kind) {
	case INSN_RET:
		return add_return(search, body, insn, slot, err);
	case INSN_JMP_REL:
		if (slot.state == SLOT_JMP_THUNK && is_return_thunk(search, insn->target))
			return add_exit(search->function, body, insn->address, slot, err);
		return in_part(own, insn->target) ? 0 : follow(search, insn, err);
	case INSN_JCC_REL:
		return in_part(own, insn->target) ? 0 : follow(search, insn, err);
	case INSN_JMP_INDIRECT:
		return error_set_at(err, ENOTSUP, insn->address,
				    "the function may end in an indirect jump");
	case INSN_OTHER:
	case INSN_CALL_REL:
	case INSN_CALL_INDIRECT:
	case INSN_INT3:
		break;
	}
	return 0;
}

static int find_exit_or_note(void *arg, const struct body *body, const struct insn *insn,
			     struct error *err)
{
	int ret = find_exit(arg, body, insn, err);

	note_before(arg, insn);
	return ret;
}

/* Call `fn` for the instructions of each part, those that it adds, too. */
static int for_each_part(struct exit_search *search, body_fn *fn, struct error *err)
{
	int ret = 0;

	for (search->part = 0; !ret && search->part < search->function->nr_parts; search->part++) {
		const struct function_part part = search->function->parts[search->part];
		struct body body;

		memset(search->before, 0, sizeof(search->before));
		ret = body_read(search->kernel, part.gva, part.size, &body, err);
		if (ret)
			return ret;
		ret = body_for_each(&body, search->decoder, fn, search, err);
		body_free(&body);
	}
	return ret;
}

/* --- exits of several instructions ------------------------------------------------------------ */

/* The exit is its `ret` alone, if that has room for a trap. */
static int drop_epilogue(struct function_exit *exit, const struct error *why, struct error *err)
{
	const uint8_t before = exit->slot.epilogue, room = (uint8_t)(exit->slot.size - before);

	if (room < GUEST_TRAP_SIZE || exit->bytes[before] != 0xc3) {
		if (err)
			*err = *why;
		return -why->code;
	}
	exit->gva += before;
	exit->slot = (struct slot){.state = SLOT_RET, .size = room};
	memmove(exit->bytes, exit->bytes + before, room);
	return 0;
}

static int drop_between(struct function_exit *exit, uint64_t address, struct error *err)
{
	struct error why;

	error_set_at(&why, ENOTSUP, address,
		     "its result cannot be recorded: a jump leads to a `ret` without room for a "
		     "patch");
	return drop_epilogue(exit, &why, err);
}

static int drop_all(struct function *f, struct error *why, struct error *err)
{
	int ret = 0;

	error_prefix(why, "its result cannot be recorded: ");
	for (unsigned int i = 0; !ret && i < f->nr_exits; i++)
		if (f->exits[i].slot.epilogue)
			ret = drop_epilogue(&f->exits[i], why, err);
	return ret;
}

static int check_target(void *arg, const struct body *body, const struct insn *insn,
			struct error *err)
{
	struct function *f = ((struct exit_search *)arg)->function;
	int ret = 0;

	(void)body;
	for (unsigned int i = 0; !ret && insn->target && i < f->nr_exits; i++)
		if (f->exits[i].slot.epilogue &&
		    body_is_inside(insn->target, f->exits[i].gva, f->exits[i].slot.size))
			ret = drop_between(&f->exits[i], insn->address, err);
	return ret;
}

/* Where the kernel's lists say that it may go on. */
static int check_listed(const struct exit_search *search, const struct reserved_text *text,
			struct error *err)
{
	const struct kernel *kernel = search->kernel;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < search->function->nr_exits; i++) {
		struct function_exit *exit = &search->function->exits[i];

		if (exit->slot.epilogue &&
		    reserved_text_is_target(text, kernel_link(kernel, exit->gva + 1),
					    exit->slot.size - 1U))
			ret = drop_between(exit, exit->gva, err);
	}
	return ret;
}

/* A jump label that is off leads to another part as a jump does. Behind a fault nothing is known.
 */
static int follow_lead(struct exit_search *search, const struct text_lead *lead, struct error *err)
{
	const struct insn jump = {.address = kernel_gva(search->kernel, lead->from),
				  .target = kernel_gva(search->kernel, lead->to)};

	if (in_known_part(search->function, jump.target))
		return 0;
	if (lead->behind_fault)
		return error_set_at(err, ENOTSUP, jump.address,
				    "it goes on elsewhere behind a fault");
	return follow(search, &jump, err);
}

/* Adds the parts that only labels lead to. */
static int follow_listed(struct exit_search *search, const struct reserved_text *text,
			 struct error *err)
{
	struct function *f = search->function;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < f->nr_parts; i++) {
		const uint64_t link = kernel_link(search->kernel, f->parts[i].gva);
		const struct text_lead *lead;
		size_t at = 0;

		while (!ret && (lead = reserved_text_next_lead(text, &at, link, f->parts[i].size)))
			ret = follow_lead(search, lead, err);
	}
	return ret;
}

static bool has_epilogues(const struct function *f)
{
	for (unsigned int i = 0; i < f->nr_exits; i++)
		if (f->exits[i].slot.epilogue)
			return true;
	return false;
}

static int find_all(struct exit_search *search, struct error *err)
{
	search->function->nr_exits = 0;
	return for_each_part(search, find_exit_or_note, err);
}

static int check_epilogues(struct exit_search *search, struct error *err)
{
	struct function *f = search->function;
	const struct reserved_text *text;
	unsigned int known;
	struct error why;
	int ret;

	if (reserved_text_of(search->kernel->image, &text, &why))
		return drop_all(f, &why, err);
	do {
		known = f->nr_parts;
		if (follow_listed(search, text, &why))
			return drop_all(f, &why, err);
		ret = f->nr_parts > known ? find_all(search, err) : 0;
	} while (!ret && f->nr_parts > known);
	if (!ret)
		ret = for_each_part(search, check_target, err);
	return ret ? ret : check_listed(search, text, err);
}

int function_find_exits(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
			uint64_t size, bool epilogues, struct function *out, struct error *err)
{
	struct exit_search search = {.kernel = kernel,
				     .decoder = decoder,
				     .function = out,
				     .thunk = function_return_thunk(kernel),
				     .epilogues = epilogues};
	int ret;

	memset(out, 0, sizeof(*out));
	out->parts[out->nr_parts++] = (struct function_part){gva, size};
	ret = find_all(&search, err);
	return ret || !has_epilogues(out) ? ret : check_epilogues(&search, err);
}
