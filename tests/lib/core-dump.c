/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/core-dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* proc(5), smaps: "dd" among VmFlags is "do not dump". */
bool core_dump_has(const void *address)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	uintptr_t start, end;
	bool inside = false, has = true;
	char line[512];

	if (!smaps)
		abort();
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
			inside = (uintptr_t)address >= start && (uintptr_t)address < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			has = !strstr(line, " dd");
	}
	fclose(smaps);
	return has;
}
