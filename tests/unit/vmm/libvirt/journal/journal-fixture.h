/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_VMM_LIBVIRT_JOURNAL_JOURNAL_FIXTURE_H
#define SONDE_TESTS_UNIT_VMM_LIBVIRT_JOURNAL_JOURNAL_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/journal/journal.h"

enum { NOBODY = 65534 };

static const char uuid[] = "096ac222-3dde-4d48-89b6-8842d1b1d526";
static char runtime[] = "/tmp/sonde-journal-XXXXXX";

/* Journals are in a runtime folder of this test's own. */
static inline void make_folder(void)
{
	if (!mkdtemp(runtime) || setenv("XDG_RUNTIME_DIR", runtime, 1))
		abort();
}

/* As root, the journals would be in /run. */
static inline void become_nobody(void)
{
	if (!geteuid() && (chown(runtime, NOBODY, NOBODY) || setgid(NOBODY) || setuid(NOBODY)))
		abort();
}

static inline void remove_folder(void)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "%s/sonde", runtime);
	rmdir(folder);
	rmdir(runtime);
}

#endif
