/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Conditions of histograms on system calls: what guest and host decide of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/hist/hist.h"
#include "tests/lib/tap.h"

struct made {
	struct trace_spec spec;
	struct gate gate;
	struct hist_rest *rest;
};

static struct hist_syscalls *calls; /* without names */

static int make(struct made *m, const char *text, struct error *err)
{
	struct hist_fields fields;

	memset(m, 0, sizeof(*m));
	if (tracer_parse_spec(text, &m->spec, err))
		return -err->code;
	if (!calls && hist_syscalls_create(&m->spec, NULL, &calls, NULL))
		abort();
	hist_fields_of(&m->spec, tracer_source_of(&m->spec), NULL, calls, &fields);
	return hist_syscalls_rest(calls, &m->spec, &fields, &m->gate, &m->rest, err);
}

static void drop(struct made *m)
{
	hist_rest_destroy(m->rest);
	trace_spec_deinit(&m->spec);
}

static void refuses(const char *text, int code, unsigned int column, const char *why)
{
	const char *const specs[] = {text};
	struct error err = {0};
	struct made m;

	ok(make(&m, text, &err) == -code && err.column == column && strstr(err.text, why),
	   "'%s' is refused: %u: %s", text, err.column, err.text);
	drop(&m);
	ok(tracer_check_specs(specs, 1, &err) == -code, "no guest is needed for that");
}

static void test_guest(void)
{
	struct error err = {0};
	struct made m;

	ok(!make(&m, "syscalls:read,hist:keys=id if pid == 7 || vcpu < 2", &err) && !m.rest &&
		   m.gate.n == 2,
	   "the guest decides on pid and vCPU");
	drop(&m);
	ok(!make(&m, "syscalls:read,hist:keys=id if id == 0 && arg2 > 10000", &err) && !m.rest &&
		   m.gate.n == 2 && m.gate.terms[0].source == GATE_SYSCALL &&
		   m.gate.terms[1].source == GATE_SYSCALL_ARG0 + 2 && m.gate.terms[1].size == 8,
	   "and on what a call is given: %s", err.text);
	drop(&m);
	ok(!make(&m, "syscalls:read,hist:keys=id", &err) && !m.rest && !m.gate.n,
	   "without a condition nothing is left for the host");
	drop(&m);
}

/* A value for each of its operands, in their order. */
static bool matches(const struct made *m, unsigned int vcpu, uint64_t pid, uint64_t arg1,
		    const char *comm)
{
	uint64_t words[HIST_MAX_REST * HIST_OPERAND_WORDS] = {0};
	size_t n, k = 0;
	const struct hist_operand *o = hist_rest_operands(m->rest, &n);

	for (size_t i = 0; i < n; k += hist_operand_words(&o[i++])) {
		if (o[i].source == HIST_COMM)
			memcpy(&words[k], comm, strlen(comm));
		else
			words[k] = o[i].source == HIST_PID ? pid : arg1;
	}
	return hist_rest_matches(m->rest, vcpu, words);
}

static void test_host(void)
{
	struct error err = {0};
	char text[100];
	struct made m;
	size_t n;

	if (!ok(!make(&m,
		      "syscalls:read,hist:keys=stacktrace if tgid > 4 && "
		      "(arg1 & 0x100 || comm == \"sh\" && pid == 5 || vcpu == 3)",
		      &err),
		"the host decides on arguments and names: %s", err.text))
		return;
	hist_rest_operands(m.rest, &n);
	ok(m.gate.n == 1 && m.gate.terms[0].source == GATE_TGID && n == 3,
	   "what the guest knows it decides");
	hist_rest_print(m.rest, DECIDED_BY_GUEST, text, sizeof(text));
	is_str(text, "tgid > 4", "that is said");
	ok(matches(&m, 0, 1, 0x1ff, "a") && matches(&m, 0, 5, 0, "sh") && matches(&m, 3, 1, 0, "a"),
	   "calls of the condition match");
	ok(!matches(&m, 0, 5, 0xff, "a") && !matches(&m, 2, 4, 0, "sh"), "others do not");
	drop(&m);
}

static void test_equal(void)
{
	struct error err = {0};
	struct made a, b, c;

	ok(!make(&a, "syscalls:hist:keys=stacktrace if comm == a || arg1 == 1", &err) &&
		   !make(&b, "syscalls:hist:keys=stacktrace if comm == a || arg1 == 1", &err) &&
		   !make(&c, "syscalls:hist:keys=stacktrace if comm == a || arg2 == 1", &err),
	   "three conditions");
	ok(hist_rest_is_equal(a.rest, b.rest) && !hist_rest_is_equal(a.rest, c.rest) &&
		   !hist_rest_is_equal(a.rest, NULL) && hist_rest_is_equal(NULL, NULL),
	   "those are equal that take the same");
	drop(&a);
	drop(&b);
	drop(&c);
}

int main(void)
{
	test_guest();
	test_host();
	test_equal();
	refuses("syscalls:read,hist:keys=id if comm == \"a\"", ENOTSUP, 0,
		"with the key 'stacktrace' the host does");
	hist_syscalls_destroy(calls);
	return tap_done();
}
