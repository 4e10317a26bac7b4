/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histograms that the host makes: the guest does not unwind its stack, so that a key that is a call
 * chain is known only when the record of a call is read. What keys and values need is recorded of
 * each call, and added up here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/function.h"
#include "patcher/text/site.h"
#include "patcher/tracers/helpers.h"
#include "patcher/tracers/hist/hist.h"

enum { WORD = 8 };

/* How the events of a part are made into keys and values. */
struct host_part {
	const struct hist_program *program;
	struct hist_rest *rest;        /* of which events; NULL: of all */
	struct fetch_probe *probe;     /* what both need of registers and memory, ... */
	struct fetch_program recorded; /* ... as it is recorded. NULL: nothing */
	size_t stack_at;               /* bytes from the event's start: its call chain */
};

/* What is an event_sink to others. */
struct host_sink {
	struct hist_host *host;
	unsigned int vcpu;
};

struct hist_host {
	struct hist_events events;
	struct hist *hist;
	struct host_part *parts;
	size_t nr_parts;
	struct host_sink *sinks; /* by vCPU */
	struct event_sink **by_vcpu;
	_Atomic uint64_t records;
};

bool hist_is_on_host(const struct trace_spec *spec)
{
	bool any = false;

	for (size_t i = 0; i < spec->hist->nr_keys; i++)
		any |= hist_chain_field(spec, spec->hist->keys[i].name) != NULL;
	return any;
}

/* --- words of an event ------------------------------------------------------------------------ */

static uint64_t load(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static uint64_t source_word(const struct hist_operand *o, unsigned int word, unsigned int vcpu,
			    const uint8_t *bytes)
{
	struct function_event e;

	memcpy(&e, bytes, sizeof(e));
	switch (o->source) {
	case HIST_IP:
		return e.ip + SITE_SIZE;
	case HIST_PARENT:
		return e.parent_ip;
	case HIST_CONSTANT:
		return (uint64_t)o->at;
	case HIST_FETCHED:
		return load(bytes + sizeof(e) + (size_t)o->at + (size_t)word * WORD);
	case HIST_PID:
		return e.pid;
	case HIST_TGID:
		return e.tgid;
	case HIST_CGROUP:
		return e.cgroup;
	case HIST_COMM:
		return load((const uint8_t *)e.comm + (size_t)word * WORD);
	case HIST_CPU:
		return vcpu;
	case HIST_REGISTER:
	case HIST_KMALLOC: /* hist_allocs_check() */
	case HIST_POINTED: /* have become HIST_FETCHED */
	case HIST_CHAIN:   /* is no word */
		break;
	}
	return 0;
}

static uint64_t cut(const struct hist_operand *o, uint64_t v)
{
	const unsigned int unused = 64 - 8u * o->size;

	if (o->bit_width)
		return v << (64 - o->bit_offset - o->bit_width) >> (64 - o->bit_width);
	if (o->size >= WORD)
		return v;
	v <<= unused;
	return o->is_signed ? (uint64_t)((int64_t)v >> unused) : v >> unused;
}

/* As code in the guest has it: patcher/trampoline/hist.c. */
static uint64_t operand_word(const struct hist_operand *o, unsigned int word, unsigned int vcpu,
			     const uint8_t *bytes)
{
	const uint64_t v = cut(o, source_word(o, word, vcpu, bytes));

	if (o->step == HIST_LOG2)
		return v <= 1 ? 0 : 64 - (uint64_t)__builtin_clzll(v - 1);
	return o->step == HIST_BUCKETS ? v - v % o->bucket : v;
}

/* Frames up to the first 0, behind which are zeros. */
static void put_chain(const uint8_t *frames, uint64_t *key)
{
	uint64_t frame = 1;

	for (size_t i = 0; i < HIST_FRAMES; i++) {
		frame = frame ? load(frames + i * WORD) : 0;
		key[i] = frame;
	}
}

static bool is_wanted(const struct host_part *part, unsigned int vcpu, const uint8_t *bytes)
{
	uint64_t words[HIST_MAX_REST * HIST_OPERAND_WORDS];
	unsigned int k = 0;
	size_t n;
	const struct hist_operand *operands = hist_rest_operands(part->rest, &n);

	for (size_t i = 0; i < n; i++)
		for (unsigned int w = 0; w < hist_operand_words(&operands[i]); w++)
			words[k++] = operand_word(&operands[i], w, vcpu, bytes);
	return !part->rest || hist_rest_matches(part->rest, vcpu, words);
}

static void add_event(const struct hist_host *h, const struct host_part *part, unsigned int vcpu,
		      const uint8_t *bytes)
{
	const struct hist_program *p = part->program;
	uint64_t key[HIST_ROW_WORDS], values[HIST_MAX_VALUES];
	uint32_t faults = 0;
	unsigned int n = 0;

	for (size_t i = 0; i < p->nr_keys; i++) {
		const unsigned int words = hist_operand_words(&p->keys[i]);

		if (p->keys[i].source == HIST_CHAIN)
			put_chain(bytes + part->stack_at, key + n);
		for (unsigned int w = 0; w < words && p->keys[i].source != HIST_CHAIN; w++)
			key[n + w] = operand_word(&p->keys[i], w, vcpu, bytes);
		n += words;
	}
	if (p->faults) {
		memcpy(&faults, bytes + sizeof(struct function_event), sizeof(faults));
		key[n] = faults & p->faults;
	}
	for (size_t i = 0; i < p->nr_values; i++)
		values[i] = operand_word(&p->values[i], 0, vcpu, bytes);
	hist_add(h->hist, key, values);
}

static void put_run(struct event_batch *batch, struct event_sink *sink, unsigned int class,
		    const struct event_run *run)
{
	const struct host_sink *s = (const void *)sink;

	(void)batch;
	for (size_t i = 0; i < run->n; i++)
		if (is_wanted(&s->host->parts[class], s->vcpu, run->bytes + i * run->stride))
			add_event(s->host, &s->host->parts[class], s->vcpu,
				  run->bytes + i * run->stride);
}

static void end_run(struct event_batch *batch)
{
	(void)batch;
}

static const struct event_output output = {.put_run = put_run, .end = end_run};

/* --- what is recorded ------------------------------------------------------------------------- */

static bool is_recorded(const struct hist_operand *o)
{
	return o->source == HIST_REGISTER || o->source == HIST_POINTED;
}

/* A word of the record. */
static int add_value(struct fetch_probe *probe, const struct hist_operand *o, struct error *err)
{
	struct fetch_arg *arg = &probe->args[probe->nr_args];
	int ret;

	*arg = (struct fetch_arg){.show = FETCH_HEX, .size = WORD, .count = 1, .nr_ops = 1};
	arg->ops[0] = (struct fetch_op){.kind = FETCH_REGISTER, .reg = (enum fetch_register)o->reg};
	if (o->source == HIST_REGISTER)
		arg->ops[0].at = o->at;
	else
		arg->ops[arg->nr_ops++] = (struct fetch_op){.kind = FETCH_MEMORY, .at = o->at};
	ret = fetch_add_room(probe, arg, err);
	probe->nr_args += !ret;
	return ret;
}

/* Each becomes a word of the record. */
static int add_values(struct fetch_probe *probe, const struct hist_operand *o, size_t n,
		      struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++)
		ret = is_recorded(&o[i]) ? add_value(probe, &o[i], err) : 0;
	return ret;
}

static void use_values(const struct host_part *part, size_t *next, struct hist_operand *o, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_recorded(&o[i]))
			continue;
		o[i].source = HIST_FETCHED;
		o[i].at = fetch_place(&part->recorded, &part->probe->args[(*next)++]);
	}
}

_Static_assert((int)HIST_MAX_OPERANDS + (int)HIST_MAX_VALUES + (int)HIST_MAX_REST <=
		       (int)FETCH_MAX_ARGS,
	       "each may be a value of its own");

/* The operands of program and condition become words of what is recorded for them. */
static int record(struct host_part *part, struct hist_part *of, const struct kernel *kernel,
		  struct error *err)
{
	const struct fetch_helpers helpers = helpers_of(kernel);
	struct hist_program *p = &of->program;
	size_t next = 0, nr_rest;
	struct hist_operand *rest = hist_rest_operands(of->rest, &nr_rest);
	int ret;

	part->probe = calloc(1, sizeof(*part->probe));
	if (!part->probe)
		return error_set(err, ENOMEM, "out of memory");
	ret = add_values(part->probe, p->keys, p->nr_keys, err);
	if (!ret)
		ret = add_values(part->probe, p->values, p->nr_values, err);
	if (!ret)
		ret = add_values(part->probe, rest, nr_rest, err);
	if (ret || !part->probe->nr_args)
		return ret;
	part->recorded = fetch_program_of(part->probe, &helpers);
	use_values(part, &next, p->keys, p->nr_keys);
	use_values(part, &next, p->values, p->nr_values);
	use_values(part, &next, rest, nr_rest);
	of->fetch = &part->recorded;
	return 0;
}

/* Where the call chain is: behind all that is fetched. */
static size_t stack_place(const struct fetch_program *fetch)
{
	if (!fetch)
		return sizeof(struct function_event);
	return sizeof(struct function_event) + fetch->bytes +
	       (size_t)(fetch->nr_long_strings + fetch->nr_long_texts) * FETCH_LONG_STRING;
}

static int make_part(struct host_part *part, struct hist_part *of,
		     const struct fetch_program *fetched, const struct kernel *kernel,
		     struct error *err)
{
	int ret = fetched ? 0 : record(part, of, kernel, err);

	part->program = &of->program;
	part->rest = of->rest;
	part->stack_at = stack_place(fetched ? fetched : of->fetch);
	return ret;
}

/* --- life ------------------------------------------------------------------------------------- */

void hist_host_destroy(struct hist_host *h)
{
	if (!h)
		return;
	for (size_t i = 0; h->parts && i < h->nr_parts; i++)
		free(h->parts[i].probe);
	free(h->parts);
	free(h->sinks);
	free(h->by_vcpu);
	hist_put(h->hist);
	free(h);
}

static int make_sinks(struct hist_host *h, unsigned int nr_vcpus, struct error *err)
{
	h->sinks = calloc(nr_vcpus, sizeof(*h->sinks));
	h->by_vcpu = calloc(nr_vcpus, sizeof(*h->by_vcpu));
	if (!h->sinks || !h->by_vcpu)
		return error_set(err, ENOMEM, "out of memory");
	for (unsigned int i = 0; i < nr_vcpus; i++) {
		h->sinks[i] = (struct host_sink){h, i};
		h->by_vcpu[i] = (struct event_sink *)&h->sinks[i];
	}
	h->events = (struct hist_events){{&output, h->by_vcpu}, &h->records, hist_lost(h->hist)};
	return 0;
}

int hist_host_create(struct hist_part *parts, size_t n, const struct fetch_program *fetched,
		     const struct kernel *kernel, struct hist *hist, struct hist_host **out,
		     struct error *err)
{
	struct hist_host *h = calloc(1, sizeof(*h));
	int ret;

	*out = h;
	if (!h)
		return error_set(err, ENOMEM, "out of memory");
	h->hist = hist_get(hist);
	h->nr_parts = n;
	h->parts = calloc(n + 1, sizeof(*h->parts));
	ret = h->parts ? hist_keep_on_host(hist, err) : error_set(err, ENOMEM, "out of memory");
	if (!ret)
		ret = make_sinks(h, kernel->guest->nr_vcpus, err);
	for (size_t i = 0; !ret && i < n; i++)
		ret = make_part(&h->parts[i], &parts[i], fetched, kernel, err);
	return ret;
}

const struct hist_events *hist_host_events(const struct hist_host *h)
{
	return &h->events;
}
