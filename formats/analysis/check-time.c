/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time stamps: they ascend within a vCPU. */
#include <errno.h>
#include <stdlib.h>
#include "formats/analysis/check.h"

enum class { TIME_ORDER };

static const struct check_class classes[] = {
	[TIME_ORDER] = {"time-order", "time stamp before the previous one of the vCPU", NULL},
	{NULL, NULL, NULL},
};

struct times {
	struct check base;
	bool has_last[TRACE_MAX_STREAMS];
	int64_t last[TRACE_MAX_STREAMS];
};

static int event(struct check *base, const struct trace_event *event)
{
	struct times *times = (struct times *)base;
	unsigned int vcpu = event->vcpu % TRACE_MAX_STREAMS;

	if (times->has_last[vcpu] && event->record.timestamp < times->last[vcpu])
		check_error(base, TIME_ORDER, event);
	times->has_last[vcpu] = true;
	times->last[vcpu] = event->record.timestamp;
	return 0;
}

static int create(struct check **out)
{
	struct times *times = calloc(1, sizeof(*times));

	if (!times)
		return -ENOMEM;
	*out = &times->base;
	return 0;
}

static void destroy(struct check *base)
{
	free(base);
}

const struct check_ops check_time = {
	.classes = classes, .create = create, .event = event, .destroy = destroy};
