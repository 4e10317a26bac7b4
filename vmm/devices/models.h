/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_DEVICES_MODELS_H
#define SONDE_VMM_DEVICES_MODELS_H

#include "vmm/devices/device.h"

/* The device models. Only their registry, vmm/machine/devices.c, includes this, and they do. */

/* ACPI power-off (ACPI 6.5, section 4.8.3), and the two classic reset ports. */
extern const struct device_ops acpi_pm_device;

/* Tells the host of a panic, if the guest has a driver (QEMU, docs/specs/pvpanic; Linux, module
 * pvpanic-mmio). */
extern const struct device_ops pvpanic_device;

/*
 * COM1, a 16550A UART (National Semiconductor PC16550D data sheet), the guest's console. It has no
 * baud rate: a byte is sent when it is written, so that the guest never waits for the line.
 *
 * It holds up to 1 KiB of input. Input stays invisible until the guest enables the receive
 * interrupt, so that its driver, which empties the receiver when it starts, does not discard what
 * was typed ahead.
 */
extern const struct device_ops serial_device;

#endif
