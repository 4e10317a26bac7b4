/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-breaks.h"

#include <errno.h>

static const uint64_t *find(const struct fake_breaks *breaks, uint64_t gva)
{
	for (size_t i = 0; i < FAKE_MAX_BREAKS; i++)
		if (breaks->gva[i] == gva)
			return &breaks->gva[i];
	return NULL;
}

bool fake_breaks_at(const struct fake_breaks *breaks, uint64_t gva)
{
	return find(breaks, gva);
}

unsigned int fake_breaks_count(const struct fake_breaks *breaks)
{
	unsigned int n = 0;

	for (size_t i = 0; i < FAKE_MAX_BREAKS; i++)
		n += breaks->gva[i] != 0;
	return n;
}

int fake_breaks_set(struct fake_breaks *breaks, uint64_t gva, bool on, struct error *err)
{
	const uint64_t *at = find(breaks, gva);

	if ((at != NULL) == on)
		return 0;
	if (on)
		at = find(breaks, 0);
	if (!at)
		return error_set_at(err, ENOSPC, gva, "too many breaks");
	breaks->gva[at - breaks->gva] = on ? gva : 0;
	return 0;
}
