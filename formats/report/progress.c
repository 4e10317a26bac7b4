/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/text.h"

enum { QUIET_MS = 1000, EVERY_MS = 250 };

void progress_begin(struct progress *progress, const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);

	*progress = (struct progress){.begun_ms = clock_monotonic_ms()};
	progress->is_on = isatty(STDERR_FILENO);
	for (size_t i = 0; sidecar && i < sidecar->nr_instances; i++) {
		const struct sidecar_instance *instance = &sidecar->instances[i];

		for (size_t vcpu = 0; vcpu < instance->nr_streams; vcpu++)
			progress->expected += instance->streams[vcpu].events;
	}
}

void progress_show(struct progress *progress)
{
	uint64_t now = clock_monotonic_ms(), ms = now - progress->begun_ms;

	if (ms < QUIET_MS || now - progress->shown_ms < EVERY_MS)
		return;
	progress->shown_ms = now;
	fprintf(stderr, "\r\033[K%s, %s per second", text_number(progress->events, "event").s,
		text_count(progress->events * 1000 / ms).s);
	if (progress->expected > progress->events)
		fprintf(stderr, ", %" PRIu64 " %%, %" PRIu64 " s left",
			progress->events * 100 / progress->expected,
			(progress->expected - progress->events) * ms / progress->events / 1000);
	fflush(stderr);
}

void progress_end(struct progress *progress)
{
	if (progress->shown_ms)
		fputs("\r\033[K", stderr);
}
