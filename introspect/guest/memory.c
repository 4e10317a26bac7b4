/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/guest/guest.h"

#include <errno.h>
#include <string.h>

/* The region that holds gpa, or NULL. */
static const struct guest_region *find_region(struct guest *guest, uint64_t gpa)
{
	const struct guest_region *regions;
	size_t n;

	if (guest->memory->regions(guest, &regions, &n, NULL))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (gpa >= regions[i].gpa && gpa - regions[i].gpa < regions[i].size)
			return &regions[i];
	return NULL;
}

void *guest_phys_hva(struct guest *guest, uint64_t gpa, size_t size)
{
	const struct guest_region *region = find_region(guest, gpa);
	uint64_t offset;

	if (!region || !region->hva)
		return NULL;
	offset = gpa - region->gpa;
	return size <= region->size - offset ? region->hva + offset : NULL;
}

/* Most reads in a trap handler are of one pointer: those need no call. */
static void copy(void *to, const void *from, size_t size)
{
	if (size == sizeof(uint64_t))
		memcpy(to, from, sizeof(uint64_t));
	else
		memcpy(to, from, size);
}

/* Bytes of [gpa, gpa + size) that lie in the region of gpa; *region is NULL if there is none. */
static size_t first_piece(struct guest *guest, uint64_t gpa, size_t size,
			  const struct guest_region **region)
{
	uint64_t left;

	*region = find_region(guest, gpa);
	if (!*region)
		return 0;
	left = (*region)->size - (gpa - (*region)->gpa);
	return left < size ? (size_t)left : size;
}

int guest_phys_read(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err)
{
	const void *mapped = guest_phys_hva(guest, gpa, size);
	const struct guest_region *region;
	uint8_t *out = to;

	if (mapped) {
		copy(to, mapped, size);
		return 0;
	}
	while (size) {
		size_t n = first_piece(guest, gpa, size, &region);
		int ret = 0;

		if (!n)
			return error_set_at(err, EFAULT, gpa, "not guest RAM");
		if (region->hva)
			memcpy(out, region->hva + (gpa - region->gpa), n);
		else
			ret = guest->memory->read(guest, gpa, out, n, err);
		if (ret)
			return ret;
		gpa += n;
		out += n;
		size -= n;
	}
	return 0;
}

/* A write that leaves RAM must fail before its first byte is stored. */
static int check_range(struct guest *guest, uint64_t gpa, size_t size, struct error *err)
{
	const struct guest_region *region;

	while (size) {
		size_t n = first_piece(guest, gpa, size, &region);

		if (!n)
			return error_set_at(err, EFAULT, gpa, "not guest RAM");
		gpa += n;
		size -= n;
	}
	return 0;
}

static int write_by(guest_write_fn *fn, struct guest *guest, uint64_t gpa, const void *from,
		    size_t size, struct error *err)
{
	const struct guest_region *region;
	const uint8_t *in = from;
	int ret;

	if (!(guest->caps & GUEST_CAP_WRITE))
		return error_set_at(err, EROFS, gpa, "the memory of this guest is read-only");
	ret = check_range(guest, gpa, size, err);
	while (!ret && size) {
		size_t n = first_piece(guest, gpa, size, &region);

		if (region->hva)
			memcpy(region->hva + (gpa - region->gpa), in, n);
		else
			ret = fn(guest, gpa, in, n, err);
		gpa += n;
		in += n;
		size -= n;
	}
	return ret;
}

int guest_phys_write(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		     struct error *err)
{
	return write_by(guest->memory->write, guest, gpa, from, size, err);
}

int guest_phys_give(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		    struct error *err)
{
	const struct guest_memory_ops *ops = guest->memory;

	return write_by(ops->give ? ops->give : ops->write, guest, gpa, from, size, err);
}

int guest_hold_to_read(struct guest *guest, struct error *err)
{
	return guest->caps & GUEST_STOPS_TO_READ ? guest->control->stop(guest, err) : 0;
}

int guest_release(struct guest *guest, int ret, struct error *err)
{
	int resumed = 0;

	if (guest->caps & GUEST_STOPS_TO_READ)
		resumed = guest->control->resume(guest, ret ? NULL : err);
	return ret ? ret : resumed;
}
