// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "vmm/cmd.h"
#include "vmm/loop/event-loop.h"
#include "vmm/run/owner.h"
#include "vmm/run/options.h"
#include "vmm/recorder/recorder.h"
#include "vmm/machine/vm.h"

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
	struct vm *vm;
	struct run_trace *trace; /* NULL: not asked for */
	struct vm_observer observer;
	struct monitor_vm *monitor;
	int signal_fd;
	int signal_number; /* that ended the run */
	sigset_t signals, old_signals;
	struct timespec started;
};

static double seconds_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { NR_END_SIGNALS = sizeof(end_signals) / sizeof(end_signals[0]) };

static struct timespec first_signal;

/* timeout(1), for one, sends the same signal to the process and to its group: that is still one. */
static const double second_signal_after = 0.2;

static void die_of_second(int signal_number)
{
	if (seconds_since(&first_signal) < second_signal_after)
		return;
	terminal_leave_raw();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void on_signal(void *arg, int fd, uint32_t events)
{
	struct sigaction hard = {.sa_handler = die_of_second, .sa_flags = SA_RESTART};
	struct run *run = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	run->signal_number = (int)info.ssi_signo;
	vm_request_end(run->vm, VM_END_SIGNAL);
	/* The next one is hard. */
	clock_gettime(CLOCK_MONOTONIC, &first_signal);
	for (int i = 0; i < NR_END_SIGNALS; i++)
		sigaction(end_signals[i], &hard, NULL);
	sigprocmask(SIG_SETMASK, &run->old_signals, NULL);
}

static int catch_signals(struct run *run, struct error *err)
{
	sigemptyset(&run->signals);
	for (int i = 0; i < NR_END_SIGNALS; i++)
		sigaddset(&run->signals, end_signals[i]);
	sigprocmask(SIG_BLOCK, &run->signals, &run->old_signals);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	run->signal_fd = signalfd(-1, &run->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signal_fd < 0)
		return error_set(err, errno, "cannot watch for signals: %s", strerror(errno));
	return event_loop_add_fd(run->loop, run->signal_fd, EPOLLIN, on_signal, run, NULL, err);
}

static void on_key(void *arg, enum terminal_action action)
{
	const struct run *run = arg;

	if (action == TERMINAL_HELP)
		fprintf(stderr, "\nCtrl-a x  quit    Ctrl-a c  monitor    Ctrl-a a  send Ctrl-a\n");
	else if (run->options->monitor)
		fprintf(stderr, "\nmonitor: run 'sonde ctl %s' in another terminal\n",
			run->options->monitor);
	else
		fprintf(stderr, "\nno monitor: start sonde run with --monitor SOCKET\n");
}

static void on_panic(void *arg, const char *reason)
{
	(void)arg;
	fprintf(stderr, "sonde run: guest panicked: %s\n", reason);
}

/* What happened, for the last line, and the exit status for it. */
static int describe_end(const struct run *run, char *text, size_t size)
{
	switch (vm_end_reason(run->vm)) {
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
		snprintf(text, size, "guest panicked (%s)", vm_panic_reason(run->vm));
		return RUN_PANIC;
	case VM_END_SIGNAL:
		snprintf(text, size, "ended by signal %d (%s)", run->signal_number,
			 strsignal(run->signal_number));
		return RUN_SIGNAL + run->signal_number;
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
	char text[256];
	uint64_t lost = vm_console_lost(run->vm);
	int status = describe_end(run, text, sizeof(text));

	if (vm_end_reason(run->vm) == VM_END_FAILED)
		cli_error(verb, vm_failure(run->vm));
	if (lost)
		fprintf(stderr, "sonde run: %llu bytes of console output were lost\n",
			(unsigned long long)lost);
	fprintf(stderr, "sonde run: %s after %.1f s, %llu exits\n", text,
		seconds_since(&run->started), (unsigned long long)vm_exits(run->vm));
	return status;
}

/* -o alone prepares tracing for the monitor; --trace starts it with the guest. */
static int create_trace(struct run *run, struct error *err)
{
	const struct run_options *o = run->options;
	struct run_trace_config config = {.kernel = o->vm.boot.kernel,
					  .dir = o->output,
					  .specs = o->traces.specs,
					  .encoding = o->encoding,
					  .nr_vcpus = o->vm.nr_vcpus,
					  .options = o->tracing,
					  .verb = verb,
					  .clock = "kvmclock"};

	if (!o->output)
		return 0;
	return run_trace_create(&config, &run->trace, err);
}

static int create_monitor(struct run *run, struct error *err)
{
	if (!run->options->monitor)
		return 0;
	return monitor_vm_create(run->options->monitor, run->vm, run->loop,
				 run->trace ? run_trace_monitor_ops() : NULL, run->trace,
				 &run->monitor, err);
}

static int create_machine(struct run *run, struct error *err)
{
	struct vm_config config = run->options->vm;

	config.on_key = on_key;
	config.on_panic = on_panic;
	config.arg = run;
	if (!run->trace)
		return vm_create(&config, run->loop, NULL, &run->vm, err);
	run->observer = run_trace_observer(run->trace);
	return vm_create(&config, run->loop, &run->observer, &run->vm, err);
}

/* Run the machine to its end. Errors are those before it could run. */
static int run_machine(struct run *run, int *status, struct error *err)
{
	int rc = create_machine(run, err);

	if (!rc)
		rc = create_monitor(run, err);
	if (!rc)
		rc = catch_signals(run, err);
	if (!rc)
		rc = vm_start(run->vm, err);
	if (!rc)
		event_loop_run(run->loop);
	if (run->vm)
		vm_finish(run->vm);
	monitor_vm_destroy(run->monitor);
	if (!rc)
		*status = report_end(run);
	return rc;
}

/* A trace that is not what was asked for is a failure, whatever the guest did. */
static int conclude_trace(const struct run *run, int status)
{
	struct error err;

	if (!run->trace || !run_trace_conclude(run->trace, &err))
		return status;
	return cli_error(verb, &err);
}

int cmd_run(int argc, char **argv)
{
	struct run_options options;
	struct run run = {.options = &options, .signal_fd = -1};
	struct error err = {0};
	int status = CLI_FAILED;
	int rc = run_options_parse(argc, argv, &options);

	if (rc)
		return rc - 1;
	clock_gettime(CLOCK_MONOTONIC, &run.started);
	rc = event_loop_create(&run.loop, &err);
	if (!rc)
		rc = create_trace(&run, &err);
	if (!rc)
		rc = run_machine(&run, &status, &err);
	if (!rc)
		status = conclude_trace(&run, status);
	vm_destroy(run.vm);
	run_trace_destroy(run.trace);
	event_loop_destroy(run.loop);
	if (run.signal_fd >= 0)
		close(run.signal_fd);
	return rc ? cli_error(verb, &err) : status;
}
