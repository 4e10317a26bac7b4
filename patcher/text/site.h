/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_SITE_H
#define SONDE_PATCHER_TEXT_SITE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The bytes at a place that may be patched. There are two kinds: the mcount site at a function's
 * entry (5 bytes), and a return slot at one of its exits (5 bytes on kernels with return thunks, 6
 * where clang has put a prefix in front of the jump, 2 where a `ret` is followed by the INT3 of
 * straight-line-speculation hardening). Where there are no return thunks, a slot may begin in front
 * of the `ret` (function.h).
 */
enum { SITE_SIZE = 5, SLOT_MAX_SIZE = 6 };

enum site_state {
	SITE_CALL_FENTRY = 1, /* call __fentry__: before the guest's ftrace_init() */
	SITE_NOP,             /* one of the kernel's 5-byte NOPs */
	SITE_CALL_OTHER,      /* the guest's ftrace or livepatch calls a trampoline */
	SITE_JMP,             /* an optimised kprobe */
	SITE_INT3,            /* a kprobe, or text being poked */
	SITE_TRAP,            /* a trap that another tracer left behind */
	SITE_UNREADABLE,      /* freed text: its bytes are not known */
	SITE_UNKNOWN,
};

/* Classify the 5 bytes at `gva`; `fentry` is the gva of __fentry__ (0: any call is CALL_OTHER). */
enum site_state site_classify(const uint8_t bytes[SITE_SIZE], uint64_t gva, uint64_t fentry);

/* One line for a refusal: "taken by the guest's ftrace". */
const char *site_state_text(enum site_state state);

enum slot_state {
	SLOT_RET,       /* c3 and room for one byte of INT3 or more: size 2..5 */
	SLOT_JMP_THUNK, /* e9, or 2e e9, to a return thunk: size 5, or 6 */
	SLOT_EPILOGUE,  /* what leaves the frame, and the `ret` behind it: size 5..11 */
	SLOT_TRAP,
	SLOT_UNKNOWN,
};

struct slot {
	enum slot_state state;
	uint8_t size;     /* bytes that may be overwritten */
	uint8_t epilogue; /* SLOT_EPILOGUE: bytes in front of the `ret`; else 0 */
	uint64_t target;  /* SLOT_JMP_THUNK: the thunk */
};

/* Bytes of the slot that begins with these: of a jump with a prefix one more than of others. */
size_t slot_bytes(const uint8_t bytes[SITE_SIZE]);

/* Classify what stands at a function exit; `left` bytes of the function and its padding follow. */
struct slot slot_classify(const uint8_t *bytes, size_t left, uint64_t gva);

#endif
