/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/slot.h"

/* As libvirt 9.0 writes them. */
#define PORT(index, model)                                                                    \
	"    <controller type='pci' index='" index "' model='" model "'>\n"                   \
	"      <model name='pcie-root-port'/>\n"                                              \
	"      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/>\n" \
	"    </controller>\n"
#define DEVICE(bus, slot)                                                                      \
	"    <interface>\n      <address type='pci' domain='0x0000' bus='" bus "' slot='" slot \
	"' function='0x0'/>\n    </interface>\n"
/* A port without hot-plug; a device that is passed through from the host. */
#define FIXED(index)                                                             \
	"    <controller type='pci' index='" index "' model='pcie-root-port'>\n" \
	"      <target chassis='1' port='0x10' hotplug='off'/>\n    </controller>\n"
#define PASSED                                                                                    \
	"    <hostdev>\n      <source>\n        <address domain='0x0000' bus='0x01' slot='0x00' " \
	"function='0x0'/>\n      </source>\n    </hostdev>\n"
#define PCIE "    <controller type='pci' index='0' model='pcie-root'/>\n"
#define PC "    <controller type='pci' index='0' model='pci-root'/>\n"

static void test_root_ports(void)
{
	static const char xml[] = PCIE PORT("1", "pcie-root-port") PORT("2", "pcie-root-port")
		PORT("3", "pcie-root-port") PORT("4", "pcie-to-pci-bridge") DEVICE("0x01", "0x00")
			DEVICE("0x03", "0x00");

	is_u64(libvirt_next_root_port(xml, 0), 2, "the first empty root port is found");
	is_u64(libvirt_next_root_port(xml, 2), 0,
	       "used ports and bridges are not empty root ports");
	is_u64(libvirt_next_root_port(PC, 0), 0, "a pc has no root port");
	is_u64(libvirt_next_root_port(PCIE PORT("1", "pcie-root-port") PASSED, 0), 1,
	       "a host address of a passed-through device does not use a port");
	is_u64(libvirt_next_root_port(PCIE FIXED("1") PORT("2", "pcie-root-port"), 0), 2,
	       "a port without hot-plug is skipped");
}

static void test_shmem(void)
{
	static const char xml[] =
		"<domain>\n  <name>ua-sonde-0 &lt;shmem name='x</name>\n"
		"  <metadata>\n    <a:b>\n      <shmem name='no'/>\n    </a:b>\n"
		"  </metadata>\n  <devices>\n    <shmem name='one'>\n    </shmem>\n"
		"    <shmem name='two'>\n    </shmem>\n  </devices>\n";
	const char *one = libvirt_next_shmem(xml), *two = one ? libvirt_next_shmem(one) : NULL;

	ok(one && !strncmp(one, "one'", 4),
	   "the first <shmem> device is found, not text or metadata like it");
	ok(two && !strncmp(two, "two'", 4), "the second <shmem> device is found");
	ok(!two || !libvirt_next_shmem(two), "after the last <shmem> device there is none");
	ok(!libvirt_next_shmem(""), "an empty text has no <shmem> device");
}

static void is_place(const char *xml, const char *want, const char *name)
{
	struct error err = {0};
	char text[160] = "";

	if (libvirt_slot_describe(xml, text, sizeof(text), &err))
		snprintf(text, sizeof(text), "error %d", err.code);
	is_str(text, want, name);
}

static void test_places(void)
{
	char full[8192] = PC;

	is_place(PCIE PORT("1", "pcie-root-port"), "on PCI bus 1, an empty PCIe root port",
		 "an empty root port is described");
	is_place(PCIE PORT("1", "pcie-root-port") DEVICE("0x01", "0x00"), "error 28",
		 "without an empty root port there is no place (ENOSPC)");
	is_place(PC, "on PCI bus 0, in a free slot", "a free slot of a pc is described");
	is_place(PCIE PORT("1", "pcie-root-port") PORT("2", "pcie-to-pci-bridge"),
		 "on PCI bus 2, in a free slot", "a conventional bus is preferred to a root port");
	for (unsigned int slot = 1; slot < 32; slot++)
		snprintf(full + strlen(full), sizeof(full) - strlen(full),
			 "<address type='pci' domain='0x0000' bus='0x00' slot='0x%02x' ", slot);
	is_place(full, "error 28", "a full pc has no place (ENOSPC)");
	is_place("", "error 28", "a domain without PCI has no place (ENOSPC)");
}

int main(void)
{
	test_root_ports();
	test_places();
	test_shmem();
	return tap_done();
}
