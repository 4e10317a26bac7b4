/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_KERNEL_H
#define SONDE_INTROSPECT_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"
#include "guest-symbols/orc/orc-table.h"
#include "introspect/guest/guest.h"
#include "introspect/guest/page-walk.h"

/*
 * What translation and unwinding need of the image at each event, looked up once by kernel_at() and
 * kernel_find(). Addresses are link addresses; 0: the image has no such symbol.
 */
struct kernel_known {
	uint64_t init_top_pgt, early_top_pgt, pgdir_shift, page_offset_base;
	uint64_t ram_end;     /* gpa after the last byte of RAM */
	uint32_t mutex_owner; /* offset in struct mutex: a pointer, 0 while the mutex is free */
	/* Accessed atomically: gva of gpa 0 once a walk confirmed it, else 0; levels of the page
	 * tables, valid from then on. */
	uint64_t direct_map;
	unsigned int levels;
	/* Likewise; by bit: vCPUs that were found to be the CPUs of their numbers (tasks/percpu.c).
	 */
	uint64_t vcpus_seen;
	struct orc_table orc;
	bool frame_pointers; /* it has no ORC tables, but these */
	uint64_t return_hooks[ORC_RETURN_HOOKS]; /* see struct orc_text */
};

/*
 * A kernel in a guest's memory: its image, and where it is. Link addresses are the image's,
 * guest-virtual addresses (gva) the running kernel's.
 */
struct kernel {
	struct guest *guest;
	const struct kernel_image *image;
	uint64_t virt_slide;             /* gva = link + virt_slide */
	uint64_t phys_text;              /* gpa of _text */
	bool confirmed;                  /* banner and build id were found at phys_text */
	struct module_orcs *module_orcs; /* of the tracer, or NULL; kernel_at() forgets it */
	struct kernel_known known;
};

/*
 * For a loader that chose slide and place itself (direct boot): valid before the first instruction.
 * `confirmed` says whether memory holds the image already.
 */
void kernel_at(struct kernel *kernel, struct guest *guest, const struct kernel_image *image,
	       uint64_t virt_slide, uint64_t phys_text);

/* Compare banner and build id at phys_text: sets and returns `confirmed`. */
bool kernel_confirm(struct kernel *kernel);

/*
 * Find the image in guest memory. Every place that is aligned to 2 MiB is tried for the banner; the
 * virtual slide follows from the kernel's own phys_base; both are confirmed by the build id and by
 * walking the kernel's own page tables. Reads only; safe while the guest runs; to be polled.
 * -EAGAIN: the guest is in its firmware or decompressor, has not set up its page tables, or runs
 * another kernel.
 */
int kernel_find(struct guest *guest, const struct kernel_image *image, struct kernel *out,
		struct error *err);

static inline uint64_t kernel_gva(const struct kernel *kernel, uint64_t link)
{
	return link + kernel->virt_slide;
}

static inline uint64_t kernel_link(const struct kernel *kernel, uint64_t gva)
{
	return gva - kernel->virt_slide;
}

/* gva of a symbol, 0 if there is none. */
uint64_t kernel_symbol(const struct kernel *kernel, const char *name);

/* Whether gva lies in [_text, _end), which is mapped linearly at phys_text. */
bool kernel_in_image(const struct kernel *kernel, uint64_t gva);

/*
 * Guest-physical address of a kernel gva. The image and the direct map are arithmetic; all else
 * (vmemmap, vmalloc, modules) is a walk of the kernel's own page table (init_top_pgt), so that no
 * vCPU's CR3 matters. -EFAULT with the address: not mapped.
 */
int kernel_translate(const struct kernel *kernel, uint64_t gva, uint64_t *gpa, struct error *err);

/* gva of gpa 0 in the direct map, as the kernel has it now: KASLR moves it once, early in boot. 0:
 * it cannot be read. */
uint64_t kernel_page_offset(const struct kernel *kernel);

/* The walk itself, also for the image: page size and permissions of a kernel gva. Errors as
 * page_walk(). */
int kernel_walk(const struct kernel *kernel, uint64_t gva, struct page_walk *out,
		struct error *err);

/*
 * gpa of the kernel's own page table of `level` (1 = page table, 2 = PMD ...) that covers gva.
 * Errors as page_walk_table(), and -EAGAIN while init_top_pgt does not map the kernel (early boot).
 */
int kernel_page_table(const struct kernel *kernel, uint64_t gva, unsigned int level,
		      uint64_t *table, struct error *err);

/* gpa of its top table, for page_walk(), and its levels. -EAGAIN likewise. -EFAULT: the image has
 * no symbol for it. */
int kernel_root(const struct kernel *kernel, uint64_t *root, uint32_t *levels, struct error *err);

/* Read or write at a kernel gva; may cross pages. */
int kernel_read(const struct kernel *kernel, uint64_t gva, void *to, size_t size,
		struct error *err);
int kernel_write(const struct kernel *kernel, uint64_t gva, const void *from, size_t size,
		 struct error *err);
/* As guest_phys_give(). */
int kernel_give(const struct kernel *kernel, uint64_t gva, const void *from, size_t size,
		struct error *err);

/* An integer at a kernel gva. */
static inline int kernel_get_u64(const struct kernel *kernel, uint64_t gva, uint64_t *out,
				 struct error *err)
{
	return kernel_read(kernel, gva, out, sizeof(*out), err);
}

static inline int kernel_get_u32(const struct kernel *kernel, uint64_t gva, uint32_t *out,
				 struct error *err)
{
	return kernel_read(kernel, gva, out, sizeof(*out), err);
}

/* guest_trap_ops.set_break at a kernel gva. */
int kernel_set_break(const struct kernel *kernel, uint64_t gva, bool on, struct error *err);

/* The string at gva, cut off at size - 1 bytes and always terminated. -EFAULT: its start is not
 * mapped. */
int kernel_read_string(const struct kernel *kernel, uint64_t gva, char *to, size_t size,
		       struct error *err);

/* The u32 variable of this name, or the low half of a u64 one. -ENOENT: there is none. */
int kernel_read_u32(const struct kernel *kernel, const char *name, uint32_t *value,
		    struct error *err);

/* Whether the kernel's system_state is SYSTEM_BOOTING (include/linux/kernel.h): only its first task
 * runs, on one CPU. False if it cannot be read. */
bool kernel_is_booting(const struct kernel *kernel);

/*
 * Whether a vCPU's CR3 maps the kernel's text and data where `kernel` says. Not so in user mode
 * under KPTI, in the decompressor, and in firmware. -errno: the vCPU's state cannot be read.
 */
int kernel_cr3_maps_kernel(const struct kernel *kernel, unsigned int vcpu, bool *out,
			   struct error *err);

/* --- frames (orc.c) -------------------------------------------------------------------------- */

/*
 * The frame size of the function that `ip_gva` returns to: bytes from the stack pointer after that
 * return to the one after the function's own return, whose return address is the last word of them.
 * At least 8. Errors as orc_caller(), but for -EFAULT: it reads no guest memory.
 */
int orc_frame(const struct kernel *kernel, uint64_t ip_gva, uint64_t *size, struct error *err);

/*
 * One step of unwinding with the kernel's ORC tables (Documentation/arch/x86/orc-unwinder.rst):
 * `ip_gva` is a return address (the call before it is looked up) and `sp` the stack pointer right
 * after the return. Gives the return address to that function's own caller, and the stack pointer
 * after that return, which is always greater than sp. Reads guest memory only for the return
 * address.
 *
 * -ENOENT: not in the image. -ENOTSUP: the frame is not addressed through RSP, or there are no ORC
 * tables. -EFAULT: the stack cannot be read.
 */
int orc_caller(const struct kernel *kernel, uint64_t ip_gva, uint64_t sp, uint64_t *caller_ip,
	       uint64_t *caller_sp, struct error *err);

#endif
