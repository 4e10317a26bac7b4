/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/oneshot.h"

#include <errno.h>
#include <string.h>
#include "patcher/text/site.h"

static const uint8_t hook_trap[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};
static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};

static uint64_t *find_armed(struct oneshots *hooks, uint64_t gva)
{
	for (size_t i = 0; i < HOOKS_MAX; i++)
		if (hooks->armed[i] == gva)
			return &hooks->armed[i];
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

static bool has_breaks(const struct oneshots *hooks)
{
	return hooks->kernel->guest->caps & GUEST_CAP_BREAK;
}

static int put_trap(struct oneshots *hooks, uint64_t gva, struct error *err)
{
	if (has_breaks(hooks))
		return kernel_set_break(hooks->kernel, gva, true, err);
	return kernel_write(hooks->kernel, gva, hook_trap, sizeof(hook_trap), err);
}

static void take_trap_back(struct oneshots *hooks, const struct trap *trap)
{
	uint8_t now[GUEST_TRAP_SIZE];

	if (has_breaks(hooks))
		kernel_set_break(hooks->kernel, trap->gva, false, NULL);
	else if (!kernel_read(hooks->kernel, trap->gva, now, sizeof(now), NULL) &&
		 !memcmp(now, hook_trap, sizeof(now)))
		kernel_write(hooks->kernel, trap->gva, trap->original, sizeof(trap->original),
			     NULL);
}

int oneshot_arm(struct oneshots *hooks, uint64_t gva, oneshot_fn *fn, void *arg, struct error *err)
{
	struct trap trap = {.gva = gva, .kind = TRAP_HOOK, .hook = fn, .hook_arg = arg};
	uint64_t *slot;
	int ret;

	if (find_armed(hooks, gva))
		return 0;
	if (trap_table_find(hooks->traps, gva))
		return error_set_at(err, EBUSY, gva, "a trap is there already");
	slot = find_armed(hooks, 0);
	if (!slot)
		return error_set_at(err, ENOSPC, gva, "too many one-shot traps");
	ret = kernel_read(hooks->kernel, gva, trap.original, sizeof(trap.original), err);
	if (!ret)
		ret = trap_table_put(hooks->traps, &trap, err);
	if (!ret)
		ret = put_trap(hooks, gva, err);
	if (ret)
		trap_table_remove(hooks->traps, gva);
	else
		*slot = gva;
	return ret;
}

void oneshot_disarm(struct oneshots *hooks, uint64_t gva)
{
	const struct trap *trap = trap_table_find(hooks->traps, gva);
	uint64_t *slot = find_armed(hooks, gva);

	if (!slot || !trap)
		return;
	take_trap_back(hooks, trap);
	trap_table_remove(hooks->traps, gva);
	*slot = 0;
}

void oneshot_disarm_all(struct oneshots *hooks)
{
	for (size_t i = 0; i < HOOKS_MAX; i++)
		if (hooks->armed[i])
			oneshot_disarm(hooks, hooks->armed[i]);
}

static void fire(struct oneshots *hooks, uint64_t gva, const struct guest_trap *hit)
{
	const struct trap *trap = trap_table_find(hooks->traps, gva);
	struct trap copy;

	if (!trap || trap->kind != TRAP_HOOK)
		return;
	copy = *trap;
	oneshot_disarm(hooks, gva);
	copy.hook(copy.hook_arg, hit);
}

void oneshot_fire(struct oneshots *hooks, const struct trap *trap, const struct guest_trap *hit)
{
	struct guest *guest = hooks->kernel->guest;
	uint64_t gva = trap->gva;
	bool stopped = !guest->control->stop(guest, NULL);

	/* while this vCPU waited for its stop, another thread may have taken the hook away */
	fire(hooks, gva, hit);
	if (stopped)
		guest->control->resume(guest, NULL);
}
