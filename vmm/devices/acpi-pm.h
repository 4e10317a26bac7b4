/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_DEVICES_ACPI_PM_H
#define SONDE_VMM_DEVICES_ACPI_PM_H

#include <stdint.h>
#include "vmm/devices/bus.h"

/*
 * The ACPI fixed hardware a guest needs to power off (ACPI 6.5, section 4.8.3) and the two classic
 * reset ports. Nothing here ever raises the SCI.
 */
enum {
	ACPI_PM1A_EVT_PORT = 0x600, /* status u16, enable u16 */
	ACPI_PM1A_EVT_SIZE = 4,
	ACPI_PM1A_CNT_PORT = 0x604, /* control u16 */
	ACPI_PM1A_CNT_SIZE = 2,
	ACPI_PM_SIZE = 6,
	ACPI_SCI_IRQ = 9,
	ACPI_SLP_TYP_S5 = 5,

	RESET_CONTROL_PORT = 0xcf9,  /* Intel ICH reset control register */
	RESET_CONTROL_VALUE = 0x06,  /* full reset */
	KEYBOARD_RESET_PORT = 0x64,  /* 8042 command port */
	KEYBOARD_RESET_VALUE = 0xfe, /* pulse the CPU's reset line */
};

/* `power_off` and `reset` are called on the vCPU's thread that wrote the register. */
struct acpi_pm {
	void (*power_off)(void *arg);
	void (*reset)(void *arg);
	void *arg;
	uint16_t enable;
};

/* Claim the ports. `pm` must outlive the bus. */
int acpi_pm_init(struct acpi_pm *pm, struct bus *ports, struct error *err);

#endif
