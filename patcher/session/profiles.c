/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What instances have counted: kept when they are gone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/session/internal.h"

static void drop(struct session_profile *p)
{
	profile_put(p->profile);
	hist_put(p->hist);
	free(p->spec);
	free(p);
}

static bool is_counted(const struct session_profile *p)
{
	return p->profile ? profile_is_shared(p->profile) : hist_is_shared(p->hist);
}

/* The oldest ones that have ended go first: there are no more than can be listed. */
static void make_room(struct trace_session *s)
{
	struct session_profile **link = &s->profiles;
	size_t n = 0;

	for (const struct session_profile *p = s->profiles; p; p = p->next)
		n++;
	while (n >= TRACE_MAX_PROFILES && *link) {
		struct session_profile *p = *link;

		if (is_counted(p)) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		drop(p);
		n--;
	}
}

int profiles_add(struct trace_session *s, const struct session_instance *instance,
		 struct error *err)
{
	struct session_profile *p = calloc(1, sizeof(*p)), **link = &s->profiles;

	if (p)
		p->spec = strdup(instance->spec.text);
	if (!p || !p->spec) {
		free(p);
		return error_set(err, ENOMEM, "out of memory");
	}
	memcpy(p->name, instance->spec.name, sizeof(p->name));
	if (instance->ops->profile)
		p->profile = profile_get(instance->ops->profile(instance->tracer));
	else
		p->hist = hist_get(instance->ops->hist(instance->tracer));
	make_room(s);
	while (*link)
		link = &(*link)->next;
	*link = p;
	return 0;
}

void profiles_destroy(struct trace_session *s)
{
	while (s->profiles) {
		struct session_profile *p = s->profiles;

		s->profiles = p->next;
		drop(p);
	}
}

static bool counts_there(const struct session_instance *instance, const struct session_profile *p)
{
	if (!instance->tracer)
		return false;
	if (p->profile)
		return instance->ops->profile &&
		       instance->ops->profile(instance->tracer) == p->profile;
	return instance->ops->hist && instance->ops->hist(instance->tracer) == p->hist;
}

static bool is_traced(const struct trace_session *s, const struct session_profile *p)
{
	for (size_t i = 0; i < s->instances.n; i++)
		if (counts_there(s->instances.v[i], p))
			return true;
	return false;
}

size_t trace_session_profiles(const struct trace_session *s,
			      struct trace_profile out[TRACE_MAX_PROFILES])
{
	size_t n = 0;

	for (const struct session_profile *p = s->profiles; p && n < TRACE_MAX_PROFILES;
	     p = p->next)
		if (p->profile)
			out[n++] = (struct trace_profile){.name = p->name,
							  .spec = p->spec,
							  .ended = !is_traced(s, p),
							  .profile = p->profile};
	return n;
}

size_t trace_session_hists(const struct trace_session *s, struct trace_hist out[TRACE_MAX_PROFILES])
{
	size_t n = 0;

	for (const struct session_profile *p = s->profiles; p && n < TRACE_MAX_PROFILES;
	     p = p->next)
		if (p->hist)
			out[n++] = (struct trace_hist){.name = p->name,
						       .spec = p->spec,
						       .ended = !is_traced(s, p),
						       .hist = p->hist};
	return n;
}
