/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/identify.h"

#include <stdbool.h>
#include "formats/base/u64-map.h"
#include "guest-symbols/btf/btf.h"

enum {
	NR_LISTS = 64,         /* KPROBE_TABLE_SIZE, kernel/kprobes.c */
	MAX_KPROBES = 1 << 15, /* nodes that are read */
	INT3 = 0xcc,
	JMP = 0xe9,
	JMP_BYTES = 5,
};

/* Flags of a struct kprobe, include/linux/kprobes.h. */
enum {
	FLAG_GONE = 1 << 0,      /* its text is freed */
	FLAG_OPTIMIZED = 1 << 2, /* it is part of a struct optimized_kprobe */
	FLAG_FTRACE = 1 << 3,    /* it is called by ftrace, and writes no text */
};

/* Offsets in struct kprobe. */
struct layout {
	uint32_t hlist, addr, flags;
};

static bool get_layout(const struct btf_types *btf, struct layout *out)
{
	struct btf_field hlist, addr, flags;

	if (!btf || btf_field(btf, "kprobe", "hlist", &hlist, NULL) ||
	    btf_field(btf, "kprobe", "addr", &addr, NULL) ||
	    btf_field(btf, "kprobe", "flags", &flags, NULL))
		return false;
	*out = (struct layout){hlist.offset, addr.offset, flags.offset};
	return true;
}

/* --- the table -------------------------------------------------------------------------------- */

struct walk {
	const struct kernel *kernel;
	struct layout layout;
	guest_kprobe_fn *fn;
	void *arg;
	size_t left; /* nodes that may still be read */
};

/* A struct hlist_head and each struct hlist_node begin with the next node's address, 0 at the end
 * (include/linux/types.h). */
static int walk_list(struct walk *w, uint64_t node)
{
	const struct layout *l = &w->layout;
	int ret = 0;

	for (; !ret && node && w->left; w->left--) {
		struct guest_kprobe k = {.gva = node - l->hlist};

		if (kernel_get_u64(w->kernel, k.gva + l->addr, &k.address, NULL) ||
		    kernel_read(w->kernel, k.gva + l->flags, &k.flags, sizeof(k.flags), NULL) ||
		    kernel_get_u64(w->kernel, node, &node, NULL))
			break;
		if (!(k.flags & (FLAG_GONE | FLAG_FTRACE)))
			ret = w->fn(w->arg, &k);
	}
	return ret;
}

static bool has_any(const uint64_t *first)
{
	bool any = false;

	for (size_t i = 0; i < NR_LISTS; i++)
		any |= first[i] != 0;
	return any;
}

int guest_kprobes_for_each(const struct kernel *kernel, guest_kprobe_fn *fn, void *arg)
{
	const uint64_t gva = kernel_symbol(kernel, "kprobe_table");
	struct walk walk = {.kernel = kernel, .fn = fn, .arg = arg, .left = MAX_KPROBES};
	uint64_t first[NR_LISTS];
	int ret = 0;

	if (!gva || kernel_read(kernel, gva, first, sizeof(first), NULL) || !has_any(first) ||
	    !get_layout(kernel->image->btf, &walk.layout))
		return 0;
	for (size_t i = 0; !ret && i < NR_LISTS; i++)
		ret = walk_list(&walk, first[i]);
	return ret;
}

static uint64_t reach_at(const void *addresses, size_t i)
{
	return ((const uint64_t *)addresses)[i] + JMP_BYTES - 1;
}

bool guest_kprobes_reach(const struct address_list *kprobes, uint64_t gva, size_t size)
{
	const size_t first = search_from(kprobes->n, gva, reach_at, kprobes->v);

	return first < kprobes->n && kprobes->v[first] < gva + size;
}

/* --- what they hide --------------------------------------------------------------------------- */

/* Where a kprobe keeps what it has written over, from its struct kprobe on. */
struct kept {
	bool looked_up, first, others;
	uint32_t opcode, copied;
};

struct restore {
	const struct kernel *kernel;
	uint64_t gva;
	uint8_t *bytes;
	size_t size;
	struct kept kept;
};

/* What the jump of an optimised one covers behind the first byte (arch/x86/include/asm/kprobes.h).
 */
static bool find_copied(const struct btf_types *btf, uint32_t *out)
{
	struct btf_field kprobe, part, copied;

	if (btf_field(btf, "optimized_kprobe", "kp", &kprobe, NULL) ||
	    btf_field(btf, "optimized_kprobe", "optinsn", &part, NULL) ||
	    btf_field(btf, "arch_optimized_insn", "copied_insn", &copied, NULL))
		return false;
	*out = part.offset + copied.offset - kprobe.offset;
	return true;
}

static const struct kept *find_kept(struct restore *r)
{
	const struct btf_types *btf = r->kernel->image->btf;
	struct kept *kept = &r->kept;
	struct btf_field opcode;

	if (kept->looked_up)
		return kept;
	kept->looked_up = true;
	kept->first = !btf_field(btf, "kprobe", "opcode", &opcode, NULL);
	kept->opcode = kept->first ? opcode.offset : 0;
	kept->others = find_copied(btf, &kept->copied);
	return kept;
}

/* How many bytes the kprobe has written over, which it has kept; 0: none, as far as is known. */
static size_t read_kept(struct restore *r, const struct guest_kprobe *k, uint8_t bytes[JMP_BYTES])
{
	const struct kept *kept = find_kept(r);
	uint8_t now;

	if (!kept->first || kernel_read(r->kernel, k->address, &now, 1, NULL) ||
	    kernel_read(r->kernel, k->gva + kept->opcode, bytes, 1, NULL))
		return 0;
	if (now == INT3)
		return 1;
	if (now != JMP || !(k->flags & FLAG_OPTIMIZED) || !kept->others ||
	    kernel_read(r->kernel, k->gva + kept->copied, bytes + 1, JMP_BYTES - 1, NULL))
		return 0;
	return JMP_BYTES;
}

static int restore_one(void *arg, const struct guest_kprobe *k)
{
	struct restore *r = arg;
	uint8_t bytes[JMP_BYTES];
	size_t n;

	if (k->address + JMP_BYTES <= r->gva || k->address >= r->gva + r->size)
		return 0;
	n = read_kept(r, k, bytes);
	for (size_t i = 0; i < n; i++)
		if (k->address + i - r->gva < r->size)
			r->bytes[k->address + i - r->gva] = bytes[i];
	return 0;
}

void guest_kprobes_restore(const struct kernel *kernel, uint64_t gva, uint8_t *bytes, size_t size)
{
	struct restore r = {.kernel = kernel, .gva = gva, .bytes = bytes, .size = size};

	guest_kprobes_for_each(kernel, restore_one, &r);
}
