/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The metrics of a trace, written while it is recorded (--metrics). */
#include <string.h>
#include <sys/stat.h>
#include "formats/base/clock.h"
#include "tests/unit/vmm/recorder/tracing-fixture.h"

static bool metrics_have(const struct tracing *t, const char *line)
{
	size_t size;
	char *text = file_get(t->dir.path, "metrics.prom", &size);
	bool found = text && strstr(text, line);

	free(text);
	return found;
}

static void quit_with_metrics(void *arg)
{
	if (metrics_have(arg, "\nsonde_tracing{domain=\"web1\"} 1\n"))
		quit_loop(arg);
}

static void test_metrics(void)
{
	enum { LIMIT_MS = 180000, PAUSE_MS = 10 };
	static struct tracing t;
	struct event_source *timer;
	struct error err;
	struct stat st;
	int reason;

	begin_tracing(&t, 0);
	allocate(&t);
	if (event_loop_add_timer(t.loop, PAUSE_MS, quit_with_metrics, &t, &timer, &err))
		abort();
	ok(!recorder_run(t.recorder, &reason, &err), "--metrics writes while it traces");
	event_source_remove(timer);
	recorder_end(t.recorder, RECORDER_GUEST_RUNS, NULL);
	for (int i = 0; i < LIMIT_MS && !metrics_have(&t, "\nsonde_tracing{domain=\"web1\"} 0\n");
	     i += PAUSE_MS)
		clock_wait_ms(PAUSE_MS);
	ok(metrics_have(&t, "\nsonde_tracing{domain=\"web1\"} 0\n"), "and when tracing has ended");
	ok(metrics_have(&t, "\nsonde_allocs_total{domain=\"web1\",vcpu=\"0\"} 1\n"),
	   "all that was recorded is counted");
	ok(!stat(t.metrics, &st) && (st.st_mode & 0777) == 0644, "all users may read the file");
	end_tracing(&t);
}

static void quit_when_awaited(void *arg)
{
	const struct tracing *t = arg;

	if (metrics_have(t, t->awaited))
		quit_loop(arg);
}

/* Trace an allocation, with this much memory for what is live, until the metrics have `line`. */
static void await_live(uint64_t live_bytes, const char *line, const char *label)
{
	enum { PAUSE_MS = 10 };
	static struct tracing t;
	struct event_source *timer;
	struct error err;
	int reason;

	begin_tracing(&t, 0);
	ok(!live_memory_create(t.trace, live_bytes, &t.recorder->live, &err),
	   "live memory is asked for");
	allocate(&t);
	t.awaited = line;
	if (event_loop_add_timer(t.loop, PAUSE_MS, quit_when_awaited, &t, &timer, &err))
		abort();
	ok(!recorder_run(t.recorder, &reason, &err) && metrics_have(&t, line), "%s", label);
	event_source_remove(timer);
	end_tracing(&t);
}

static void test_live_metrics(void)
{
	/* Its cache has objects of FAKE_CACHE_SIZE. */
	await_live(1 << 20, "\nsonde_live_bytes{domain=\"web1\"} 96\n",
		   "the metrics have the bytes that are live, while they are traced");
	await_live(1, "\nsonde_live_failed{domain=\"web1\"} 1\n",
		   "a heap that takes more memory than it may ends, and the metrics say so");
}

int main(void)
{
	test_metrics();
	test_live_metrics();
	return tap_done();
}
