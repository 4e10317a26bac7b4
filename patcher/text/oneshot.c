/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/oneshot.h"

#include <errno.h>
#include <string.h>
#include "patcher/text/site.h"

static const uint8_t oneshot_trap[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};
static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};

static uint64_t *find_armed(struct oneshots *oneshots, uint64_t gva)
{
	for (size_t i = 0; i < ONESHOTS_MAX; i++)
		if (oneshots->armed[i] == gva)
			return &oneshots->armed[i];
	return NULL;
}

static bool is_site(const struct kernel_image *image, uint64_t link)
{
	size_t low = 0, high = image->nr_mcount_sites;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (image->mcount_sites[mid] < link)
			low = mid + 1;
		else
			high = mid;
	}
	return low < image->nr_mcount_sites && image->mcount_sites[low] == link;
}

uint64_t oneshot_place(const struct kernel *kernel, const char *function)
{
	uint64_t link = symbols_address(kernel->image->symbols, function);
	const uint8_t *bytes = kernel_image_bytes(kernel->image, link, sizeof(endbr));

	if (!link)
		return 0;
	if (bytes && !memcmp(bytes, endbr, sizeof(endbr)))
		link += sizeof(endbr);
	if (is_site(kernel->image, link))
		link += SITE_SIZE;
	return kernel_gva(kernel, link);
}

static bool has_breaks(const struct oneshots *oneshots)
{
	return oneshots->kernel->guest->caps & GUEST_CAP_BREAK;
}

static int put_trap(struct oneshots *oneshots, uint64_t gva, struct error *err)
{
	if (has_breaks(oneshots))
		return kernel_set_break(oneshots->kernel, gva, true, err);
	return kernel_write(oneshots->kernel, gva, oneshot_trap, sizeof(oneshot_trap), err);
}

static void take_trap_back(struct oneshots *oneshots, const struct trap *trap)
{
	uint8_t now[GUEST_TRAP_SIZE];

	if (has_breaks(oneshots))
		kernel_set_break(oneshots->kernel, trap->gva, false, NULL);
	else if (!kernel_read(oneshots->kernel, trap->gva, now, sizeof(now), NULL) &&
		 !memcmp(now, oneshot_trap, sizeof(now)))
		kernel_write(oneshots->kernel, trap->gva, trap->original, sizeof(trap->original),
			     NULL);
}

int oneshot_arm(struct oneshots *oneshots, uint64_t gva, oneshot_fn *fn, void *arg,
		struct error *err)
{
	struct trap trap = {.gva = gva, .kind = TRAP_ONESHOT, .fn = fn, .arg = arg};
	uint64_t *slot;
	int ret;

	if (find_armed(oneshots, gva))
		return 0;
	if (trap_table_find(oneshots->traps, gva))
		return error_set_at(err, EBUSY, gva, "a trap is there already");
	slot = find_armed(oneshots, 0);
	if (!slot)
		return error_set_at(err, ENOSPC, gva, "too many one-shot traps");
	ret = kernel_read(oneshots->kernel, gva, trap.original, sizeof(trap.original), err);
	if (!ret)
		ret = trap_table_put(oneshots->traps, &trap, err);
	if (!ret)
		ret = put_trap(oneshots, gva, err);
	if (ret)
		trap_table_remove(oneshots->traps, gva);
	else
		*slot = gva;
	return ret;
}

void oneshot_disarm(struct oneshots *oneshots, uint64_t gva)
{
	const struct trap *trap = trap_table_find(oneshots->traps, gva);
	uint64_t *slot = find_armed(oneshots, gva);

	if (!slot || !trap)
		return;
	take_trap_back(oneshots, trap);
	trap_table_remove(oneshots->traps, gva);
	*slot = 0;
}

void oneshot_disarm_all(struct oneshots *oneshots)
{
	for (size_t i = 0; i < ONESHOTS_MAX; i++)
		if (oneshots->armed[i])
			oneshot_disarm(oneshots, oneshots->armed[i]);
}

static void fire(struct oneshots *oneshots, uint64_t gva, const struct guest_trap *hit)
{
	const struct trap *trap = trap_table_find(oneshots->traps, gva);
	struct trap copy;

	if (!trap || trap->kind != TRAP_ONESHOT)
		return;
	copy = *trap;
	oneshot_disarm(oneshots, gva);
	copy.fn(copy.arg, hit);
}

void oneshot_fire(struct oneshots *oneshots, const struct trap *trap, const struct guest_trap *hit)
{
	struct guest *guest = oneshots->kernel->guest;
	uint64_t gva = trap->gva;
	bool stopped = !guest->control->stop(guest, NULL);

	/* while this vCPU waited for its stop, another thread may have taken the hook away */
	fire(oneshots, gva, hit);
	if (stopped)
		guest->control->resume(guest, NULL);
}
