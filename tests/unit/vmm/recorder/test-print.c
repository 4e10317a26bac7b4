/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the recorder tells its user of a trace. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "tests/unit/vmm/recorder/tracing-fixture.h"

static struct recorder *printed;

/* The tests change what the writer's thread would ask for. */
static void begin(struct tracing *t)
{
	begin_tracing(t, 0);
	trace_writer_set_source(t->recorder->writer, NULL, NULL, NULL);
	printed = t->recorder;
}

static int print_all(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	recorder_print_kernel(printed, "as its loader says", stdout);
	recorder_print_next(printed);
	recorder_show_progress(printed);
	messages_await(printed->messages, -1);
	return 0;
}

static void test_print(void)
{
	static const char *const argv[] = {"print", NULL};
	static struct tracing t;
	struct verb_result result;

	begin(&t);
	result = verb_run(print_all, argv);
	ok(strstr(result.out, "kernel   ") && strstr(result.out, "as its loader says") &&
		   strstr(result.out, "slide 0x"),
	   "the kernel is described: %s", result.out);
	ok(strstr(result.out, ", BTF at 0x") && !strstr(result.out, "given"),
	   "its types are its own: %s", result.out);
	ok(strstr(result.err, "next: sonde report "), "the next command is named: %s", result.err);
	verb_result_deinit(&result);
	t.fs.fg.base.image.btf_is_given = true;
	result = verb_run(print_all, argv);
	ok(strstr(result.out, " BTF types (given)\n") && !strstr(result.out, "BTF at"),
	   "types that are given are nowhere in it: %s", result.out);
	verb_result_deinit(&result);
	t.recorder->has_profiles = true;
	result = verb_run(print_all, argv);
	ok(strstr(result.err, "next: sonde profile "),
	   "a trace of profiles only has its own verb: %s", result.err);
	verb_result_deinit(&result);
	t.recorder->has_profiles = false;
	t.recorder->has_hists = true;
	result = verb_run(print_all, argv);
	ok(strstr(result.err, "next: sonde hist "), "so has one of histograms only: %s",
	   result.err);
	verb_result_deinit(&result);
	t.recorder->has_hists = false;
	t.recorder->dir = "it's here";
	result = verb_run(print_all, argv);
	ok(strstr(result.err, "next: sonde report 'it'\\''s here'"),
	   "in quotes, if a shell needs them: %s", result.err);
	verb_result_deinit(&result);
	t.recorder->dir = t.trace;
	end_tracing(&t);
}

/* Progress, on a terminal of our own as standard error: how many bytes it got. */
static int shown_progress(struct recorder *r, int master, int terminal)
{
	const int old = dup(STDERR_FILENO);
	int bytes = 0;

	if (old < 0 || dup2(terminal, STDERR_FILENO) < 0)
		abort();
	r->config.progress = true;
	recorder_show_progress(r);
	r->config.progress = false;
	messages_await(r->messages, -1);
	/* it gets there a little later */
	poll(&(struct pollfd){.fd = master, .events = POLLIN}, 1, 200);
	if (dup2(old, STDERR_FILENO) < 0 || ioctl(master, FIONREAD, &bytes))
		abort();
	close(old);
	return bytes;
}

/* Who stops the output of his terminal does not stop the tracer. */
static void test_stopped_terminal(void)
{
	static struct tracing t;
	int master, terminal;

	if (openpty(&master, &terminal, NULL, NULL, NULL))
		abort();
	begin(&t);
	tcflow(terminal, TCOOFF);
	is_u64(shown_progress(t.recorder, master, terminal), 0,
	       "a terminal whose output is stopped gets no progress");
	tcflow(terminal, TCOON);
	ok(shown_progress(t.recorder, master, terminal) > 0, "one that goes on gets it");
	end_tracing(&t);
	close(terminal);
	close(master);
}

enum { LOST_MS = 30000, TEXT_SIZE = 4096 };

/* For a recorder that waits for its terminal: its test ends nevertheless. */
static void *go_on_in_the_end(void *arg)
{
	const int *terminal = arg;

	clock_wait_ms(LOST_MS);
	tcflow(*terminal, TCOON);
	return NULL;
}

static void read_until(int master, const char *last, char text[static TEXT_SIZE])
{
	size_t used = 0;
	ssize_t n;

	text[0] = '\0';
	while (!strstr(text, last) && used < TEXT_SIZE - 1 &&
	       poll(&(struct pollfd){.fd = master, .events = POLLIN}, 1, LOST_MS) > 0) {
		n = read(master, text + used, TEXT_SIZE - 1 - used);
		used += n > 0 ? (size_t)n : 0;
		text[used] = '\0';
	}
}

/* Nor with any other line. */
static void test_lines_on_stopped_terminal(void)
{
	struct error failure = {.code = EIO, .text = "it fails"};
	const int old = dup(STDERR_FILENO);
	char text[TEXT_SIZE];
	static struct tracing t;
	pthread_t friend;
	int master, terminal;
	uint64_t began;

	if (old < 0 || openpty(&master, &terminal, NULL, NULL, NULL) ||
	    pthread_create(&friend, NULL, go_on_in_the_end, &terminal))
		abort();
	begin(&t);
	t.options.verbose = true;
	t.recorder->told_switches.times = UINT64_MAX;
	if (dup2(terminal, STDERR_FILENO) < 0)
		abort();
	tcflow(terminal, TCOOFF);
	began = clock_monotonic_ms();
	recorder_print_switched(t.recorder);
	recorder_print_gaps(t.recorder);
	recorder_print_yields(t.recorder);
	recorder_print_instances(t.recorder);
	recorder_fail_meanwhile(t.recorder, &failure);
	t.recorder->disk_hangs = true;
	recorder_look_at_disk(t.recorder);
	ok(clock_monotonic_ms() - began < LOST_MS / 2,
	   "the tracer waits for no terminal whose output is stopped");
	tcflow(terminal, TCOON);
	read_until(master, "answers again", text);
	if (dup2(old, STDERR_FILENO) < 0)
		abort();
	ok(strstr(text, "sonde attach: switched "), "when it goes on, it gets all lines");
	ok(strstr(text, "not traced: ") && strstr(text, "traced nevertheless: ") &&
		   strstr(text, "sonde attach: it fails") && strstr(text, "disk answers again"),
	   "none is missing: %s", text);
	pthread_cancel(friend);
	pthread_join(friend, NULL);
	end_tracing(&t);
	close(old);
	close(terminal);
	close(master);
}

static int print_gaps(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	recorder_print_gaps(printed);
	messages_await(printed->messages, -1);
	return 0;
}

/* The fake image has no jump table, which shows whether all functions are known. */
static void test_gaps(void)
{
	static const char *const argv[] = {"print", NULL};
	static struct tracing t;
	struct verb_result result;

	begin(&t);
	result = verb_run(print_gaps, argv);
	ok(strstr(result.err, "sonde attach: not traced: other functions: ") &&
		   strstr(result.err, "no jump table"),
	   "the user is told what is not traced, and why: %s", result.err);
	ok(strstr(result.err, "\nsonde attach: traced nevertheless: ") &&
		   strstr(result.err, " functions\n"),
	   "and how many functions are");
	verb_result_deinit(&result);
	result = verb_run(print_gaps, argv);
	is_str(result.err, "", "once");
	verb_result_deinit(&result);
	switch_tracing(&t, false);
	t.recorder->gaps_mark = 0;
	result = verb_run(print_gaps, argv);
	is_str(result.err, "", "nothing is said of gaps while nothing is traced");
	verb_result_deinit(&result);
	end_tracing(&t);
}

static int print_yields(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	recorder_print_yields(printed);
	messages_await(printed->messages, -1);
	return 0;
}

/* Two functions by which the guest would show what it does are inlined. */
static void test_yields(void)
{
	static const struct fake_symbol evidence[] = {{"machine_kexec", FAKE_MSLEEP}, {NULL, 0}};
	static const char *const argv[] = {"print", NULL};
	static struct tracing t;
	struct verb_result result;

	begin(&t);
	result = verb_run(print_yields, argv);
	is_str(result.err, "", "nothing is said if the tracer gives way to all");
	verb_result_deinit(&result);
	switch_tracing(&t, false);
	if (fake_guest_inline(&t.fs.fg, "arch_prepare_kprobe") ||
	    fake_guest_inline(&t.fs.fg, "kernel_kexec") ||
	    fake_guest_add_symbols(&t.fs.fg, evidence))
		abort();
	t.recorder->yields_printed = false;
	result = verb_run(print_yields, argv);
	is_str(result.err, "", "nor while nothing is traced");
	verb_result_deinit(&result);
	switch_tracing(&t, true);
	result = verb_run(print_yields, argv);
	is_str(result.err,
	       "sonde attach: the tracer cannot give way to kprobes (the kernel has kprobe_table "
	       "but "
	       "no arch_prepare_kprobe()), kexec (the kernel has machine_kexec but no "
	       "kernel_kexec()): not to be used in the guest meanwhile\n",
	       "what it cannot give way to is one line");
	verb_result_deinit(&result);
	result = verb_run(print_yields, argv);
	is_str(result.err, "", "once");
	verb_result_deinit(&result);
	end_tracing(&t);
}

static int print_instances(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	recorder_print_instances(printed);
	messages_await(printed->messages, -1);
	return 0;
}

/* Traps leave pids to the host. */
static void test_conditions(void)
{
	static const char *const argv[] = {"print", NULL}, *const specs[] = {"a=kmem:pid=101"};
	static struct tracing t;
	const struct monitor_target *target;
	struct verb_result result;

	begin(&t);
	target = &t.recorder->target;
	result = verb_run(print_instances, argv);
	is_str(result.err, "", "nothing is said of an instance without conditions");
	verb_result_deinit(&result);
	switch_tracing(&t, false);
	ok(!target->trace->start(target->trace_arg, specs, 1, NULL), "another one begins");
	result = verb_run(print_instances, argv);
	ok(strstr(result.err, "the host decides pid=101 (events it refuses cost the guest as much "
			      "as recorded ones)\n"),
	   "what the host decides is said without --verbose: %s", result.err);
	verb_result_deinit(&result);
	result = verb_run(print_instances, argv);
	is_str(result.err, "", "once");
	verb_result_deinit(&result);
	end_tracing(&t);
}

/* As the plan of sonde attach has them. */
static void test_conditions_of_plan(void)
{
	static const struct trace_instance_status none = {.guest_conditions = "",
							  .host_conditions = ""},
						  both = {.guest_conditions = "vcpu=1",
							  .host_conditions = "comm ~ x"};
	char text[256] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	if (!to)
		abort();
	recorder_print_conditions(&none, "  ", "\n", to);
	recorder_print_conditions(&both, "  ", "\n", to);
	fclose(to);
	is_str(text,
	       "  the guest decides vcpu=1\n"
	       "  the host decides comm ~ x (events it refuses cost the guest as much as recorded "
	       "ones)\n",
	       "a plan has conditions, and what those cost that the host decides");
}

int main(void)
{
	test_print();
	test_stopped_terminal();
	test_lines_on_stopped_terminal();
	test_gaps();
	test_yields();
	test_conditions();
	test_conditions_of_plan();
	return tap_done();
}
