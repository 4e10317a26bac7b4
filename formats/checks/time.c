/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time stamps: they ascend within a vCPU. */
#include <errno.h>
#include "formats/checks/check.h"
#include "formats/base/u64-map.h"

enum class { TIME_ORDER };

static const struct check_class classes[] = {
	[TIME_ORDER] = {"time-order", "time stamp before the previous one of the vCPU", NULL},
	{NULL, NULL, NULL},
};

struct times {
	struct check base;
	struct u64_map last; /* time stamp, by instance and vCPU */
};

static int event(struct check *base, const struct check_event *event)
{
	struct times *times = (struct times *)base;
	uint64_t stream = (uint64_t)(uintptr_t)event->at.instance * TRACE_MAX_STREAMS +
			  event->at.vcpu % TRACE_MAX_STREAMS;
	bool is_new;
	int64_t *last = u64_map_insert(&times->last, stream, &is_new);

	if (!last)
		return -ENOMEM;
	if (!is_new && event->at.ns < *last)
		check_error(base, TIME_ORDER, event);
	*last = event->at.ns;
	return 0;
}

static void init(struct check *base, const struct sidecar *sidecar)
{
	(void)sidecar;
	u64_map_init(&((struct times *)base)->last, sizeof(int64_t));
}

static void deinit(struct check *base)
{
	u64_map_deinit(&((struct times *)base)->last);
}

const struct check_ops check_time = {.classes = classes,
				     .size = sizeof(struct times),
				     .init = init,
				     .event = event,
				     .deinit = deinit};
