/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_DEVICES_DEVICE_H
#define SONDE_VMM_DEVICES_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "vmm/devices/bus.h"

/* Ports and interrupt lines of the machine. The ACPI tables describe them (vmm/boot). */
enum {
	COM1_PORT = 0x3f8,
	COM1_NR_PORTS = 8,
	COM1_IRQ = 4,

	ACPI_PM1A_EVT_PORT = 0x600, /* status u16, enable u16 */
	ACPI_PM1A_EVT_SIZE = 4,
	ACPI_PM1A_CNT_PORT = 0x604, /* control u16 */
	ACPI_PM1A_CNT_SIZE = 2,
	ACPI_SCI_IRQ = 9,
	ACPI_SLP_TYP_S5 = 5,

	PVPANIC_PORT = 0x505, /* QEMU's, u8 */

	RESET_CONTROL_PORT = 0xcf9,  /* Intel ICH reset control register */
	RESET_CONTROL_VALUE = 0x06,  /* full reset */
	KEYBOARD_RESET_PORT = 0x64,  /* 8042 command port */
	KEYBOARD_RESET_VALUE = 0xfe, /* pulse the CPU's reset line */
};

/*
 * The guest's end of the console, provided by a device model: what is typed on the host goes in
 * here. Any thread.
 */
struct console_port {
	/* Returns how many bytes were taken; the rest has to be offered again later. */
	size_t (*receive)(void *device, const uint8_t *bytes, size_t n);
	/* How many bytes receive() would take now. */
	size_t (*input_space)(void *device);
	/* The host takes output again, after transmit() has returned false. */
	void (*output_ready)(void *device);
	void *device;
};

/* What a device model may use of its machine. The functions may be called from any thread. */
struct device_host {
	struct bus *ports, *mmio; /* to claim ranges while the model is created */
	/* Drive a line of both PICs and the IOAPIC. */
	void (*set_irq)(void *arg, unsigned int irq, bool level);
	/* End the run. */
	void (*power_off)(void *arg);
	void (*reset)(void *arg);
	/* The guest has a driver that will report a panic; and it reports one. */
	void (*panic_driver)(void *arg);
	void (*panicked)(void *arg);
	/* Output a byte on the console. Returns whether it takes 16 more now, a UART's FIFO full;
	 * if not, the host calls console.output_ready() when it does. */
	bool (*transmit)(void *arg, uint8_t byte);
	void *arg;
	struct console_port console; /* set by the model that is the guest's console */
};

/*
 * A device model. To add one: a file of this folder that defines a struct device_ops, its
 * declaration in models.h, and its row in vmm/machine/devices.c.
 */
struct device_ops {
	const char *name; /* for messages */
	/* Claim ranges of the buses; *out is handed to destroy(). *host outlives the device. */
	int (*create)(struct device_host *host, void **out, struct error *err);
	/* After the last vCPU has stopped for good. */
	void (*destroy)(void *device);
};

#endif
