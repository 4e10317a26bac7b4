/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_BOOT_ACPI_TABLES_H
#define SONDE_VMM_BOOT_ACPI_TABLES_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * The ACPI tables of our machine (ACPI specification 6.5, chapter 5): RSDP, XSDT, FADT, FACS, MADT
 * and DSDT. They tell the guest of its vCPUs and interrupt controllers, of COM1, of how to power
 * off and reset, and that there is no 8042, VGA, RTC, PCI or MSI, which saves it the probing.
 */
enum {
	ACPI_TABLES_GPA = 0xe0000, /* the RSDP comes first: found by scanning the ROM window too */
	ACPI_TABLES_SIZE = 0x20000,
};

/* Write all tables to `area`, ACPI_TABLES_SIZE bytes that the guest sees at ACPI_TABLES_GPA.
 * Local APIC ids are 0 .. nr_vcpus - 1. */
int acpi_tables_write(uint8_t *area, unsigned int nr_vcpus, struct error *err);

#endif
