/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which instructions a jump can replace, in functions that are assembled by hand: each reason. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/displace.h"
#include "tests/lib/fake-reserved.h"
#include "tests/lib/tap.h"

/* Image offsets. */
enum { FN = 0x1000, BLACK = 0x1100, OTHER = 0x1200, END = 0x1300, MAX = 32 };

static const struct fake_symbol symbols[] = {
	{"fn", FN}, {"black", BLACK}, {"other", OTHER}, {"end", END}, {NULL, 0}};

/* Of entries of the lists: offsets in fn. */
enum {
	LABEL_AT = 0x40,
	CALL_AT = 0x50,
	LOCK_AT = 0x60,
	FAULT_AT = 0x70,
	RETURN_AT = 0x80,
	SITE = 0x90
};

#define MOV 0xb8, 1, 2, 3, 4 /* mov $imm32,%eax */

static struct fake_guest fg;
static struct decoder *decoder;

/* `begin`: where the bytes lie in fn; `place`: from there. */
struct sample {
	const char *what;
	uint8_t bytes[MAX];
	uint8_t size;
	uint16_t begin;
	uint8_t place;
	int code; /* 0: it can be replaced */
	const char *says;
};

static const struct sample samples[] = {
	{"a long instruction", {MOV, 0xc3}, 6, 0, 0, 0, ""},
	{"behind a shorter one", {0x90, MOV, 0xc3}, 7, 0, 1, 0, ""},
	{"the middle of one", {MOV, 0xc3}, 6, 0, 2, -EINVAL, "no instruction begins there; try +0"},
	{"behind the end", {MOV, 0xc3}, 6, 0, 6, -EINVAL, "ends in front of that"},
	{"a short one",
	 {0x90, 0x90, MOV, 0xc3},
	 8,
	 0,
	 0,
	 -ENOTSUP,
	 "shorter than the 5 bytes of a jump; try +0x2"},
	{"a short one with a long one in front", {MOV, 0x90, 0xc3}, 7, 0, 5, -ENOTSUP, "try +0"},
	{"a call", {0xe8, 0, 1, 0, 0, 0xc3}, 6, 0, 0, 0, ""},
	{"a conditional jump", {0x0f, 0x84, 0, 1, 0, 0, 0xc3}, 7, 0, 0, 0, ""},
	{"a jump", {0xe9, 0, 1, 0, 0}, 5, 0, 0, 0, ""},
	{"a jump with a prefix",
	 {0xf2, 0xe9, 0, 1, 0, 0},
	 6,
	 0,
	 0,
	 -ENOTSUP,
	 "cannot be executed elsewhere"},
	{"an indirect call",
	 {0xff, 0x15, 0, 1, 0, 0, 0xc3},
	 7,
	 0,
	 0,
	 -ENOTSUP,
	 "cannot be executed elsewhere"},
	{"a far call",
	 {0xff, 0x1d, 0, 1, 0, 0, 0xc3},
	 7,
	 0,
	 0,
	 -ENOTSUP,
	 "cannot be executed elsewhere"},
	{"xbegin",
	 {0xc7, 0xf8, 0, 0, 0, 0, 0xc3},
	 7,
	 0,
	 0,
	 -ENOTSUP,
	 "cannot be executed elsewhere"},
	{"ud1",
	 {0x67, 0x0f, 0xb9, 0x40, 0x07, 0xc3},
	 6,
	 0,
	 0,
	 -ENOTSUP,
	 "cannot be executed elsewhere"},
	{"one relative to EIP",
	 {0x67, 0x8b, 0x05, 0, 0, 0, 0, 0xc3},
	 8,
	 0,
	 0,
	 -ENOTSUP,
	 "cannot be executed elsewhere"},
	{"one that a jump leads into",
	 {MOV, 0xeb, 0xfb},
	 7,
	 0,
	 0,
	 -ENOTSUP,
	 "a jump leads into the instruction"},
	{"one that a jump leads to", {MOV, 0xeb, 0xf9}, 7, 0, 0, 0, ""},
	{"a kprobe's INT3 in the function",
	 {MOV, 0xcc, 0x90, 0xc3},
	 8,
	 0,
	 0,
	 -EBUSY,
	 "an INT3 is in the function"},
	{"INT3 behind an indirect jump", {MOV, 0xff, 0xe0, 0xcc, 0xcc}, 9, 0, 0, 0, ""},
	{"a jump out of the kernel",
	 {MOV, 0xe9, 0, 0, 0, 0x20},
	 10,
	 0,
	 0,
	 -EBUSY,
	 "a jump leads out of the kernel"},
	{"a trap of the tracer", {MOV, 0xe6, 0xe4, 0xc3}, 8, 0, 0, -EBUSY, "a trap of the tracer"},
	{"half an instruction at the end", {MOV, 0x48}, 6, 0, 0, -EILSEQ, "not a complete"},
	{"a load of GS", {MOV, 0x8e, 0xe8, 0xc3}, 8, 0, 0, -ENOTSUP, "changes GS"},
	{"pop %gs", {MOV, 0x0f, 0xa9, 0xc3}, 8, 0, 0, -ENOTSUP, "changes GS"},
	{"swapgs", {MOV, 0x0f, 0x01, 0xf8, 0xc3}, 9, 0, 0, -ENOTSUP, "changes GS"},
	{"wrgsbase", {MOV, 0xf3, 0x48, 0x0f, 0xae, 0xd8, 0xc3}, 11, 0, 0, -ENOTSUP, "changes GS"},
	{"the register of GS's base",
	 {MOV, 0xb9, 0x01, 0x01, 0x00, 0xc0, 0xc3},
	 11,
	 0,
	 0,
	 -ENOTSUP,
	 "changes GS"},
	{"a lea that looks like a load of GS",
	 {MOV, 0x48, 0x8d, 0x8e, 0x28, 0, 0, 0, 0xc3},
	 13,
	 0,
	 0,
	 0,
	 ""},
	{"a jump label", {MOV, 0xc3}, 6, LABEL_AT, 0, -ENOTSUP, "rewrites a jump label"},
	{"the bytes behind a jump label", {0x90, MOV, 0xc3}, 7, LABEL_AT + 4, 1, 0, ""},
	{"a static call",
	 {0xe8, 0, 0, 0, 0, 0xc3},
	 6,
	 CALL_AT,
	 0,
	 -ENOTSUP,
	 "rewrites a static call"},
	{"a LOCK prefix",
	 {0xf0, 0x01, 0x05, 0, 0, 0, 0, 0xc3},
	 8,
	 LOCK_AT,
	 0,
	 -ENOTSUP,
	 "rewrites a LOCK prefix"},
	{"one that may fault", {MOV, 0xc3}, 6, FAULT_AT, 0, -ENOTSUP, "may fault"},
	{"a return", {0xe9, 0, 1, 0, 0}, 5, RETURN_AT, 0, -ENOTSUP, "probe it with r"},
	{"INT3 behind a return that was a jump",
	 {MOV, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc},
	 10,
	 RETURN_AT - 5,
	 0,
	 0,
	 ""},
	{"an mcount site", {0x0f, 0x1f, 0x44, 0, 0, 0xc3}, 6, SITE, 0, -ENOTSUP, "mcount site"},
	{"a function without kprobes",
	 {MOV, 0xc3},
	 6,
	 BLACK + 8 - FN,
	 0,
	 -ENOTSUP,
	 "keeps kprobes away"},
};

static void test_sample(const struct sample *s)
{
	const uint64_t gva = fake_gva(FN + s->begin);
	const struct displace_body body = {&fg.kernel, "fn", gva, s->size, s->bytes};
	struct displaced_insn insn = {0};
	struct error err = {0};
	int ret = displace_find(&body, decoder, gva + s->place, &insn, &err);

	ok(ret == s->code && strstr(err.text, s->says), "%s: %d, %s", s->what, ret, err.text);
	if (!ret)
		ok(insn.gva == gva + s->place && insn.size >= JUMP_SIZE &&
			   !memcmp(insn.bytes, s->bytes + s->place, insn.size),
		   "%s: it is the instruction that stands there", s->what);
}

static void test_lists(void)
{
	const uint8_t bytes[] = {MOV, 0xc3};
	struct displace_body body = {&fg.kernel, "fn", fake_gva(FN), sizeof(bytes), bytes};
	uint8_t *entry = fg.base.image.init_bytes + FAKE_RESERVED;
	struct displaced_insn insn;
	struct error err = {0};

	kernel_image_forget(&fg.base.image);
	entry[3] ^= 0x40;
	ok(displace_find(&body, decoder, body.gva, &insn, &err) == -EBADMSG &&
		   strstr(err.text, "__start___jump_table is damaged"),
	   "with a list that leads out of the kernel nothing is replaced: %s", err.text);
	memset(entry, 0, 4);
	ok(!displace_find(&body, decoder, body.gva, &insn, &err), "an entry may name any text");
	kernel_image_forget(&fg.base.image);
	memset(entry + 64 * FAKE_RESERVED_LOCK, 0, 8);
	ok(displace_find(&body, decoder, body.gva, &insn, &err) == -EBADMSG &&
		   strstr(err.text, "__smp_locks is damaged"),
	   "a list of zeros has been freed: %s", err.text);
}

static void test_without_lists(void)
{
	const uint8_t bytes[] = {MOV, 0xc3};
	const struct displace_body body = {&fg.kernel, "fn", fake_gva(FN), sizeof(bytes), bytes};
	struct displaced_insn insn;
	struct error err = {0};

	ok(displace_find(&body, decoder, body.gva, &insn, &err) == -ENOTSUP &&
		   strstr(err.text, "no list __start___jump_table"),
	   "without the kernel's lists nothing is replaced: %s", err.text);
}

/* 7.3 does not rewrite LOCK prefixes. */
static void test_without_locks(void)
{
	static const struct fake_symbol user[] = {{"alternatives_enable_smp", BLACK}, {NULL, 0}};
	const uint64_t to[FAKE_NR_RESERVED] = {FN + LABEL_AT, FN + CALL_AT, 0, FN + FAULT_AT,
					       BLACK};
	const uint8_t bytes[] = {MOV, 0xc3};
	const struct displace_body body = {&fg.kernel, "fn", fake_gva(FN), sizeof(bytes), bytes};
	struct displaced_insn insn;
	struct error err = {0};

	if (fake_guest_create(&fg) || fake_guest_add_symbols(&fg, symbols))
		abort();
	fake_reserved_add(&fg, to);
	ok(!displace_find(&body, decoder, body.gva, &insn, &err),
	   "a kernel that rewrites no LOCK prefixes has no list of them: %s", err.text);
	kernel_image_forget(&fg.base.image);
	if (fake_guest_add_symbols(&fg, user))
		abort();
	ok(displace_find(&body, decoder, body.gva, &insn, &err) == -ENOTSUP &&
		   strstr(err.text, "no list __smp_locks"),
	   "one that does has to have it: %s", err.text);
	fake_guest_destroy(&fg);
}

/* A kernel for one CPU, with CONFIG_JUMP_LABEL=n and CONFIG_KPROBES=n. */
static void test_empty_lists(void)
{
	static const struct fake_symbol empty[] = {{"__start___jump_table", FAKE_RESERVED},
						   {"__stop___jump_table", FAKE_RESERVED},
						   {"__smp_locks", FAKE_RESERVED},
						   {"__smp_locks_end", FAKE_RESERVED},
						   {NULL, 0}};
	static const struct fake_symbol kprobes[] = {{"register_kprobe", BLACK}, {NULL, 0}};
	const uint64_t to[FAKE_NR_RESERVED] = {0, FN + CALL_AT, 0, FN + FAULT_AT, 0};
	const uint8_t bytes[] = {MOV, 0xc3};
	const struct displace_body body = {&fg.kernel, "fn", fake_gva(FN), sizeof(bytes), bytes};
	struct displaced_insn insn;
	struct error err = {0};

	if (fake_guest_create(&fg) || fake_guest_add_symbols(&fg, symbols) ||
	    fake_guest_add_symbols(&fg, empty))
		abort();
	fake_reserved_add(&fg, to);
	ok(!displace_find(&body, decoder, body.gva, &insn, &err),
	   "a list may have no entries, and a kernel no kprobes: %s", err.text);
	kernel_image_forget(&fg.base.image);
	if (fake_guest_add_symbols(&fg, kprobes))
		abort();
	ok(displace_find(&body, decoder, body.gva, &insn, &err) == -ENOTSUP &&
		   strstr(err.text, "no list __start_kprobe_blacklist"),
	   "one with kprobes has to have their list: %s", err.text);
	fake_guest_destroy(&fg);
}

int main(void)
{
	static uint64_t return_sites[1], sites[1];
	const uint64_t to[FAKE_NR_RESERVED] = {FN + LABEL_AT, FN + CALL_AT, FN + LOCK_AT,
					       FN + FAULT_AT, BLACK};

	if (decoder_create(&decoder, NULL) || fake_guest_create(&fg) ||
	    fake_guest_add_symbols(&fg, symbols))
		abort();
	test_without_lists();
	fake_reserved_add(&fg, to);
	return_sites[0] = fg.base.image.text + FN + RETURN_AT;
	sites[0] = fg.base.image.text + FN + SITE;
	fg.base.image.return_sites = return_sites;
	fg.base.image.nr_return_sites = 1;
	fg.base.image.mcount_sites = sites;
	fg.base.image.nr_mcount_sites = 1;
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		test_sample(&samples[i]);
	test_lists();
	fg.base.image.return_sites = fg.base.image.mcount_sites = NULL;
	fake_guest_destroy(&fg);
	test_without_locks();
	test_empty_lists();
	decoder_destroy(decoder);
	return tap_done();
}
