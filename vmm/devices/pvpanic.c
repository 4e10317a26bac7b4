/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/devices/models.h"

#include <stdlib.h>
#include <string.h>

enum { PANICKED = 1 << 0 }; /* the only event that is offered */

/* Only the guest's driver reads the port: it asks which events it may report. */
static void pvpanic_read(void *arg, uint64_t offset, uint8_t *data, unsigned int size)
{
	const struct device_host *host = arg;

	(void)offset;
	memset(data, 0, size);
	*data = PANICKED;
	host->panic_driver(host->arg);
}

static void pvpanic_write(void *arg, uint64_t offset, const uint8_t *data, unsigned int size)
{
	const struct device_host *host = arg;

	(void)offset;
	(void)size;
	if (*data & PANICKED)
		host->panicked(host->arg);
}

static const struct bus_ops pvpanic_ops = {.read = pvpanic_read, .write = pvpanic_write};

static int pvpanic_create(struct device_host *host, void **out, struct error *err)
{
	*out = NULL;
	return bus_add(host->ports, PVPANIC_PORT, 1, &pvpanic_ops, host, err);
}

static void pvpanic_destroy(void *device)
{
	(void)device;
}

const struct device_ops pvpanic_device = {
	.name = "pvpanic", .create = pvpanic_create, .destroy = pvpanic_destroy};
