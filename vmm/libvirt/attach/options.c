/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/attach/options.h"

#include <getopt.h>
#include "formats/cli/cli.h"

enum { DEFAULT_MAX_RATE = 20 };

static const char verb_name[] = "attach";

#define FIELD(name) .offset = offsetof(struct attach_options, name)

static const struct cli_option domain_options[] = {
	{.name = "connect",
	 .letter = 'c',
	 .value = "URI",
	 .help = "libvirt's: qemu:///system, qemu:///session (default:\nlibvirt's own)",
	 .store = cli_store_text,
	 FIELD(uri)},
	{.name = "kernel",
	 .letter = 'k',
	 .value = "FILE",
	 .help = "the kernel that runs in the domain, bzImage or vmlinux,\n"
		 "instead of reading it from the guest's memory; another\n"
		 "build is refused",
	 .store = cli_store_text,
	 FIELD(kernel)},
	{.name = "dry-run",
	 .help = "list what would be changed, and change nothing",
	 .store = cli_store_flag,
	 FIELD(dry_run)},
	{0},
};

static const struct cli_table tables[] = {
	{domain_options, 0},
	{recorder_option_table, offsetof(struct attach_options, recorder)},
	{NULL, 0},
};

static const struct cli_verb verb = {
	.name = verb_name,
	.usage = "usage: sonde attach [-c URI] DOMAIN -o DIR [options]\n"
		 "Trace a running libvirt domain of QEMU on this host, and leave it as it was.\n"
		 "DOMAIN is its name, uuid or id. Without --trace, kmem is traced.\n",
	.tables = tables,
	.notes = "exitless needs a free PCI slot for 2 MiB of memory, which holds the rings; they\n"
		 "shrink to fit. --mode trap needs none, is slow, and has --max-rate 20. A vCPU\n"
		 "waits for room for half a second at most.\n"
		 "\n"
		 "Ctrl-C detaches; a second one kills. If the tracer is killed, a watchdog puts "
		 "the\n"
		 "domain back; if that is killed too, 'sonde recover DOMAIN' does.\n"
		 "Exit status: 0 done, 1 failure, 2 usage, 128+N signal N.\n",
};

static int check(const struct attach_options *o)
{
	const char *uri = o->uri;

	if (!o->domain)
		return cli_usage(verb_name, "no domain: name one; see 'virsh%s%s list'",
				 uri ? " -c " : "", uri ? uri : "");
	if (!o->dry_run && !o->recorder.output)
		return cli_usage(verb_name, "no directory for the trace: add -o DIR");
	if (o->recorder.system_map && !o->kernel)
		return cli_usage(verb_name, "--system-map has the addresses of the kernel's file: "
					    "add -k FILE");
	return recorder_options_check(&o->recorder, verb_name);
}

int attach_options_parse(int argc, char **argv, struct attach_options *o)
{
	int ret;

	*o = (struct attach_options){0};
	recorder_options_init(&o->recorder);
	o->recorder.max_rate = DEFAULT_MAX_RATE;
	ret = cli_parse(&verb, argc, argv, o);
	if (ret)
		return ret;
	if (!o->recorder.nr_specs)
		o->recorder.specs[o->recorder.nr_specs++] = "kmem";
	if (optind < argc)
		o->domain = argv[optind++];
	if (optind < argc)
		return 1 + cli_usage(verb_name, "unexpected argument '%s'", argv[optind]);
	ret = check(o);
	return ret ? 1 + ret : 0;
}
