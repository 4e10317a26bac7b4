/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a recorder prints for the user. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "vmm/recorder/internal.h"

enum { MS_PER_S = 1000, LINE_SIZE = 160 };

/* --- at the start ---------------------------------------------------------------------------- */

void recorder_print_kernel(const struct recorder *r, const char *how, FILE *to)
{
	const struct kernel_image *image = r->image;
	char id[2 * sizeof(image->build_id) + 1];
	bool known = hex_encode(id, image->build_id, image->build_id_size);

	fprintf(to, "kernel   %s\n", image->banner);
	if (known)
		fprintf(to, "         build id %s\n", id);
	if (r->located)
		fprintf(to, "         slide 0x%" PRIx64 ", guest-physical 0x%" PRIx64 "\n",
			r->virt_slide, r->text_gpa);
	if (how)
		fprintf(to, "         %s\n", how);
	fprintf(to, "         %s symbols (%s), %s mcount sites, ",
		text_count(symbols_count(image->symbols)).s, image->symbol_source,
		text_count(image->nr_mcount_sites).s);
	if (image->btf_is_given)
		fprintf(to, "%s BTF types (given)\n", text_count(btf_count(image->btf)).s);
	else if (image->btf)
		fprintf(to, "BTF at 0x%" PRIx64 " with %s types\n",
			symbols_address(image->symbols, "__start_BTF") + r->virt_slide,
			text_count(btf_count(image->btf)).s);
	else
		fputs("no BTF\n", to);
}

/* --- meanwhile ------------------------------------------------------------------------------- */

bool recorder_begin_message(struct recorder *r, struct recorder_message *m)
{
	*m = (struct recorder_message){.recorder = r};
	m->to = open_memstream(&m->text, &m->size);
	return m->to;
}

void recorder_end_message(struct recorder_message *m)
{
	if (!text_stream_close(m->to))
		messages_put(m->recorder->messages, m->text);
	free(m->text);
}

void recorder_say(struct recorder *r, const char *fmt, ...)
{
	struct recorder_message m;
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	clean_line(text);
	if (recorder_begin_message(r, &m)) {
		fprintf(m.to, "sonde %s: %s\n", r->config.verb, text);
		recorder_end_message(&m);
	}
	free(text);
}

/* Not if its output is stopped (Ctrl-S): it would be out of date when that goes on. */
static bool takes_progress(const struct recorder *r)
{
	struct pollfd terminal = {.fd = STDERR_FILENO, .events = POLLOUT};

	return r->config.progress && isatty(STDERR_FILENO) && poll(&terminal, 1, 0) > 0 &&
	       terminal.revents & POLLOUT;
}

void recorder_show_progress(struct recorder *r)
{
	const struct trace_writer_counts sum = recorder_sum(r);
	struct trace_counters counters;
	struct trace_status status;
	char line[LINE_SIZE], shown[LINE_SIZE + 16];
	char missing[COUNTER_TEXT_MAX];
	uint64_t lost, s = (clock_monotonic_ms() - r->run_since_ms) / MS_PER_S;
	int n;

	if (!takes_progress(r))
		return;
	pthread_mutex_lock(&r->lock);
	trace_session_status(r->session, &status);
	pthread_mutex_unlock(&r->lock);
	counters = recorder_counters(r, &status);
	lost = counters_lost(&counters);
	counters_lost_text(&counters, missing, sizeof(missing));
	n = snprintf(line, sizeof(line), "tracing%s: %s, %s%s, %" PRIu64 ":%02" PRIu64,
		     status.enabled ? "" : " is off", text_number(sum.events, "event").s,
		     missing, counters.v[COUNTER_DISK_WAITS] ? ", slow disk" : "",
		     s / 60, s % 60);
	snprintf(shown, sizeof(shown), "%s%s%s", lost && cli_colour(stderr) ? "\33[31m" : "", line,
		 lost && cli_colour(stderr) ? "\33[m" : "");
	messages_show_progress(r->messages, shown, (unsigned int)n);
}

void recorder_print_switched(struct recorder *r)
{
	struct trace_switches now, news;

	if (!r->options->verbose || !r->session)
		return;
	now = trace_session_switches(r->session);
	news = trace_switches_since(&now, &r->told_switches);
	if (!news.times)
		return;
	r->told_switches = now;
	recorder_say(r, "switched %s in %s%s%s", text_number(news.sites, "site").s,
		     text_ms(news.ns).s, news.times > 1 ? ", " : "",
		     news.times > 1 ? text_number(news.times, "stop").s : "");
}

/* What tells one set of gaps from another; 0: there are none. */
static uint64_t gaps_mark(const struct trace_status *status)
{
	const uint64_t odd = 0x9e3779b97f4a7c15;
	uint64_t mark = 0;

	for (size_t i = 0; i < status->nr_gaps; i++)
		for (const char *at = status->gaps[i].function; *at; at++)
			mark = (mark + i + (unsigned char)*at + 1) * odd;
	return mark;
}

static bool is_same_reason(const struct probe_gap *a, const struct probe_gap *b)
{
	return !strcmp(a->reason, b->reason);
}

/* A line for each reason, with all its functions. */
static void print_gap(const char *verb, const struct trace_status *status, size_t first, FILE *to)
{
	const struct probe_gap *gaps = status->gaps;

	for (size_t i = 0; i < first; i++)
		if (is_same_reason(&gaps[i], &gaps[first]))
			return;
	fprintf(to, "sonde %s: not traced: %s", verb, gaps[first].function);
	for (size_t i = first + 1; i < status->nr_gaps; i++)
		if (is_same_reason(&gaps[i], &gaps[first]))
			fprintf(to, ", %s", gaps[i].function);
	fprintf(to, ": %s\n", gaps[first].reason);
}

void recorder_print_gaps(struct recorder *r)
{
	struct recorder_message m;
	struct trace_status status;
	uint64_t mark;

	if (!r->session)
		return;
	trace_session_status(r->session, &status);
	mark = gaps_mark(&status);
	if (mark == r->gaps_mark || !status.enabled)
		return;
	r->gaps_mark = mark;
	if (!mark || !recorder_begin_message(r, &m))
		return;
	for (size_t i = 0; i < status.nr_gaps; i++)
		print_gap(r->config.verb, &status, i, m.to);
	fprintf(m.to, "sonde %s: traced nevertheless: %s\n", r->config.verb,
		text_number(status.entry_sites, "function").s);
	recorder_end_message(&m);
}

static void print_yields(const char *verb, const struct trace_status *status, FILE *to)
{
	bool any = false;

	for (unsigned int i = 0; i < status->nr_yields; i++) {
		const struct trace_yield *yield = &status->yields[i];

		if (!yield->refusal[0])
			continue;
		if (any)
			fputc(',', to);
		else
			fprintf(to, "sonde %s: the tracer cannot give way to", verb);
		fprintf(to, " %s (%s)", yield->to, yield->refusal);
		any = true;
	}
	if (any)
		fputs(": not to be used in the guest meanwhile\n", to);
}

/* What the guest must not do meanwhile, and what it may have done before. */
void recorder_print_yields(struct recorder *r)
{
	struct recorder_message m;
	struct trace_status status;

	if (!r->session || r->yields_printed)
		return;
	trace_session_status(r->session, &status);
	if (!status.enabled || !recorder_begin_message(r, &m))
		return;
	r->yields_printed = true;
	print_yields(r->config.verb, &status, m.to);
	recorder_end_message(&m);
	if (status.exitless && status.tsc_doubtful)
		recorder_say(r, "the guest had found its time stamp counters unstable before: if "
				"those of its vCPUs differ, so do the times of their events");
}

void recorder_print_conditions(const struct trace_instance_status *instance, const char *before,
			       const char *after, FILE *to)
{
	if (*instance->guest_conditions)
		fprintf(to, "%sthe guest decides %s%s", before, instance->guest_conditions, after);
	if (*instance->host_conditions)
		fprintf(to,
			"%sthe host decides %s (events it refuses cost the guest as much as "
			"recorded ones)%s",
			before, instance->host_conditions, after);
}

static void print_notes(struct recorder *r, const struct trace_instance_status *instance)
{
	for (size_t i = 0; i < instance->nr_notes; i++)
		recorder_say(r, "%s: %s", instance->name, instance->notes[i]);
}

/* Others are traced, so that the run goes on. */
static void print_failed(struct recorder *r, const struct trace_instance_status *instance)
{
	struct error err;

	error_set(&err, ENOENT, "%s: %s", instance->name, instance->waiting);
	recorder_say(r, "%s", err.text);
	recorder_fail(r, &err);
}

/* The names of refused functions are for those who ask for details. */
static void print_instance(struct recorder *r, const struct trace_instance_status *instance)
{
	const char *verb = r->config.verb;
	struct recorder_message m;

	if (!r->options->verbose && !instance->nr_refused && !*instance->host_conditions)
		return;
	if (!recorder_begin_message(r, &m))
		return;
	fprintf(m.to, "sonde %s: %s: %s", verb, instance->name,
		text_number(instance->sites, "function").s);
	if (instance->nr_refused)
		fprintf(m.to, ", %s refused%s", text_count(instance->nr_refused).s,
			r->options->verbose ? "" : " (-v or 'sonde ctl SOCKET trace list': which)");
	recorder_print_conditions(instance, "; ", "", m.to);
	fputc('\n', m.to);
	for (size_t i = 0; r->options->verbose && i < instance->nr_refused; i++)
		fprintf(m.to, "sonde %s: %s: not traced: %s: %s\n", verb, instance->name,
			instance->refused[i].function ? instance->refused[i].function : "?",
			instance->refused[i].reason);
	recorder_end_message(&m);
}

static bool was_printed(const struct recorder *r, uint64_t mark)
{
	for (size_t i = 0; i < TRACE_MAX_INSTANCES; i++)
		if (r->printed[i] == mark)
			return true;
	return false;
}

/* One that traces may fail later: its module comes again with other types. */
static uint64_t mark_of(const struct trace_instance_status *instance, bool failed)
{
	return 2 * instance->id + failed;
}

void recorder_print_instances(struct recorder *r)
{
	uint64_t printed[TRACE_MAX_INSTANCES] = {0};
	struct trace_status status;

	if (!r->session)
		return;
	trace_session_status(r->session, &status);
	for (unsigned int i = 0; i < status.nr_specs; i++) {
		const struct trace_instance_status *instance = &status.instances[i];

		if (!instance->active && !instance->failed)
			continue;
		printed[i] = mark_of(instance, instance->failed);
		if (was_printed(r, mark_of(instance, true)) ||
		    (!instance->failed && was_printed(r, printed[i])))
			continue;
		if (instance->failed)
			print_failed(r, instance);
		else
			print_instance(r, instance);
		print_notes(r, instance);
	}
	memcpy(r->printed, printed, sizeof(printed));
}

/* --- at the end ------------------------------------------------------------------------------ */

/* Periods without tracing, and how fast events came in the others. Returns whether there were
 * any. */
static bool print_gaps(const struct recorder *r, const struct trace_counters *counters)
{
	const char *verb = r->config.verb;
	char text[COUNTER_TEXT_MAX];
	bool any = false;

	if (r->options->mode == RECORDER_TRAP && counters->v[COUNTER_TRACING_NS])
		fprintf(stderr, "sonde %s: %.1f events per second of traced time\n", verb,
			recorder_rate(r, &r->last));
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_table[id].kind != COUNTER_GAP ||
		    !counter_text(counters, id, text, sizeof(text)))
			continue;
		fprintf(stderr, "sonde %s: %s\n", verb, text);
		any = true;
	}
	return any;
}

static void print_lost(const struct recorder *r, const struct trace_counters *counters, bool gaps)
{
	const char *none = r->failed.code ? "none counted, but recording failed" : "none";
	const char *separator = "";
	char text[COUNTER_TEXT_MAX];

	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_table[id].kind == COUNTER_GAP || !counter_is_loss(id) ||
		    !counter_text(counters, id, text, sizeof(text)))
			continue;
		fprintf(stderr, "%s%s", separator, text);
		separator = ", ";
	}
	fprintf(stderr, "%s%s\n", *separator ? "" : none,
		gaps ? ", beside what happened in the gaps" : "");
}

/* Kmem's events in its own words, all others as events. */
static void print_events(const struct trace_writer_counts *sum)
{
	uint64_t kmem = sum->allocs + sum->frees;

	if (kmem && sum->events == kmem)
		fprintf(stderr, "%s and %s", text_number(sum->allocs, "allocation").s,
			text_number(sum->frees, "free").s);
	else if (kmem)
		fprintf(stderr, "%s, %s and %s", text_number(sum->allocs, "allocation").s,
			text_number(sum->frees, "free").s,
			text_number(sum->events - kmem, "other event").s);
	else
		fputs(text_number(sum->events, "event").s, stderr);
}

static void print_counts(const struct recorder *r)
{
	const struct trace_counters counters = recorder_counters(r, &r->last);
	const struct trace_writer_counts sum = recorder_sum(r);
	const char *verb = r->config.verb;
	char text[COUNTER_TEXT_MAX];
	bool gaps;

	if (r->last.no_exitless[0])
		fprintf(stderr, "sonde %s: traced by traps: %s\n", verb, r->last.no_exitless);
	if (counter_text(&counters, COUNTER_DISK_WAITS, text, sizeof(text)))
		fprintf(stderr, "sonde %s: %s, %s written\n", verb, text,
			text_bytes(counters.v[COUNTER_DISK_BYTES]).s);
	if (counters.v[COUNTER_OVER_BUDGET])
		fprintf(stderr,
			"sonde %s: the guest made use of all the memory that it may (%s, and %s "
			"for names): names of call sites, or calls, are missing\n",
			verb, text_bytes(BUDGET_OF_A_GUEST).s, text_bytes(SIDECAR_MAX_SIZE).s);
	gaps = print_gaps(r, &counters);
	fprintf(stderr, "sonde %s: ", verb);
	print_events(&sum);
	fprintf(stderr, " in %s, lost: ", r->dir);
	print_lost(r, &counters, gaps);
}

int recorder_conclude(const struct recorder *r, struct error *err)
{
	messages_await(r->messages, -1);
	if (!r->dir)
		return 0;
	if (r->limit_reached)
		fprintf(stderr, "sonde %s: %s\n", r->config.verb, r->limit_reached);
	print_counts(r);
	if (r->failed.code) {
		*err = r->failed;
		return -r->failed.code;
	}
	if (r->options->specs[0] && !r->starts)
		return error_set(err, ENOENT,
				 "tracing never started: the kernel of %s was not seen running",
				 r->image->banner);
	if (r->last.restored.foreign)
		return error_set_at(err, ESTALE, r->last.restored.first_foreign,
				    "patched places that the guest changed were left alone: %zu",
				    r->last.restored.foreign);
	return 0;
}

/* The verb that shows what was recorded. */
static const char *next_verb(const struct recorder *r)
{
	const struct trace_writer_counts sum = recorder_sum(r);

	if (sum.events)
		return "report";
	return r->has_profiles ? "profile" : r->has_hists ? "hist" : "report";
}

void recorder_print_next(const struct recorder *r)
{
	if (!r->dir || !r->starts)
		return;
	fprintf(stderr, "next: sonde %s ", next_verb(r));
	text_print_word(stderr, r->dir);
	fputc('\n', stderr);
}
