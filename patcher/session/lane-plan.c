/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the instances of the direct lane want of the guest's text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/guest/memory.h"
#include "patcher/session/lane-plan.h"

void lane_plan_deinit(struct lane_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		function_tails_destroy(p->tails[i]);
		site_refusals_deinit(&p->refused[i]);
		free(p->chosen[i]);
		function_notes_deinit(&p->notes[i]);
	}
	free(p->wanted);
	kernel_names_destroy(p->names);
	inside_places_deinit(&p->inside);
	shared_slots_deinit(&p->slots);
	module_exits_deinit(&p->exits);
	shared_sites_deinit(&p->sites);
	kprobe_table_deinit(&p->kprobes);
	site_table_deinit(&p->table);
}

static bool is_at_returns(const struct session_instance *instance)
{
	return instance->ops->at_returns && instance->ops->at_returns(instance->tracer);
}

static bool wants_returns(const struct instance_list *list)
{
	bool wanted = false;

	for (size_t i = 0; i < list->n; i++)
		wanted |= list->v[i]->ops->return_fields || is_at_returns(list->v[i]);
	return wanted;
}

static int read_slots(struct lane_plan *p, struct error *err)
{
	const struct trace_session *s = p->session;
	int ret = module_exits_read(&p->exits, &s->kernel, p->names, &p->table, &p->kprobes.list,
				    err);

	if (!ret)
		ret = shared_slots_make(&p->slots, &s->kernel, &p->exits, &s->plan, p->part, err);
	if (!ret)
		kprobe_table_keep_slots(&p->kprobes, &p->slots);
	return ret;
}

static bool is_direct(const struct session_instance *instance)
{
	return instance->ops->lane == LANE_DIRECT;
}

static void learn(struct lane_plan *p)
{
	size_t k = 0;

	for (size_t i = 0; i < p->list->n; i++) {
		const struct session_instance *instance = p->list->v[i];

		if (is_direct(instance) && instance->ops->learn)
			instance->ops->learn(instance->tracer, &p->table, &p->unlearnt[k]);
		k += is_direct(instance);
	}
}

static int read_sites(struct lane_plan *p, struct error *err)
{
	struct trace_session *s = p->session;
	int ret = guest_hold_to_read(s->guest, err);

	if (ret)
		return ret;
	if (module_orcs_are_wanted(s->module_orcs))
		module_orcs_update(s->module_orcs, &s->kernel);
	ret = kernel_names_create(&s->kernel, &p->names, err);
	if (!ret)
		ret = (p->part ? site_table_read_modules : site_table_read)(&p->table, &s->kernel,
									    p->names, err);
	if (!ret)
		ret = shared_sites_make(&p->sites, &p->table, &s->plan,
					session_is_asked(s, ASK_FTRACE), err);
	if (!ret)
		ret = kprobe_table_read(&s->kernel, &p->kprobes, err);
	if (!ret)
		kprobe_table_keep_sites(&p->kprobes, &p->sites);
	if (!ret && (wants_returns(p->list) || s->plan.slots.n))
		ret = read_slots(p, err);
	if (!ret && !p->part)
		ret = inside_read(p->session, p->list, &p->kprobes, &p->inside, err);
	if (!ret)
		learn(p);
	ret = guest_release(s->guest, ret, err);
	if (ret)
		return ret;
	p->wanted = calloc(p->table.n + 1, sizeof(*p->wanted));
	return p->wanted ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int refuse(struct lane_plan *p, size_t k, const struct site_refusal *why, struct error *err)
{
	p->refused[k].budget = p->session->guest->budget;
	if (site_refusals_add(&p->refused[k], why))
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int keep_choice(struct lane_plan *p, size_t k, struct error *err)
{
	const size_t bytes = (p->table.n + 1) * sizeof(bool);

	p->chosen[k] = malloc(bytes);
	if (!p->chosen[k])
		return error_set(err, ENOMEM, "out of memory");
	memcpy(p->chosen[k], p->wanted, bytes);
	return 0;
}

/* --- what an instance wants ------------------------------------------------------------------ */

/* The bits of an instance's wants, as of enum tracer_class. */
struct want_bits {
	uint32_t entry, exit, call, tail, inside; /* entry: of a histogram's first part */
	bool tails;
	bool whole; /* returns only of functions all of whose returns are seen */
	bool own;   /* a return that is seen is the function's own */
};

/* What is counted at the places of a class. */
static enum count_action action_of(unsigned int class)
{
	static const enum count_action actions[] = {
		[TRACER_ENTRY] = COUNT_START,
		[TRACER_EXIT] = COUNT_STOP,
		[TRACER_CALL] = COUNT_HIT,
		[TRACER_TAIL] = COUNT_TAIL,
	};

	return actions[class];
}

/* *bit is that of the want; unchanged on error. */
static int add_want(struct lane_plan *p, const struct session_instance *instance,
		    enum probe_point point, unsigned int class, uint32_t *bit, struct error *err)
{
	const struct tracer_ops *ops = instance->ops;
	struct instance_stream *stream = instance->stream;
	struct direct_want *want = &p->wants[p->nr_wants];

	if (p->nr_wants == DIRECT_MAX)
		return error_set(
			err, ENOSPC,
			"too many traced instances: there are %d places, of which profile "
			"and syscalls take three, graph and profile with tails four, and a "
			"histogram of allocations one for each kind of their functions",
			DIRECT_MAX);
	*want = (struct direct_want){.point = point, .class = class};
	want->fields =
		(point == POINT_RETURN && ops->return_fields ? ops->return_fields
							     : ops->fields)(instance->tracer);
	if (ops->gate)
		want->gate = ops->gate(instance->tracer);
	if (ops->filter)
		want->filter = ops->filter(instance->tracer);
	if (ops->profile) {
		want->owner = instance;
		want->profile = ops->profile(instance->tracer);
		want->action = action_of(class);
	}
	if (ops->hist) {
		want->owner = instance;
		want->hist = ops->hist(instance->tracer);
	}
	if (ops->fetch)
		want->fetch = ops->fetch(instance->tracer);
	if (stream) {
		want->owner = instance;
		want->output = &p->session->stream_ops->output;
		want->sinks = stream->sinks;
		want->records = &stream->records;
		want->lost = &stream->lost;
	}
	*bit = UINT32_C(1) << p->nr_wants++;
	return 0;
}

static void use_part(struct direct_want *want, const struct hist_part *part)
{
	want->program = &part->program;
	want->gate = part->gate.n ? &part->gate : NULL;
	if (part->fetch)
		want->fetch = part->fetch;
}

/* The host sums up: to the guest it is a want of events. */
static void send_to_host(struct direct_want *want, const struct hist_events *events)
{
	want->hist = NULL;
	want->program = NULL;
	want->output = events->stream.output;
	want->sinks = events->stream.sinks;
	want->records = events->records;
	want->lost = events->lost;
}

/* The wants of a histogram's parts stand behind each other. */
static int add_parts(struct lane_plan *p, const struct session_instance *instance,
		     struct want_bits *bits, struct error *err)
{
	const bool inside = inside_of(instance), returns = is_at_returns(instance);
	const enum probe_point point = inside ? POINT_INSIDE : returns ? POINT_RETURN : POINT_ENTRY;
	uint32_t bit, first = 0;
	size_t n;
	const struct hist_part *parts = instance->ops->hist_parts(instance->tracer, &n);
	const struct hist_events *events = instance->ops->hist_events(instance->tracer);
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		ret = add_want(p, instance, point, events ? (unsigned int)i : TRACER_ENTRY, &bit,
			       err);
		if (ret)
			break;
		use_part(&p->wants[p->nr_wants - 1], &parts[i]);
		if (events)
			send_to_host(&p->wants[p->nr_wants - 1], events);
		first = first ? first : bit;
	}
	*(inside ? &bits->inside : returns ? &bits->exit : &bits->entry) = first;
	bits->tails = returns && instance->ops->tails(instance->tracer);
	return ret;
}

static int add_wants(struct lane_plan *p, const struct session_instance *instance,
		     struct want_bits *bits, struct error *err)
{
	int ret;

	if (instance->ops->hist)
		return add_parts(p, instance, bits, err);
	if (inside_of(instance))
		return add_want(p, instance, POINT_INSIDE, TRACER_ENTRY, &bits->inside, err);
	if (is_at_returns(instance))
		return add_want(p, instance, POINT_RETURN, TRACER_ENTRY, &bits->exit, err);
	ret = add_want(p, instance, POINT_ENTRY, TRACER_ENTRY, &bits->entry, err);
	if (ret || !instance->ops->return_fields)
		return ret;
	bits->tails = instance->ops->tails(instance->tracer);
	ret = add_want(p, instance, POINT_RETURN, TRACER_EXIT, &bits->exit, err);
	if (!ret)
		ret = add_want(p, instance, POINT_ENTRY, TRACER_CALL, &bits->call, err);
	bits->own = instance->ops->profile && !bits->tails;
	bits->whole = instance->ops->profile && bits->tails;
	bits->tail = bits->entry;
	if (ret || bits->own || instance->ops->no_tail_calls)
		return ret;
	return add_want(p, instance, POINT_ENTRY, TRACER_TAIL, &bits->tail, err);
}

/* A function, by its address without the kernel's slide. */
static bool is_of_image(const struct lane_plan *p, uint64_t function)
{
	return kernel_in_image(&p->session->kernel, kernel_gva(&p->session->kernel, function));
}

/* Where the function of this site begins, without the kernel's slide; 0: that is not known. */
static uint64_t function_at(const struct lane_plan *p, uint64_t site)
{
	return function_exits_owner(p->exits.exits, kernel_link(&p->session->kernel, site));
}

/* Of which slots returns are seen. */
struct seen {
	bool any, all;
};

static void want_range(struct lane_plan *p, uint64_t function, const struct exit_range *range,
		       const struct want_bits *bits, struct seen *seen)
{
	const size_t nr_image = p->session->image->nr_return_sites;

	p->leads_in |= range->begin < nr_image && !is_of_image(p, function);
	for (size_t i = range->begin; i < range->end; i++) {
		struct shared_slot *slot =
			i < p->slots.first ? NULL : &p->slots.v[i - p->slots.first];
		const bool usable = slot && slot->usable;

		if (usable)
			slot->mask |= bits->exit;
		seen->any |= usable;
		seen->all &= usable;
	}
}

/* Want the slots of a function. Returns whether its return may be seen, if only as that of one that
 * it tail-calls. */
static bool want_slots(struct lane_plan *p, uint64_t function, const struct want_bits *bits)
{
	const struct function_exits *exits = p->exits.exits;
	struct exit_range ranges[FUNCTION_EXITS_MAX];
	size_t n = function_exits_find(exits, function, bits->tails, ranges);
	struct seen seen = {.all = true};

	for (size_t r = 0; r < n; r++)
		want_range(p, function, &ranges[r], bits, &seen);
	if (bits->whole)
		return seen.any && seen.all && function_returns_are_known(exits, function);
	return seen.any || (!bits->own && function_exits_find(exits, function, true, ranges) > n);
}

/*
 * A function that only others jump to is none that a tail call may enter: its entry shows that the
 * call which had its frame has ended, whether or not that one's return was seen.
 *
 * Functions of the image jump to such only. So what they enter is found once, and is `base` for
 * plans of the modules.
 */
struct tails {
	const struct function_tails *base;
	struct function_tails *of_modules;
};

static bool is_tail(const struct tails *tails, uint64_t function)
{
	return function_tails_has(tails->base, function) ||
	       function_tails_has(tails->of_modules, function);
}

static int make_base(struct lane_plan *p, size_t k, struct error *err)
{
	const struct function_exits *of_image;
	int ret = function_exits_of(p->session->image, &of_image, err);

	return ret ? ret : function_tails_create(of_image, &p->tails[k], err);
}

static int find_tails(struct lane_plan *p, size_t k, struct tails *tails, struct error *err)
{
	int ret = function_tails_create(p->exits.exits, &tails->of_modules, err);

	if (!ret && !p->part)
		ret = make_base(p, k, err);
	if (ret)
		return ret;
	for (size_t i = 0; i < p->sites.n; i++) {
		const uint64_t function =
			p->wanted[i] ? function_at(p, p->sites.v[i].patch.gva) : 0;

		if (function)
			function_tails_add(is_of_image(p, function) ? p->tails[k]
								    : tails->of_modules,
					   function);
	}
	tails->base = p->part ? p->instances[k]->tails : p->tails[k];
	return 0;
}

/* Whether the instance wants this function of the image, which is looked up where all sites are. */
static bool wants_function(const struct lane_plan *p, size_t k, uint64_t function)
{
	const struct trace_session *s = p->session;
	const struct site_table *table = p->part ? &s->sites : &p->table;
	const bool *wanted = p->part ? p->instances[k]->wanted : p->wanted;
	const size_t i = site_table_find(table, kernel_gva(&s->kernel, function));

	return i < table->n && wanted[i] && function_at(p, table->v[i].gva) == function;
}

/* Modules that lead into functions of the image change what is wanted of these. */
static bool lead_in(const struct lane_plan *p, size_t k, const struct tails *tails,
		    const struct want_bits *bits)
{
	uint64_t function;
	size_t cursor = 0;

	if (bits->tail == bits->entry)
		return false;
	while ((function = function_tails_next(tails->of_modules, &cursor)))
		if (is_of_image(p, function) && !function_tails_has(tails->base, function) &&
		    wants_function(p, k, function))
			return true;
	return false;
}

/* What an instance with returns wants of this site: nothing, if it wants returns only. */
static uint32_t choose_entry(struct lane_plan *p, const struct tails *tails, uint64_t site,
			     const struct want_bits *bits)
{
	const uint64_t function = function_at(p, site);

	if (!function || !want_slots(p, function, bits))
		return bits->call;
	return is_tail(tails, function) ? bits->tail : bits->entry;
}

/* For an instance that wants returns alone: want a function's. Why it gets none; NULL: it gets all,
 * or of those that tail calls lead to what can be seen. */
static const char *want_returns(struct lane_plan *p, const struct shared_site *site,
				const struct want_bits *bits)
{
	static const char *const reasons[] = {
		[FUNCTION_RETURNS_NONE] = "no return of it can be recorded: it has none of its own",
		[FUNCTION_RETURNS_SOME] =
			"not all of its returns can be recorded: it may leave by a "
			"jump to another function",
		[FUNCTION_RETURNS_ALL] = NULL,
	};
	const uint64_t function = function_at(p, site->patch.gva);
	const char *why;

	if (kernel_in_image(&p->session->kernel, site->patch.gva) &&
	    kernel_image_freed_returns(p->session->image))
		return kernel_image_freed_returns(p->session->image);
	why = bits->tails ? NULL : reasons[function_returns_of(p->exits.exits, function)];
	if (why || (function && want_slots(p, function, bits)) || !bits->tails)
		return why;
	return "no return of it can be seen: it has none, or leaves by a jump to a function "
	       "without an mcount site";
}

/* What an instance without returns wants of this site. */
static uint32_t entry_bit(const struct session_instance *instance, uint64_t site,
			  const struct want_bits *bits)
{
	if (!instance->ops->hist)
		return bits->entry;
	return bits->entry << instance->ops->hist_part_of(instance->tracer, site);
}

static int want_site(struct lane_plan *p, size_t k, size_t i, const struct want_bits *bits,
		     const struct tails *tails, struct error *err)
{
	struct shared_site *site = &p->sites.v[i];
	const uint64_t gva = site->patch.gva;
	const bool at_returns = is_at_returns(p->instances[k]);
	const char *refusal = site->refusal;

	if (!refusal && at_returns)
		refusal = want_returns(p, site, bits);
	if (refusal) {
		const struct site_refusal why =
			site_refuse(site->patch.function, gva, "%s", refusal);

		return refuse(p, k, &why, err);
	}
	if (!at_returns)
		site->mask |= bits->exit ? choose_entry(p, tails, gva, bits)
					 : entry_bit(p->instances[k], gva, bits);
	p->nr_sites[k]++;
	p->nr_outside[k] += !kernel_in_image(&p->session->kernel, gva);
	return 0;
}

static int want_sites(struct lane_plan *p, size_t k, const struct want_bits *bits,
		      struct error *err)
{
	struct tails tails = {0};
	int ret = bits->exit ? find_tails(p, k, &tails, err) : 0;

	for (size_t i = 0; !ret && i < p->sites.n; i++)
		if (p->wanted[i])
			ret = want_site(p, k, i, bits, &tails, err);
	if (!ret && bits->exit)
		p->leads_in |= lead_in(p, k, &tails, bits);
	function_tails_destroy(tails.of_modules);
	return ret;
}

static int want_inside(struct lane_plan *p, size_t k, const struct want_bits *bits,
		       struct error *err)
{
	const uint64_t gva = inside_of(p->instances[k]);

	for (size_t i = 0; gva && i < p->inside.n; i++) {
		struct inside_place *place = &p->inside.v[i];

		if (place->patch.gva != gva)
			continue;
		if (inside_place_is_refused(place))
			return refuse(p, k, &place->refusal, err);
		place->mask |= bits->inside;
		p->nr_sites[k]++;
	}
	return 0;
}

/* An error, unless the plan is to go on without it, with nothing wanted. */
static int leave_out(struct lane_plan *p, size_t k, const struct error *why, bool lenient,
		     struct error *err)
{
	if (lenient) {
		p->failures[k] = *why;
		memset(p->wanted, 0, (p->table.n + 1) * sizeof(*p->wanted));
		return 0;
	}
	if (err)
		*err = *why;
	error_prefix(err, "instance '%s': ", p->instances[k]->spec.name);
	return -why->code;
}

/* -ENOENT: of no function. */
static int select_sites(struct lane_plan *p, size_t k, struct error *err)
{
	const struct session_instance *instance = p->instances[k];
	const bool lenient = p->lenient || instance->failure.code;
	struct error why = p->unlearnt[k];
	int ret;

	if (why.code)
		return leave_out(p, k, &why, lenient || instance->active, err);
	ret = instance->ops->select(instance->tracer, &p->table, instance->active, p->wanted,
				    &p->notes[k], &why);
	if (ret == -ENOENT)
		return leave_out(p, k, &why, lenient, err);
	if (ret && err)
		*err = why;
	return ret;
}

/* Why no function of the image has a return slot; NULL: some have. */
static const char *no_slots(const struct kernel_image *image)
{
	const char *freed = kernel_image_freed_returns(image);

	if (freed || image->nr_return_sites)
		return freed;
	return "the kernel has no return thunks";
}

/* Without its returns an instance shows less than its tracer promises. */
static int note_returns(struct lane_plan *p, size_t k, struct error *err)
{
	const char *why = no_slots(p->session->image);

	if (!why || !p->instances[k]->ops->return_fields || p->nr_sites[k] == p->nr_outside[k])
		return 0;
	return function_notes_add(&p->notes[k], err,
				  "the kernel's own functions are recorded without returns, "
				  "so without durations and results: %s",
				  why);
}

/* One whose module is not there may not know yet what to record. */
static int want_all(struct lane_plan *p, size_t k, struct error *err)
{
	struct session_instance *instance = p->instances[k];
	struct want_bits bits = {0};
	int ret;

	if (instance_is_open(instance))
		return 0;
	ret = instances_give_stream(p->session, instance, err);
	if (!ret)
		ret = add_wants(p, instance, &bits, err);
	if (!ret)
		ret = want_sites(p, k, &bits, err);
	if (!ret)
		ret = want_inside(p, k, &bits, err);
	return ret;
}

static int add_instance(struct lane_plan *p, struct session_instance *instance, struct error *err)
{
	const size_t k = p->n++;
	int ret;

	p->instances[k] = instance;
	ret = select_sites(p, k, err);
	if (!ret && !p->failures[k].code)
		ret = want_all(p, k, err);
	if (!ret)
		ret = note_returns(p, k, err);
	return ret ? ret : keep_choice(p, k, err);
}

int lane_plan_make(struct lane_plan *p, struct error *err)
{
	int ret = read_sites(p, err);

	for (size_t i = 0; !ret && i < p->list->n; i++)
		if (is_direct(p->list->v[i]))
			ret = add_instance(p, p->list->v[i], err);
	return ret;
}
