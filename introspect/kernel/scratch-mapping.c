/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/scratch-mapping.h"

#include <errno.h>
#include <string.h>
#include "introspect/guest/page-walk.h"
#include "introspect/guest/control.h"

enum {
	PMD_LEVEL = 2,
	USABLE_SLOTS = 256, /* 512 MiB */
	PAGES_PER_CHUNK = KERNEL_MAP_CHUNK / KERNEL_MAP_PAGE,
};
/* __START_KERNEL_map; the PMD table covers 1 GiB from here. */
#define IMAGE_AREA 0xffffffff80000000ull

/* What create() works on. */
struct map_job {
	const struct kernel *kernel;
	const struct guest_region *scratch;
	const struct scratch_part *parts;
	size_t nr_parts;
	uint64_t nx;                  /* ENTRY_NX, or 0 where the guest does not use it */
	uint64_t pmd[TABLE_ENTRIES];  /* a copy of the table */
	uint64_t first_own, last_own; /* slots of the kernel image */
};

static bool overlaps(const struct scratch_part *part, uint64_t offset, uint64_t size)
{
	return part->offset < offset + size && offset < part->offset + part->size;
}

static const struct scratch_part *find_part(const struct scratch_part *parts, size_t nr_parts,
					    uint64_t offset, uint64_t size)
{
	for (size_t i = 0; i < nr_parts; i++)
		if (overlaps(&parts[i], offset, size))
			return &parts[i];
	return NULL;
}

static bool fills(const struct scratch_part *part, uint64_t chunk)
{
	return part->offset <= chunk && chunk + KERNEL_MAP_CHUNK <= part->offset + part->size;
}

/* Whether the chunk at offset `chunk` holds parts, none of which fills it. */
static bool needs_table(const struct scratch_part *parts, size_t nr_parts, uint64_t chunk)
{
	const struct scratch_part *part = find_part(parts, nr_parts, chunk, KERNEL_MAP_CHUNK);

	return part && !fills(part, chunk);
}

size_t scratch_mapping_tables_size(const struct scratch_part *parts, size_t nr_parts)
{
	size_t size = 0;

	for (uint64_t chunk = 0; chunk < KERNEL_MAP_MAX; chunk += KERNEL_MAP_CHUNK)
		if (needs_table(parts, nr_parts, chunk))
			size += KERNEL_MAP_PAGE;
	return size;
}

static int check_scratch(const struct guest_region *scratch, struct error *err)
{
	uint64_t mask = KERNEL_MAP_CHUNK - 1;

	if (!scratch->size || scratch->size > KERNEL_MAP_MAX || (scratch->size & mask) ||
	    (scratch->gpa & mask) || (scratch->gpa & ~ENTRY_FRAME))
		return error_set_at(err, EINVAL, scratch->gpa,
				    "%#llx bytes of scratch memory cannot be mapped there",
				    (unsigned long long)scratch->size);
	return 0;
}

static int check_parts(const struct map_job *job, struct error *err)
{
	uint64_t mask = KERNEL_MAP_PAGE - 1, limit = job->scratch->size;

	if (!job->nr_parts || job->nr_parts > KERNEL_MAP_MAX_PARTS)
		return error_set(err, EINVAL, "%zu parts: 1 to %d are possible", job->nr_parts,
				 KERNEL_MAP_MAX_PARTS);
	for (size_t i = 0; i < job->nr_parts; i++) {
		const struct scratch_part *part = &job->parts[i];

		if (!part->size || ((part->offset | part->size) & mask) || part->offset > limit ||
		    part->size > limit - part->offset ||
		    find_part(job->parts, i, part->offset, part->size))
			return error_set_at(err, EINVAL, part->offset,
					    "part %zu is misaligned, outside or overlaps", i);
	}
	/* Only now, when each part is known to be valid. */
	limit -= scratch_mapping_tables_size(job->parts, job->nr_parts);
	for (size_t i = 0; i < job->nr_parts; i++)
		if (job->parts[i].offset + job->parts[i].size > limit)
			return error_set_at(err, EINVAL, job->parts[i].offset,
					    "part %zu leaves no room for page tables", i);
	return 0;
}

/* Bit 63 is reserved where a vCPU has not enabled it. */
static int find_nx(struct map_job *job, struct error *err)
{
	struct guest *guest = job->kernel->guest;
	struct guest_sregs sregs;

	if (!guest->control->get_sregs)
		return error_set(err, ENOTSUP, "%s guests have no vCPU state", guest->name);
	job->nx = ENTRY_NX;
	for (unsigned int i = 0; i < guest->nr_vcpus; i++) {
		int ret = guest->control->get_sregs(guest, i, &sregs, err);

		if (ret)
			return ret;
		if (vcpu_in_long_mode(&sregs) && !(sregs.efer & EFER_NXE))
			job->nx = 0;
	}
	return 0;
}

static bool is_own(const struct map_job *job, uint64_t slot)
{
	return slot >= job->first_own && slot <= job->last_own;
}

/*
 * Whether a slot still holds what the kernel was linked with. The tables are linked to map the
 * image area from end to end; the kernel's first code clears present bits, and cleanup_highmap()
 * the rest.
 */
static bool is_as_linked(const struct map_job *job, uint64_t slot)
{
	uint64_t entry = job->pmd[slot], text = kernel_gva(job->kernel, job->kernel->image->text);
	uint64_t linear = job->kernel->phys_text + IMAGE_AREA + slot * KERNEL_MAP_CHUNK - text;

	if (!entry || is_own(job, slot))
		return false;
	return !(entry & ENTRY_PRESENT) || (entry & ENTRY_FRAME) == (linear & ENTRY_FRAME);
}

/* Copy the PMD table of the image area, and find the image in it. */
static int read_slots(struct map_job *job, uint64_t *table, struct error *err)
{
	const struct kernel_image *image = job->kernel->image;
	uint64_t text = kernel_gva(job->kernel, image->text) - IMAGE_AREA;
	uint64_t end = kernel_gva(job->kernel, image->end) - IMAGE_AREA;
	uint64_t area = (uint64_t)TABLE_ENTRIES * KERNEL_MAP_CHUNK;
	int ret;

	if (text >= end || end > area)
		return error_set_at(err, ENOTSUP, text + IMAGE_AREA,
				    "the kernel is not where x86-64 kernels are mapped");
	job->first_own = text / KERNEL_MAP_CHUNK;
	job->last_own = (end - 1) / KERNEL_MAP_CHUNK;
	ret = kernel_page_table(job->kernel, IMAGE_AREA + text, PMD_LEVEL, table, err);
	if (!ret)
		ret = guest_phys_read(job->kernel->guest, *table, job->pmd, sizeof(job->pmd), err);
	for (uint64_t slot = 0; !ret && slot < USABLE_SLOTS; slot++)
		if (is_as_linked(job, slot))
			ret = error_set_at(err, EAGAIN, IMAGE_AREA + slot * KERNEL_MAP_CHUNK,
					   "the kernel has not cleared its unused mappings yet");
	return ret;
}

/* One slot stays free on either side of the image, so that a kernel that runs off its end still
 * faults.
 */
static bool is_free(const struct map_job *job, uint64_t slot)
{
	return !job->pmd[slot] && (slot + 1 < job->first_own || slot > job->last_own + 1);
}

static int find_room(const struct map_job *job, uint64_t *first, struct error *err)
{
	uint64_t wanted = job->scratch->size / KERNEL_MAP_CHUNK, run = 0;

	for (uint64_t slot = 0; slot < USABLE_SLOTS; slot++) {
		run = is_free(job, slot) ? run + 1 : 0;
		if (run == wanted) {
			*first = slot + 1 - wanted;
			return 0;
		}
	}
	return error_set(err, ENOSPC, "no %llu MiB of free addresses beside the guest's kernel",
			 (unsigned long long)job->scratch->size >> 20);
}

/* Accessed and dirty are set, so that no processor changes an entry. Read-only pages are not dirty:
 * both together would mean a shadow stack. */
static uint64_t leaf_entry(const struct map_job *job, const struct scratch_part *part,
			   uint64_t offset)
{
	uint64_t entry = (job->scratch->gpa + offset) | ENTRY_PRESENT | ENTRY_ACCESSED;

	return part->executable ? entry : entry | ENTRY_WRITABLE | ENTRY_DIRTY | job->nx;
}

static int write_table(const struct map_job *job, uint64_t chunk, uint64_t table, struct error *err)
{
	uint64_t entries[PAGES_PER_CHUNK] = {0};

	for (uint64_t i = 0; i < PAGES_PER_CHUNK; i++) {
		uint64_t offset = chunk + i * KERNEL_MAP_PAGE;
		const struct scratch_part *part =
			find_part(job->parts, job->nr_parts, offset, KERNEL_MAP_PAGE);

		if (part)
			entries[i] = leaf_entry(job, part, offset);
	}
	return guest_phys_write(job->kernel->guest, table, entries, sizeof(entries), err);
}

/* Write the page tables, and decide what goes into the slots. */
static int make_entries(const struct map_job *job, struct scratch_mapping *out, struct error *err)
{
	uint64_t table = job->scratch->gpa + job->scratch->size;
	int ret = 0;

	for (uint64_t i = 0; !ret && i < out->size / KERNEL_MAP_CHUNK; i++) {
		uint64_t chunk = i * KERNEL_MAP_CHUNK;
		const struct scratch_part *part =
			find_part(job->parts, job->nr_parts, chunk, KERNEL_MAP_CHUNK);

		if (!part)
			continue;
		if (fills(part, chunk)) {
			out->slots[i] = leaf_entry(job, part, chunk) | ENTRY_LARGE;
			continue;
		}
		table -= KERNEL_MAP_PAGE;
		ret = write_table(job, chunk, table, err);
		out->slots[i] =
			table | ENTRY_PRESENT | ENTRY_WRITABLE | ENTRY_ACCESSED | ENTRY_DIRTY;
	}
	return ret;
}

static int write_slot(const struct scratch_mapping *mapping, size_t slot, uint64_t entry,
		      struct error *err)
{
	return guest_phys_write(mapping->kernel->guest, mapping->slots_gpa + slot * sizeof(entry),
				&entry, sizeof(entry), err);
}

static int write_slots(const struct scratch_mapping *mapping, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < mapping->size / KERNEL_MAP_CHUNK; i++)
		if (mapping->slots[i])
			ret = write_slot(mapping, i, mapping->slots[i], err);
	return ret;
}

/* Check that a vCPU finds every page of a part where it should be, with the right permissions. */
static int verify_part(const struct map_job *job, const struct scratch_mapping *mapping,
		       const struct scratch_part *part, struct error *err)
{
	uint64_t offset = part->offset, end = part->offset + part->size;
	struct page_walk walk;

	while (offset < end) {
		uint64_t gva = mapping->gva + offset;
		int ret = kernel_walk(job->kernel, gva, &walk, err);

		if (ret)
			return ret;
		if (walk.gpa != job->scratch->gpa + offset || walk.user ||
		    walk.writable == part->executable ||
		    walk.executable != (part->executable || !job->nx))
			return error_set_at(err, EIO, gva,
					    "a page walk does not find what was mapped");
		offset += walk.page_size - (offset & (walk.page_size - 1));
	}
	return 0;
}

static int verify(const struct map_job *job, const struct scratch_mapping *mapping,
		  struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < job->nr_parts; i++)
		ret = verify_part(job, mapping, &job->parts[i], err);
	return ret;
}

static int prepare(struct map_job *job, struct scratch_mapping *out, struct error *err)
{
	uint64_t table = 0, first = 0;
	int ret = check_scratch(job->scratch, err);

	if (!ret)
		ret = check_parts(job, err);
	if (!ret)
		ret = find_nx(job, err);
	if (!ret)
		ret = read_slots(job, &table, err);
	if (!ret)
		ret = find_room(job, &first, err);
	if (ret)
		return ret;
	*out = (struct scratch_mapping){
		.gva = IMAGE_AREA + first * KERNEL_MAP_CHUNK,
		.size = job->scratch->size,
		.kernel = job->kernel,
		.slots_gpa = table + first * sizeof(uint64_t),
	};
	return make_entries(job, out, err);
}

int scratch_mapping_create(const struct kernel *kernel, const struct guest_region *scratch,
			   const struct scratch_part *parts, size_t nr_parts,
			   struct scratch_mapping *out, struct error *err)
{
	struct map_job job = {
		.kernel = kernel, .scratch = scratch, .parts = parts, .nr_parts = nr_parts};
	int ret = prepare(&job, out, err);

	if (ret)
		return ret;
	ret = write_slots(out, err);
	if (!ret)
		ret = verify(&job, out, err);
	if (ret)
		scratch_mapping_remove(out, NULL);
	return ret;
}

/* -ESTALE: the guest has changed it, and it is the guest's now. */
static int clear_slot(const struct scratch_mapping *mapping, size_t slot, struct error *err)
{
	uint64_t now;
	int ret = guest_phys_read(mapping->kernel->guest, mapping->slots_gpa + slot * sizeof(now),
				  &now, sizeof(now), err);

	if (ret)
		return ret;
	if (now != mapping->slots[slot])
		return error_set_at(err, ESTALE, mapping->gva + slot * KERNEL_MAP_CHUNK,
				    "the guest has changed the mapping");
	return write_slot(mapping, slot, 0, err);
}

int scratch_mapping_remove(struct scratch_mapping *mapping, struct error *err)
{
	bool done = true;
	int ret = 0;

	for (size_t i = 0; i < mapping->size / KERNEL_MAP_CHUNK; i++) {
		int failed = mapping->slots[i] ? clear_slot(mapping, i, ret ? NULL : err) : 0;

		if (!failed || failed == -ESTALE)
			mapping->slots[i] = 0;
		done = done && !mapping->slots[i];
		ret = ret ? ret : failed;
	}
	if (done)
		mapping->size = 0;
	return ret;
}

int scratch_mapping_find(struct guest *guest, uint64_t root, unsigned int levels, uint64_t gpa,
			 uint64_t *gva, struct error *err)
{
	struct page_walk walk;

	for (uint64_t slot = 0; slot < TABLE_ENTRIES; slot++) {
		uint64_t at = IMAGE_AREA + slot * KERNEL_MAP_CHUNK;

		if (page_walk(guest, root, levels, at, &walk, NULL) || walk.gpa != gpa)
			continue;
		*gva = at;
		return 0;
	}
	return error_set_at(err, EPROTO, gpa, "the kernel does not map this memory any more");
}
