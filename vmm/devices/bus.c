/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/devices/bus.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int bus_add(struct bus *bus, uint64_t base, uint64_t size, const struct bus_ops *ops, void *arg,
	    struct error *err)
{
	if (!size || base + (size - 1) < base)
		return error_set_at(err, EINVAL, base, "bad I/O range of %" PRIu64 " bytes", size);
	for (size_t i = 0; i < bus->n; i++) {
		const struct bus_range *other = &bus->ranges[i];

		if (base <= other->base + (other->size - 1) && other->base <= base + (size - 1))
			return error_set_at(err, EEXIST, base, "I/O ranges overlap");
	}
	if (bus->n == BUS_MAX_RANGES)
		return error_set_at(err, ENOSPC, base, "too many I/O ranges");
	bus->ranges[bus->n++] =
		(struct bus_range){.base = base, .size = size, .ops = ops, .arg = arg};
	return 0;
}

static const struct bus_range *find_range(const struct bus *bus, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < bus->n; i++) {
		const struct bus_range *range = &bus->ranges[i];

		if (address >= range->base && address - range->base < range->size &&
		    size <= range->size - (address - range->base))
			return range;
	}
	return NULL;
}

bool bus_read(const struct bus *bus, uint64_t address, uint8_t *data, unsigned int size)
{
	const struct bus_range *range = find_range(bus, address, size);

	memset(data, 0xff, size);
	if (!range || !range->ops->read)
		return false;
	range->ops->read(range->arg, address - range->base, data, size);
	return true;
}

bool bus_write(const struct bus *bus, uint64_t address, const uint8_t *data, unsigned int size)
{
	const struct bus_range *range = find_range(bus, address, size);

	if (!range || !range->ops->write)
		return false;
	range->ops->write(range->arg, address - range->base, data, size);
	return true;
}
