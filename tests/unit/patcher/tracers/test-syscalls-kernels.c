/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest decides of system calls, on a real Debian kernel. Needs tests/testbed/fetch-kernel
 * to have run; $KERNELS_DIR names another directory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/syscalls.h"
#include "patcher/tracers/tracer.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { ELSEWHERE = 0x1000 };

struct made {
	struct trace_spec spec;
	struct tracer *tracer;
};

static void make(const struct kernel *kernel, const char *text, struct made *out)
{
	const struct tracer_context context = {.kernel = kernel};
	const struct trace_spec *spec = &out->spec;
	struct error err = {0};

	if (tracer_parse_spec(text, &out->spec, &err) ||
	    tracer_source_of(&out->spec)->create(&context, &spec, 1, &out->tracer, &err)) {
		tap_diag("%s: %s", text, err.text);
		abort();
	}
}

static void drop(struct made *m)
{
	m->tracer->ops->destroy(m->tracer);
	trace_spec_deinit(&m->spec);
}

static bool passes(const struct made *m, uint64_t call_site, uint64_t pid)
{
	struct gate_values values = {0};

	values.source[GATE_CALL_SITE] = call_site;
	values.source[GATE_PID] = pid;
	return gate_eval(m->tracer->ops->gate(m->tracer), &values);
}

static bool counts(const struct made *m, uint64_t call_site, uint64_t id)
{
	struct gate_values values = {0};

	values.source[GATE_CALL_SITE] = call_site;
	values.source[GATE_SYSCALL] = id;
	return gate_eval(m->tracer->ops->gate(m->tracer), &values);
}

/* Numbers of arch/x86/entry/syscalls/syscall_64.tbl. */
enum {
	READ,
	WRITE,
	OPEN,
	CLOSE,
	STAT,
	RT_SIGRETURN = 15,
	PREAD64 = 17,
	PWRITEV2 = 328,
	OPENAT = 257
};

/* Functions that several system calls end in tell by the number which of them returns. */
static void test_returns(const struct kernel *kernel, uint64_t caller)
{
	struct made m;

	make(kernel, "syscalls:return,hist:keys=id,ret", &m);
	ok(counts(&m, caller, READ) && counts(&m, caller, 1000) && !counts(&m, ELSEWHERE, READ),
	   "returns of all system calls are counted");
	drop(&m);
	make(kernel, "syscalls:openat,read,write,return,hist:keys=ret", &m);
	ok(counts(&m, caller, READ) && counts(&m, caller, WRITE) && counts(&m, caller, OPENAT) &&
		   !counts(&m, caller, OPEN) && !counts(&m, caller, PREAD64) &&
		   !counts(&m, caller, UINT64_MAX) && !counts(&m, ELSEWHERE, READ),
	   "or those of some, by their numbers");
	drop(&m);
	make(kernel, "syscalls:rt_sigreturn,close,return,hist:keys=ret", &m);
	ok(counts(&m, caller, CLOSE) && counts(&m, caller, RT_SIGRETURN) &&
		   counts(&m, caller, UINT64_MAX) && !counts(&m, caller, READ),
	   "that of rt_sigreturn has changed when it returns");
	drop(&m);
	make(kernel, "syscalls:!write,!newstat,return,hist:keys=ret", &m);
	ok(counts(&m, caller, READ) && counts(&m, caller, OPEN) && counts(&m, caller, CLOSE) &&
		   counts(&m, caller, PWRITEV2) && !counts(&m, caller, WRITE) &&
		   !counts(&m, caller, STAT),
	   "all but some take few comparisons");
	drop(&m);
}

static void refuses(const struct kernel_image *image, const char *text, int code,
		    unsigned int column, const char *why)
{
	struct error err = {0};

	ok(tracer_check_image(text, image, true, &err) == -code && err.column == column &&
		   strstr(err.text, why),
	   "'%.40s' is refused: %u: %s", text, err.column, err.text);
}

/* Every second one. */
static void test_apart(const struct kernel *kernel)
{
	const struct image_syscalls *calls;
	char text[4096] = "syscalls:";
	bool wanted = false;

	if (image_syscalls_of(kernel->image, SYSCALL_64, &calls, NULL))
		abort();
	for (uint64_t i = 0; i < 200; i++) {
		const char *name = image_syscall_name(kernel->image, calls, i);

		if (name && (wanted = !wanted))
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s,", name);
	}
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "return,hist:keys=ret");
	refuses(kernel->image, text, E2BIG, 10, "than the guest can compare: count those of all");
}

static bool decides(const struct made *m, enum tracer_decider decider, const char *wanted)
{
	char text[100];

	m->tracer->ops->conditions(m->tracer, &m->spec, decider, text, sizeof(text));
	return !strcmp(text, wanted);
}

static void test_conditions(const struct kernel *kernel, uint64_t caller)
{
	struct made m;

	make(kernel, "syscalls:openat", &m);
	ok(passes(&m, caller, 7) && !passes(&m, ELSEWHERE, 7) && decides(&m, DECIDED_BY_GUEST, ""),
	   "without a condition calls of all tasks are recorded");
	drop(&m);
	make(kernel, "syscalls:openat if pid == 7 || pid > 100", &m);
	ok(passes(&m, caller, 7) && passes(&m, caller, 101) && !passes(&m, caller, 8) &&
		   !passes(&m, ELSEWHERE, 7),
	   "a condition on pids holds beside that on callers");
	ok(decides(&m, DECIDED_BY_GUEST, "pid == 7 || pid > 100") &&
		   decides(&m, DECIDED_BY_HOST, ""),
	   "the guest decides it");
	drop(&m);
	make(kernel, "syscalls:openat,pid=7+8 if pid != 8", &m);
	ok(passes(&m, caller, 7) && !passes(&m, caller, 8) && !passes(&m, caller, 9),
	   "so do both at once");
	drop(&m);
}

int main(void)
{
	struct kernel_image *image = fetched_kernel_image("6.1");
	const struct kernel kernel = {.image = image};
	const struct image_syscalls *calls;

	if (!image) {
		tap_skip("6.1", "not fetched");
		return tap_done();
	}
	if (image_syscalls_of(image, SYSCALL_64, &calls, NULL) || !calls->nr_callers)
		abort();
	test_conditions(&kernel, kernel_gva(&kernel, calls->callers[0].address));
	test_returns(&kernel, kernel_gva(&kernel, calls->callers[0].address));
	test_apart(&kernel);
	image->nr_return_sites = 0;
	refuses(image, "syscalls:read,return,hist:keys=ret", ENOTSUP, 15,
		"no returns of this kernel can be counted");
	kernel_image_destroy(image);
	return tap_done();
}
