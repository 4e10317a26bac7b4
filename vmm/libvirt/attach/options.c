/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/attach/options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "formats/cli/cli.h"

enum {
	OPT_DRY_RUN = 256,
	OPT_DURATION,
	OPT_FORMAT,
	OPT_MAX_RATE,
	OPT_MODE,
	OPT_MONITOR,
	OPT_ON_FULL,
	OPT_TRACE,
	OPT_UNTIL_EVENTS,

	MAX_DURATION_S = 49 * 86400, /* as long as milliseconds fit an unsigned int */
	DEFAULT_MAX_RATE = 20,
};

static const char verb[] = "attach";

static const struct option long_options[] = {
	{"connect", required_argument, NULL, 'c'},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"help", no_argument, NULL, 'h'},
	{"kernel", required_argument, NULL, 'k'},
	{"max-rate", required_argument, NULL, OPT_MAX_RATE},
	{"mode", required_argument, NULL, OPT_MODE},
	{"monitor", required_argument, NULL, OPT_MONITOR},
	{"on-full", required_argument, NULL, OPT_ON_FULL},
	{"output", required_argument, NULL, 'o'},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"until-events", required_argument, NULL, OPT_UNTIL_EVENTS},
	{"verbose", no_argument, NULL, 'v'},
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"usage: sonde attach [-c URI] DOMAIN -o DIR [options]\n"
	"Trace a running libvirt domain of QEMU on this host, and leave it as it was.\n"
	"\n"
	"  -c, --connect URI     libvirt's; qemu:///system, qemu:///session (default: libvirt's "
	"own)\n"
	"  DOMAIN                its name, uuid or id\n"
	"  -k, --kernel FILE     the kernel that runs in it, bzImage or ELF vmlinux, instead of\n"
	"                        reading it from the guest's memory; another build is refused\n"
	"      --trace SPEC      what to trace (kmem); may be repeated\n"
	"  -o, --output DIR      write the trace there\n"
	"      --format FORMAT   of the trace: ctf (default) or kmemtrace\n"
	"      --mode MODE       exitless (default): the guest's vCPUs write the records into "
	"memory\n"
	"                        that is plugged in; or trap: by breakpoints of QEMU's gdbstub,\n"
	"                        slow, but without a device\n"
	"      --max-rate N      with --mode trap: look at N calls in a second at most (20), "
	"and\n"
	"                        leave the rest of it untraced, which is told; 0: no bound\n"
	"      --on-full WHAT    block (default): vCPUs wait for room, half a second at most, "
	"before\n"
	"                        events are lost; or drop. Either way losses are counted\n"
	"      --duration SEC    end after so long\n"
	"      --until-events N  end after so many events\n"
	"      --monitor SOCKET  listen there for 'sonde ctl' and QMP clients\n"
	"      --dry-run         list what would be changed, and change nothing\n"
	"  -v, --verbose         say how the guest is reached, and which kernel runs there\n"
	"\n"
	"Ctrl-C detaches. If it is killed, a watchdog puts the domain back; if that is killed "
	"too,\n"
	"'sonde recover DOMAIN' does.\n"
	"Exit status: 0 done, 1 failure, 2 usage, 128+N signal N.\n";

static int parse_number(const char *option, const char *text, uint64_t max, uint64_t *out)
{
	if (!cli_parse_u64(text, 1, max, out))
		return 0;
	return cli_usage(verb, "%s takes a number from 1 to %" PRIu64 ", not '%s'", option, max,
			 text);
}

static int parse_max_rate(struct attach_options *o, const char *text)
{
	if (!cli_parse_u64(text, 0, UINT32_MAX, &o->max_rate))
		return 0;
	return cli_usage(verb, "--max-rate takes a number, 0 for no bound, not '%s'", text);
}

static int apply_choice(struct attach_options *o, int option, const char *value)
{
	bool second;
	int rc;

	switch (option) {
	case OPT_ON_FULL:
		return cli_parse_choice(verb, "--on-full", value, "block", "drop", &o->drop);
	case OPT_MODE:
		return cli_parse_choice(verb, "--mode", value, "exitless", "trap", &o->trap);
	default:
		rc = cli_parse_choice(verb, "--format", value, trace_encoding_names[0],
				      trace_encoding_names[1], &second);
		o->encoding = second;
		return rc;
	}
}

static int apply_value(struct attach_options *o, int option, const char *value)
{
	switch (option) {
	case OPT_TRACE:
		return trace_args_add(&o->traces, verb, value);
	case OPT_DURATION:
		return parse_number("--duration", value, MAX_DURATION_S, &o->duration_s);
	case OPT_UNTIL_EVENTS:
		return parse_number("--until-events", value, UINT64_MAX, &o->until_events);
	case OPT_MAX_RATE:
		return parse_max_rate(o, value);
	default:
		return apply_choice(o, option, value);
	}
}

static int apply_option(void *options, int option, const char *value)
{
	struct attach_options *o = options;

	switch (option) {
	case 'c':
		o->uri = value;
		return 0;
	case 'k':
		o->kernel = value;
		return 0;
	case 'o':
		o->output = value;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case OPT_MONITOR:
		o->monitor = value;
		return 0;
	case OPT_DRY_RUN:
		o->dry_run = true;
		return 0;
	default:
		return apply_value(o, option, value);
	}
}

static const struct cli_syntax syntax = {verb, help, ":c:k:o:vh", long_options, apply_option};

static int check(const struct attach_options *o)
{
	if (!o->domain)
		return cli_usage(verb, "no domain: name one; see 'virsh list'");
	if (!o->dry_run && (!o->output || !*o->output))
		return cli_usage(verb, "no directory for the trace: add -o DIR");
	return 0;
}

int attach_options_parse(int argc, char **argv, struct attach_options *o)
{
	int rc;

	*o = (struct attach_options){.max_rate = DEFAULT_MAX_RATE};
	rc = cli_parse_options(&syntax, argc, argv, o);
	if (rc)
		return rc;
	if (!o->traces.n)
		trace_args_add(&o->traces, verb, "kmem");
	if (optind < argc)
		o->domain = argv[optind++];
	if (optind < argc)
		return 1 + cli_usage(verb, "unexpected argument '%s'", argv[optind]);
	rc = check(o);
	return rc ? 1 + rc : 0;
}
