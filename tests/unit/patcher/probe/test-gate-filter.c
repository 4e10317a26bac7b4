/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Filters split between a gate and the host: together they say what the filter says, and what the
 * gate has decided is not looked at again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "patcher/probe/gate.h"
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

struct sample {
	uint64_t call_site;
	uint64_t ptr;
	uint64_t bytes_req;
	uint32_t gfp_flags;
	int32_t node;
	uint32_t pid;
};

#define FIELD(member, kind)                                                                  \
	{                                                                                    \
		.name = #member, .type = kind, .size = sizeof(((struct sample *)0)->member), \
		.at = offsetof(struct sample, member)                                        \
	}

static const struct event_field fields[] = {
	FIELD(call_site, EVENT_CODE),  FIELD(ptr, EVENT_POINTER), FIELD(bytes_req, EVENT_UINT),
	FIELD(gfp_flags, EVENT_FLAGS), FIELD(node, EVENT_INT),    FIELD(pid, EVENT_UINT),
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };
static const struct event_class class = {
	.system = "test", .name = "sample", .fields = fields, .nr_fields = FIELDS};

/* kmalloc(size, flags, node): the pointer is known at the return only. */
static const struct gate_field at_entry[] = {
	{"bytes_req", GATE_ARG0, 8, false}, {"gfp_flags", GATE_ARG1, 8, false},
	{"node", GATE_ARG2, 4, true},       {"pid", GATE_PID, 4, false},
	{NULL, GATE_VCPU, 4, false},
};
enum { KNOWN = sizeof(at_entry) / sizeof(at_entry[0]) };

static void text_of(void *arg, const struct event_field *field, uint64_t value, char *out,
		    size_t size)
{
	(void)arg;
	(void)field;
	snprintf(out, size, "f%" PRIu64, value % 3);
}

static const struct event_names names = {.text = text_of};

/* "NxM": N ranges of two addresses, M apart, from 2 on. */
static int ranges_of(void *arg, const char *name, bool is_glob, struct event_range **out, size_t *n,
		     struct error *err)
{
	unsigned int count, apart;

	(void)arg;
	(void)is_glob;
	if (sscanf(name, "%ux%u", &count, &apart) != 2)
		return error_set(err, EINVAL, "no function '%s'", name);
	*out = calloc(count, sizeof(**out));
	*n = count;
	for (unsigned int i = 0; i < count; i++)
		(*out)[i] = (struct event_range){2 + i * apart, 4 + i * apart};
	return 0;
}

static const struct event_names with_ranges = {.ranges = ranges_of};

struct filter {
	struct event_filter *filter;
	struct event_predicate *predicate;
	struct gate_split split;
};

static struct filter make(const char *text)
{
	struct error err = {0};
	struct filter f;

	if (event_filter_parse(text, &f.filter, &err) ||
	    event_filter_bind(f.filter, &class, &names, &f.predicate, &err)) {
		tap_diag("%s: %s", text, err.text);
		abort();
	}
	gate_split(f.predicate, at_entry, KNOWN, &f.split);
	return f;
}

static void drop(struct filter *f)
{
	event_predicate_destroy(f->predicate);
	event_filter_destroy(f->filter);
}

static void test_split(const char *text, const char *in_guest, const char *on_host)
{
	struct filter f = make(text);
	char out[256], name[128];

	snprintf(name, sizeof(name), "what the guest decides of '%s'", text);
	gate_split_print(&f.split, f.predicate, true, out, sizeof(out));
	is_str(out, in_guest, name);
	gate_split_print(&f.split, f.predicate, false, out, sizeof(out));
	is_str(out, on_host, "what the host decides of it");
	ok(f.split.whole == !*on_host && !f.split.gate.n == !*in_guest,
	   "the split knows whether anything is left");
	drop(&f);
}

static void test_range(const char *text, bool whole)
{
	static const struct gate_field site = {"call_site", GATE_CALL_SITE, 8, false};
	struct error err = {0};
	struct filter f;
	bool good = true;

	if (event_filter_parse(text, &f.filter, &err) ||
	    event_filter_bind(f.filter, &class, &with_ranges, &f.predicate, &err)) {
		tap_diag("%s: %s", text, err.text);
		abort();
	}
	gate_split(f.predicate, &site, 1, &f.split);
	for (uint64_t i = 0; good && i < 400; i++) {
		const struct sample sample = {.call_site = i};
		const struct event event = {.class = &class, .bytes = &sample};
		const struct gate_values values = {.source = {[GATE_CALL_SITE] = i}};
		const bool expected = event_predicate_matches(f.predicate, &event);

		good = !f.split.gate.n || gate_eval(&f.split.gate, &values) == expected;
	}
	ok(good && f.split.whole == whole && !gate_check(&f.split.gate, NULL),
	   "'%s': gate and host agree, in %u terms", text, f.split.gate.n);
	drop(&f);
}

static void test_ranges(void)
{
	struct error err = {0};
	struct filter f = {0};
	const struct event event = {.class = &class, .bytes = &(struct sample){.call_site = 3}};

	test_range("call_site == 1x1", true);
	test_range("call_site != 1x1 && call_site != 7", true);
	test_range("call_site.function == 5x9", true);
	test_range("!(call_site ~ 5x9) || call_site < 3", true);
	test_range("call_site == 32x9", true);
	test_range("call_site == 16x7 && call_site != 16x3", true);
	test_range("call_site == 33x9", false);
	if (event_filter_parse("call_site == 1x1 && call_site != 5x4 || call_site == bad",
			       &f.filter, NULL))
		abort();
	ok(event_filter_bind(f.filter, &class, &with_ranges, &f.predicate, &err) == -EINVAL &&
		   err.column == 54 && strstr(err.text, "character 54: no function 'bad'"),
	   "a name that is none is refused: %s", err.text);
	event_filter_destroy(f.filter);
	if (event_filter_parse("call_site == 1x1 && call_site != 2x5", &f.filter, NULL) ||
	    event_filter_bind(f.filter, &class, &with_ranges, &f.predicate, NULL))
		abort();
	ok(!event_predicate_matches(f.predicate, &event), "an address in a range is not outside");
	drop(&f);
}

static void test_splits(void)
{
	test_split("bytes_req > 4096", "bytes_req > 4096", "");
	test_split("ptr != 0", "", "ptr != 0");
	test_split("bytes_req > 4096 && call_site ~ ext4_* && pid == 7",
		   "bytes_req > 4096 && pid == 7", "call_site ~ \"ext4_*\"");
	test_split("bytes_req > 4096 || pid == 7", "(bytes_req > 4096 || pid == 7)", "");
	test_split("bytes_req > 4096 || ptr == 0", "", "(bytes_req > 4096 || ptr == 0)");
	test_split("vcpu == 1 && (bytes_req > 4096 || ptr == 0)", "vcpu == 1",
		   "(bytes_req > 4096 || ptr == 0)");
	test_split("!(bytes_req > 4096 || ptr == 0)", "!(bytes_req > 4096)", "!(ptr == 0)");
	test_split("!(bytes_req > 4096 && pid == 0)", "!(bytes_req > 4096 && pid == 0)", "");
	test_split("!!(node < 0) && gfp_flags & 0x400", "node < 0 && gfp_flags & 0x400", "");
	test_split("call_site == 'ext4_\"write'", "", "call_site == 'ext4_\"write'");
}

/* A filter that is too long for a gate. */
static void test_too_long(void)
{
	char text[EVENT_FILTER_MAX] = "pid == 0";
	struct filter f;

	for (int i = 1; i < EVENT_FILTER_MAX_TERMS; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " || pid == %d", i);
	f = make(text);
	ok(f.split.whole && f.split.gate.n == GATE_MAX_TERMS && !gate_check(&f.split.gate, NULL),
	   "a gate takes as many terms as a filter has at most");
	drop(&f);
}

/* --- random filters -------------------------------------------------------------------------- */

static uint64_t pick(uint64_t n)
{
	return fake_random() % n;
}

/* Few of them, so that they are met often, also from the end of the range. */
static struct text random_number(const char *name)
{
	struct text out;

	if (pick(4))
		snprintf(out.s, sizeof(out.s), "%" PRIu64, pick(4));
	else if (!strcmp(name, "node"))
		snprintf(out.s, sizeof(out.s), "-%" PRIu64, pick(4));
	else
		snprintf(out.s, sizeof(out.s), "%" PRIu64, -pick(4));
	return out;
}

static void random_term(FILE *out)
{
	static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">=", "&"};
	uint64_t field = pick(FIELDS + 1);
	const char *name = field < FIELDS ? fields[field].name : "vcpu";

	if (!field && pick(2))
		fprintf(out, "call_site ~ \"f%" PRIu64 "\"", pick(3));
	else
		fprintf(out, "%s %s %s", name, ops[pick(7)], random_number(name).s);
}

static void random_filter(FILE *out, unsigned int depth)
{
	uint64_t kind = depth ? pick(4) : 3;

	if (kind == 3) {
		random_term(out);
		return;
	}
	if (kind == 2)
		fputc('!', out);
	fputc('(', out);
	random_filter(out, depth - 1);
	if (kind < 2) {
		fputs(kind ? " || " : " && ", out);
		random_filter(out, depth - 1);
	}
	fputc(')', out);
}

/* Arguments have anything in bits that their parameters lack. */
static struct gate_values values_of(const struct sample *s, unsigned int vcpu)
{
	struct gate_values v = {.source = {[GATE_VCPU] = vcpu, [GATE_PID] = s->pid}};

	v.source[GATE_ARG0] = s->bytes_req;
	v.source[GATE_ARG1] = s->gfp_flags | fake_random() << 32;
	v.source[GATE_ARG2] = (uint32_t)s->node | fake_random() << 32;
	return v;
}

static struct sample random_sample(void)
{
	return (struct sample){.call_site = pick(4),
			       .ptr = pick(4),
			       .bytes_req = pick(4) - !pick(4),
			       .gfp_flags = (uint32_t)(pick(4) - !pick(4)),
			       .node = (int32_t)(pick(4) - 2),
			       .pid = (uint32_t)pick(4)};
}

static bool same_verdict(const struct filter *f, unsigned int *matched)
{
	const struct sample sample = random_sample();
	const struct event event = {
		.class = &class, .vcpu = (unsigned int)pick(4), .bytes = &sample};
	const struct gate_values values = values_of(&sample, event.vcpu);
	bool expected = event_predicate_matches(f->predicate, &event);
	bool passed = gate_eval(&f->split.gate, &values);
	bool rest = event_predicate_matches_rest(f->predicate, &f->split.known, &event);

	*matched += expected;
	return (passed && rest) == expected && (!f->split.whole || passed == expected);
}

static void test_random(void)
{
	enum { FILTERS = 3000, EVENTS = 30 };
	unsigned int matched = 0, whole = 0, part = 0;
	bool good = true;

	for (int i = 0; i < FILTERS && good; i++) {
		char text[EVENT_FILTER_MAX] = "";
		FILE *stream = fmemopen(text, sizeof(text), "w");
		struct filter f;

		random_filter(stream, 4);
		fclose(stream);
		f = make(text);
		good = !gate_check(&f.split.gate, NULL);
		for (int k = 0; k < EVENTS && good; k++)
			good = same_verdict(&f, &matched);
		if (!good)
			tap_diag("%s", text);
		whole += f.split.whole;
		part += !f.split.whole && f.split.gate.n;
		drop(&f);
	}
	ok(good, "gate and host together say what %d random filters say", FILTERS);
	ok(whole > FILTERS / 10 && part > FILTERS / 30 && matched > FILTERS,
	   "%u of them are decided in the guest, %u in part; %u events match", whole, part,
	   matched);
}

/* What the gate has decided is not evaluated again. */
static void test_rest(void)
{
	struct filter f = make("bytes_req > 4096 && ptr == 1");
	const struct sample small = {.bytes_req = 1, .ptr = 1}, other = {.bytes_req = 1, .ptr = 2};
	struct event event = {.class = &class, .bytes = &small};

	ok(event_predicate_matches_rest(f.predicate, &f.split.known, &event),
	   "the host takes the guest's word for its part");
	event.bytes = &other;
	ok(!event_predicate_matches_rest(f.predicate, &f.split.known, &event),
	   "the host decides about the rest");
	drop(&f);
}

/* A field that the event has signed, and the entry unsigned. */
static void test_signs(void)
{
	static const struct gate_field wrong = {"node", GATE_ARG2, 4, false};
	struct filter f = make("node < 0");

	gate_split(f.predicate, &wrong, 1, &f.split);
	ok(!f.split.whole && !f.split.gate.n, "a field whose sign differs is left for the host");
	drop(&f);
}

int main(void)
{
	test_splits();
	test_ranges();
	test_too_long();
	test_random();
	test_rest();
	test_signs();
	return tap_done();
}
