/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/calls/durations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void durations_deinit(struct durations *d)
{
	free(d->parts);
	*d = (struct durations){0};
}

/* Durations below 16 ns are the first "power", each a part of its own. */
static unsigned int power_of(uint64_t ns)
{
	return ns < DURATION_PARTS ? 0
				   : 64 - (unsigned int)__builtin_clzll(ns) - DURATION_PARTS_BITS;
}

static unsigned int part_of(uint64_t ns, unsigned int power)
{
	return (unsigned int)(ns >> (power ? power - 1 : 0)) & (DURATION_PARTS - 1);
}

/* The greatest duration of a part. */
static uint64_t part_end(unsigned int power, unsigned int part)
{
	if (!power)
		return part;
	return (((uint64_t)DURATION_PARTS + part) << (power - 1)) +
	       ((UINT64_C(1) << (power - 1)) - 1);
}

static unsigned int nr_powers(uint64_t powers)
{
	return (unsigned int)__builtin_popcountll(powers);
}

static int add_power(struct durations *d, unsigned int power)
{
	const uint64_t bit = UINT64_C(1) << power;
	const unsigned int n = nr_powers(d->powers), at = nr_powers(d->powers & (bit - 1));
	uint32_t(*parts)[DURATION_PARTS] = reallocarray(d->parts, n + 1, sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	memmove(parts + at + 1, parts + at, (n - at) * sizeof(*parts));
	memset(parts + at, 0, sizeof(*parts));
	d->parts = parts;
	d->powers |= bit;
	return 0;
}

/* Room for durations of the power; -ENOSPC: there is none left. */
static int make_room(struct durations *d, unsigned int power, size_t *powers_left)
{
	int ret;

	if (d->powers & UINT64_C(1) << power)
		return 0;
	if (!*powers_left)
		return -ENOSPC;
	ret = add_power(d, power);
	*powers_left -= !ret;
	return ret;
}

int durations_add(struct durations *d, uint64_t ns, size_t *powers_left)
{
	const unsigned int power = power_of(ns);
	const int ret = make_room(d, power, powers_left);

	if (ret == -ENOMEM)
		return ret;
	d->n++;
	d->total_ns += ns;
	d->max_ns = ns > d->max_ns ? ns : d->max_ns;
	if (!ret)
		d->parts[nr_powers(d->powers & ((UINT64_C(1) << power) - 1))][part_of(ns, power)]++;
	return 0;
}

uint64_t durations_percentile(const struct durations *d, unsigned int percent)
{
	const double wanted = (double)d->n * percent / 100;
	uint64_t left = d->powers, sum = 0;

	if (!d->n)
		return 0;
	for (size_t i = 0; left; i++, left &= left - 1) {
		const unsigned int power = (unsigned int)__builtin_ctzll(left);

		for (unsigned int part = 0; part < DURATION_PARTS; part++) {
			const uint64_t end = part_end(power, part);

			sum += d->parts[i][part];
			if ((double)sum >= wanted)
				return end < d->max_ns ? end : d->max_ns;
		}
	}
	return d->max_ns;
}

uint64_t durations_mean(const struct durations *d)
{
	return d->n ? d->total_ns / d->n : 0;
}
