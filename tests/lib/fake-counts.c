/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-counts.h"

#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/tap.h"

void fake_counts_create(struct fake_session *fs, uint32_t ring_bytes)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = ring_bytes};

	fake_session_create(fs);
	fake_session_list_return_sites(fs);
	trace_session_set_options(fs->session, &options);
}

bool fake_counts_start(struct fake_session *fs, const char *spec)
{
	const char *const specs[] = {spec, NULL};
	struct error err = {0};
	int ret = trace_session_start(fs->session, specs, &err);

	if (ret)
		tap_diag("%s", err.text);
	ring_engine_of(fs->session->ring_engine)->direct.task_fields = DIRECT_TASK_FIELDS;
	return !ret;
}

static uint8_t *data(struct fake_session *fs)
{
	struct ring_engine *x = ring_engine_of(fs->session->ring_engine);

	return (uint8_t *)x->scratch.hva + x->direct.offset + RING_HEADER_BYTES;
}

struct hist_place *fake_hist_place(struct fake_session *fs)
{
	return (void *)(data(fs) + sizeof(struct hist_head));
}

struct call_count *fake_call_count(struct fake_session *fs, uint64_t site)
{
	struct trace_profile list[TRACE_MAX_PROFILES];

	trace_session_profiles(fs->session, list);
	return (void *)(data(fs) + profile_layout(list[0].profile).counts_at +
			profile_offset(list[0].profile, fake_gva(site)));
}
