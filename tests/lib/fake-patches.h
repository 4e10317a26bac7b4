/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_PATCHES_H
#define SONDE_TESTS_LIB_FAKE_PATCHES_H

#include "patcher/text/patch-set.h"
#include "patcher/text/site.h"
#include "tests/lib/fake-guest.h"

/* Sites of a fake guest, and patches for them. */

extern const uint8_t fake_patch_old[SITE_SIZE];    /* a site */
extern const uint8_t fake_patch_new[SITE_SIZE];    /* patched */
extern const uint8_t fake_patch_theirs[SITE_SIZE]; /* as the guest's ftrace may change it */

/* The patch of a site at an image offset. */
struct patch fake_patch_at(uint64_t offset);

/* A site in the text of the guest, and its patch in the set. Ends the program on failure. */
void fake_patch_put(struct fake_guest *fg, struct patch_set *set, uint64_t offset);

/* Whether a site has these bytes. */
bool fake_patch_is(struct fake_guest *fg, uint64_t offset, const uint8_t *bytes);

#endif
