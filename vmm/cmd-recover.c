/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <getopt.h>
#include <stdio.h>
#include "formats/cli.h"
#include "vmm/cmd.h"
#include "vmm/libvirt-recover.h"

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
	printf("%s: %zu places put back%s%s%s\n", domain, r->restored,
	       r->had_breaks ? ", breakpoints removed" : "",
	       r->had_device ? ", memory device removed" : "",
	       r->resumed ? ", domain resumed" : "");
	if (r->foreign)
		printf("%s: %zu places were changed by the guest since, and left alone\n", domain,
		       r->foreign);
}

int cmd_recover(int argc, char **argv)
{
	struct libvirt_recovery recovery;
	const char *uri = NULL;
	struct error err;
	int option;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":c:h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return CLI_OK;
		}
		if (option != 'c')
			return cli_usage(verb, "see 'sonde recover --help'");
		uri = optarg;
	}
	if (optind + 1 != argc)
		return cli_usage(verb, "name one domain; see 'sonde recover --help'");
	if (libvirt_recover(uri, argv[optind], false, 0, &recovery, &err))
		return cli_error(verb, &err);
	tell(argv[optind], &recovery);
	return CLI_OK;
}
