/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "vmm/cmd.h"
#include "vmm/loop/event-loop.h"
#include "vmm/run/options.h"
#include "vmm/run/owner.h"

static const char verb[] = "run";

enum run_status {
	RUN_REBOOT = 3,
	RUN_TRIPLE_FAULT = 4,
	RUN_PANIC = 5,
	RUN_SIGNAL = 128,
};

struct run {
	const struct run_options *options;
	struct event_loop *loop;
	struct run_owner owner;
	uint64_t started_ms;
};

static void on_key(void *arg, enum terminal_action action)
{
	const struct run *run = arg;
	const char *monitor = run->options->recorder.monitor;

	if (action == TERMINAL_HELP)
		fprintf(stderr, "\nCtrl-a x  quit    Ctrl-a c  monitor    Ctrl-a a  send Ctrl-a\n");
	else if (monitor)
		fprintf(stderr, "\nmonitor: run 'sonde ctl %s' in another terminal\n", monitor);
	else
		fprintf(stderr, "\nno monitor: start sonde run with --monitor SOCKET\n");
}

/* What is to be said of a panic. */
static const char *by_line(const struct vm *vm)
{
	return vm_panic_is_certain(vm) ? "" : ", by a line on its console";
}

static enum vm_panic_answer ask_panic(void *arg)
{
	const struct run *run = arg;
	int panicked = recorder_guest_panicked(run->owner.recorder);

	if (panicked < 0)
		return VM_PANIC_UNKNOWN;
	return panicked ? VM_PANIC_YES : VM_PANIC_NO;
}

/* The guest may stand still from now on, and the user may kill us. */
static void on_panic(void *arg, const char *reason)
{
	const struct run *run = arg;

	fprintf(stderr, "sonde run: guest panicked%s: %s\n", by_line(run->owner.vm), reason);
	recorder_snapshot(run->owner.recorder);
}

/* Why the run ended, for a line on stderr, and the exit status for it. */
static int describe_end(const struct run *run, char *text, size_t size)
{
	const int number = recorder_signal(run->owner.recorder);
	const struct vm *vm = run->owner.vm;

	switch (vm_end_reason(vm)) {
	case VM_END_POWER_OFF:
		snprintf(text, size, "guest powered off");
		return CLI_OK;
	case VM_END_REBOOT:
		snprintf(text, size, "guest asked for a reboot");
		return RUN_REBOOT;
	case VM_END_TRIPLE_FAULT:
		snprintf(text, size, "guest ended in a triple fault");
		return RUN_TRIPLE_FAULT;
	case VM_END_PANIC:
		snprintf(text, size, "guest panicked%s (%s)", by_line(vm), vm_panic_reason(vm));
		return RUN_PANIC;
	case VM_END_SIGNAL:
		snprintf(text, size, "ended by signal %d (%s)", number, strsignal(number));
		return RUN_SIGNAL + number;
	case VM_END_FAILED:
		snprintf(text, size, "failed");
		return CLI_FAILED;
	default:
		snprintf(text, size, "quit");
		return CLI_OK;
	}
}

static int report_end(const struct run *run)
{
	const struct vm *vm = run->owner.vm;
	uint64_t lost = vm_console_lost(vm);
	char text[256];
	int status = describe_end(run, text, sizeof(text));

	if (vm_end_reason(vm) == VM_END_FAILED)
		cli_error(verb, vm_failure(vm));
	if (lost)
		fprintf(stderr, "sonde run: lost: %s of console output\n",
			text_number(lost, "byte").s);
	fprintf(stderr, "sonde run: %s after %.1f s, %s\n", text,
		(double)(clock_monotonic_ms() - run->started_ms) / 1000.0,
		text_number(vm_exits(vm), "exit").s);
	return status;
}

/* -o alone prepares tracing for the monitor; --trace starts it with the guest. */
static int create_recorder(struct run *run, struct error *err)
{
	const struct run_options *o = run->options;
	const struct recorder_config config = {
		.verb = verb,
		.options = &o->recorder,
		.loop = run->loop,
		.kernel = o->recorder.output || o->recorder.verbose ? o->vm.boot.kernel : NULL,
		.nr_vcpus = o->vm.nr_vcpus,
		.clock = "kvmclock",
		.boots = true,
		.memory = "mapped: the machine is our own",
		.before_death = terminal_leave_raw,
	};

	return recorder_create(&config, &run->owner.recorder, err);
}

static int create_machine(struct run *run, struct error *err)
{
	struct vm_config config = run->options->vm;

	config.on_key = on_key;
	config.on_panic = on_panic;
	config.ask_panic = ask_panic;
	config.arg = run;
	return vm_create(&config, run->loop, &run->owner.vm, err);
}

/* Before the first instruction, as far as it is known where the kernel is. */
static int begin_trace(struct run *run, struct error *err)
{
	struct run_owner *owner = &run->owner;
	const struct boot_info *boot = vm_boot_info(owner->vm);
	int ret;

	if (boot->slide_known)
		recorder_kernel_at(owner->recorder, boot->virt_slide, boot->phys_text);
	ret = recorder_begin(owner->recorder, vm_guest(owner->vm), err);
	if (!ret && run->options->recorder.verbose)
		recorder_print_kernel(owner->recorder, NULL, stderr);
	return ret;
}

static bool poll_recorder(void *arg)
{
	return recorder_poll(arg);
}

/* Run the machine to its end. Errors are those before it could run. */
static int run_machine(struct run *run, struct error *err)
{
	struct run_owner *owner = &run->owner;
	int reason, ret = create_machine(run, err);

	if (ret)
		return ret;
	ret = recorder_watch(owner->recorder, vm_guest(owner->vm), &run_owner_ops, owner, err);
	if (!ret)
		ret = run_owner_listen(owner, err);
	if (!ret)
		ret = begin_trace(run, err);
	if (!ret) {
		vm_set_poll(owner->vm, poll_recorder, owner->recorder);
		ret = vm_start(owner->vm, err);
	}
	if (!ret)
		ret = recorder_run(owner->recorder, &reason, err);
	vm_finish(owner->vm);
	recorder_end(owner->recorder, RECORDER_GUEST_OVER, NULL);
	run_owner_shutdown(owner);
	recorder_close(owner->recorder);
	return ret;
}

/* A trace that is not what was asked for is a failure, whatever the guest did. */
static int conclude(const struct run *run)
{
	struct error err;
	int status = report_end(run);

	if (recorder_conclude(run->owner.recorder, &err))
		return cli_error(verb, &err);
	recorder_print_next(run->owner.recorder);
	return status;
}

int cmd_run(int argc, char **argv)
{
	struct run_options options;
	struct run run = {.options = &options};
	struct error err = {0};
	int ret = run_options_parse(argc, argv, &options);

	if (ret)
		return ret - 1;
	run.started_ms = clock_monotonic_ms();
	ret = event_loop_create(&run.loop, &err);
	if (ret)
		return cli_error(verb, &err);
	ret = create_recorder(&run, &err);
	if (!ret)
		ret = run_machine(&run, &err);
	ret = ret ? cli_error(verb, &err) : conclude(&run);
	vm_destroy(run.owner.vm);
	recorder_destroy(run.owner.recorder);
	event_loop_destroy(run.loop);
	return ret;
}
