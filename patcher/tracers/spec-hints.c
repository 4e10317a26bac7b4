/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What users write who know other tools, and what they mean by it. */
#include <errno.h>
#include <string.h>
#include "patcher/tracers/spec-internal.h"

struct hint {
	const char *name, *text;
};

static const char counted[] =
	"events are counted by the last item of a tracer, as in function:vfs_*,hist:keys=ip";

static const struct hint tracers[] = {
	{"hist", counted},
	{"count", counted},
	{"sum", counted},
	{"function_graph", "did you mean 'graph'?"},
	{"funcgraph", "did you mean 'graph'?"},
	{"function_profile", "did you mean 'profile'?"},
	{"p", "did you mean 'probe:p'?"},
	{"r", "did you mean 'probe:r'?"},
	{"kprobe", "did you mean 'probe:p'?"},
	{"kprobes", "did you mean 'probe:p'?"},
	{"kretprobe", "did you mean 'probe:r'?"},
	{"sys", "did you mean 'syscalls'?"},
	{"raw_syscalls", "did you mean 'syscalls'?"},
	{"kmalloc", "did you mean 'kmem:kmalloc'?"},
	{"slab", "did you mean 'kmem:cache'?"},
	{NULL, NULL},
};

static const struct hint items[] = {
	{"count", "events are counted by hist:keys=FIELD"},
	{"sum", "fields are summed up by hist:keys=FIELD:vals=FIELD"},
	{NULL, NULL},
};

static const struct hint options[] = {
	{"keys", "a histogram has them: hist:keys=FIELD"},
	{"key", "a histogram has them: hist:keys=FIELD"},
	{"vals", "a histogram has them: hist:keys=FIELD:vals=FIELD"},
	{"sort", "a histogram has it: hist:keys=FIELD:sort=FIELD"},
	{NULL, NULL},
};

static const char *find(const struct hint *hints, struct spec_span word)
{
	while (hints->name && !spec_span_is(word, hints->name))
		hints++;
	return hints->text;
}

int spec_unknown_tracer(const struct spec_parser *p, struct spec_span word,
			const char *const *known)
{
	const char *hint = find(tracers, word);

	if (!hint)
		return spec_unknown(p, "tracer", word, known);
	return FAIL(p, word.from, "unknown tracer '%.*s': %s", (int)word.length, word.from, hint);
}

static const struct trace_alias *find_alias(const struct spec_parser *p, struct spec_span word)
{
	const struct trace_alias *alias = p->grammar->aliases;

	while (alias && alias->name && !spec_span_is(word, alias->name))
		alias++;
	return alias && alias->name ? alias : NULL;
}

static bool has_hist_behind(struct spec_span item)
{
	return strstr(item.from + item.length, "hist:");
}

static int refuse_alias(const struct spec_parser *p, struct spec_span item,
			const struct trace_alias *alias)
{
	if (alias->counted && has_hist_behind(item))
		return FAIL(p, item.from,
			    "unknown item '%s': a histogram of %s counts allocations; %s",
			    alias->name, p->grammar->tracer, alias->counted);
	return FAIL(p, item.from, "unknown item '%s': its events are among those of '%s'",
		    alias->name, alias->meant);
}

/* A word that another item follows as if it were one. */
static const char *behind_word(const struct spec_parser *p, struct spec_span item)
{
	const char *colon = memchr(item.from, ':', item.length);

	for (size_t i = 0; colon && p->grammar->words && p->grammar->words[i]; i++)
		if (spec_span_is((struct spec_span){item.from, (size_t)(colon - item.from)},
				 p->grammar->words[i]))
			return colon;
	return NULL;
}

int spec_unknown_item(const struct spec_parser *p, struct spec_span item, const char *const *known)
{
	const struct trace_alias *alias = find_alias(p, item);
	const char *hint = p->grammar->takes & TRACE_TAKES_HIST ? find(items, item) : NULL;
	const char *colon = behind_word(p, item);

	if (alias)
		return refuse_alias(p, item, alias);
	if (hint)
		return FAIL(p, item.from, "unknown item '%.*s': %s", (int)item.length, item.from,
			    hint);
	if (colon)
		return FAIL(p, colon, "',' must follow '%.*s'", (int)(colon - item.from),
			    item.from);
	return spec_unknown(p, "item", item, known);
}

int spec_unknown_option(const struct spec_parser *p, struct spec_span name,
			const char *const *known)
{
	const char *hint = p->grammar->takes & TRACE_TAKES_HIST ? find(options, name) : NULL;

	if (!hint)
		return spec_unknown(p, "option", name, known);
	return FAIL(p, name.from, "the %s tracer takes no '%.*s=': %s", p->grammar->tracer,
		    (int)name.length, name.from, hint);
}
