/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest decides of system calls, on a real Debian kernel. Needs tests/testbed/fetch-kernel
 * to have run; $KERNELS_DIR names another directory. */
#include <errno.h>
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
	    tracer_ops_of(&out->spec)->create(&context, &spec, 1, &out->tracer, &err)) {
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
	kernel_image_destroy(image);
	return tap_done();
}
