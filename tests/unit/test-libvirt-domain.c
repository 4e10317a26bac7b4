/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Monitor commands through a libvirt that is not there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt-domain.h"

static const char *answer; /* NULL: libvirt fails */

static int command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	(void)domain;
	(void)text;
	(void)flags;
	*result = answer ? strdup(answer) : NULL;
	return answer ? 0 : -1;
}

static int last_code(void)
{
	return LIBVIRT_ERR_OPERATION_DENIED;
}

static const char *last_message(void)
{
	return "no";
}

/* Callers tell errors apart by their codes, whether or not they want the text. */
static void is_code(struct libvirt_domain *domain, const char *reply, int code, const char *what)
{
	struct error err = {0};

	answer = reply;
	ok(libvirt_qmp(domain, "x", NULL, -1, NULL, &err) == code, "%s", what);
	ok(libvirt_qmp(domain, "x", NULL, -1, NULL, NULL) == code, "%s, whose text nobody wants",
	   what);
	ok(!code || -err.code == code, "the error says so: %s", err.text);
}

int main(void)
{
	static const struct libvirt_api api = {
		.monitor_command = command, .last_code = last_code, .last_message = last_message};
	struct libvirt_domain domain = {.api = &api};

	is_code(&domain, "{\"return\": {}, \"id\": \"1\"}", 0, "an answer");
	is_code(&domain, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"exists\"}}",
		-EREMOTEIO, "an error of QEMU's");
	is_code(&domain, "nonsense", -EPROTO, "no answer");
	is_code(&domain, NULL, -EACCES, "an error of libvirt's");
	return tap_done();
}
