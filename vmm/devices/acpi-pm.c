/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/devices/models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PM1_STATUS = 0,
	PM1_ENABLE = 2,
	PM1_CONTROL = 4,

	PM1_SCI_EN = 1 << 0,
	PM1_SLP_EN = 1 << 13,
	PM1_SLP_TYP_SHIFT = 10,
	PM1_SLP_TYP_MASK = 7,
};

/* Nothing here ever raises the SCI, so the enable register has no effect. */
struct acpi_pm {
	const struct device_host *host;
	uint16_t enable;
};

static uint16_t pm1_register(const struct acpi_pm *pm, uint64_t offset)
{
	switch (offset) {
	case PM1_ENABLE:
		return pm->enable;
	case PM1_CONTROL:
		return PM1_SCI_EN; /* no SMI command port: always in ACPI mode */
	default:
		return 0;
	}
}

static void pm1_read(void *arg, uint64_t offset, uint8_t *data, unsigned int size)
{
	memset(data, 0, size);
	for (unsigned int i = 0; i < size; i++) {
		uint16_t value = pm1_register(arg, (offset + i) & ~1ull);

		data[i] = (offset + i) & 1 ? value >> 8 : value;
	}
}

static void pm1_write(void *arg, uint64_t offset, const uint8_t *data, unsigned int size)
{
	struct acpi_pm *pm = arg;
	uint16_t value;

	if (size != sizeof(value))
		return;
	memcpy(&value, data, sizeof(value));
	if (offset == PM1_ENABLE)
		pm->enable = value;
	if (offset == PM1_CONTROL && (value & PM1_SLP_EN) &&
	    (value >> PM1_SLP_TYP_SHIFT & PM1_SLP_TYP_MASK) == ACPI_SLP_TYP_S5)
		pm->host->power_off(pm->host->arg);
}

static const struct bus_ops pm1_ops = {.read = pm1_read, .write = pm1_write};

static void reset_control_write(void *arg, uint64_t offset, const uint8_t *data, unsigned int size)
{
	struct acpi_pm *pm = arg;

	(void)offset;
	(void)size;
	if ((*data & RESET_CONTROL_VALUE) == RESET_CONTROL_VALUE)
		pm->host->reset(pm->host->arg);
}

static const struct bus_ops reset_control_ops = {.write = reset_control_write};

static void keyboard_read(void *arg, uint64_t offset, uint8_t *data, unsigned int size)
{
	(void)arg;
	(void)offset;
	/* "Input buffer empty": a guest that reboots polls 65536 times for it otherwise. */
	memset(data, 0, size);
}

static void keyboard_write(void *arg, uint64_t offset, const uint8_t *data, unsigned int size)
{
	struct acpi_pm *pm = arg;

	(void)offset;
	(void)size;
	if (*data == KEYBOARD_RESET_VALUE)
		pm->host->reset(pm->host->arg);
}

static const struct bus_ops keyboard_ops = {.read = keyboard_read, .write = keyboard_write};

static int acpi_pm_create(struct device_host *host, void **out, struct error *err)
{
	struct acpi_pm *pm = calloc(1, sizeof(*pm));
	int ret;

	if (!pm)
		return error_set(err, ENOMEM, "out of memory");
	pm->host = host;
	ret = bus_add(host->ports, ACPI_PM1A_EVT_PORT, ACPI_PM1A_EVT_SIZE + ACPI_PM1A_CNT_SIZE,
		      &pm1_ops, pm, err);
	if (ret)
		goto failed;
	ret = bus_add(host->ports, RESET_CONTROL_PORT, 1, &reset_control_ops, pm, err);
	if (ret)
		goto failed;
	ret = bus_add(host->ports, KEYBOARD_RESET_PORT, 1, &keyboard_ops, pm, err);
	if (ret)
		goto failed;
	*out = pm;
	return 0;
failed:
	free(pm);
	return ret;
}

const struct device_ops acpi_pm_device = {
	.name = "ACPI power management", .create = acpi_pm_create, .destroy = free};
