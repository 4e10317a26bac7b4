/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/devices/bus.h"

#include <errno.h>
#include <string.h>
#include "tests/lib/tap.h"

struct probe {
	uint64_t offset;
	unsigned int size;
	uint8_t last;
};

static void probe_read(void *arg, uint64_t offset, uint8_t *data, unsigned int size)
{
	struct probe *probe = arg;

	probe->offset = offset;
	probe->size = size;
	memset(data, 0x5a, size);
}

static void probe_write(void *arg, uint64_t offset, const uint8_t *data, unsigned int size)
{
	struct probe *probe = arg;

	probe->offset = offset;
	probe->size = size;
	probe->last = data[0];
}

static const struct bus_ops ops = {.read = probe_read, .write = probe_write};
static const struct bus_ops deaf_ops = {0};

static void test_decoding(void)
{
	struct bus bus = {0};
	struct probe a = {0}, b = {0};
	uint8_t data[8] = {7};

	is_u64(bus_add(&bus, 0x3f8, 8, &ops, &a, NULL), 0, "a range is claimed");
	is_u64(bus_add(&bus, 0x400, 4, &ops, &b, NULL), 0, "an adjacent range is claimed");
	ok(bus_read(&bus, 0x3ff, data, 1) && a.offset == 7 && data[0] == 0x5a,
	   "an access to the last byte of a range goes to its device");
	ok(bus_write(&bus, 0x400, data, 1) && b.offset == 0 && b.last == 0x5a,
	   "an access to the next byte goes to the other device");
	ok(!bus_read(&bus, 0x3ff, data, 2) && data[0] == 0xff && data[1] == 0xff,
	   "an access across a boundary reads as ones");
	ok(!bus_read(&bus, 0x404, data, 4) && !memcmp(data, "\xff\xff\xff\xff", 4),
	   "an unclaimed address reads as ones");
	ok(!bus_write(&bus, 0x3f7, data, 1), "a write beside a range is dropped");
	ok(!bus_read(&bus, UINT64_MAX, data, 8),
	   "an access that wraps around is answered by no device");
}

static void test_refusals(void)
{
	struct bus bus = {0};
	struct probe a = {0};
	struct error err = {0};
	uint8_t data[2];

	bus_add(&bus, 0x100, 0x10, &deaf_ops, &a, NULL);
	is_u64((uint64_t)-bus_add(&bus, 0x10f, 1, &ops, &a, &err), EEXIST,
	       "a range that overlaps the end of another is refused");
	is_u64(err.address, 0x10f, "the refusal has the address");
	is_u64((uint64_t)-bus_add(&bus, 0xf0, 0x11, &ops, &a, NULL), EEXIST,
	       "a range that overlaps the beginning of another is refused");
	is_u64((uint64_t)-bus_add(&bus, 0xf0, 0x100, &ops, &a, NULL), EEXIST,
	       "a range that contains another is refused");
	is_u64((uint64_t)-bus_add(&bus, 0x200, 0, &ops, &a, NULL), EINVAL,
	       "an empty range is refused");
	is_u64((uint64_t)-bus_add(&bus, UINT64_MAX, 2, &ops, &a, NULL), EINVAL,
	       "a range that wraps around is refused");
	ok(!bus_read(&bus, 0x100, data, 1) && data[0] == 0xff,
	   "a device that cannot be read reads as ones");
	ok(!bus_write(&bus, 0x100, data, 1), "a write to a device that takes none is dropped");
	for (uint64_t i = bus.n; i < BUS_MAX_RANGES; i++)
		bus_add(&bus, 0x1000 * (i + 1), 1, &ops, &a, NULL);
	is_u64((uint64_t)-bus_add(&bus, 0x100000, 1, &ops, &a, NULL), ENOSPC,
	       "a range too many is refused");
}

int main(void)
{
	test_decoding();
	test_refusals();
	return tap_done();
}
