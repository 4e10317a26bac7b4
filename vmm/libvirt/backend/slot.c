/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/backend/slot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BUS = 256, LAST_SLOT = 31 };

const char *libvirt_next_shmem(const char *at)
{
	static const char start[] = "\n    <shmem name='";
	const char *found = strstr(at, start);

	return found ? found + sizeof(start) - 1 : NULL;
}

/* Whether a guest's device is there. Host addresses, of passed-through devices, have no type. */
static bool is_used(const char *xml, unsigned int bus, int slot)
{
	char used[80];
	int n = snprintf(used, sizeof(used), "<address type='pci' domain='0x0000' bus='0x%02x' ",
			 bus);

	if (slot >= 0)
		snprintf(used + n, sizeof(used) - (size_t)n, "slot='0x%02x' ", (unsigned int)slot);
	return strstr(xml, used);
}

/* Hot-plug may be switched off for a port. */
static bool can_plug(const char *controller)
{
	const char *end = strstr(controller, "</controller>");
	const char *off = strstr(controller, " hotplug='off'");

	return !off || !end || off > end;
}

unsigned int libvirt_next_root_port(const char *xml, unsigned int bus)
{
	char start[80];

	while (++bus < MAX_BUS) {
		const char *controller;

		snprintf(start, sizeof(start),
			 "<controller type='pci' index='%u' model='pcie-root-port'>", bus);
		controller = strstr(xml, start);
		if (controller && can_plug(controller) && !is_used(xml, bus, -1))
			return bus;
	}
	return 0;
}

/* On a conventional PCI bus; slot 0 belongs to the bridge. */
static bool has_free_slot(const char *xml, unsigned int bus)
{
	for (int slot = 1; slot <= LAST_SLOT; slot++)
		if (!is_used(xml, bus, slot))
			return true;
	return false;
}

/* The lowest conventional PCI bus with a free slot. -1: none. */
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
