/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ports of power management, driven as a guest does. */
#include <errno.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/devices/models.h"

static struct bus ports;
static unsigned int power_offs, resets;

static void count_power_off(void *arg)
{
	(void)arg;
	power_offs++;
}

static void count_reset(void *arg)
{
	(void)arg;
	resets++;
}

static void out(uint16_t port, uint16_t value, unsigned int size)
{
	uint8_t data[2] = {(uint8_t)value, (uint8_t)(value >> 8)};

	bus_write(&ports, port, data, size);
}

static uint16_t in(uint16_t port, unsigned int size)
{
	uint8_t data[2] = {0};

	bus_read(&ports, port, data, size);
	return (uint16_t)(data[0] | data[1] << 8);
}

static void test_registers(void)
{
	is_u64(in(ACPI_PM1A_CNT_PORT, 2), 1, "the control register says that ACPI mode is on");
	is_u64(in(ACPI_PM1A_EVT_PORT, 2), 0, "the status register has no event");
	out(ACPI_PM1A_EVT_PORT + 2, 0x120, 2);
	is_u64(in(ACPI_PM1A_EVT_PORT + 2, 2), 0x120, "the enable register keeps what is written");
	is_u64(in(ACPI_PM1A_EVT_PORT + 3, 1), 0x01,
	       "the enable register's high byte can be read alone");
	out(ACPI_PM1A_EVT_PORT + 2, 0xff, 1);
	is_u64(in(ACPI_PM1A_EVT_PORT + 2, 2), 0x120, "a write of one byte is ignored");
	is_u64(in(KEYBOARD_RESET_PORT, 1), 0, "the 8042's input buffer is empty");
	is_u64(in(RESET_CONTROL_PORT, 1), 0xff, "the reset control register cannot be read");
}

static void test_power_off(void)
{
	out(ACPI_PM1A_CNT_PORT, 1 << 13 | 1 << 10, 2);
	is_u64(power_offs, 0, "a sleep state other than S5 does not power off");
	out(ACPI_PM1A_CNT_PORT, 5 << 10, 2);
	is_u64(power_offs, 0, "S5 without SLP_EN does not power off");
	out(ACPI_PM1A_CNT_PORT, 1 << 13 | 5 << 10, 2);
	is_u64(power_offs, 1, "S5 with SLP_EN powers off");
}

static void test_reset(void)
{
	out(RESET_CONTROL_PORT, 0x02, 1);
	out(KEYBOARD_RESET_PORT, 0xd1, 1);
	is_u64(resets, 0, "other values on the reset ports do not reset");
	out(RESET_CONTROL_PORT, 0x06, 1);
	is_u64(resets, 1, "the reset control register resets");
	out(KEYBOARD_RESET_PORT, 0xfe, 1);
	is_u64(resets, 2, "the 8042's pulse resets");
}

/* Each of its three ranges taken by another device. */
static void test_conflicts(void)
{
	static const uint16_t taken[] = {ACPI_PM1A_CNT_PORT, RESET_CONTROL_PORT,
					 KEYBOARD_RESET_PORT};
	static const struct bus_ops ops = {0};

	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		struct bus bus = {0};
		struct device_host host = {.ports = &bus};
		void *device = NULL;

		bus_add(&bus, taken[i], 1, &ops, NULL, NULL);
		ok(acpi_pm_device.create(&host, &device, NULL) == -EEXIST && !device,
		   "creating the device fails if port %#x is taken", taken[i]);
	}
}

int main(void)
{
	struct device_host host = {
		.ports = &ports, .power_off = count_power_off, .reset = count_reset};
	void *device = NULL;

	is_u64((uint64_t)acpi_pm_device.create(&host, &device, NULL), 0,
	       "the device claims its ports");
	test_registers();
	test_power_off();
	test_reset();
	test_conflicts();
	acpi_pm_device.destroy(device);
	return tap_done();
}
