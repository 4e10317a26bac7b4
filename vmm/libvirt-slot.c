/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt-slot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BUS = 64, LAST_SLOT = 31 };

unsigned int libvirt_next_root_port(const char *xml, unsigned int bus)
{
	char controller[80], used[24];

	while (++bus < MAX_BUS) {
		snprintf(controller, sizeof(controller),
			 "<controller type='pci' index='%u' model='pcie-root-port'>", bus);
		snprintf(used, sizeof(used), " bus='0x%02x' ", bus);
		if (strstr(xml, controller) && !strstr(xml, used))
			return bus;
	}
	return 0;
}

/* On a conventional PCI bus; slot 0 is the bridge's own. */
static bool has_free_slot(const char *xml, unsigned int bus)
{
	char used[40];

	for (unsigned int slot = 1; slot <= LAST_SLOT; slot++) {
		snprintf(used, sizeof(used), " bus='0x%02x' slot='0x%02x' ", bus, slot);
		if (!strstr(xml, used))
			return true;
	}
	return false;
}

/* The lowest conventional PCI bus with a free slot, -1 if there is none. */
static int conventional_bus(const char *xml)
{
	static const char *const models[] = {"pci-root", "pci-bridge", "pcie-to-pci-bridge"};
	char controller[80];

	for (unsigned int bus = 0; bus < MAX_BUS; bus++) {
		for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
			snprintf(controller, sizeof(controller),
				 "<controller type='pci' index='%u' model='%s'", bus, models[i]);
			if (strstr(xml, controller) && has_free_slot(xml, bus))
				return (int)bus;
		}
	}
	return -1;
}

int libvirt_slot_describe(const char *xml, char *text, size_t size, struct error *err)
{
	int bus = conventional_bus(xml);
	unsigned int port = libvirt_next_root_port(xml, 0);

	if (bus >= 0)
		snprintf(text, size, "on PCI bus %d, in a free slot", bus);
	else if (port)
		snprintf(text, size, "on PCI bus %u, an empty PCIe root port", port);
	else
		return error_set(err, ENOSPC,
				 "no free PCI slot: the domain needs an empty pcie-root-port, "
				 "which can be added to its definition for the next start");
	return 0;
}
