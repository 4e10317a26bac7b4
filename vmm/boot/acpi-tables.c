/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/boot/image.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "vmm/devices/device.h"

/* Layouts: ACPI 6.5, tables 5.3 (RSDP), 5.4 (header), 5.9 (FADT), 5.15 (FACS), 5.19 ff. (MADT). */
struct rsdp {
	char signature[8];
	uint8_t checksum;
	char oem_id[6];
	uint8_t revision;
	uint32_t rsdt;
	uint32_t length;
	uint64_t xsdt;
	uint8_t extended_checksum;
	uint8_t reserved[3];
} __attribute__((packed));

struct header {
	char signature[4];
	uint32_t length;
	uint8_t revision;
	uint8_t checksum;
	char oem_id[6];
	char oem_table_id[8];
	uint32_t oem_revision;
	char creator_id[4];
	uint32_t creator_revision;
} __attribute__((packed));

struct generic_address {
	uint8_t space_id; /* 1 = system I/O */
	uint8_t bit_width, bit_offset, access_size;
	uint64_t address;
} __attribute__((packed));

struct fadt {
	struct header header;
	uint32_t facs, dsdt;
	uint8_t reserved0, preferred_pm_profile;
	uint16_t sci_int;
	uint32_t smi_cmd;
	uint8_t acpi_enable, acpi_disable, s4bios_req, pstate_cnt;
	uint32_t pm1a_evt, pm1b_evt, pm1a_cnt, pm1b_cnt, pm2_cnt, pm_tmr, gpe0, gpe1;
	uint8_t pm1_evt_len, pm1_cnt_len, pm2_cnt_len, pm_tmr_len;
	uint8_t gpe0_len, gpe1_len, gpe1_base, cst_cnt;
	uint16_t c2_latency, c3_latency, flush_size, flush_stride;
	uint8_t duty_offset, duty_width, day_alarm, month_alarm, century;
	uint16_t boot_flags;
	uint8_t reserved1;
	uint32_t flags;
	struct generic_address reset_reg;
	uint8_t reset_value;
	uint16_t arm_boot_flags;
	uint8_t minor_revision;
	uint64_t x_facs, x_dsdt;
	struct generic_address x_pm1a_evt, x_pm1b_evt, x_pm1a_cnt, x_pm1b_cnt, x_pm2_cnt, x_pm_tmr,
		x_gpe0, x_gpe1, sleep_control, sleep_status;
	uint64_t hypervisor_id;
} __attribute__((packed));

struct facs {
	char signature[4];
	uint32_t length;
	uint8_t rest[56];
} __attribute__((packed));

struct madt {
	struct header header;
	uint32_t lapic_gpa;
	uint32_t flags;
} __attribute__((packed));

struct madt_lapic {
	uint8_t type, length, processor_uid, apic_id;
	uint32_t flags;
} __attribute__((packed));

struct madt_ioapic {
	uint8_t type, length, id, reserved;
	uint32_t gpa, gsi_base;
} __attribute__((packed));

struct madt_override {
	uint8_t type, length, bus, source;
	uint32_t gsi;
	uint16_t flags;
} __attribute__((packed));

struct madt_lapic_nmi {
	uint8_t type, length, processor_uid;
	uint16_t flags;
	uint8_t lint;
} __attribute__((packed));

_Static_assert(sizeof(struct rsdp) == 36, "RSDP");
_Static_assert(sizeof(struct header) == 36, "table header");
_Static_assert(sizeof(struct fadt) == 276, "FADT of ACPI 6");
_Static_assert(sizeof(struct facs) == 64, "FACS");

enum {
	FADT_FLAG_WBINVD = 1 << 0,
	FADT_FLAG_PROC_C1 = 1 << 2,
	FADT_FLAG_PWR_BUTTON = 1 << 4, /* set: there is no fixed power button */
	FADT_FLAG_SLP_BUTTON = 1 << 5,
	FADT_FLAG_FIX_RTC = 1 << 6, /* set: no wake-up from an RTC */
	FADT_FLAG_RESET_REG = 1 << 10,

	FADT_BOOT_NO_VGA = 1 << 2,
	FADT_BOOT_NO_MSI = 1 << 3,
	FADT_BOOT_NO_ASPM = 1 << 4,
	FADT_BOOT_NO_RTC = 1 << 5,

	MADT_PCAT_COMPAT = 1 << 0, /* there are 8259s */
	MADT_ENABLED = 1 << 0,
	MADT_ACTIVE_HIGH_LEVEL = 0xd,
	MADT_ALL_PROCESSORS = 0xff,

	SPACE_SYSTEM_IO = 1,
	NO_C2_LATENCY = 101,  /* greater than 100: no C2 */
	NO_C3_LATENCY = 1001, /* greater than 1000: no C3 */
	ISA_TIMER_IRQ = 0,
	TIMER_GSI = 2,
	NMI_LINT = 1,
};

/*
 * AML (ACPI 6.5, chapter 20) of
 *
 *	Name (_S5, Package () { 5, 5, 0, 0 })
 *	Scope (_SB) {
 *		Device (COM1) {
 *			Name (_HID, EisaId ("PNP0501"))
 *			Name (_UID, 1)
 *			Name (_CRS, ResourceTemplate () {
 *				IO (Decode16, 0x3f8, 0x3f8, 0, 8)
 *				IRQNoFlags () { 4 }
 *			})
 *		}
 *	}
 *	Scope (_SB) {
 *		Device (PEVT) {
 *			Name (_HID, "QEMU0001")
 *			Name (_STA, 0xf)
 *			Name (_CRS, ResourceTemplate () {
 *				IO (Decode16, 0x505, 0x505, 1, 1)
 *			})
 *		}
 *	}
 */
/* clang-format off */
static const uint8_t dsdt_aml[] = {
	0x08, '_', 'S', '5', '_', 0x12, 8, 4, 0x0a, ACPI_SLP_TYP_S5, 0x0a, ACPI_SLP_TYP_S5, 0, 0,
	0x10, 50, '_', 'S', 'B', '_',
	0x5b, 0x82, 43, 'C', 'O', 'M', '1',
	0x08, '_', 'H', 'I', 'D', 0x0c, 0x41, 0xd0, 0x05, 0x01,
	0x08, '_', 'U', 'I', 'D', 0x01,
	0x08, '_', 'C', 'R', 'S', 0x11, 16, 0x0a, 13,
	0x47, 0x01, 0xf8, 0x03, 0xf8, 0x03, 0x00, 0x08, /* I/O port descriptor */
	0x22, 0x10, 0x00,                               /* IRQ descriptor: bit 4 */
	0x79, 0x00,                                     /* end tag, checksum not used */
	0x10, 53, '_', 'S', 'B', '_',
	0x5b, 0x82, 46, 'P', 'E', 'V', 'T',
	0x08, '_', 'H', 'I', 'D', 0x0d, 'Q', 'E', 'M', 'U', '0', '0', '0', '1', 0,
	0x08, '_', 'S', 'T', 'A', 0x0a, 0x0f,
	0x08, '_', 'C', 'R', 'S', 0x11, 13, 0x0a, 10,
	0x47, 0x01, 0x05, 0x05, 0x05, 0x05, 0x01, 0x01, /* I/O port descriptor */
	0x79, 0x00,                                     /* end tag, checksum not used */
};
/* clang-format on */

struct writer {
	uint8_t *area;
	size_t pos;
	bool full;
};

static uint8_t checksum(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint8_t sum = 0;

	while (n--)
		sum += *p++;
	return (uint8_t)-sum;
}

static void put(struct writer *w, const void *bytes, size_t n)
{
	if (n > ACPI_TABLES_SIZE - w->pos) {
		w->full = true;
		return;
	}
	memcpy(w->area + w->pos, bytes, n);
	w->pos += n;
}

static struct header make_header(const char *signature, uint8_t revision, size_t length)
{
	struct header header = {.length = (uint32_t)length,
				.revision = revision,
				.oem_id = {'S', 'O', 'N', 'D', 'E', ' '},
				.oem_table_id = {'S', 'O', 'N', 'D', 'E', 'V', 'M', ' '},
				.oem_revision = 1,
				.creator_id = {'S', 'O', 'N', 'D'},
				.creator_revision = 1};

	memcpy(header.signature, signature, sizeof(header.signature));
	return header;
}

/* Where the next table begins, 64-byte aligned as the FACS must be. */
static size_t begin(struct writer *w)
{
	w->pos = (w->pos + 63) & ~(size_t)63;
	return w->pos;
}

/* Give the table at `start` its length and checksum; returns its gpa. */
static uint64_t finish(struct writer *w, size_t start)
{
	struct header *header = (struct header *)(w->area + start);

	header->length = (uint32_t)(w->pos - start);
	header->checksum = 0;
	header->checksum = checksum(header, header->length);
	return ACPI_TABLES_GPA + start;
}

static uint64_t write_dsdt(struct writer *w)
{
	size_t start = begin(w);
	struct header header = make_header("DSDT", 2, 0);

	put(w, &header, sizeof(header));
	put(w, dsdt_aml, sizeof(dsdt_aml));
	return finish(w, start);
}

static uint64_t write_facs(struct writer *w)
{
	size_t start = begin(w);
	struct facs facs = {.signature = {'F', 'A', 'C', 'S'}, .length = sizeof(facs)};

	put(w, &facs, sizeof(facs));
	return ACPI_TABLES_GPA + start;
}

static struct generic_address io_address(uint16_t port, uint8_t bytes)
{
	return (struct generic_address){.space_id = SPACE_SYSTEM_IO,
					.bit_width = (uint8_t)(bytes * 8),
					.access_size = bytes == 1 ? 1 : 2,
					.address = port};
}

static uint64_t write_fadt(struct writer *w, uint64_t facs, uint64_t dsdt)
{
	size_t start = begin(w);
	struct fadt fadt = {
		.header = make_header("FACP", 6, 0),
		.facs = (uint32_t)facs,
		.dsdt = (uint32_t)dsdt,
		.sci_int = ACPI_SCI_IRQ,
		.pm1a_evt = ACPI_PM1A_EVT_PORT,
		.pm1a_cnt = ACPI_PM1A_CNT_PORT,
		.pm1_evt_len = ACPI_PM1A_EVT_SIZE,
		.pm1_cnt_len = ACPI_PM1A_CNT_SIZE,
		.c2_latency = NO_C2_LATENCY,
		.c3_latency = NO_C3_LATENCY,
		.boot_flags =
			FADT_BOOT_NO_VGA | FADT_BOOT_NO_MSI | FADT_BOOT_NO_ASPM | FADT_BOOT_NO_RTC,
		.flags = FADT_FLAG_WBINVD | FADT_FLAG_PROC_C1 | FADT_FLAG_PWR_BUTTON |
			 FADT_FLAG_SLP_BUTTON | FADT_FLAG_FIX_RTC | FADT_FLAG_RESET_REG,
		.reset_reg = io_address(RESET_CONTROL_PORT, 1),
		.reset_value = RESET_CONTROL_VALUE,
		.minor_revision = 5,
		.x_dsdt = dsdt,
		.x_pm1a_evt = io_address(ACPI_PM1A_EVT_PORT, ACPI_PM1A_EVT_SIZE),
		.x_pm1a_cnt = io_address(ACPI_PM1A_CNT_PORT, ACPI_PM1A_CNT_SIZE),
	};

	put(w, &fadt, sizeof(fadt));
	return finish(w, start);
}

static void put_override(struct writer *w, uint8_t irq, uint32_t gsi, uint16_t flags)
{
	struct madt_override override = {
		.type = 2, .length = sizeof(override), .source = irq, .gsi = gsi, .flags = flags};

	put(w, &override, sizeof(override));
}

static uint64_t write_madt(struct writer *w, unsigned int nr_vcpus)
{
	size_t start = begin(w);
	struct madt madt = {.header = make_header("APIC", 5, 0),
			    .lapic_gpa = (uint32_t)memory_lapic_gpa,
			    .flags = MADT_PCAT_COMPAT};
	struct madt_ioapic ioapic = {
		.type = 1, .length = sizeof(ioapic), .gpa = (uint32_t)memory_ioapic_gpa};
	struct madt_lapic_nmi nmi = {.type = 4,
				     .length = sizeof(nmi),
				     .processor_uid = MADT_ALL_PROCESSORS,
				     .lint = NMI_LINT};

	put(w, &madt, sizeof(madt));
	for (unsigned int i = 0; i < nr_vcpus; i++) {
		struct madt_lapic lapic = {.length = sizeof(lapic),
					   .processor_uid = (uint8_t)i,
					   .apic_id = (uint8_t)i,
					   .flags = MADT_ENABLED};

		put(w, &lapic, sizeof(lapic));
	}
	put(w, &ioapic, sizeof(ioapic));
	put_override(w, ISA_TIMER_IRQ, TIMER_GSI, 0);
	put_override(w, ACPI_SCI_IRQ, ACPI_SCI_IRQ, MADT_ACTIVE_HIGH_LEVEL);
	put(w, &nmi, sizeof(nmi));
	return finish(w, start);
}

static uint64_t write_xsdt(struct writer *w, const uint64_t tables[], size_t n)
{
	size_t start = begin(w);
	struct header header = make_header("XSDT", 1, 0);

	put(w, &header, sizeof(header));
	put(w, tables, n * sizeof(tables[0]));
	return finish(w, start);
}

int acpi_tables_write(uint8_t *area, unsigned int nr_vcpus, struct error *err)
{
	struct rsdp rsdp = {.signature = {'R', 'S', 'D', ' ', 'P', 'T', 'R', ' '},
			    .oem_id = {'S', 'O', 'N', 'D', 'E', ' '},
			    .revision = 2,
			    .length = sizeof(rsdp)};
	struct writer w = {.area = area, .pos = sizeof(rsdp)};
	uint64_t dsdt = write_dsdt(&w);
	uint64_t facs = write_facs(&w);
	uint64_t tables[2];

	tables[0] = write_fadt(&w, facs, dsdt);
	tables[1] = write_madt(&w, nr_vcpus);
	rsdp.xsdt = write_xsdt(&w, tables, sizeof(tables) / sizeof(tables[0]));
	if (w.full)
		return error_set(err, ENOSPC, "no room for the ACPI tables");
	/* The first checksum covers what ACPI 1.0 knew: 20 bytes. */
	rsdp.checksum = checksum(&rsdp, 20);
	rsdp.extended_checksum = checksum(&rsdp, sizeof(rsdp));
	memcpy(area, &rsdp, sizeof(rsdp));
	return 0;
}
