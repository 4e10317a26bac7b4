/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_MODULE_H
#define SONDE_TESTS_LIB_FAKE_MODULE_H

#include <stdbool.h>
#include "tests/lib/fake-session.h"

/*
 * A module, "brd", that is loaded into a fake session's kernel. It has two functions, each with an
 * mcount site at its beginning:
 *
 *   brd_read()    returns by the return thunk (FAKE_MODULE_SLOT)
 *   brd_write()   returns by a `ret` with room for a jump (FAKE_MODULE_SLOT_2), or by a jump to
 *                 brd_read() (FAKE_MODULE_JUMP). What its list of return slots has as a third one
 * is a jump to __kmalloc() (FAKE_MODULE_NO_SLOT).
 */
#define FAKE_MODULE_TEXT UINT64_C(0xffffffffc0000000)

enum {
	FAKE_MODULE_FUNCTION = 0x100, /* bytes of one */
	FAKE_MODULE_SLOT = 0x20,
	FAKE_MODULE_SLOT_2 = FAKE_MODULE_FUNCTION + 0x20,
	FAKE_MODULE_JUMP = FAKE_MODULE_FUNCTION + 0x30,
	FAKE_MODULE_NO_SLOT = FAKE_MODULE_FUNCTION + 0x40,
	FAKE_MODULE_SLOT_SIZE = 5,

	/* in the image: do_init_module(), which has a site, and which FAKE_CALLER calls */
	FAKE_INIT_MODULE = 0x2180,
};

/* Give the kernel a module area, and do_init_module() if it is not inlined. No module is loaded. */
void fake_module_prepare(struct fake_session *fs, bool has_loader);

/* A session that records without exits, on such a kernel, with a loader. */
void fake_module_create_session(struct fake_session *fs, uint32_t ring_bytes);

/* Its text and its names, but not its sites yet: ftrace_module_init() with `disabled`, then
 * ftrace_module_enable(). load() is all of it. */
void fake_module_place(struct fake_session *fs);
void fake_module_list_sites(struct fake_session *fs, bool disabled);
void fake_module_load(struct fake_session *fs);
/* Also its memory, which free_text() takes alone. */
void fake_module_unload(struct fake_session *fs);
void fake_module_free_text(struct fake_session *fs);
/* Whether the kernel knows where its sections are. */
void fake_module_hide_sections(struct fake_session *fs, bool hide);
/* The kernel has these types of it (fake_put_module_btf()), until it is unloaded. */
void fake_module_put_types(struct fake_session *fs, const struct fake_struct *structs,
			   const char *const *prototypes);
/* It says that its text is elsewhere, with a return slot at its beginning. */
void fake_module_claim_text(struct fake_session *fs, uint64_t gva);
bool fake_module_is_mapped(struct fake_session *fs);

/* Its memory, mapped or not. */
uint8_t *fake_module_text(struct fake_session *fs, uint64_t offset);

/* Whether just these of its functions have calls at their sites. */
bool fake_module_is_recorded(struct fake_session *fs, bool brd_read, bool brd_write);
/* As fake_session_end(), also for the module's text. */
void fake_module_end(struct fake_session *fs);

#endif
