/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histograms of system calls on real Debian kernels: the names of arguments. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory.
 */
#include <errno.h>
#include <string.h>
#include "patcher/tracers/hist/hist.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

/* The key of a spec, and what its condition is in the guest. */
static int make(const char *text, const struct kernel_image *image, struct hist_program *program,
		struct gate *gate, struct error *err)
{
	struct hist_syscalls *calls = NULL;
	struct hist_rest *rest = NULL;
	struct hist_fields fields;
	struct trace_spec spec;
	int ret = tracer_parse_spec(text, &spec, err);

	*gate = (struct gate){0};
	if (ret)
		return ret;
	ret = hist_syscalls_create(&spec, image, &calls, err);
	hist_fields_of(&spec, tracer_source_of(&spec), NULL, calls, &fields);
	if (!ret)
		ret = hist_make_program(&spec, &fields, program, NULL, err);
	if (!ret)
		ret = hist_syscalls_rest(calls, &spec, &fields, gate, &rest, err);
	hist_rest_destroy(rest);
	hist_syscalls_destroy(calls);
	trace_spec_deinit(&spec);
	return ret;
}

/* What is recorded at `at` of a struct pt_regs. */
static bool is_at(const struct hist_operand *o, int64_t at, uint8_t size)
{
	return o->source == HIST_POINTED && o->at == at && o->size == size;
}

static void test_returns(const struct kernel_image *image, const char *version)
{
	struct hist_program p;
	struct gate gate;
	struct error err = {0};

	ok(!make("syscalls:read,write,return,hist:keys=id,fd,ret:vals=ret if ret < 0 && fd == 3 && "
		 "vcpu == 1",
		 image, &p, &gate, &err) &&
		   is_at(&p.keys[0], 120, 8) && p.keys[0].reg == FETCH_USER_REGS &&
		   is_at(&p.keys[1], 112, 4) && p.keys[1].reg == FETCH_USER_REGS &&
		   p.keys[2].source == HIST_REGISTER && p.keys[2].reg == FETCH_AX &&
		   p.keys[2].is_signed && p.values[0].source == HIST_REGISTER,
	   "%s: a return has the call's number, arguments and result: %s", version, err.text);
	ok(gate.n == 3 && gate.terms[0].source == GATE_RESULT && gate.terms[0].is_signed &&
		   gate.terms[0].size == 8 && gate.terms[1].source == GATE_SYSCALL_ARG0 &&
		   gate.terms[2].source == GATE_VCPU,
	   "%s: conditions on these are the guest's", version);
	ok(!make("syscalls:return,hist:keys=stacktrace,id,ret if comm == sh || ret == -4 || id == "
		 "-1",
		 image, &p, &gate, &err) &&
		   !gate.n,
	   "%s: or the host's: %s", version, err.text);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	static const char *const refused[] = {"syscalls:hist:keys=count",
					      "syscalls:read,openat,hist:keys=count",
					      "syscalls:read,write,hist:keys=buff",
					      "syscalls:read,hist:keys=ids",
					      "syscalls:read,hist:keys=ret",
					      "syscalls:read,hist:keys=common_arg0",
					      "syscalls:hist:keys=stacktrace if ret == 3",
					      "syscalls:kill,hist:keys=sig if comon_pid == 3"};
	struct hist_program p;
	struct gate gate;
	struct error err = {0};

	/* of Documentation/trace/histogram.rst, on sys_enter_read */
	ok(!make("syscalls:read,hist:keys=common_pid.execname:vals=count:sort=count.descending if "
		 "count > 10000",
		 image, &p, &gate, &err) &&
		   is_at(&p.values[0], 96, 8) && gate.n == 1 &&
		   gate.terms[0].source == GATE_SYSCALL_ARG0 + 2 && !gate.terms[0].is_signed,
	   "%s: arguments have the kernel's names: %s", version, err.text);
	ok(!make("syscalls:read,write,hist:keys=fd,id:vals=arg1", image, &p, &gate, &err) &&
		   is_at(&p.keys[0], 112, 4) && is_at(&p.keys[1], 120, 8) &&
		   is_at(&p.values[0], 104, 8),
	   "%s: also of several calls that have them alike: %s", version, err.text);
	ok(!make("syscalls:kill,hist:keys=pid,common_pid if pid == -1 && common_pid > 4", image, &p,
		 &gate, &err) &&
		   is_at(&p.keys[0], 112, 4) && p.keys[0].is_signed &&
		   p.keys[1].source == HIST_PID && gate.n == 2 &&
		   gate.terms[0].source == GATE_SYSCALL_ARG0 && gate.terms[0].size == 4 &&
		   gate.terms[1].source == GATE_PID,
	   "%s: one may have the name of what is known of each event: %s", version, err.text);
	ok(!make("syscalls:prctl,hist:keys=arg2,common_arg2 if common_arg2 == 1 && arg2 == 2",
		 image, &p, &gate, &err) &&
		   is_at(&p.keys[0], 104, 8) && is_at(&p.keys[1], 96, 8) && gate.n == 2 &&
		   gate.terms[0].source == GATE_SYSCALL_ARG0 + 2 &&
		   gate.terms[1].source == GATE_SYSCALL_ARG0 + 1,
	   "%s: or of another one's number: %s", version, err.text);
	ok(!make("syscalls:quotactl,hist:keys=stacktrace,common_id,id if common_id == 179 || comm "
		 "== quota",
		 image, &p, &gate, &err) &&
		   is_at(&p.keys[1], 120, 8) && is_at(&p.keys[2], 96, 4),
	   "%s: or of the call's number: %s", version, err.text);
	test_returns(image, version);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const int ret = make(refused[i], image, &p, &gate, &err);

		ok((ret == -EINVAL || ret == -ENOENT) &&
			   tracer_check_image(refused[i], image, true, &err) == ret && err.column,
		   "%s: '%s' is refused: %s", version, refused[i], err.text);
	}
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
