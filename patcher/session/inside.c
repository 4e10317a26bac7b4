/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances that record an instruction in the middle of a function. */
#include <string.h>
#include "patcher/coexist/features.h"
#include "patcher/session/internal.h"

uint64_t inside_of(const struct session_instance *instance)
{
	return instance->ops->inside ? instance->ops->inside(instance->tracer) : 0;
}

/* Where the tracer stops the guest, or makes it ask, it changes the text by other means. */
static bool is_asking(const struct trace_session *s, const char *function)
{
	for (enum session_ask kind = 0; kind < SESSION_ASKS; kind++)
		if (function && !strcmp(function, session_ask_function(kind)))
			return kind < SESSION_YIELDS || session_is_asked(s, kind);
	return false;
}

/* The guest must not copy the tracer's jump, or write over it. */
static bool sees_kprobes(const struct trace_session *s)
{
	return kprobe_handoff_sees_all(&s->kernel) &&
	       (!kernel_feature_symbol(&s->kernel, FEATURE_KPROBES) ||
		session_is_asked(s, ASK_KPROBES));
}

static int read_one(struct trace_session *s, uint64_t gva, const struct kprobe_table *kprobes,
		    struct inside_places *places, struct error *err)
{
	struct inside_place *place;
	int ret = inside_places_add(places, &s->kernel, &s->plan, s->decoder, gva, &place, err);

	if (!ret && !sees_kprobes(s))
		place->refusal = site_refuse(place->patch.function, gva,
					     "kprobes of the guest cannot be noticed");
	if (!ret && !inside_place_is_refused(place) &&
	    kprobe_table_reaches(kprobes, gva, place->insn.size))
		place->refusal = site_refuse(place->patch.function, gva, KPROBE_IS_REGISTERED);
	if (!ret && is_asking(s, place->patch.function))
		place->refusal = site_refuse(place->patch.function, gva,
					     "the tracer itself patches this function");
	return ret;
}

int inside_read(struct trace_session *s, const struct instance_list *list,
		const struct kprobe_table *kprobes, struct inside_places *out, struct error *err)
{
	int ret = inside_places_make(out, &s->kernel, &s->plan, err);

	for (size_t i = 0; !ret && i < list->n; i++) {
		const uint64_t gva = inside_of(list->v[i]);

		if (gva)
			ret = read_one(s, gva, kprobes, out, err);
	}
	return ret;
}
