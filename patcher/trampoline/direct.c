/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Direct records: several tracers' records about one call, or about its return. */
#include "patcher/trampoline/code.h"

#include <errno.h>
#include <inttypes.h>
#include "patcher/fetch/fetch.h"
#include "patcher/probe/gate.h"

enum { RETURN_ADDRESS = 8 }; /* from RSP: above the flags */

/* At returns the registers of arguments hold others. */
static int check_gate(const struct gate *gate, enum probe_point point, struct error *err)
{
	const uint32_t arguments = gate_source_bit(GATE_ARG5) * 2 - gate_source_bit(GATE_ARG0);
	int ret = gate_check(gate, err);

	if (!ret && point == POINT_INSIDE &&
	    gate_sources(gate) & (gate_source_bit(GATE_CALL_SITE) | gate_syscall_sources))
		return error_set(err, EINVAL, "a gate asks for what is known at an entry only");
	if (!ret && point == POINT_RETURN && gate_sources(gate) & arguments)
		return error_set(err, EINVAL, "a gate asks for what a return does not have");
	if (!ret && point != POINT_RETURN && gate_sources(gate) & gate_source_bit(GATE_RESULT))
		return error_set(err, EINVAL, "a gate asks for what is known at a return only");
	return ret;
}

/* Inside of a function nothing says where its frame is. */
static uint32_t possible_fields(enum probe_point point)
{
	if (point == POINT_INSIDE)
		return DIRECT_TASK_FIELDS;
	return point == POINT_RETURN ? DIRECT_RETURN_FIELDS : DIRECT_ENTRY_FIELDS;
}

static int check_record(const struct direct_spec *spec, enum probe_point point, struct error *err)
{
	const uint32_t fields = possible_fields(point);
	int ret = ring_code_check(&spec->rings, err);

	if (ret)
		return ret;
	if (spec->fields & ~fields)
		return error_set(err, EINVAL, "impossible fields of a direct record: %#x",
				 spec->fields);
	if (spec->fetching != (uint64_t)(int64_t)(int32_t)spec->fetching)
		return error_set(err, EINVAL,
				 "no code can say there that it reads memory: %#" PRIx64,
				 spec->fetching);
	if (spec->id >= RING_COMMITTED)
		return error_set(err, EINVAL, "a record's id is too large: %#x", spec->id);
	if (spec->count && point == POINT_INSIDE)
		return error_set(err, EINVAL, "only calls and returns can be counted");
	if (spec->count)
		ret = count_check(spec->count, point, err);
	else if (spec->hist)
		ret = hist_check(spec->hist, spec->fetch, point, err);
	else if (spec->fetch)
		ret = fetch_check(spec->fetch, point, err);
	return ret || !spec->gate ? ret : check_gate(spec->gate, point, err);
}

int direct_check(const struct direct_spec *records, size_t n, enum probe_point point,
		 const struct trampoline_kernel *kernel, struct error *err)
{
	int ret = 0;

	if (n > DIRECT_MAX_RECORDS)
		return error_set(err, EINVAL, "%zu records of one call are too many", n);
	if (code_task_offsets(kernel) > INT32_MAX - DIRECT_COMM_SIZE)
		return error_set(err, EINVAL, "an offset in struct task_struct is too large: %#x",
				 code_task_offsets(kernel));
	for (size_t i = 0; !ret && i < n; i++)
		ret = check_record(&records[i], point, err);
	return ret;
}

/* At a return RAX holds the result. */
static enum asm_reg scratch(const struct direct_code *d)
{
	return d->point == POINT_RETURN ? ASM_RCX : ASM_RAX;
}

static void emit_stack_word(const struct direct_code *d, const struct ring_code *ring,
			    uint32_t from, size_t to)
{
	asm_load(d->a, ASM_32, scratch(d), asm_at(ASM_RSP, from + d->pushed));
	asm_store(d->a, ASM_32, ring_record_at(ring, to), scratch(d));
}

static void emit_ip(const struct direct_code *d, const struct ring_code *ring)
{
	size_t to = offsetof(struct direct_record, ip);

	if (d->point == POINT_RETURN)
		return;
	if (d->ip)
		asm_store_constant(d->a, ASM_32, ring_record_at(ring, to), (uint32_t)d->ip);
	else
		emit_stack_word(d, ring, RETURN_ADDRESS, to);
}

static void emit_task_word(const struct direct_code *d, const struct ring_code *ring,
			   enum asm_width width, uint32_t from, size_t to)
{
	code_load_task_word(d->a, width, scratch(d), d->kernel, from);
	asm_store(d->a, width, ring_record_at(ring, to), scratch(d));
}

static void emit_cgroup(const struct direct_code *d, const struct ring_code *ring, size_t to)
{
	code_load_cgroup(d->a, scratch(d), d->kernel);
	asm_store(d->a, ASM_64, ring_record_at(ring, to), scratch(d));
}

static void emit_frame(const struct direct_code *d, const struct ring_code *ring, size_t to)
{
	const uint32_t above = d->caller_at + d->pushed - DIRECT_FRAME_BIAS;

	if (above)
		asm_lea(d->a, scratch(d), asm_at(ASM_RSP, above));
	asm_store(d->a, ASM_64, ring_record_at(ring, to), above ? scratch(d) : ASM_RSP);
}

/* The parameter points to the task's kernel stack, which is there. */
static void emit_syscall(const struct direct_code *d, const struct ring_code *ring, size_t to,
			 bool ia32)
{
	/* bx, cx, dx, si, di, bp in struct pt_regs, arch/x86/include/asm/ptrace.h */
	static const uint8_t ia32_places[DIRECT_SYSCALL_ARGS] = {40, 88, 96, 104, 112, 32};

	for (unsigned int i = 0; i < DIRECT_SYSCALL_ARGS; i++) {
		const uint8_t from =
			ia32 ? ia32_places[i] : gate_syscall_place(GATE_SYSCALL_ARG0 + i);

		asm_load(d->a, ASM_64, scratch(d), asm_at(ASM_RDI, from));
		asm_store(d->a, ASM_64, ring_record_at(ring, to + i * sizeof(uint64_t)),
			  scratch(d));
	}
}

static void emit_stack(const struct direct_code *d, const struct ring_code *ring,
		       const struct direct_layout *layout)
{
	const struct stack_code code = {.a = d->a,
					.kernel = d->kernel,
					.ring = ring,
					.caller_at = d->caller_at + d->pushed,
					.to = layout->stack,
					.words = layout->stack_words,
					.keep_rax = d->point == POINT_RETURN};

	stack_emit(&code);
}

static void emit_task(const struct direct_code *d, const struct ring_code *ring, uint32_t fields,
		      const struct direct_layout *layout)
{
	if (fields & DIRECT_PID)
		emit_task_word(d, ring, ASM_32, d->kernel->task_pid, layout->pid);
	if (fields & DIRECT_TGID)
		emit_task_word(d, ring, ASM_32, d->kernel->task_tgid, layout->tgid);
	for (uint32_t i = 0; fields & DIRECT_COMM && i < DIRECT_COMM_SIZE; i += sizeof(uint64_t))
		emit_task_word(d, ring, ASM_64, d->kernel->task_comm + i, layout->comm + i);
	if (fields & DIRECT_CGROUP)
		emit_cgroup(d, ring, layout->cgroup);
}

static void emit_fields(struct direct_code *d, const struct ring_code *ring, uint32_t fields,
			const struct direct_layout *layout)
{
	emit_ip(d, ring);
	if (fields & DIRECT_PARENT)
		emit_stack_word(d, ring, d->caller_at, layout->parent);
	emit_task(d, ring, fields, layout);
	if (fields & DIRECT_FRAME)
		emit_frame(d, ring, layout->frame);
	if (fields & DIRECT_RESULT)
		asm_store(d->a, ASM_64, ring_record_at(ring, layout->result), ASM_RAX);
	if (fields & DIRECT_SYSCALL)
		emit_syscall(d, ring, layout->syscall, fields & DIRECT_SYSCALL_IA32);
	if (fields & DIRECT_STACK)
		emit_stack(d, ring, layout);
}

/* R10 must be right wherever the code before goes on, so it does not depend on gates. */
static void emit_distance(struct direct_code *d, const struct ring_code *ring)
{
	uint32_t stride = ring_stride(ring->rings->data_bytes);

	if (d->stride != stride)
		ring_emit_distance(ring, d->kernel);
	d->stride = stride;
}

static struct count_code count_code(const struct direct_code *d, const struct direct_spec *spec)
{
	return (struct count_code){
		.a = d->a,
		.spec = spec->count,
		.data = spec->rings.gva + RING_HEADER_BYTES,
		.cpu = {ASM_NO_REG, ASM_NO_REG, d->kernel->cpu_number, true},
		.stride = ring_stride(spec->rings.data_bytes),
		.ip = d->ip,
		.site_at = d->pushed + RETURN_ADDRESS,
		.caller_at = d->caller_at + d->pushed,
	};
}

struct direct_layout direct_layout_of(uint32_t fields, const struct fetch_program *fetch)
{
	return direct_layout_with(fields, fetch ? fetch->bytes : 0,
				  fetch ? fetch_long_bytes(fetch) : 0);
}

/*
 * A call's time is from the end of its entry's record to the beginning of its return's, which are
 * paired by their frames. All others have their stamp right behind the reservation, and those with
 * much to copy: an NMI in between has records behind this one, whose stamps are earlier, so that
 * the host raises them.
 */
static bool stamp_is_last(const struct direct_code *d, const struct direct_spec *spec)
{
	return d->point == POINT_ENTRY && spec->fields & DIRECT_FRAME &&
	       !(spec->fields & DIRECT_STACK) && !spec->fetch;
}

static void emit_record(struct direct_code *d, const struct direct_spec *spec,
			struct ring_code *ring)
{
	const struct direct_layout layout = direct_layout_of(spec->fields, spec->fetch);

	if (spec->fetch)
		fetch_emit_read(d, spec, ring);
	ring_emit_check(ring);
	fetch_emit_size(d, spec->fetch, layout.size);
	ring_emit_reserve(ring);
	if (!stamp_is_last(d, spec))
		ring_emit_clock(ring);
	emit_fields(d, ring, spec->fields, &layout);
	if (spec->fetch)
		fetch_emit_store(d, ring, spec->fetch, layout.values);
	if (stamp_is_last(d, spec))
		ring_emit_clock(ring);
	ring_emit_commit(ring, spec->id);
	ring_emit_skip(ring);
	fetch_emit_end(d);
}

static void emit_count(struct direct_code *d, size_t i)
{
	d->counts[i] = count_code(d, &d->records[i]);
	count_emit(&d->counts[i]);
	d->stride = 0; /* R10 has changed */
	ring_emit_skip(&d->rings[i]);
}

static void emit_hist(struct direct_code *d, size_t i)
{
	d->hists[i] = (struct hist_code){.d = d,
					 .number = i,
					 .spec = d->records[i].hist,
					 .data = d->records[i].rings.gva + RING_HEADER_BYTES};
	hist_emit(&d->hists[i]);
	ring_emit_skip(&d->rings[i]);
}

/* What is called while the CPU reads memory for a record, and returns, is the tracer's doing. */
static void emit_guard(const struct direct_code *d, const struct direct_spec *spec,
		       struct asm_label *no)
{
	if (!spec->fetching)
		return;
	asm_compare_mem(d->a, asm_at(ASM_R10, (uint32_t)spec->fetching), 0);
	asm_jump_if(d->a, ASM_NE, no);
}

static void emit_event(struct direct_code *d, size_t i)
{
	const struct gate_code gate = {.a = d->a,
				       .kernel = d->kernel,
				       .scratch = scratch(d),
				       .caller_at = d->caller_at + d->pushed,
				       .point = d->point,
				       .saves = d};
	const struct direct_spec *spec = &d->records[i];
	const bool stops = spec->count && spec->count->action == COUNT_STOP;
	struct asm_label refused = {0};

	/* a count that stops does not use it, and none is left behind it; what did not begin does
	 * not stop */
	if (stops) {
		d->stride = 0;
	} else {
		emit_distance(d, &d->rings[i]);
		emit_guard(d, spec, &refused);
	}
	if (spec->gate)
		gate_emit(&gate, spec->gate, &refused);
	if (spec->count)
		emit_count(d, i);
	else if (spec->hist)
		emit_hist(d, i);
	else
		emit_record(d, spec, &d->rings[i]);
	asm_bind(d->a, &refused);
}

void direct_emit(struct direct_code *d)
{
	for (size_t i = 0; i < d->n; i++) {
		d->rings[i] = (struct ring_code){.a = d->a,
						 .rings = &d->records[i].rings,
						 .when_full = d->records[i].full,
						 .keep_rax = d->point == POINT_RETURN,
						 .keep_rdx = d->keep_rdx,
						 .out = &d->slow[i]};
		emit_event(d, i);
	}
}

void direct_emit_slow(struct direct_code *d)
{
	for (size_t i = 0; i < d->n; i++) {
		if (d->records[i].count) {
			count_emit_slow(&d->counts[i]);
			continue;
		}
		if (d->records[i].hist) {
			hist_emit_slow(&d->hists[i]);
			continue;
		}
		ring_emit_full(&d->rings[i]);
		ring_emit_lost(&d->rings[i]);
		asm_jump(d->a, &d->rings[i].skip);
	}
}
