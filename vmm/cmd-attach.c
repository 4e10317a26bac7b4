/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "vmm/cmd.h"
#include "vmm/libvirt/attach/attach.h"
#include "vmm/loop/event-loop.h"

static const char verb[] = "attach";

enum { NS_PER_MS = 1000000, STATUS_SIGNAL = 128 };

/* What --mode trap has cost, on stderr. */
static void print_traps(const struct attach *a)
{
	const struct libvirt_trap_counts *traps = &a->traps;

	if (traps->hits)
		fprintf(stderr,
			"sonde attach: %s hit; the domain stood still for %s ms, QEMU's own part "
			"not counted\n",
			text_number(traps->hits, "breakpoint").s,
			text_count(traps->held_ns / NS_PER_MS).s);
	if (a->options->recorder.verbose && traps->loans)
		fprintf(stderr,
			"sonde attach: to reach breakpoints, a vCPU in user mode was lent the "
			"kernel's page tables %s\n",
			text_number(traps->loans, "time").s);
}

static int print_domain_end(const struct attach *a)
{
	struct error err;

	fprintf(stderr, "sonde attach: %s, and the trace ended with it\n", a->why);
	if (!a->saved_breaks)
		return CLI_OK;
	error_set(&err, EIO,
		  "the domain's memory was saved with breakpoints in it, where it will crash: do "
		  "not resume it from that, start it anew (%s)",
		  attach_virsh(a, "managedsave-remove").text);
	return cli_error(verb, &err);
}

static int describe_end(const struct attach *a)
{
	int number = recorder_signal(a->recorder);

	if (a->why)
		return print_domain_end(a);
	if (a->reason == ATTACH_LIBVIRT)
		return cli_error(verb, &a->lost);
	return number ? STATUS_SIGNAL + number : CLI_OK;
}

/* The last lines, and the exit status. */
static int conclude(const struct attach *a)
{
	struct error err;
	int ret, status;

	print_traps(a);
	ret = recorder_conclude(a->recorder, &err);
	if (ret && !a->why)
		return cli_error(verb, &err);
	status = describe_end(a);
	if (ret && a->saved_breaks)
		cli_error(verb, &err);
	recorder_print_next(a->recorder);
	return status;
}

static int trace(struct attach *a, struct error *err)
{
	if (a->options->dry_run)
		return attach_print_plan(a, stdout, err);
	if (a->options->recorder.verbose)
		attach_print(a, stderr);
	return attach_run(a, err);
}

static int attach_and_trace(struct attach *a, const struct attach_options *options,
			    struct event_loop *loop)
{
	struct error err = {0}, undone = {0};
	int ret = attach_open(a, options, loop, &err), left;

	if (!ret)
		ret = trace(a, &err);
	left = attach_end(a, &undone);
	if (ret)
		cli_error(verb, &err);
	if (left)
		cli_error(verb, &undone);
	if (ret || left)
		return CLI_FAILED;
	return options->dry_run ? cli_flush(verb) : conclude(a);
}

int cmd_attach(int argc, char **argv)
{
	struct attach_options options;
	struct event_loop *loop;
	struct attach a;
	struct error err;
	int status = attach_options_parse(argc, argv, &options);

	if (status)
		return status - 1;
	if (event_loop_create(&loop, &err))
		return cli_error(verb, &err);
	status = attach_and_trace(&a, &options, loop);
	attach_close(&a);
	event_loop_destroy(loop);
	return status;
}
