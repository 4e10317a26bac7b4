/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose gdbstub it is: one of an administrator's is never replaced, with or without a debugger. */
#include "vmm/libvirt/gdb/stub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"

static const char *chardevs; /* what QEMU says it has */
static unsigned int changes; /* commands that change something */

static int command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	(void)domain;
	(void)flags;
	if (strstr(text, "query-chardev")) {
		if (asprintf(result, "{\"return\": [%s]}", chardevs) < 0)
			abort();
		return 0;
	}
	changes++;
	*result = strdup("{\"return\": {}}");
	return 0;
}

static int command_files(virDomainPtr domain, const char *text, unsigned int nr_in, int *in,
			 unsigned int *nr_out, int **out, char **result, unsigned int flags)
{
	(void)nr_in;
	(void)in;
	(void)nr_out;
	(void)out;
	return command(domain, text, result, flags);
}

static int last_code(void)
{
	return 1;
}

static const char *last_message(void)
{
	return "no";
}

static const struct libvirt_api api = {.monitor_command = command,
				       .monitor_command_files = command_files,
				       .last_code = last_code,
				       .last_message = last_message};

static void is_refused(const char *devices, const char *why, const char *label)
{
	struct libvirt_domain domain = {
		.api = &api, .calling = PTHREAD_MUTEX_INITIALIZER, .name = "web1"};
	struct error err = {0};
	struct gdbstub stub;

	chardevs = devices;
	changes = 0;
	ok(gdbstub_check_free(&domain, &err) == -EBUSY && strstr(err.text, why), "%s: %s", label,
	   err.text);
	ok(gdbstub_open(&stub, &domain, &err) == -EBUSY && stub.fd < 0, "%s: it is not opened",
	   label);
	is_u64(changes, 0, "and nothing of QEMU is changed");
}

static void is_free(const char *devices, const char *label)
{
	struct libvirt_domain domain = {
		.api = &api, .calling = PTHREAD_MUTEX_INITIALIZER, .name = "web1"};
	struct error err = {0};

	chardevs = devices;
	ok(!gdbstub_check_free(&domain, &err), "%s: %s", label, err.text);
}

int main(void)
{
	is_refused("{\"label\": \"gdb\", \"frontend-open\": true, "
		   "\"filename\": \"disconnected:unix:/run/gdb,server=on\"}",
		   "waits for a debugger", "an administrator's gdbstub that listens");
	is_refused("{\"label\": \"gdb\", \"frontend-open\": true, "
		   "\"filename\": \"tcp:127.0.0.1:1234,server=on <-> 127.0.0.1:4321\"}",
		   "a debugger is connected", "an administrator's gdbstub with a debugger");
	is_free("{\"label\": \"serial0\", \"frontend-open\": true, \"filename\": "
		"\"pty:/dev/pts/1\"}",
		"a domain without a gdbstub is free");
	return tap_done();
}
