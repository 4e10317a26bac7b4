/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/filter/filter.h"
#include "tests/lib/tap.h"

struct sample {
	uint64_t call_site;
	uint64_t bytes;
	int32_t node;
	uint32_t flags;
	uint16_t cache;
	uint32_t reg;
	uint64_t ptr;
	char comm[16];
};

#define FIELD(name_, type_)                                                                 \
	{                                                                                   \
		.name = #name_, .type = type_, .size = sizeof(((struct sample *)0)->name_), \
		.at = offsetof(struct sample, name_)                                        \
	}

static const struct event_field fields[] = {
	FIELD(call_site, EVENT_CODE), FIELD(bytes, EVENT_UINT),       FIELD(node, EVENT_INT),
	FIELD(flags, EVENT_FLAGS),    FIELD(cache, EVENT_DICTIONARY), FIELD(comm, EVENT_STRING),
	FIELD(reg, EVENT_HEX),        FIELD(ptr, EVENT_POINTER),
};
static const struct event_class class = {.system = "test",
					 .name = "sample",
					 .fields = fields,
					 .nr_fields = sizeof(fields) / sizeof(fields[0])};
static const struct sample sample = {.call_site = 0x1010,
				     .bytes = 192,
				     .node = -1,
				     .flags = 0xdc0,
				     .cache = 3,
				     .reg = (uint32_t)-100,
				     .ptr = 0xffff888000001000,
				     .comm = "kworker/0:1"};

static void text_of(void *arg, const struct event_field *field, uint64_t value, char *out,
		    size_t size)
{
	(void)arg;
	if (field->type == EVENT_CODE)
		snprintf(out, size, "ext4_write+0x%" PRIx64, value - 0x1000);
	else
		snprintf(out, size,
			 field->type == EVENT_FLAGS ? "GFP_KERNEL|__GFP_ZERO" : "kmalloc-192");
}

static const struct {
	const char *name;
	uint64_t bits;
} flags[] = {{"GFP_KERNEL", 0xcc0}, {"__GFP_ZERO", 0x100}, {"__GFP_IO", 0x40}};

static const char *flag_name(void *arg, const struct event_field *field, size_t number)
{
	(void)arg;
	(void)field;
	return number < sizeof(flags) / sizeof(flags[0]) ? flags[number].name : NULL;
}

static int flag_of(void *arg, const struct event_field *field, const char *name, uint64_t *value)
{
	for (size_t i = 0; flag_name(arg, field, i); i++) {
		*value = flags[i].bits;
		if (!strcmp(name, flags[i].name))
			return 0;
	}
	return -ENOENT;
}

static const struct event_names names = {.text = text_of, .flag = flag_of, .flag_name = flag_name};

/* 1, 0, or a negative errno. */
static int match_of(const char *text, const struct event *event, struct error *err)
{
	struct event_filter *filter;
	struct event_predicate *predicate;
	int ret = event_filter_parse(text, &filter, err);

	if (ret)
		return ret;
	ret = event_filter_bind(filter, event->class, &names, &predicate, err);
	if (!ret) {
		ret = event_predicate_matches(predicate, event);
		event_predicate_destroy(predicate);
	}
	event_filter_destroy(filter);
	return ret;
}

static int match(const char *text, struct error *err)
{
	const struct event event = {.class = &class, .vcpu = 2, .bytes = &sample};

	return match_of(text, &event, err);
}

/* Characters outside ASCII are compared as they are shown. */
static void test_foreign(void)
{
	const struct sample foreign = {.comm = "J\xc3\xb6rg"};
	const struct event event = {.class = &class, .bytes = &foreign};

	ok(match_of("comm == \"J\xc3\xb6rg\"", &event, NULL) == 1 &&
		   match_of("comm ~ \"J\xc3\xb6*\"", &event, NULL) == 1 &&
		   match_of("comm == \"J\xc3\xb6r\"", &event, NULL) == 0,
	   "a name outside ASCII is found");
}

/* Fields that arguments of probes have the names of. */
static void test_own(void)
{
	static const struct event_field with_arguments[] = {
		{.name = "common_pid", .type = EVENT_UINT, .size = 8, .at = 0},
		{.name = "pid", .type = EVENT_UINT, .size = 8, .at = 8, .is_argument = true},
		{.name = "cpu", .type = EVENT_UINT, .size = 8, .at = 16, .is_argument = true},
		{.name = "tgid", .type = EVENT_UINT, .size = 8, .at = 24, .is_argument = true}};
	static const struct event_class own = {.system = "test",
					       .name = "own",
					       .fields = with_arguments,
					       .nr_fields = 4,
					       .size = 32};
	static const struct {
		const char *filter;
		int matches;
	} rows[] = {{"pid == 11 && common_pid == 10", 1},
		    {"cpu == 12 && vcpu == 2", 1},
		    {"common_cpu == 2 && CPU == 2", 1},
		    {"tgid == 13", 1},
		    {"common_tgid == 13", -ENOENT}};
	const uint64_t values[] = {10, 11, 12, 13};
	const struct event event = {.class = &own, .vcpu = 2, .bytes = values};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = {0};

		ok(match_of(rows[i].filter, &event, &err) == rows[i].matches,
		   "with arguments of such names: %s: %s", rows[i].filter, err.text);
	}
}

static void test_matches(void)
{
	static const struct {
		const char *filter;
		int matches;
	} rows[] = {
		{"bytes == 192", 1},
		{"bytes != 192", 0},
		{"bytes<192", 0},
		{"bytes <= 0xc0", 1},
		{"bytes > 191", 1},
		{"bytes >= 193", 0},
		{"bytes & 0x80", 1},
		{"bytes & 0x3f", 0},
		{"node == -1", 1},
		{"node < 0", 1},
		{"node > -2", 1},
		{"vcpu == 2 && cpu == 2 && CPU < 3", 1},
		{"bytes > 4096 || node == -1", 1},
		{"bytes > 4096 && node == -1", 0},
		{"bytes > 4096 && node == 7 || vcpu == 2", 1},
		{"bytes > 4096 && (node == 7 || vcpu == 2)", 0},
		{"!(bytes > 4096)", 1},
		{"! bytes > 4096", 1},
		{"!!(bytes == 192)", 1},
		{"call_site ~ \"ext4_*\"", 1},
		{"call_site ~ ext4_*", 1},
		{"call_site ~ 'xfs_*'", 0},
		{"call_site == ext4_write", 1},
		{"call_site == ext4_write+0x10", 1},
		{"call_site != ext4_write", 0},
		{"call_site == 0x1010", 1},
		{"cache == kmalloc-192", 1},
		{"cache ~ \"kmalloc-*\" && bytes >= 100", 1},
		{"cache == 3", 1},
		{"flags & __GFP_IO", 1},
		{"flags & __GFP_ZERO", 1},
		{"flags == GFP_KERNEL", 0},
		{"flags != GFP_KERNEL", 1},
		{"flags == \"GFP_KERNEL|__GFP_ZERO\"", 1},
		{"flags == \"__GFP_ZERO|GFP_KERNEL\"", 1},
		{"flags == \"__GFP_ZERO|0xcc0\"", 1},
		{"flags != \"__GFP_ZERO|GFP_KERNEL\"", 0},
		{"flags == none", 0},
		{"flags != none", 1},
		{"flags ~ *__GFP_ZERO", 1},
		{"flags ~ GFP_KERNAL*", 0},
		{"comm == kworker/0:1", 1},
		{"comm != kworker/0:1", 0},
		{"comm ~ \"kworker/*\"", 1},
		{"comm ~ 1", 0},
		{"comm == 1", 0},
		{"flags & \"__GFP_IO|__GFP_IO\"", 1},
		{"call_site ~ \"*_write\"", 1},
		{"call_site !~ \"*_write\"", 0},
		{"call_site !~ xfs_* && !(call_site !~ ext4_*)", 1},
		{"call_site.function == ext4_write", 1},
		{"call_site.function == ext4_write+0x10", 0},
		{"call_site.function != \"xfs_write\"", 1},
		{"call_site.function ~ ext4_*", 1},
		{"common_bytes == 192", 1},
		{"vcpu & CPUS{0-3}", 1},
		{"cpu & CPUS{0,1,3-5}", 0},
		{"CPU == CPUS{2}", 1},
		{"CPU == CPUS{2-3}", 0},
		{"CPU != CPUS{2}", 0},
		{"CPU != CPUS{2,3}", 1},
		{"bytes & CPUS{ 1 - 3 , 63 }", 0},
		{"node & CPUS{0-63}", 0},
		{"  bytes  ==  192  ", 1},
		{"ptr ~ \"0xffff8*\"", 1},
		{"ptr !~ \"0xffff8*\"", 0},
		{"ptr ~ \"0xffff888000001000\"", 1},
		{"reg ~ 0xffffff9?", 1},
		{"bytes ~ 19*", 1},
		{"bytes ~ '192'", 1},
		{"bytes ~ '0xc0'", 0},
		{"node ~ -*", 1},
		{"reg == -100", 1},
		{"reg != -100", 0},
		{"bytes > -0", 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = {0};
		int ret = match(rows[i].filter, &err);

		ok(ret == rows[i].matches, "'%s' %s%s%s", rows[i].filter,
		   rows[i].matches ? "matches" : "does not match", err.code ? ": " : "", err.text);
	}
}

static void test_errors(void)
{
	static const struct {
		const char *filter;
		int code;
		const char *text;
	} rows[] = {
		{"", EINVAL, "filter, character 1: a field's name is missing"},
		{"bytes", EINVAL,
		 "filter, character 6: an operator is missing: == != < <= > >= & ~ !~"},
		{"bytes = 1", EINVAL, "filter, character 7: write == to compare"},
		{"vcpu & CPUS{", EINVAL, "filter, character 13: the number of a CPU is missing"},
		{"vcpu & CPUS{1-", EINVAL, "filter, character 15: the number of a CPU is missing"},
		{"vcpu & CPUS{64}", EINVAL,
		 "filter, character 13: the number of a CPU is too high"},
		{"vcpu & CPUS{99999999999999999999}", EINVAL,
		 "filter, character 13: the number of a CPU is too high"},
		{"vcpu & CPUS{3-1}", EINVAL,
		 "filter, character 16: the range of CPUs ends before it begins"},
		{"vcpu & CPUS{1", EINVAL, "filter, character 14: '}' is missing"},
		{"vcpu < CPUS{1}", EINVAL,
		 "filter, character 8: 'CPUS{1}' can be compared by & == and != only"},
		{"flags & CPUS{1}", EINVAL,
		 "filter, character 1: 'flags' is not the number of a CPU"},
		{"bytes.function == ext4_write", EINVAL,
		 "filter, character 1: 'bytes.function' is not the address of a function"},
		{"call_site.function == 0x1000", EINVAL,
		 "filter, character 23: '0x1000' is not the name of a function"},
		{"flags & \"__GFP_IO|x\"", EINVAL,
		 "filter, character 19: 'x' is neither a number nor a flag of the field"},
		{"flags & '__GFP_ZERO|__GFP_OI'", EINVAL,
		 "filter, character 21: '__GFP_OI' is neither a number nor a flag of the field; "
		 "did "
		 "you mean '__GFP_IO'?"},
		{"flags == GFP_KERNAL", EINVAL,
		 "filter, character 10: 'GFP_KERNAL' is neither a number nor a flag of the field; "
		 "did you mean 'GFP_KERNEL'?"},
		{"flags != \"GFP_KERNEL|\"", EINVAL,
		 "filter, character 22: '' is neither a number nor a flag of the field"},
		{"flags & none", EINVAL,
		 "filter, character 9: 'none' is neither a number nor a flag of the field"},
		{"bytes > -1", EINVAL,
		 "filter, character 9: '-1' is negative, which the field never is"},
		{"bytes == 1 || vcpu != -1", EINVAL,
		 "filter, character 23: '-1' is negative, which the field never is"},
		{"call_site == -1", EINVAL,
		 "filter, character 14: '-1' is negative, which the field never is"},
		{"flags & -1", EINVAL,
		 "filter, character 9: '-1' is negative, which the field never is"},
		{"reg > -100", EINVAL,
		 "filter, character 7: '-100' is negative, which the field never is"},
		{"vcpu ~ 1*", EINVAL,
		 "filter, character 8: '1*' is text: compare vCPUs by == or & CPUS{...}"},
		{"vcpu ~ 1", EINVAL,
		 "filter, character 8: '1' is text: compare vCPUs by == or & CPUS{...}"},
		{"ptr ~ 3", EINVAL,
		 "filter, character 7: '3' is a number, and ~ takes a pattern: compare by ==, or "
		 "quote it"},
		{"bytes == 1 || call_site !~ 0x10", EINVAL,
		 "filter, character 28: '0x10' is a number, and ~ takes a pattern: compare by ==, "
		 "or quote it"},
		{"pid == 3", ENOENT,
		 "filter, character 1: sample has no field 'pid': it is recorded with the word "
		 "'pid', see sonde-run(1)"},
		{"bytes == 1 && common_tgid == 3", ENOENT,
		 "filter, character 15: sample has no field 'common_tgid': it is recorded with the "
		 "word 'tgid', see sonde-run(1)"},
		{"bytes & many", EINVAL,
		 "filter, character 9: 'many' is not a number: only flags have names"},
		{"bytes ==", EINVAL, "filter, character 9: a number or a string is missing"},
		{"bytes == 1 node == 2", EINVAL, "filter, character 12: && or || is missing"},
		{"(bytes == 1", EINVAL, "filter, character 12: ')' is missing"},
		{"bytes == 1)", EINVAL, "filter, character 11: && or || is missing"},
		{"call_site ~ \"ext4", EINVAL,
		 "filter, character 13: the string has no closing quote"},
		{"bytes == 1 &&", EINVAL, "filter, character 14: a field's name is missing"},
		{"byts == 1", ENOENT,
		 "filter, character 1: sample has no field 'byts'; did you mean 'bytes'?"},
		{"vcpu == 1 && zzzzzzzz == 1", ENOENT,
		 "filter, character 14: sample has no field 'zzzzzzzz': take call_site, bytes, "
		 "node, flags, cache, comm, reg, ptr or vcpu"},
		{"bytes == many", EINVAL,
		 "filter, character 10: 'many' is not a number, which the field is"},
		{"call_site < ext4_write", EINVAL,
		 "filter, character 13: 'ext4_write' is not a number"},
		{"bytes > 99999999999999999999", EINVAL,
		 "filter, character 9: '99999999999999999999' is too large: a number has 64 bits"},
		{"call_site ~ \"ext4_[a\"", EINVAL, "filter, character 19: '[' has no ']'"},
		{"call_site ~ ext4\\", EINVAL,
		 "filter, character 17: nothing follows the backslash"},
		{"comm > kworker", EINVAL, "filter, character 8: 'kworker' is not a number"},
		{"flags & __GFP_NONE", EINVAL,
		 "filter, character 9: '__GFP_NONE' is neither a number nor a flag of the field; "
		 "did "
		 "you mean '__GFP_IO'?"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = {0};
		char name[128];

		snprintf(name, sizeof(name), "'%s' is refused", rows[i].filter);
		is_u64((uint64_t)-match(rows[i].filter, &err), (uint64_t)rows[i].code, name);
		is_str(err.text, rows[i].text, "the error says where and why");
	}
}

static char *repeated(const char *part, unsigned int times, const char *rest)
{
	char *text = calloc(times + 1, strlen(part) + strlen(rest) + 1);

	if (!text)
		abort();
	while (times--)
		strcat(text, part);
	return strcat(text, rest);
}

static void test_caps(void)
{
	struct error err = {0};
	char *deep = repeated("(", EVENT_FILTER_MAX_DEPTH + 1, "bytes == 1");
	char *terms = repeated("bytes == 1 && ", EVENT_FILTER_MAX_TERMS, "bytes == 1");
	char *most = repeated("bytes == 192 && ", EVENT_FILTER_MAX_TERMS - 1, "bytes == 192");
	char *word = repeated("b", 1000, " == 1");

	is_u64((uint64_t)-match(deep, &err), EINVAL, "too deep a filter is refused");
	is_u64((uint64_t)-match(terms, &err), EINVAL, "too many predicates are refused");
	is_u64((uint64_t)match(most, &err), 1, "as many as allowed are taken");
	is_u64((uint64_t)-match(word, &err), EINVAL, "too long a name is refused");
	free(deep);
	free(terms);
	free(most);
	free(word);
}

/* What a compiler must not take for a comparison of numbers, and how it is printed. */
static void test_tree(void)
{
	static const struct {
		const char *filter, *printed;
		bool by_text;
	} rows[] = {
		{"vcpu == 2", "vcpu == 2", false},
		{"vcpu & CPUS{0-3,7}", "vcpu & CPUS{0-3,7}", true},
		{"call_site.function == ext4_write", "call_site.function == \"ext4_write\"", true},
		{"flags & \"__GFP_IO|__GFP_IO\"", "flags & \"__GFP_IO|__GFP_IO\"", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct event_filter *filter;
		struct event_predicate *predicate;
		char text[100];

		if (event_filter_parse(rows[i].filter, &filter, NULL) ||
		    event_filter_bind(filter, &class, &names, &predicate, NULL))
			abort();
		event_predicate_print(predicate, event_predicate_root(predicate), text,
				      sizeof(text));
		is_str(text, rows[i].printed, "a predicate is printed as it can be written");
		ok(event_predicate_node(predicate, event_predicate_root(predicate)).by_text ==
			   rows[i].by_text,
		   "'%s' %s a comparison of numbers", rows[i].filter,
		   rows[i].by_text ? "is not" : "is");
		event_predicate_destroy(predicate);
		event_filter_destroy(filter);
	}
}

int main(void)
{
	test_tree();
	test_matches();
	test_foreign();
	test_own();
	test_errors();
	test_caps();
	return tap_done();
}
