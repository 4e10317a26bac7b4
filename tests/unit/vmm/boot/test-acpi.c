/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/boot/image.h"
#include "vmm/devices/device.h"

static uint8_t *area;

static uint64_t get(uint64_t offset, unsigned int size)
{
	uint64_t value = 0;

	memcpy(&value, area + offset, size);
	return value;
}

static bool sums_to_zero(uint64_t offset, uint64_t size)
{
	uint8_t sum = 0;

	while (size--)
		sum += area[offset + size];
	return sum == 0;
}

/* Follow a pointer as the guest does: into the window, right signature, right checksum. */
static uint64_t table_at(uint64_t gpa, const char *signature)
{
	uint64_t offset = gpa - ACPI_TABLES_GPA;
	bool inside = gpa >= ACPI_TABLES_GPA && offset + 36 < ACPI_TABLES_SIZE;

	ok(inside && !memcmp(area + offset, signature, 4) &&
		   sums_to_zero(offset, get(offset + 4, 4)),
	   "the pointer to %s leads to its signature and a right checksum", signature);
	return inside ? offset : 0;
}

static void test_madt(uint64_t madt, unsigned int nr_vcpus)
{
	uint64_t end = madt + get(madt + 4, 4);
	unsigned int lapics = 0, ioapics = 0, overrides = 0, in_order = 0;
	uint64_t at;

	for (at = madt + 44; at < end && get(at + 1, 1); at += get(at + 1, 1)) {
		if (get(at, 1) == 0) {
			in_order += get(at + 3, 1) == lapics && get(at + 4, 4) == 1;
			lapics++;
		}
		ioapics += get(at, 1) == 1 && get(at + 4, 4) == 0xfec00000;
		overrides += get(at, 1) == 2;
	}
	is_u64(at, end, "the entries of the MADT fill it exactly");
	is_u64(lapics, nr_vcpus, "the MADT has a local APIC for each vCPU");
	is_u64(in_order, nr_vcpus, "local APICs are enabled, with ids from 0 on");
	ok(ioapics == 1 && overrides == 2, "the MADT has the IOAPIC and two overrides");
}

static void test_fadt(uint64_t fadt)
{
	uint64_t dsdt = table_at(get(fadt + 40, 4), "DSDT");

	is_u64(get(fadt + 140, 8), get(fadt + 40, 4), "both pointers to the DSDT agree");
	is_u64(get(fadt + 56, 4), ACPI_PM1A_EVT_PORT,
	       "the FADT has the port of the PM1a event block");
	is_u64(get(fadt + 64, 4), ACPI_PM1A_CNT_PORT,
	       "the FADT has the port of the PM1a control block");
	is_u64(get(fadt + 109, 2) & 0x26, 0x24, "the FADT denies 8042, VGA and RTC");
	is_u64(get(fadt + 116 + 4, 8), RESET_CONTROL_PORT,
	       "the FADT has the port of the reset register");
	ok(memmem(area + dsdt, get(dsdt + 4, 4), "_S5_", 4), "the DSDT has _S5");
	ok(memmem(area + dsdt, get(dsdt + 4, 4), "_HID\rQEMU0001", 14), "the DSDT has pvpanic");
}

static void test_tables(unsigned int nr_vcpus)
{
	uint64_t xsdt;

	memset(area, 0, ACPI_TABLES_SIZE);
	is_u64((uint64_t)acpi_tables_write(area, nr_vcpus, NULL), 0, "the ACPI tables are written");
	ok(!memcmp(area, "RSD PTR ", 8) && sums_to_zero(0, 20) && sums_to_zero(0, 36),
	   "both checksums of the RSDP are right");
	xsdt = table_at(get(24, 8), "XSDT");
	is_u64(get(xsdt + 4, 4), 36 + 2 * 8, "the XSDT has two tables");
	test_fadt(table_at(get(xsdt + 36, 8), "FACP"));
	test_madt(table_at(get(xsdt + 44, 8), "APIC"), nr_vcpus);
}

int main(void)
{
	area = malloc(ACPI_TABLES_SIZE);
	if (!area)
		return 1;
	test_tables(1);
	test_tables(64);
	free(area);
	return tap_done();
}
