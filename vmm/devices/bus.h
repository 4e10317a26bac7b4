/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_DEVICES_BUS_H
#define SONDE_VMM_DEVICES_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * Address decoding for port and for memory I/O. Devices claim ranges before the vCPUs run, so that
 * vCPU threads need no lock to find them. Several threads may call a device at once.
 */
enum { BUS_MAX_RANGES = 16 };

struct bus_ops {
	/* Fill `size` (1, 2, 4 or 8) bytes; `offset` is from the range's base. NULL: reads as all
	 * ones. */
	void (*read)(void *arg, uint64_t offset, uint8_t *data, unsigned int size);
	/* NULL: writes are ignored. */
	void (*write)(void *arg, uint64_t offset, const uint8_t *data, unsigned int size);
};

struct bus_range {
	uint64_t base, size;
	const struct bus_ops *ops;
	void *arg;
};

struct bus {
	struct bus_range ranges[BUS_MAX_RANGES];
	size_t n;
};

/* -EEXIST if the range overlaps another one, -EINVAL if empty or wrapping, -ENOSPC if full. */
int bus_add(struct bus *bus, uint64_t base, uint64_t size, const struct bus_ops *ops, void *arg,
	    struct error *err);

/* Unless one range contains the whole access, a read gives all ones and a write is dropped, as on a
 * PC's buses. Returns whether a device answered. */
bool bus_read(const struct bus *bus, uint64_t address, uint8_t *data, unsigned int size);
bool bus_write(const struct bus *bus, uint64_t address, const uint8_t *data, unsigned int size);

#endif
