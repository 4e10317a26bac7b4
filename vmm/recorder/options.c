/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/options.h"

#include <stdio.h>
#include <string.h>
#include "formats/base/fs.h"
#include "formats/cli/cli.h"
#include "formats/trace/writer.h"
#include "patcher/session/session.h"
#include "patcher/tracers/tracer.h"

enum {
	KIB = 1 << 10,
	MIB = 1 << 20,
	DEFAULT_SUBBUFS = 8,
	PROFILE_SUBBUFS = 16, /* with room for the counts of all functions of any kernel known */
	MAX_SUBBUFS = 1024,
	DEFAULT_SUBBUF_BYTES = 256 * KIB,
	MIN_SUBBUF_BYTES = 4 * KIB,
	MAX_SUBBUF_BYTES = 64 * MIB,
	MAX_RING_BYTES = 128 * MIB,
	MIN_TRACE_BYTES = 64 * KIB,
	MIN_KEEP_BYTES = 4 * OUTPUT_PACKET_MAX,
	MAX_KEEP_BYTES = 1024 * MIB,
	MAX_DURATION_MS = 1176 * 3600 * 1000U, /* 49 days: milliseconds in an unsigned int */
};

static const uint64_t MAX_TRACE_BYTES = UINT64_C(1) << 50;

_Static_assert((int)RECORDER_MAX_SPECS == TRACE_MAX_INSTANCES,
	       "the command line takes what a session does");

/* Check the spec at once: before a guest is started, or libvirt is connected to. */
static int store_spec(const char *verb, const struct cli_option *option, const char *text,
		      void *field)
{
	struct recorder_options *options = field;
	struct error err;

	(void)option;
	if (options->nr_specs == RECORDER_MAX_SPECS)
		return cli_usage(verb, "more than %d --trace", RECORDER_MAX_SPECS);
	options->specs[options->nr_specs++] = text;
	if (tracer_check_specs(options->specs, options->nr_specs, &err))
		return cli_usage_of(verb, text, &err);
	return 0;
}

static int check_power(const char *verb, const struct cli_option *option, const char *text,
		       uint64_t value)
{
	if (!(value & (value - 1)))
		return 0;
	return cli_usage(verb, "%s takes a power of two, not '%s'", cli_label(option).text, text);
}

static int store_power(const char *verb, const struct cli_option *option, const char *text,
		       void *field)
{
	int ret = cli_store_number(verb, option, text, field);

	return ret ? ret : check_power(verb, option, text, *(uint64_t *)field);
}

static int store_power_size(const char *verb, const struct cli_option *option, const char *text,
			    void *field)
{
	int ret = cli_store_size(verb, option, text, field);

	return ret ? ret : check_power(verb, option, text, *(uint64_t *)field);
}

static const char *const mode_words[] = {"exitless", "trap", NULL};
static const char *const on_full_words[] = {"block", "drop", NULL};

#define FIELD(name) .offset = offsetof(struct recorder_options, name)

const struct cli_option recorder_option_table[] = {
	{.name = "trace",
	 .value = "SPEC",
	 .help = "what to trace: kmem, or parts of it: kmem:cache,pages;\nNAME=SPEC names it; may "
		 "be repeated; see sonde-run(1)",
	 .store = store_spec},
	{.name = "output",
	 .letter = 'o',
	 .value = "DIR",
	 .help = "write the trace there",
	 .store = cli_store_text,
	 FIELD(output)},
	{.name = "format",
	 .value = "FORMAT",
	 .help = "of the trace: ctf (default); or kmemtrace, for one\ninstance of kmem",
	 .store = cli_store_choice,
	 FIELD(encoding),
	 .words = trace_encoding_names},
	{.name = "mode",
	 .value = "MODE",
	 .help = "exitless (default): the guest's own vCPUs write the\n"
		 "records; trap: an exit to the host, or a breakpoint,\n"
		 "at each entry of a traced function and each return",
	 .store = cli_store_choice,
	 FIELD(mode),
	 .words = mode_words},
	{.name = "max-rate",
	 .value = "N",
	 .help = "with --mode trap: trace at most N calls per second; the\n"
		 "skipped time is reported; 0: no bound",
	 .store = cli_store_number,
	 FIELD(max_rate),
	 .max = UINT32_MAX},
	{.name = "on-full",
	 .value = "WHAT",
	 .help = "exitless, when a vCPU's ring is full: block (default),\n"
		 "the vCPU waits; or drop, the event is lost",
	 .store = cli_store_choice,
	 FIELD(on_full),
	 .words = on_full_words},
	{.name = "subbufs",
	 .value = "N",
	 .help = "exitless: parts of each vCPU's ring, a power of two (8;\n"
		 "16 where a profile is)",
	 .store = store_power,
	 FIELD(subbufs),
	 .min = 1,
	 .max = MAX_SUBBUFS},
	{.name = "subbuf-size",
	 .value = "SIZE",
	 .help = "their size, a power of two (256K)",
	 .store = store_power_size,
	 FIELD(subbuf_bytes),
	 .min = MIN_SUBBUF_BYTES,
	 .max = MAX_SUBBUF_BYTES,
	 .unit = KIB},
	{.name = "duration",
	 .value = "TIME",
	 .help = "end after this time: 10 or 10s, 0.5, 500ms, 2m, 1h",
	 .store = cli_store_time,
	 FIELD(duration_ms),
	 .min = 1,
	 .max = MAX_DURATION_MS},
	{.name = "until-events",
	 .value = "N",
	 .help = "end when the trace has N events",
	 .store = cli_store_number,
	 FIELD(until_events),
	 .min = 1},
	{.name = "max-size",
	 .value = "SIZE",
	 .help = "end when the trace has this size: 64M, 2G",
	 .store = cli_store_size,
	 FIELD(max_bytes),
	 .min = MIN_TRACE_BYTES,
	 .max = MAX_TRACE_BYTES,
	 .unit = MIB},
	{.name = "flight-recorder",
	 .value = "SIZE",
	 .help = "keep each vCPU's last events in memory, up to SIZE, and\n"
		 "write them on 'sonde ctl SOCKET snapshot', on a guest\n"
		 "panic, and at the end",
	 .store = cli_store_size,
	 FIELD(keep_bytes),
	 .min = MIN_KEEP_BYTES,
	 .max = MAX_KEEP_BYTES,
	 .unit = MIB},
	{.name = "monitor",
	 .value = "SOCKET",
	 .help = "listen there for 'sonde ctl' and QMP clients",
	 .store = cli_store_text,
	 FIELD(monitor)},
	{.name = "metrics",
	 .value = "FILE",
	 .help = "every 5 s, write counts there for Prometheus;\n"
		 "-: standard output",
	 .store = cli_store_text,
	 FIELD(metrics)},
	{.name = "live-metrics",
	 .value = "SIZE",
	 .help = "metrics of live memory, too; at most SIZE of memory for that",
	 .store = cli_store_size,
	 FIELD(live_bytes),
	 .min = MIB,
	 .max = UINT64_C(1) << 40,
	 .unit = MIB},
	CLI_GIVEN_OPTIONS(struct recorder_options),
	{.name = "verbose",
	 .letter = 'v',
	 .help = "print which kernel runs, and how the guest is reached",
	 .store = cli_store_flag,
	 FIELD(verbose)},
	{0},
};

void recorder_options_init(struct recorder_options *options)
{
	*options = (struct recorder_options){.subbuf_bytes = DEFAULT_SUBBUF_BYTES};
}

static bool has_profile(const struct recorder_options *options)
{
	bool any = false;

	for (size_t i = 0; !any && i < options->nr_specs; i++) {
		struct trace_spec parsed;

		if (tracer_parse_spec(options->specs[i], &parsed, NULL))
			continue;
		any = tracer_ops_of(&parsed)->profile != NULL;
		trace_spec_deinit(&parsed);
	}
	return any;
}

uint64_t recorder_ring_bytes(const struct recorder_options *options)
{
	uint64_t subbufs = has_profile(options) ? PROFILE_SUBBUFS : DEFAULT_SUBBUFS;

	if (options->subbufs)
		subbufs = options->subbufs;
	return subbufs * options->subbuf_bytes;
}

/* What the trace will have of the specs; `out` names each as `parsed` does. */
static int list_instances(const struct recorder_options *options, struct trace_spec *parsed,
			  struct trace_instance *out, struct error *err)
{
	for (size_t i = 0; i < options->nr_specs; i++) {
		const struct tracer_ops *ops;
		int ret = tracer_parse_spec(options->specs[i], &parsed[i], err);

		if (ret)
			return ret;
		ops = tracer_ops_of(&parsed[i]);
		out[i] = (struct trace_instance){.name = parsed[i].name, .spec = parsed[i].text};
		if (ops->spec_classes)
			out[i].classes = ops->spec_classes(&parsed[i], &out[i].nr_classes);
	}
	return 0;
}

/* Other tracers' events have no place in some formats. */
static int check_format(const struct recorder_options *options, const char *verb)
{
	struct trace_spec parsed[RECORDER_MAX_SPECS] = {0};
	struct trace_instance instances[RECORDER_MAX_SPECS];
	struct error err;
	int ret = list_instances(options, parsed, instances, &err);

	if (!ret)
		ret = trace_writer_check(options->encoding, instances, options->nr_specs, &err);
	for (size_t i = 0; i < options->nr_specs; i++)
		trace_spec_deinit(&parsed[i]);
	return ret ? cli_usage(verb, "--format: %s", err.text) : 0;
}

int recorder_options_check(const struct recorder_options *options, const char *verb)
{
	if (options->live_bytes && !options->metrics && !options->monitor)
		return cli_usage(verb, "--live-metrics needs --metrics FILE or --monitor SOCKET");
	if (options->live_bytes && options->keep_bytes)
		return cli_usage(verb, "--live-metrics follows the trace, of which a flight "
				       "recorder writes none meanwhile");
	if (recorder_ring_bytes(options) > MAX_RING_BYTES)
		return cli_usage(verb, "--subbufs times --subbuf-size is more than %d MiB",
				 MAX_RING_BYTES / MIB);
	if (options->output && !*options->output)
		return cli_usage(verb, "no directory for the trace: add -o DIR");
	if (options->output && path_is_stdout(options->output))
		return cli_usage(verb, "-o -: a trace is a directory; name a new one");
	return check_format(options, verb);
}
