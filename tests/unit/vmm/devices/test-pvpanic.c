/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The panic port, driven as a guest's driver does. */
#include "tests/lib/tap.h"
#include "vmm/devices/models.h"

static unsigned int drivers, panics;

static void count_driver(void *arg)
{
	(void)arg;
	drivers++;
}

static void count_panic(void *arg)
{
	(void)arg;
	panics++;
}

int main(void)
{
	struct bus ports = {0};
	struct device_host host = {
		.ports = &ports, .panic_driver = count_driver, .panicked = count_panic};
	uint8_t byte = 0xff;
	void *device;

	is_u64((uint64_t)pvpanic_device.create(&host, &device, NULL), 0, "the device is created");
	ok(!drivers, "without a driver none is reported");
	ok(bus_read(&ports, PVPANIC_PORT, &byte, 1) && byte == 1, "a panic is the event offered");
	is_u64(drivers, 1, "a driver's question is reported");
	byte = 2;
	bus_write(&ports, PVPANIC_PORT, &byte, 1);
	is_u64(panics, 0, "a crash kernel's event is no panic");
	byte = 1;
	bus_write(&ports, PVPANIC_PORT, &byte, 1);
	is_u64(panics, 1, "a panic is reported");
	pvpanic_device.destroy(device);
	return tap_done();
}
