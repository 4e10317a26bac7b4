/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <getopt.h>
#include <stdio.h>
#include "formats/cli/cli.h"
#include "vmm/cmd.h"
#include "vmm/libvirt/recovery/recover.h"

static const char verb[] = "recover";

static const char help[] =
	"usage: sonde recover [-c URI] DOMAIN\n"
	"Undo what a 'sonde attach' that died has left in a libvirt domain: patched code, its "
	"memory\n"
	"device, a pause. Does nothing where there is nothing to undo.\n"
	"\n"
	"  -c, --connect URI  libvirt's; qemu:///system, qemu:///session (default: libvirt's own)\n"
	"  DOMAIN             its name, uuid or id\n";

static const struct option long_options[] = {
	{"connect", required_argument, NULL, 'c'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static void tell(const char *domain, const struct libvirt_recovery *r)
{
	if (!r->had_journal && !r->had_device) {
		printf("%s: nothing to recover\n", domain);
		return;
	}
	if (r->ended) {
		printf("%s: the domain that was traced has ended: its journal is removed\n",
		       domain);
		return;
	}
	printf("%s: %zu places put back%s%s%s\n", domain, r->places.restored,
	       r->had_breaks ? ", breakpoints removed" : "",
	       r->had_device ? ", memory device removed" : "",
	       r->resumed ? ", domain resumed" : "");
	if (r->places.foreign)
		printf("%s: %zu places were changed by the guest since, and left alone\n", domain,
		       r->places.foreign);
}

static int apply_option(void *uri, int option, const char *value)
{
	(void)option;
	*(const char **)uri = value;
	return CLI_OK;
}

static const struct cli_syntax syntax = {verb, help, ":c:h", long_options, apply_option};

int cmd_recover(int argc, char **argv)
{
	struct libvirt_recovery recovery;
	const char *uri = NULL;
	struct error err;
	int ret = cli_parse_options(&syntax, argc, argv, &uri);

	if (ret)
		return ret - 1;
	if (optind + 1 != argc)
		return cli_usage(verb, "name one domain; see 'sonde recover --help'");
	if (libvirt_recover(uri, argv[optind], false, 0, &recovery, &err))
		return cli_error(verb, &err);
	tell(argv[optind], &recovery);
	return CLI_OK;
}
