/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/kernel/kernel.h"
#include "introspect/guest/control.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

#define TEXT (FAKE_LINK_TEXT + FAKE_SLIDE)

static struct fake_kernel fake;

static bool start(unsigned int levels)
{
	return ok(!fake_kernel_create(&fake, FAKE_6_12, levels),
		  "a kernel with %u levels of page tables runs", levels);
}

static int locate(struct kernel *out, struct error *err)
{
	return kernel_find(dump_guest(fake.dump), &fake.image, out, err);
}

static void test_locate(unsigned int levels)
{
	struct kernel k;

	if (!start(levels))
		return;
	ok(fake.kernel.confirmed, "kernel_at() confirms banner and build id");
	ok(!locate(&k, NULL), "kernel_find() finds the kernel");
	is_u64(k.phys_text, FAKE_PHYS_TEXT, "kernel_find() gives phys_text");
	is_u64(k.virt_slide, FAKE_SLIDE, "kernel_find() gives the slide");
	ok(k.confirmed, "kernel_find() confirms the kernel");
	is_u64(kernel_symbol(&k, "phys_base"), TEXT + FAKE_PHYS_BASE, "a symbol has its gva");
	is_u64(kernel_symbol(&k, "no_such"), 0, "an unknown symbol has no gva");
	ok(kernel_in_image(&k, TEXT) && kernel_in_image(&k, TEXT + FAKE_IMAGE_SIZE - 1) &&
		   !kernel_in_image(&k, TEXT - 1) && !kernel_in_image(&k, TEXT + FAKE_IMAGE_SIZE),
	   "the image's bounds are exact");
	fake_kernel_destroy(&fake);
}

/* Each damage leaves a guest in which the kernel is not known to run: try again later. */
static void test_not_yet(void)
{
	static const struct {
		const char *what;
		uint64_t at, value;
	} damages[] = {
		{"a kernel whose phys_base is not set does not run yet", FAKE_PHYS_BASE, 0},
		{"a kernel whose slide is misaligned does not run yet", FAKE_PHYS_BASE, 0x1000},
		{"a kernel whose slide is too large does not run yet", FAKE_PHYS_BASE, 1ull << 40},
		{"a kernel with empty page tables does not run yet", FAKE_INIT_TOP_PGT + 511 * 8,
		 0},
		{"a kernel whose tables map another place does not run yet",
		 FAKE_TABLES + 4096 + 88 * 8, 0x600083},
		{"a kernel whose tables loop does not run yet", FAKE_INIT_TOP_PGT + 511 * 8,
		 FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT + 3},
	};

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct error err = {0};
		struct kernel k;

		if (!start(4))
			return;
		fake_put64(&fake, FAKE_PHYS_TEXT + damages[i].at, damages[i].value);
		ok(locate(&k, &err) == -EAGAIN && strstr(err.text, "does not run yet"), "%s",
		   damages[i].what);
		fake_kernel_destroy(&fake);
	}
}

/* A kernel at equal slides whose phys_base is rightly 0: only its tables tell whether it runs. */
static void test_equal_slides(void)
{
	uint64_t pmd = FAKE_PHYS_TEXT + FAKE_TABLES + 4096;
	struct kernel k;

	if (!start(4))
		return;
	fake_put64(&fake, FAKE_PHYS_TEXT + FAKE_PHYS_BASE, 0);
	fake_put64(&fake, pmd + 2 * 8, FAKE_PHYS_TEXT | 0x83); /* gva 4 MiB into the map */
	ok(!locate(&k, NULL) && k.virt_slide == -(uint64_t)(12 << 20),
	   "a running kernel with equal slides is found");
	fake_put64(&fake, pmd, 0x83);
	ok(locate(&k, NULL) == -EAGAIN, "a kernel whose tables are as linked does not run yet");
	fake_kernel_destroy(&fake);
}

static void test_early_tables(void)
{
	uint64_t init = FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT,
		 early = FAKE_PHYS_TEXT + FAKE_EARLY_TOP_PGT;
	struct kernel k;
	uint64_t gpa;

	if (!start(5))
		return;
	memcpy(fake.ram + early, fake.ram + init, 4096);
	memset(fake.ram + init, 0, 4096);
	ok(!locate(&k, NULL), "a kernel is found through early_top_pgt");
	ok(!kernel_translate(&k, FAKE_VMEMMAP, &gpa, NULL) && gpa == FAKE_VMEMMAP_GPA,
	   "early_top_pgt translates while init_top_pgt is empty");
	memcpy(fake.ram + init, fake.ram + early, 4096);
	fake_put64(&fake, early + 511 * 8, 0x12345);
	ok(!kernel_translate(&k, FAKE_VMEMMAP, &gpa, NULL),
	   "init_top_pgt translates once it is filled");
	ok(kernel_translate(&k, FAKE_VMEMMAP + (4 << 20), &gpa, NULL) == -EFAULT,
	   "early_top_pgt is not read once init_top_pgt is filled");
	fake_kernel_destroy(&fake);
}

static void test_other_kernel(void)
{
	uint64_t at = FAKE_PHYS_TEXT + FAKE_BANNER;
	struct error err = {0};
	struct kernel k;

	if (!start(4))
		return;
	fake.ram[FAKE_PHYS_TEXT + FAKE_NOTES + 16] ^= 1;
	ok(locate(&k, &err) == -EAGAIN && !kernel_confirm(&fake.kernel),
	   "the same banner with another build id is another kernel");
	memset(fake.ram + at, 0, 64);
	ok(locate(&k, &err) == -EAGAIN && strstr(err.text, "no kernel"),
	   "memory without a banner has no kernel");
	fake_kernel_destroy(&fake);
}

/* The previous boot's image and tables stay in RAM over a reboot. */
static void test_two_copies(void)
{
	uint64_t copy = 12 << 20;
	struct guest_regs regs = {0};
	struct guest_sregs sregs = {.cr0 = CR0_PG, .efer = EFER_LMA};
	struct kernel k;

	if (!start(4))
		return;
	memcpy(fake.ram + copy, fake.ram + FAKE_PHYS_TEXT, FAKE_IMAGE_SIZE);
	fake_put64(&fake, copy + FAKE_PHYS_BASE, copy - (TEXT - 0xffffffff80000000ull));
	for (unsigned int top = 0; top < 512; top++) {
		uint64_t entry;

		memcpy(&entry, fake.ram + copy + FAKE_INIT_TOP_PGT + top * 8, 8);
		if (entry)
			fake_put64(&fake, copy + FAKE_INIT_TOP_PGT + top * 8,
				   entry - FAKE_PHYS_TEXT + copy);
	}
	fake_put64(&fake, copy + FAKE_TABLES + 510 * 8, copy + FAKE_TABLES + 4096 + 3);
	fake_put64(&fake, copy + FAKE_TABLES + 4096 + (TEXT >> 21 & 511) * 8, copy | 0x83);
	ok(locate(&k, NULL) == -EAGAIN, "of two copies without a vCPU none is found");
	sregs.cr3 = copy + FAKE_INIT_TOP_PGT;
	dump_guest_set_vcpu(fake.dump, 0, &regs, &sregs, NULL);
	ok(!locate(&k, NULL) && k.phys_text == copy, "of two copies the one with a vCPU is found");
	fake_kernel_destroy(&fake);
}

static void test_translate(unsigned int levels)
{
	struct error err = {0};
	struct page_walk walk;
	uint64_t gpa;
	const struct kernel *k = &fake.kernel;

	if (!start(levels))
		return;
	ok(!kernel_translate(k, TEXT + 0x1234, &gpa, NULL) && gpa == FAKE_PHYS_TEXT + 0x1234,
	   "an image address is translated");
	ok(!kernel_translate(k, fake_direct(0x123456), &gpa, NULL) && gpa == 0x123456,
	   "a direct map address is translated");
	is_u64(k->known.direct_map, FAKE_PAGE_OFFSET, "after that the direct map is known");
	ok(!kernel_translate(k, FAKE_VMEMMAP + 0x40, &gpa, NULL) && gpa == FAKE_VMEMMAP_GPA + 0x40,
	   "a vmemmap address is translated");
	ok(kernel_translate(k, fake_direct(FAKE_RAM), &gpa, NULL) == -EFAULT,
	   "a direct map address after RAM is refused");
	ok(kernel_translate(k, 0xffffc90000000000ull, &gpa, &err) == -EFAULT &&
		   err.address == 0xffffc90000000000ull,
	   "an address that is not mapped is in the error");
	ok(kernel_translate(k, 0x1234, &gpa, NULL) == -EFAULT, "a user space address is refused");
	ok(!kernel_walk(k, FAKE_VMEMMAP, &walk, NULL) && walk.page_size == 2 << 20,
	   "a walk gives the page size");
	fake_kernel_destroy(&fake);
}

/* KASLR's early boot: page_offset_base changes before the direct map exists. */
static void test_direct_map_moves(void)
{
	uint64_t at = FAKE_PHYS_TEXT + FAKE_PAGE_OFFSET_BASE, gpa;

	if (!start(4))
		return;
	fake_put64(&fake, at, 0xffff888000000000ull);
	ok(kernel_translate(&fake.kernel, 0xffff888000123456ull, &gpa, NULL) == -EFAULT,
	   "the linked page_offset_base is not used without tables");
	is_u64(kernel_page_offset(&fake.kernel), 0xffff888000000000ull,
	       "the linked page_offset_base is reported");
	fake_put64(&fake, at, FAKE_PAGE_OFFSET);
	ok(!kernel_translate(&fake.kernel, fake_direct(0x123456), &gpa, NULL),
	   "the final page_offset_base is used");
	fake_kernel_destroy(&fake);
}

static void test_read_write(void)
{
	struct fake_kernel *f = &fake;
	char text[16], out[64];

	if (!start(4))
		return;
	ok(!kernel_write(&f->kernel, fake_direct(FAKE_HEAP_GPA + 4090), "hello, world", 13, NULL) &&
		   !memcmp(f->ram + FAKE_HEAP_GPA + 4090, "hello, world", 13),
	   "a write crosses pages");
	ok(!kernel_read(&f->kernel, fake_direct(FAKE_HEAP_GPA + 4090), text, 13, NULL) &&
		   !strcmp(text, "hello, world"),
	   "a read crosses pages");
	ok(!kernel_read_string(&f->kernel, fake_direct(FAKE_HEAP_GPA + 4090), out, sizeof(out),
			       NULL),
	   "a string is read");
	is_str(out, "hello, world", "a string that crosses pages is whole");
	ok(!kernel_read_string(&f->kernel, fake_direct(FAKE_HEAP_GPA + 4090), out, 6, NULL),
	   "a string that is too long is read");
	is_str(out, "hello", "a string that is too long is cut off");
	memset(f->ram + FAKE_RAM - 4, 'x', 4);
	ok(!kernel_read_string(&f->kernel, fake_direct(FAKE_RAM - 4), out, sizeof(out), NULL),
	   "a string at the end of memory is read");
	is_str(out, "xxxx", "a string at the end of memory ends there");
	ok(kernel_read_string(&f->kernel, fake_direct(FAKE_RAM), out, sizeof(out), NULL) == -EFAULT,
	   "a string that starts outside memory is refused");
	ok(kernel_write(&f->kernel, fake_direct(FAKE_RAM - 4), "12345678", 8, NULL) == -EFAULT &&
		   f->ram[FAKE_RAM - 1] == 'x',
	   "a write that leaves memory stores nothing");
	fake_kernel_destroy(f);
}

static void test_cr3(unsigned int levels)
{
	struct guest_regs regs = {0};
	struct guest_sregs sregs = {
		.cr0 = CR0_PG,
		.cr3 = FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT,
		.cr4 = levels == 5 ? CR4_LA57 : 0,
		.efer = EFER_LMA,
	};
	struct guest_sregs other = sregs;
	bool maps = true;

	if (!start(levels))
		return;
	ok(!kernel_cr3_maps_kernel(&fake.kernel, 0, &maps, NULL) && !maps,
	   "a CR3 maps no kernel with paging off");
	dump_guest_set_vcpu(fake.dump, 0, &regs, &sregs, NULL);
	ok(!kernel_cr3_maps_kernel(&fake.kernel, 0, &maps, NULL) && maps,
	   "the kernel's own CR3 maps it");
	other.cr4 ^= CR4_LA57;
	dump_guest_set_vcpu(fake.dump, 0, &regs, &other, NULL);
	ok(!kernel_cr3_maps_kernel(&fake.kernel, 0, &maps, NULL) && !maps,
	   "a CR3 maps no kernel with another number of levels");
	other = sregs;
	other.cr3 = FAKE_HEAP_GPA;
	dump_guest_set_vcpu(fake.dump, 0, &regs, &other, NULL);
	ok(!kernel_cr3_maps_kernel(&fake.kernel, 0, &maps, NULL) && !maps,
	   "a CR3 of user mode maps no kernel");
	ok(kernel_cr3_maps_kernel(&fake.kernel, 1, &maps, NULL) == -EINVAL,
	   "the CR3 of an unknown vCPU is refused");
	fake_kernel_destroy(&fake);
}

int main(void)
{
	test_locate(4);
	test_locate(5);
	test_not_yet();
	test_equal_slides();
	test_early_tables();
	test_other_kernel();
	test_two_copies();
	test_translate(4);
	test_translate(5);
	test_direct_map_moves();
	test_read_write();
	test_cr3(4);
	test_cr3(5);
	return tap_done();
}
