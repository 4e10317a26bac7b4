/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/kernel.h"

#include <errno.h>
#include <string.h>

enum {
	PAGE_BYTES = 4096,
	LA57_PGDIR_SHIFT = 48, /* pgdir_shift of a kernel that uses five levels */
};
/* Where kernels without CONFIG_RANDOMIZE_MEMORY have the direct map
 * (Documentation/arch/x86/x86_64/mm.rst). */
#define PAGE_OFFSET_L4 0xffff888000000000ull

static uint64_t image_gpa(const struct kernel *kernel, uint64_t link)
{
	return kernel->phys_text + (link - kernel->image->text);
}

static uint64_t ram_end(struct guest *guest)
{
	const struct guest_region *regions;
	size_t n;

	if (guest->memory->regions(guest, &regions, &n, NULL) || !n)
		return 0;
	return regions[n - 1].gpa + regions[n - 1].size;
}

/*
 * The first member, but in a kernel with CONFIG_PREEMPT_RT behind the lock and the waiters of an
 * rt_mutex (include/linux/mutex_types.h). Such a kernel without BTF is taken for one of the others.
 */
static uint32_t mutex_owner(const struct kernel_image *image)
{
	static const char *const members[] = {"owner", "rtmutex.owner"};
	struct btf_field field;

	for (size_t i = 0; image->btf && i < sizeof(members) / sizeof(members[0]); i++)
		if (!btf_field(image->btf, "mutex", members[i], &field, NULL) &&
		    field.size == sizeof(uint64_t) && field.offset < PAGE_BYTES)
			return field.offset;
	return 0;
}

/* Where the function graph tracer, and kretprobes (before 6.0, since then), have functions return
 * to; arch/x86/kernel/ftrace_64.S, rethook.c and kprobes/core.c. */
static void find_return_hooks(const struct kernel_image *image, uint64_t *hooks)
{
	static const char *const names[ORC_RETURN_HOOKS] = {
		"return_to_handler", "__kretprobe_trampoline", "arch_rethook_trampoline"};

	for (size_t i = 0; i < ORC_RETURN_HOOKS; i++)
		hooks[i] = symbols_address(image->symbols, names[i]);
	if (!hooks[1])
		hooks[1] = symbols_address(image->symbols, "kretprobe_trampoline");
}

void kernel_at(struct kernel *kernel, struct guest *guest, const struct kernel_image *image,
	       uint64_t virt_slide, uint64_t phys_text)
{
	*kernel = (struct kernel){
		.guest = guest,
		.image = image,
		.virt_slide = virt_slide,
		.phys_text = phys_text,
		.known =
			{
				.init_top_pgt = symbols_address(image->symbols, "init_top_pgt"),
				.early_top_pgt = symbols_address(image->symbols, "early_top_pgt"),
				.pgdir_shift = symbols_address(image->symbols, "pgdir_shift"),
				.page_offset_base =
					symbols_address(image->symbols, "page_offset_base"),
				.ram_end = ram_end(guest),
				.mutex_owner = mutex_owner(image),
			},
	};
	orc_table_init(image, &kernel->known.orc);
	kernel->known.frame_pointers = !kernel->known.orc.n && image_has_frame_pointers(image);
	find_return_hooks(image, kernel->known.return_hooks);
	kernel_confirm(kernel);
}

/* Whether guest memory has, at link address `link`, the same `size` bytes. */
static bool same_bytes(const struct kernel *kernel, uint64_t link, const void *want, size_t size)
{
	const uint8_t *bytes = want;
	uint8_t got[256];

	for (size_t done = 0; done < size; done += sizeof(got)) {
		size_t n = size - done < sizeof(got) ? size - done : sizeof(got);

		if (guest_phys_read(kernel->guest, image_gpa(kernel, link + done), got, n, NULL) ||
		    memcmp(got, bytes + done, n))
			return false;
	}
	return true;
}

/* Only the id within the notes is compared: the slide changes addresses in Xen's notes beside it.
 */
static bool has_build_id(const struct kernel *kernel)
{
	const struct kernel_image *image = kernel->image;
	uint64_t start = symbols_address(image->symbols, "__start_notes");
	uint64_t stop = symbols_address(image->symbols, "__stop_notes");
	const uint8_t *notes, *id;

	if (!image->build_id_size)
		return true;
	if (!start || stop <= start)
		return false;
	notes = kernel_image_bytes(image, start, stop - start);
	id = notes ? memmem(notes, stop - start, image->build_id, image->build_id_size) : NULL;
	return id && same_bytes(kernel, start + (uint64_t)(id - notes), image->build_id,
				image->build_id_size);
}

bool kernel_confirm(struct kernel *kernel)
{
	const struct kernel_image *image = kernel->image;
	uint64_t banner = symbols_address(image->symbols, "linux_banner");

	kernel->confirmed = banner && image->banner && image->banner[0] &&
			    same_bytes(kernel, banner, image->banner, strlen(image->banner)) &&
			    has_build_id(kernel);
	return kernel->confirmed;
}

uint64_t kernel_symbol(const struct kernel *kernel, const char *name)
{
	uint64_t link = symbols_address(kernel->image->symbols, name);

	return link ? kernel_gva(kernel, link) : 0;
}

bool kernel_in_image(const struct kernel *kernel, uint64_t gva)
{
	uint64_t link = kernel_link(kernel, gva);

	return link >= kernel->image->text && link < kernel->image->end;
}

/* Read each time while the kernel has no direct map: early in boot the answer changes. */
static unsigned int table_levels(const struct kernel *kernel)
{
	uint32_t shift = 0;

	if (__atomic_load_n(&kernel->known.direct_map, __ATOMIC_ACQUIRE))
		return __atomic_load_n(&kernel->known.levels, __ATOMIC_RELAXED);
	if (kernel->known.pgdir_shift)
		guest_phys_read(kernel->guest, image_gpa(kernel, kernel->known.pgdir_shift), &shift,
				sizeof(shift), NULL);
	return shift == LA57_PGDIR_SHIFT ? 5 : 4;
}

static bool maps_text(const struct kernel *kernel, uint64_t root, unsigned int levels)
{
	uint64_t text = kernel_gva(kernel, kernel->image->text);
	struct page_walk walk;

	return !page_walk(kernel->guest, root, levels, text, &walk, NULL) &&
	       walk.gpa == kernel->phys_text;
}

int kernel_walk(const struct kernel *kernel, uint64_t gva, struct page_walk *out, struct error *err)
{
	unsigned int levels = table_levels(kernel);
	uint64_t root = image_gpa(kernel, kernel->known.init_top_pgt);
	uint64_t early_root = image_gpa(kernel, kernel->known.early_top_pgt);
	int ret;

	if (!kernel->known.init_top_pgt)
		return error_set_at(err, EFAULT, gva, "the image has no symbol init_top_pgt");
	ret = page_walk(kernel->guest, root, levels, gva, out, err);
	/* The CPU uses early_top_pgt first; after boot it is freed memory. */
	if (!ret || !kernel->known.early_top_pgt || maps_text(kernel, root, levels) ||
	    !maps_text(kernel, early_root, levels))
		return ret;
	return page_walk(kernel->guest, early_root, levels, gva, out, err);
}

int kernel_root(const struct kernel *kernel, uint64_t *root, uint32_t *levels, struct error *err)
{
	*levels = table_levels(kernel);
	*root = image_gpa(kernel, kernel->known.init_top_pgt);
	if (!kernel->known.init_top_pgt)
		return error_set(err, EFAULT, "the image has no symbol init_top_pgt");
	if (!maps_text(kernel, *root, *levels))
		return error_set(err, EAGAIN, "the kernel's page tables are not set up yet");
	return 0;
}

int kernel_page_table(const struct kernel *kernel, uint64_t gva, unsigned int level,
		      uint64_t *table, struct error *err)
{
	uint32_t levels;
	uint64_t root;
	int ret = kernel_root(kernel, &root, &levels, err);

	return ret ? ret : page_walk_table(kernel->guest, root, levels, gva, level, table, err);
}

uint64_t kernel_page_offset(const struct kernel *kernel)
{
	uint64_t base = __atomic_load_n(&kernel->known.direct_map, __ATOMIC_RELAXED);

	if (base)
		return base;
	base = PAGE_OFFSET_L4;
	if (kernel->known.page_offset_base &&
	    guest_phys_read(kernel->guest, image_gpa(kernel, kernel->known.page_offset_base), &base,
			    sizeof(base), NULL))
		return 0;
	return base;
}

/*
 * The direct map's gva, or 0 while the kernel has not set it up. It is final once the kernel's own
 * tables map the image there, and is then looked up no more. Threads that race store the same.
 */
static uint64_t direct_map(const struct kernel *kernel)
{
	struct kernel_known *known = (struct kernel_known *)&kernel->known; /* a cache, not state */
	uint64_t base = __atomic_load_n(&known->direct_map, __ATOMIC_RELAXED);
	uint64_t root = image_gpa(kernel, known->init_top_pgt);
	unsigned int levels;
	struct page_walk walk;

	if (base || !known->init_top_pgt)
		return base;
	base = kernel_page_offset(kernel);
	levels = table_levels(kernel);
	if (!base ||
	    page_walk(kernel->guest, root, levels, base + kernel->phys_text, &walk, NULL) ||
	    walk.gpa != kernel->phys_text)
		return 0;
	__atomic_store_n(&known->levels, levels, __ATOMIC_RELAXED);
	__atomic_store_n(&known->direct_map, base, __ATOMIC_RELEASE);
	return base;
}

int kernel_translate(const struct kernel *kernel, uint64_t gva, uint64_t *gpa, struct error *err)
{
	struct page_walk walk;
	uint64_t base;

	if (kernel_in_image(kernel, gva)) {
		*gpa = image_gpa(kernel, kernel_link(kernel, gva));
		return 0;
	}
	base = direct_map(kernel);
	if (base && gva >= base && gva - base < kernel->known.ram_end) {
		*gpa = gva - base;
		return 0;
	}
	if (kernel_walk(kernel, gva, &walk, err))
		return err ? error_set_at(err, EFAULT, gva, "not a mapped kernel address")
			   : -EFAULT;
	*gpa = walk.gpa;
	return 0;
}

/* Bytes from gva to the end of its page, at most size. */
static size_t page_piece(uint64_t gva, size_t size)
{
	size_t left = PAGE_BYTES - (gva & (PAGE_BYTES - 1));

	return left < size ? left : size;
}

int kernel_read(const struct kernel *kernel, uint64_t gva, void *to, size_t size, struct error *err)
{
	uint8_t *out = to;

	while (size) {
		size_t n = page_piece(gva, size);
		uint64_t gpa;
		int ret = kernel_translate(kernel, gva, &gpa, err);

		if (!ret)
			ret = guest_phys_read(kernel->guest, gpa, out, n, err);
		if (ret)
			return ret;
		gva += n;
		out += n;
		size -= n;
	}
	return 0;
}

int kernel_read_u32(const struct kernel *kernel, const char *name, uint32_t *value,
		    struct error *err)
{
	uint64_t gva = kernel_symbol(kernel, name);

	if (!gva)
		return error_set(err, ENOENT, "the kernel has no %s", name);
	return kernel_read(kernel, gva, value, sizeof(*value), err);
}

bool kernel_is_booting(const struct kernel *kernel)
{
	uint32_t state;

	return !kernel_read_u32(kernel, "system_state", &state, NULL) && state == 0;
}

/* A write that runs into an unmapped page must fail before its first byte is stored. */
static int check_mapped(const struct kernel *kernel, uint64_t gva, size_t size, struct error *err)
{
	int ret = 0;

	for (size_t done = 0; !ret && done < size; done += page_piece(gva + done, size - done)) {
		uint64_t gpa;

		ret = kernel_translate(kernel, gva + done, &gpa, err);
	}
	return ret;
}

static int write_by(guest_write_fn *fn, const struct kernel *kernel, uint64_t gva, const void *from,
		    size_t size, struct error *err)
{
	const uint8_t *in = from;
	int ret = check_mapped(kernel, gva, size, err);

	while (!ret && size) {
		size_t n = page_piece(gva, size);
		uint64_t gpa;

		ret = kernel_translate(kernel, gva, &gpa, err);
		if (!ret)
			ret = fn(kernel->guest, gpa, in, n, err);
		gva += n;
		in += n;
		size -= n;
	}
	return ret;
}

int kernel_write(const struct kernel *kernel, uint64_t gva, const void *from, size_t size,
		 struct error *err)
{
	return write_by(guest_phys_write, kernel, gva, from, size, err);
}

int kernel_give(const struct kernel *kernel, uint64_t gva, const void *from, size_t size,
		struct error *err)
{
	return write_by(guest_phys_give, kernel, gva, from, size, err);
}

int kernel_set_break(const struct kernel *kernel, uint64_t gva, bool on, struct error *err)
{
	uint64_t gpa;
	int ret = kernel_translate(kernel, gva, &gpa, err);

	return ret ? ret : kernel->guest->traps->set_break(kernel->guest, gva, gpa, on, err);
}

int kernel_read_string(const struct kernel *kernel, uint64_t gva, char *to, size_t size,
		       struct error *err)
{
	size_t done = 0;

	if (!size)
		return error_set(err, EINVAL, "no room for a string");
	to[0] = '\0';
	while (done < size - 1) {
		size_t n = page_piece(gva + done, size - 1 - done);
		int ret = kernel_read(kernel, gva + done, to + done, n, done ? NULL : err);

		if (ret) {
			to[done] = '\0';
			return done ? 0 : ret;
		}
		if (memchr(to + done, '\0', n))
			break;
		done += n;
	}
	to[size - 1] = '\0';
	return 0;
}

static bool maps_at(const struct kernel *kernel, const struct guest_sregs *sregs, uint64_t link)
{
	unsigned int levels = vcpu_paging_levels(sregs);
	struct page_walk walk;

	return !page_walk(kernel->guest, sregs->cr3, levels, kernel_gva(kernel, link), &walk,
			  NULL) &&
	       walk.gpa == kernel->phys_text + (link - kernel->image->text);
}

int kernel_cr3_maps_kernel(const struct kernel *kernel, unsigned int vcpu, bool *out,
			   struct error *err)
{
	struct guest *guest = kernel->guest;
	/* The tables for user mode may map text (pti_clone_kernel_text()), but never data. */
	uint64_t data = symbols_address(kernel->image->symbols, "phys_base");
	struct guest_sregs sregs;
	int ret;

	if (!guest->control->get_sregs)
		return error_set(err, ENOTSUP, "%s guests have no vCPU state", guest->name);
	ret = guest->control->get_sregs(guest, vcpu, &sregs, err);
	if (ret)
		return ret;
	*out = vcpu_in_long_mode(&sregs) && maps_at(kernel, &sregs, kernel->image->text) &&
	       (!data || maps_at(kernel, &sregs, data));
	return 0;
}
