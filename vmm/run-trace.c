/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/run-trace.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "formats/cli.h"
#include "formats/trace-writer.h"
#include "guest-symbols/kernel-image.h"
#include "patcher/trace-session.h"
#include "patcher/trace-spec.h"

struct run_trace {
	char *dir;
	const char *const *specs;
	unsigned int nr_vcpus;
	enum trace_encoding encoding;
	struct trace_options options;
	const char *verb, *clock, *memory;
	const char *ended; /* NULL: as its user asked */
	struct kernel_image *image;
	struct trace_writer *writer;
	struct trace_session *session; /* while the machine exists */
	struct guest *guest;
	/*
	 * Around all use of the session while the guest runs: look comes from a vCPU's
	 * thread. The main thread takes it and may then wait for its turn to stop the
	 * guest; a vCPU that has it never waits for that (see observe_look()). So the main
	 * thread never waits long, paused or not.
	 */
	pthread_mutex_t lock;
	bool placed; /* it is known where the kernel runs */
	uint64_t virt_slide, phys_text;
	bool started; /* has been on at least once */
	uint64_t starts;
	int64_t started_ns, started_realtime_ns;
	struct error failed;      /* the first thing that went wrong; code 0 = nothing */
	struct trace_status last; /* of the session, taken before it went */
};

/* --- life ----------------------------------------------------------------------------------- */

static int load_image(const char *path, struct kernel_image **out, struct error *err)
{
	struct kernel_file *file;
	int ret = kernel_file_open(path, &file, err);

	if (ret)
		return ret;
	ret = kernel_image_load(file, out, err);
	kernel_file_close(file);
	return ret;
}

static int check_specs(const char *const *specs, struct error *err)
{
	struct trace_spec parsed;
	int ret = 0;

	for (; !ret && *specs; specs++)
		ret = trace_spec_parse(*specs, &parsed, err);
	return ret;
}

static void fill_info(const struct run_trace *t, struct trace_info *info)
{
	*info = (struct trace_info){.started_ns = t->started_ns,
				    .pauses = t->starts ? t->starts - 1 : 0,
				    .started_realtime_ns = t->started_realtime_ns};
	snprintf(info->tool_version, sizeof(info->tool_version), "%s", SONDE_VERSION);
	snprintf(info->memory, sizeof(info->memory), "%s",
		 t->memory ? t->memory : "mapped: the machine is our own");
	snprintf(info->clock, sizeof(info->clock), "%s", t->clock);
	snprintf(info->ended, sizeof(info->ended), "%s", t->ended ? t->ended : "");
	if (t->session)
		trace_session_info(t->session, info);
	else
		snprintf(info->banner, sizeof(info->banner), "%s", t->image->banner);
}

int run_trace_create(const struct run_trace_config *config, struct run_trace **out,
		     struct error *err)
{
	struct run_trace *t;
	int ret = check_specs(config->specs, err);

	if (!ret && config->dir)
		ret = trace_writer_prepare(config->dir, err);
	t = ret ? NULL : calloc(1, sizeof(*t));
	if (!t) {
		kernel_image_destroy(config->image);
		return ret ? ret : error_set(err, ENOMEM, "out of memory");
	}
	t->image = config->image;
	pthread_mutex_init(&t->lock, NULL);
	t->specs = config->specs;
	t->nr_vcpus = config->nr_vcpus;
	t->encoding = config->encoding;
	t->options = config->options;
	t->verb = config->verb;
	t->clock = config->clock;
	t->memory = config->memory;
	if (config->dir && !(t->dir = strdup(config->dir)))
		ret = error_set(err, ENOMEM, "out of memory");
	if (!ret && !t->image)
		ret = load_image(config->kernel, &t->image, err);
	if (ret)
		run_trace_destroy(t);
	else
		*out = t;
	return ret;
}

void run_trace_destroy(struct run_trace *t)
{
	if (!t)
		return;
	trace_session_destroy(t->session);
	trace_writer_destroy(t->writer);
	kernel_image_destroy(t->image);
	pthread_mutex_destroy(&t->lock);
	free(t->dir);
	free(t);
}

static void keep_failure(struct run_trace *t, const struct error *err)
{
	if (!t->failed.code)
		t->failed = *err;
}

/* --- start and stop ------------------------------------------------------------------------- */

static int64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int start_locked(struct run_trace *t, const char *const *specs, struct error *err)
{
	struct trace_info info;
	int ret = trace_session_start(t->session, specs, err);

	if (!ret)
		t->starts++;
	if (!ret && !t->started) {
		t->started = true;
		t->started_ns = (int64_t)t->guest->ops->clock_ns(t->guest);
		t->started_realtime_ns = realtime_ns();
		fill_info(t, &info);
		ret = trace_writer_set_info(t->writer, &info, err);
	}
	return ret;
}

static int create_session(struct run_trace *t, struct guest *guest, struct error *err)
{
	struct trace_info info;
	int ret;

	t->guest = guest;
	fill_info(t, &info);
	ret = trace_writer_create(t->dir, t->nr_vcpus, t->encoding, &info, &t->writer, err);
	if (!ret)
		ret = trace_session_create(t->guest, t->image, t->writer, &t->session, err);
	if (!ret)
		trace_session_set_options(t->session, &t->options);
	if (!ret && t->placed)
		trace_session_kernel_at(t->session, t->virt_slide, t->phys_text);
	return ret;
}

static int observe_start(void *arg, struct vm *vm, const struct vm_boot_info *boot,
			 struct error *err)
{
	struct run_trace *t = arg;
	int ret = create_session(t, vm_guest(vm), err);

	if (ret)
		return ret;
	if (boot->slide_known)
		trace_session_kernel_at(t->session, boot->virt_slide, boot->phys_text);
	if (!t->specs[0] || !boot->slide_known)
		return 0;
	return start_locked(t, t->specs, err);
}

void run_trace_kernel_at(struct run_trace *t, uint64_t virt_slide, uint64_t phys_text)
{
	t->placed = true;
	t->virt_slide = virt_slide;
	t->phys_text = phys_text;
}

int run_trace_begin(struct run_trace *t, struct guest *guest, struct error *err)
{
	int ret = create_session(t, guest, err);

	return ret || !t->specs[0] ? ret : start_locked(t, t->specs, err);
}

/* -EBUSY while the lock is taken. */
static int try_locked(struct run_trace *t, int (*fn)(struct run_trace *t, struct error *err),
		      struct error *err)
{
	int ret;

	if (pthread_mutex_trylock(&t->lock))
		return -EBUSY;
	ret = t->started ? 0 : fn(t, err);
	if (ret && ret != -EAGAIN)
		keep_failure(t, err);
	pthread_mutex_unlock(&t->lock);
	return ret;
}

static int look_for_kernel(struct run_trace *t, struct error *err)
{
	return trace_session_locate(t->session, err);
}

static int start_as_asked(struct run_trace *t, struct error *err)
{
	return start_locked(t, t->specs, err);
}

/*
 * Until the kernel can be found in a guest that placed it itself. The start stops the guest, which
 * on a vCPU waits while the guest is paused: so that is done before the lock is taken. Who has the
 * lock may be waiting for a stop in turn: it gets it between two tries, none of which lets the
 * guest run on, past its first allocation perhaps.
 */
static bool observe_look(void *arg)
{
	struct run_trace *t = arg;
	struct error err;
	int ret;

	if (!t->specs[0])
		return true;
	ret = try_locked(t, look_for_kernel, &err);
	while (!ret || ret == -EBUSY) {
		t->guest->ops->stop(t->guest, NULL);
		ret = try_locked(t, start_as_asked, &err);
		t->guest->ops->resume(t->guest, NULL);
		if (ret != -EBUSY)
			break;
		sched_yield();
	}
	return ret != -EAGAIN;
}

/* A clock that was not known at the start. */
static void find_start(struct run_trace *t)
{
	int64_t now = (int64_t)t->guest->ops->clock_ns(t->guest);
	int64_t since = realtime_ns() - t->started_realtime_ns;

	if (t->started && !t->started_ns && now > since)
		t->started_ns = now - since;
}

static void finish(struct run_trace *t)
{
	struct trace_info info;
	struct error err;

	if (trace_session_end(t->session, &err))
		keep_failure(t, &err);
	if (trace_session_failure(t->session))
		keep_failure(t, trace_session_failure(t->session));
	fill_info(t, &info);
	if (trace_writer_finish(t->writer, &info, trace_session_symbolize, t->session, &err))
		keep_failure(t, &err);
	if (trace_writer_error(t->writer))
		keep_failure(t, trace_writer_error(t->writer));
	trace_session_status(t->session, &t->last);
}

static void observe_end(void *arg)
{
	struct run_trace *t = arg;

	if (!t->session)
		return;
	finish(t);
	trace_session_destroy(t->session);
	t->session = NULL;
}

void run_trace_end(struct run_trace *t)
{
	struct error err;
	int ret;

	if (!t->session)
		return;
	find_start(t);
	ret = trace_session_stop(t->session, &err);
	if (ret && ret != -EALREADY)
		keep_failure(t, &err);
	observe_end(t);
}

/* Nothing can be put back, and nobody waits for vCPUs: the session ends as that of a guest that
 * will not run again. */
void run_trace_abandon(struct run_trace *t)
{
	find_start(t);
	observe_end(t);
}

void run_trace_note(struct run_trace *t, const char *ended)
{
	t->ended = ended;
}

void run_trace_tick(struct run_trace *t)
{
	struct error err;

	pthread_mutex_lock(&t->lock);
	if (trace_session_tick(t->session, &err))
		keep_failure(t, &err);
	pthread_mutex_unlock(&t->lock);
}

void run_trace_tell_refused(const struct run_trace *t)
{
	struct trace_status status;

	if (!t->session)
		return;
	trace_session_status(t->session, &status);
	for (size_t i = 0; i < status.nr_refused; i++)
		fprintf(stderr, "sonde %s: not traced: %s: %s\n", t->verb,
			status.refused[i].function, status.refused[i].reason);
}

const struct kernel_image *run_trace_image(const struct run_trace *t)
{
	return t->image;
}

struct vm_observer run_trace_observer(struct run_trace *t)
{
	return (struct vm_observer){
		.start = observe_start, .look = observe_look, .end = observe_end, .arg = t};
}

uint64_t run_trace_events(const struct run_trace *t)
{
	uint64_t events = 0;

	for (unsigned int i = 0; t->writer && i < t->nr_vcpus; i++) {
		struct trace_writer_counts c;

		trace_writer_counts(t->writer, i, &c);
		events += c.allocs + c.frees;
	}
	return events;
}

/* Of the time that was traced. */
static double events_per_second(const struct run_trace *t, const struct trace_status *status)
{
	const double ns_per_s = 1e9;
	uint64_t seen = status->on_ns - status->unsampled_ns;

	return seen ? (double)run_trace_events(t) * ns_per_s / (double)seen : 0;
}

/* --- monitor -------------------------------------------------------------------------------- */

static int monitor_start(void *arg, const char *const *specs, size_t n, struct error *err)
{
	struct run_trace *t = arg;
	const char *list[TRACE_MAX_TRACERS + 1] = {0};
	int ret;

	if (n > TRACE_MAX_TRACERS)
		return error_set(err, E2BIG, "at most %d trace specs", TRACE_MAX_TRACERS);
	for (size_t i = 0; i < n; i++)
		list[i] = specs[i];
	pthread_mutex_lock(&t->lock);
	ret = start_locked(t, n ? list : NULL, err);
	pthread_mutex_unlock(&t->lock);
	if (ret == -EAGAIN)
		error_prefix(err, "not yet, try again: ");
	return ret;
}

static int monitor_stop(void *arg, struct error *err)
{
	struct run_trace *t = arg;
	int ret;

	pthread_mutex_lock(&t->lock);
	ret = trace_session_stop(t->session, err);
	pthread_mutex_unlock(&t->lock);
	trace_writer_flush(t->writer, NULL);
	return ret;
}

static int monitor_translate(void *arg, uint64_t gva, uint64_t *gpa, struct error *err)
{
	struct run_trace *t = arg;
	int ret;

	pthread_mutex_lock(&t->lock);
	ret = trace_session_translate(t->session, gva, gpa, err);
	pthread_mutex_unlock(&t->lock);
	return ret;
}

static json_t *query_refused(const struct trace_status *status)
{
	json_t *list = json_array();

	for (size_t i = 0; i < status->nr_refused; i++) {
		const struct site_refusal *r = &status->refused[i];
		char address[24];

		snprintf(address, sizeof(address), "0x%" PRIx64, r->gva);
		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "function", r->function,
						      "address", address, "reason", r->reason));
	}
	return list;
}

static void set_count(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *query_vcpus(const struct run_trace *t, const struct trace_status *status,
			   struct trace_writer_counts *sum)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < t->nr_vcpus; i++) {
		struct trace_writer_counts c;
		json_t *vcpu;

		trace_writer_counts(t->writer, i, &c);
		sum->allocs += c.allocs;
		sum->frees += c.frees;
		sum->overruns += c.overruns;
		vcpu = json_pack("{s:i}", "index", (int)i);
		set_count(vcpu, "allocs", c.allocs);
		set_count(vcpu, "frees", c.frees);
		set_count(vcpu, "overruns", c.overruns);
		set_count(vcpu, "traps", status->traps[i]);
		set_count(vcpu, "ring_records", status->rings[i].records);
		set_count(vcpu, "ring_drops", status->rings[i].drops);
		set_count(vcpu, "ring_damaged", status->rings[i].damaged);
		set_count(vcpu, "ring_waits", status->rings[i].blocked);
		set_count(vcpu, "ring_wait_ns", status->rings[i].blocked_ns);
		json_array_append_new(list, vcpu);
	}
	return list;
}

static json_t *query_tracers(const struct trace_status *status)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < status->nr_specs; i++)
		json_array_append_new(list, json_string(status->specs[i]));
	return list;
}

static void set_address(json_t *object, const char *key, uint64_t address)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	json_object_set_new(object, key, json_string(text));
}

static json_t *query_locked(const struct run_trace *t)
{
	struct trace_status status;
	struct trace_writer_counts sum = {0};
	json_t *result, *vcpus;

	trace_session_status(t->session, &status);
	vcpus = query_vcpus(t, &status, &sum);
	result = json_pack(
		"{s:b, s:s, s:o, s:s, s:{s:I, s:I, s:o}, s:o}", "enabled", status.enabled, "mode",
		status.exitless ? "exitless" : "trap", "tracers", query_tracers(&status),
		"trace_dir", t->dir, "sites", "entry", (json_int_t)status.entry_sites, "return",
		(json_int_t)status.return_sites, "refused", query_refused(&status), "vcpus", vcpus);
	if (!result)
		return NULL;
	set_address(result, "virt_slide", status.virt_slide);
	set_address(result, "phys_base", status.phys_text);
	set_count(result, "events", sum.allocs + sum.frees);
	set_count(result, "allocs", sum.allocs);
	set_count(result, "frees", sum.frees);
	set_count(result, "overruns", sum.overruns);
	json_object_set_new(result, "events_per_second",
			    json_real(events_per_second(t, &status)));
	set_count(result, "max_rate", t->options.max_rate);
	set_count(result, "samplings", status.samplings);
	set_count(result, "unsampled_ns", status.unsampled_ns);
	set_count(result, "tracing_ns", status.on_ns);
	set_count(result, "lost", status.lost);
	set_count(result, "null_allocs", status.null_allocs);
	set_count(result, "null_frees", status.null_frees);
	set_count(result, "nested", status.nested);
	set_count(result, "unpaired_returns", status.unpaired_returns);
	set_count(result, "in_flight", status.in_flight);
	set_count(result, "doorbells", status.doorbells);
	set_count(result, "yields", status.yields);
	set_count(result, "yielded_ns", status.yielded_ns);
	set_count(result, "yielded_functions", status.yielded_functions);
	json_object_set_new(result, "no_exitless", json_string(status.no_exitless));
	return result;
}

static json_t *monitor_query(void *arg)
{
	struct run_trace *t = arg;
	json_t *result;

	pthread_mutex_lock(&t->lock);
	result = query_locked(t);
	pthread_mutex_unlock(&t->lock);
	return result;
}

const struct monitor_trace_ops *run_trace_monitor_ops(void)
{
	static const struct monitor_trace_ops ops = {.start = monitor_start,
						     .stop = monitor_stop,
						     .query = monitor_query,
						     .translate = monitor_translate};

	return &ops;
}

/* --- after the run -------------------------------------------------------------------------- */

void run_trace_tell_rate(const struct run_trace *t)
{
	uint64_t on = t->last.on_ns, seen = on - t->last.unsampled_ns;

	if (!seen)
		return;
	fprintf(stderr, "sonde %s: %.1f events per second of traced time\n", t->verb,
		events_per_second(t, &t->last));
	if (t->last.samplings)
		fprintf(stderr,
			"sonde %s: sampled: traced %" PRIu64 " of %" PRIu64
			" ms (%.1f %%), as more than %" PRIu64 " calls came in a second\n",
			t->verb, seen / 1000000, on / 1000000, 100.0 * (double)seen / (double)on,
			t->options.max_rate);
}

int run_trace_conclude(const struct run_trace *t, struct error *err)
{
	struct trace_writer_counts sum = {0};
	uint64_t lost;

	for (unsigned int i = 0; i < t->nr_vcpus; i++) {
		struct trace_writer_counts c;

		trace_writer_counts(t->writer, i, &c);
		sum.allocs += c.allocs;
		sum.frees += c.frees;
		sum.overruns += c.overruns;
	}
	lost = sum.overruns + t->last.lost;
	if (t->last.no_exitless[0])
		fprintf(stderr, "sonde %s: traced by traps: %s\n", t->verb, t->last.no_exitless);
	if (t->last.yields)
		fprintf(stderr,
			"sonde %s: not traced for %" PRIu64
			" ms: the guest's own ftrace changed its "
			"sites, and had %" PRIu64 " functions for a time\n",
			t->verb, t->last.yielded_ns / 1000000, t->last.yielded_functions);
	fprintf(stderr,
		"sonde %s: %" PRIu64 " allocations and %" PRIu64 " frees in %s, lost: ", t->verb,
		sum.allocs, sum.frees, t->dir);
	lost ? fprintf(stderr, "%" PRIu64 "\n", lost) : fputs("none\n", stderr);
	if (t->failed.code) {
		*err = t->failed;
		return -t->failed.code;
	}
	if (t->specs[0] && !t->started)
		return error_set(err, ENOENT,
				 "tracing never started: the kernel of %s was not seen running",
				 t->image->banner);
	if (t->last.restored.foreign)
		return error_set_at(err, ESTALE, t->last.restored.first_foreign,
				    "%zu patched places were changed by the guest and left alone",
				    t->last.restored.foreign);
	return 0;
}
