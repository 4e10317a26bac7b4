/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_SITE_H
#define SONDE_TESTS_LIB_FAKE_SITE_H

#include "patcher/fetch/fetch.h"
#include "patcher/trampoline/trampoline.h"
#include "tests/lib/fake-cpu.h"

/*
 * A function on a fake CPU, number 1 of 2, whose site or return slot writes direct records into
 * rings of several groups: by shared code, which a site calls and a slot jumps to, or by a private
 * trampoline that writes them behind its own record; or whose NOP, in the middle of it, does so by
 * code of its own.
 */
enum fake_site_kind {
	FAKE_SHARED,
	FAKE_PRIVATE,
	FAKE_SHARED_RETURN,
	FAKE_PRIVATE_RETURN,
	FAKE_SITE_KINDS,
	FAKE_INSIDE = FAKE_SITE_KINDS
};
extern const char *const fake_site_kinds[FAKE_SITE_KINDS + 1];
enum { FAKE_GROUPS = 4, FAKE_SITE_ID = 100, FAKE_OWN_ID = 77 };

struct fake_group {
	struct fake_rings memory;
	struct trampoline_rings rings; /* of the groups 2 and 3 twice as large */
};

struct fake_site {
	enum fake_site_kind kind;
	struct fake_cpu *cpu;
	struct trampoline_kernel kernel;
	struct fake_group groups[FAKE_GROUPS], own;     /* own: of the private trampoline */
	struct direct_spec records[DIRECT_MAX_RECORDS]; /* the caller's to fill in */
	size_t nr_records;
	struct trampoline_spec spec; /* private: the caller may change it, too */
	/* made */
	struct fake_function function;
	struct shared_code shared;
	const struct slow_path *slow;
	uint64_t code_gva, tsc_before, tsc_after;
	uint8_t stack[FAKE_STACK];
};

/* The registers of arguments, by their numbers in struct fake_regs. */
extern const unsigned int fake_argument_regs[CAPTURE_ARGUMENTS];
/* Of the running task; the pointers that lead to the id of its cgroup. */
enum { FAKE_CGROUP_STEPS = 3 };
extern uint32_t *const fake_site_pid, *const fake_site_tgid;
extern uint64_t *const fake_site_cgroup;
/* The lowest address of the stack of the running task, at whose end are so many bytes of a struct
 * pt_regs, and 16 bytes that are free. */
enum { FAKE_USER_REGS = 168 + 16 };
extern uint64_t *const fake_site_stack;
extern void **const fake_site_cgroup_path[FAKE_CGROUP_STEPS];

bool fake_site_is_shared(const struct fake_site *s);
bool fake_site_is_return(const struct fake_site *s);
/* All that its direct records can have. */
uint32_t fake_site_fields(const struct fake_site *s);

/* Rings and CPU. Then fill in records and generate; false with a diagnostic if that fails. */
void fake_site_init(struct fake_site *s, enum fake_site_kind kind);
bool fake_site_generate(struct fake_site *s);
/* A record with number i gets the id FAKE_SITE_ID + i. */
void fake_site_add(struct fake_site *s, unsigned int group, uint32_t fields,
		   enum trampoline_full full, const struct gate *gate);
void fake_site_deinit(struct fake_site *s);

/* Load random registers; cpu->in may then be changed. */
void fake_site_prepare(struct fake_site *s);
void fake_site_call(struct fake_site *s);
/* The same, single-stepped: instructions of the code, with the patched call or jump. */
int fake_site_count(struct fake_site *s);
/* Registers, flags and stack are as the function must find them. */
bool fake_site_preserved(const struct fake_site *s);

struct ring_header *fake_site_ring(const struct fake_group *group);
uint8_t *fake_site_data(const struct fake_group *group);
/* The group of record i. */
const struct fake_group *fake_site_group(const struct fake_site *s, unsigned int i);
/* What a register had in the last call, as a kprobe sees it. */
uint64_t fake_site_register(const struct fake_site *s, enum fetch_register reg);
/* Whether the last call wrote record i, whole, at this position of its ring. */
bool fake_site_recorded(const struct fake_site *s, unsigned int i, uint64_t position);
/* Zero all rings; each has `room` bytes left before its limit. */
void fake_site_clear(struct fake_site *s, uint64_t start, uint64_t room);

#endif
