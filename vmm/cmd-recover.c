/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <getopt.h>
#include <stdio.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "vmm/cmd.h"
#include "vmm/libvirt/recovery/recover.h"

static const char verb[] = "recover";

struct options {
	const char *uri;
};

static const struct cli_option options_table[] = {
	{.name = "connect",
	 .letter = 'c',
	 .value = "URI",
	 .help = "libvirt's: qemu:///system, qemu:///session (default: libvirt's own)",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, uri)},
	{0},
};

static const struct cli_table tables[] = {{options_table, 0}, {NULL, 0}};

static const struct cli_verb syntax = {
	.name = verb,
	.usage = "usage: sonde recover [-c URI] DOMAIN\n"
		 "Undo what a 'sonde attach' that died has left in a libvirt domain: patched code, "
		 "its\n"
		 "memory device, a pause. Does nothing where there is nothing to undo. DOMAIN is "
		 "its name,\n"
		 "uuid or id.\n",
	.tables = tables,
};

static void print_recovery(const char *domain, const struct libvirt_recovery *r)
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
	printf("%s: %s put back%s%s%s\n", domain, text_number(r->places.restored, "place").s,
	       r->had_breaks ? ", breakpoints removed" : "",
	       r->had_device ? ", memory device removed" : "",
	       r->resumed ? ", domain resumed" : "");
	if (r->places.foreign)
		printf("%s: places that the guest has changed since, and that were left alone: "
		       "%s\n",
		       domain, text_count(r->places.foreign).s);
}

int cmd_recover(int argc, char **argv)
{
	struct libvirt_recovery recovery;
	struct options options = {0};
	struct error err;
	int ret = cli_parse(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind + 1 != argc)
		return cli_usage(verb, "name one domain; see 'sonde recover --help'");
	if (libvirt_recover(options.uri, argv[optind], false, 0, &recovery, &err))
		return cli_error(verb, &err);
	print_recovery(argv[optind], &recovery);
	return CLI_OK;
}
