/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scratch memory mapped beside the fake kernel, with its page tables as a real kernel has them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/kernel/scratch-mapping.h"
#include "introspect/guest/control.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

enum {
	CHUNK = KERNEL_MAP_CHUNK,
	PAGE = KERNEL_MAP_PAGE,
	SCRATCH = 8 << 20,
	PMD_GPA = FAKE_PHYS_TEXT + FAKE_TABLES + PAGE, /* of the image area */
	IMAGE_SLOT = 88,
	NOT_PRESENT = 0x1e2, /* as a kernel's first code leaves entries it does not use */
};
#define SCRATCH_GPA 0x100000000ull
#define IMAGE_AREA 0xffffffff80000000ull

static struct fake_kernel fake;
static uint8_t *bytes;
static struct guest_region scratch;

/* Code in a chunk of its own, data in two. */
static const struct scratch_part whole[] = {{0, CHUNK, true}, {CHUNK, 2 * CHUNK, false}};
/* All kinds in one chunk, a hole, and data across a chunk's end. */
static const struct scratch_part mixed[] = {{0, 3 * PAGE, true},
					    {4 * PAGE, 2 * PAGE, false},
					    {10 * PAGE, PAGE, true},
					    {CHUNK - PAGE, CHUNK, false}};

static void set_efer(uint64_t efer)
{
	struct guest_sregs sregs = {.cr0 = CR0_PG, .efer = efer};
	struct guest_regs regs = {0};

	dump_guest_set_vcpu(fake.dump, 0, &regs, &sregs, NULL);
}

static bool start(unsigned int levels)
{
	memset(bytes, 0, SCRATCH);
	if (!ok(!fake_kernel_create(&fake, FAKE_6_12, levels),
		"a kernel with %u levels of page tables runs", levels))
		return false;
	set_efer(EFER_LMA | EFER_NXE);
	scratch = (struct guest_region){.gpa = SCRATCH_GPA, .size = SCRATCH, .hva = bytes};
	return ok(!dump_guest_add_buffer(fake.dump, SCRATCH_GPA, bytes, SCRATCH, DUMP_MAPPED, NULL),
		  "scratch memory is added");
}

static uint64_t *slot(unsigned int index)
{
	return (uint64_t *)(fake.ram + PMD_GPA) + index;
}

static bool only_image_mapped(void)
{
	for (unsigned int i = 0; i < 512; i++)
		if (!*slot(i) != (i != IMAGE_SLOT))
			return false;
	return true;
}

static int create(const struct scratch_part *parts, size_t n, struct scratch_mapping *mapping)
{
	return scratch_mapping_create(&fake.kernel, &scratch, parts, n, mapping, NULL);
}

/* Whether the page at `offset` is what a part asked for; `part` NULL: not mapped. */
static bool page_is(const struct scratch_mapping *mapping, uint64_t offset,
		    const struct scratch_part *part, uint64_t page_size)
{
	struct page_walk walk;
	int ret = kernel_walk(&fake.kernel, mapping->gva + offset, &walk, NULL);

	if (!part)
		return ret == -EFAULT;
	return !ret && walk.gpa == SCRATCH_GPA + offset && walk.page_size == page_size &&
	       walk.executable == part->executable && walk.writable != part->executable &&
	       !walk.user;
}

static void test_whole_chunks(unsigned int levels)
{
	struct scratch_mapping mapping;
	uint32_t word = 0;

	if (!start(levels))
		return;
	is_u64(scratch_mapping_tables_size(whole, 2), 0,
	       "parts that fill their chunks need no tables");
	ok(!create(whole, 2, &mapping), "parts that fill their chunks are mapped");
	is_u64(mapping.gva % CHUNK, 0, "the mapping is aligned to a chunk");
	ok(page_is(&mapping, PAGE, &whole[0], CHUNK),
	   "the code is executable and read-only, in a large page");
	ok(page_is(&mapping, CHUNK, &whole[1], CHUNK) &&
		   page_is(&mapping, 3 * CHUNK - PAGE, &whole[1], CHUNK),
	   "the data is writable and not executable");
	ok(page_is(&mapping, 3 * CHUNK, NULL, 0), "memory in no part is not mapped");
	memcpy(bytes + CHUNK + 12, "abcd", 4);
	ok(!kernel_read(&fake.kernel, mapping.gva + CHUNK + 12, &word, 4, NULL) &&
		   !memcmp(&word, "abcd", 4),
	   "memory is read through the mapping");
	ok(!scratch_mapping_remove(&mapping, NULL) && only_image_mapped(),
	   "after removal only the image is mapped");
	fake_kernel_destroy(&fake);
}

static void test_mixed_chunks(void)
{
	static const struct scratch_part at_tables[] = {{0, PAGE, true},
							{SCRATCH - PAGE, PAGE, false}};
	struct scratch_mapping mapping;
	bool right = true;

	if (!start(5))
		return;
	is_u64(scratch_mapping_tables_size(mixed, 4), 2 * PAGE,
	       "two chunks with small parts need page tables");
	ok(!create(mixed, 4, &mapping), "small parts are mapped");
	for (uint64_t page = 0; page < 3 * CHUNK / PAGE; page++) {
		const struct scratch_part *part = NULL;

		for (size_t i = 0; i < 4; i++)
			if (page * PAGE >= mixed[i].offset &&
			    page * PAGE < mixed[i].offset + mixed[i].size)
				part = &mixed[i];
		right &= page_is(&mapping, page * PAGE, part, PAGE);
	}
	ok(right, "exactly the pages of small parts are mapped, as each asks");
	ok(page_is(&mapping, SCRATCH - PAGE, NULL, 0), "the page tables themselves are not mapped");
	ok(!scratch_mapping_remove(&mapping, NULL) && only_image_mapped(),
	   "after removal of small parts only the image is mapped");
	ok(create(at_tables, 2, &mapping) == -EINVAL, "a part on the page tables is refused");
	fake_kernel_destroy(&fake);
}

static void test_flags(void)
{
	struct scratch_mapping mapping;
	unsigned int first;

	if (!start(4))
		return;
	ok(!create(whole, 2, &mapping), "code and data are mapped");
	first = (unsigned int)((mapping.gva - IMAGE_AREA) / CHUNK);
	is_u64(*slot(first), SCRATCH_GPA | 0xa1,
	       "the code's entry is present, accessed and large, not global");
	is_u64(*slot(first + 1), (SCRATCH_GPA + CHUNK) | 0xe3 | 1ull << 63,
	       "the data's entry is writable, dirty and NX, too");
	scratch_mapping_remove(&mapping, NULL);
	set_efer(EFER_LMA);
	ok(!create(whole, 2, &mapping) && *slot(first + 1) == ((SCRATCH_GPA + CHUNK) | 0xe3),
	   "a guest without NX gets no NX bit");
	scratch_mapping_remove(&mapping, NULL);
	set_efer(0);
	ok(!create(whole, 2, &mapping) && *slot(first + 1) >> 63,
	   "a vCPU that was not started does not decide about NX");
	scratch_mapping_remove(&mapping, NULL);
	fake_kernel_destroy(&fake);
}

/* Fill all usable slots but those in [first, first + n). */
static void occupy_all_but(unsigned int first, unsigned int n)
{
	for (unsigned int i = 0; i < 256; i++)
		if (i != IMAGE_SLOT)
			*slot(i) = i >= first && i < first + n ? 0 : 0x12345000 | 0xe3;
}

static void test_place(void)
{
	struct scratch_mapping mapping;

	if (!start(4))
		return;
	occupy_all_but(200, 4);
	ok(!create(whole, 2, &mapping) && mapping.gva == IMAGE_AREA + 200ull * CHUNK,
	   "the one gap that is large enough is found");
	scratch_mapping_remove(&mapping, NULL);
	occupy_all_but(200, 3);
	ok(create(whole, 2, &mapping) == -ENOSPC, "without a gap the mapping is refused");
	occupy_all_but(IMAGE_SLOT - 4, 4);
	ok(create(whole, 2, &mapping) == -ENOSPC,
	   "without a guard slot before the image the mapping is refused");
	occupy_all_but(IMAGE_SLOT - 5, 5);
	ok(!create(whole, 2, &mapping) && mapping.gva == IMAGE_AREA + (IMAGE_SLOT - 5ull) * CHUNK,
	   "one guard slot before the image is enough");
	scratch_mapping_remove(&mapping, NULL);
	occupy_all_but(IMAGE_SLOT + 1, 4);
	ok(create(whole, 2, &mapping) == -ENOSPC,
	   "without a guard slot after the image the mapping is refused");
	occupy_all_but(IMAGE_SLOT + 1, 5);
	ok(!create(whole, 2, &mapping) && mapping.gva == IMAGE_AREA + (IMAGE_SLOT + 2ull) * CHUNK,
	   "one guard slot after the image is enough");
	scratch_mapping_remove(&mapping, NULL);
	occupy_all_but(254, 2);
	ok(create(whole, 2, &mapping) == -ENOSPC, "slots beyond 512 MiB are not used");
	fake_kernel_destroy(&fake);
}

static void test_not_yet(void)
{
	uint64_t linear = FAKE_PHYS_TEXT - (uint64_t)IMAGE_SLOT * CHUNK;
	struct scratch_mapping mapping;
	struct error err = {0};

	if (!start(4))
		return;
	*slot(100) = NOT_PRESENT;
	ok(scratch_mapping_create(&fake.kernel, &scratch, whole, 2, &mapping, &err) == -EAGAIN &&
		   strstr(err.text, "not cleared") && err.address == IMAGE_AREA + 100ull * CHUNK,
	   "a slot that is not present and not zero means early boot");
	*slot(100) = (linear + 100ull * CHUNK) | 0xe3;
	ok(create(whole, 2, &mapping) == -EAGAIN,
	   "a slot that is mapped as linked means early boot");
	*slot(100) = 0;
	*slot(300) = NOT_PRESENT;
	ok(!create(whole, 2, &mapping), "slots beyond 512 MiB do not mean early boot");
	scratch_mapping_remove(&mapping, NULL);
	fake_put64(&fake, FAKE_PHYS_TEXT + FAKE_INIT_TOP_PGT + 511 * 8, 0);
	ok(create(whole, 2, &mapping) == -EAGAIN, "a kernel without page tables means early boot");
	fake_kernel_destroy(&fake);
}

static void test_refusals(void)
{
	static const struct scratch_part bad[][2] = {
		{{0, PAGE, true}, {0, PAGE, false}},
		{{0, 2 * PAGE, true}, {PAGE, PAGE, true}},
		{{0, 0, true}, {PAGE, PAGE, false}},
		{{16, PAGE, true}, {2 * PAGE, PAGE, false}},
		{{0, PAGE, true}, {SCRATCH, PAGE, false}},
		{{0, PAGE, true}, {PAGE, UINT64_MAX & ~0xfffull, false}},
		{{0, PAGE, true}, {UINT64_MAX & ~0xfffull, 2 * PAGE, false}},
	};
	struct scratch_mapping mapping;

	if (!start(4))
		return;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(create(bad[i], 2, &mapping) == -EINVAL, "invalid parts (%zu) are refused", i);
	ok(create(whole, 0, &mapping) == -EINVAL, "no parts are refused");
	ok(create(whole, KERNEL_MAP_MAX_PARTS + 1, &mapping) == -EINVAL,
	   "too many parts are refused");
	scratch.gpa += PAGE;
	ok(create(whole, 2, &mapping) == -EINVAL, "a misaligned region is refused");
	scratch.gpa = 1ull << 52;
	ok(create(whole, 2, &mapping) == -EINVAL, "a region beyond physical addresses is refused");
	scratch = (struct guest_region){.gpa = SCRATCH_GPA, .size = 512 << 20, .hva = bytes};
	ok(create(whole, 2, &mapping) == -EINVAL, "a region that is too large is refused");
	scratch.size = 2 * CHUNK;
	ok(create(whole, 2, &mapping) == -EINVAL, "a region smaller than its parts is refused");
	ok(only_image_mapped(), "a refused mapping writes nothing");
	fake.kernel.virt_slide += 1ull << 30;
	scratch.size = SCRATCH;
	ok(create(whole, 2, &mapping) == -ENOTSUP, "a kernel at an unusual place is refused");
	fake_kernel_destroy(&fake);
}

/* The region's last chunk is not memory of the guest: found out only by the walk at the end. */
static void test_all_or_nothing(void)
{
	struct scratch_mapping mapping;

	if (!start(4))
		return;
	scratch.gpa += SCRATCH - CHUNK;
	ok(create(whole, 2, &mapping) == -ERANGE, "a region outside RAM is refused");
	ok(only_image_mapped(), "a mapping that fails leaves nothing");
	fake_kernel_destroy(&fake);
}

static void test_remove_foreign(void)
{
	struct scratch_mapping mapping;
	struct error err = {0};
	unsigned int first;

	if (!start(4))
		return;
	ok(!create(whole, 2, &mapping), "the mapping is made");
	first = (unsigned int)((mapping.gva - IMAGE_AREA) / CHUNK);
	*slot(first + 1) = 0x4567000 | 1;
	ok(scratch_mapping_remove(&mapping, &err) == -ESTALE &&
		   err.address == IMAGE_AREA + (first + 1ull) * CHUNK,
	   "an entry that was changed is reported");
	ok(*slot(first + 1) == (0x4567000 | 1) && !*slot(first) && !*slot(first + 2),
	   "an entry that was changed is left alone, and the others are gone");
	ok(!scratch_mapping_remove(&mapping, NULL), "a second removal does nothing");
	fake_kernel_destroy(&fake);
}

int main(void)
{
	bytes = aligned_alloc(PAGE, SCRATCH);
	if (!bytes)
		return tap_skip_all("out of memory");
	test_whole_chunks(4);
	test_whole_chunks(5);
	test_mixed_chunks();
	test_flags();
	test_place();
	test_not_yet();
	test_refusals();
	test_all_or_nothing();
	test_remove_foreign();
	free(bytes);
	return tap_done();
}
