/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/traps.h"

#include <errno.h>
#include <string.h>
#include "guest-symbols/image/mcount.h"
#include "patcher/text/patch-set.h"
#include "patcher/text/site.h"

/* --- the table ------------------------------------------------------------------------------- */

void trap_table_init(struct trap_table *table)
{
	u64_map_init(&table->by_gva, sizeof(struct trap));
}

void trap_table_deinit(struct trap_table *table)
{
	u64_map_deinit(&table->by_gva);
}

int trap_table_put(struct trap_table *table, const struct trap *trap, struct error *err)
{
	struct trap *slot = u64_map_insert(&table->by_gva, trap->gva, NULL);

	if (!slot)
		return error_set(err, ENOMEM, "out of memory");
	*slot = *trap;
	return 0;
}

void trap_table_remove(struct trap_table *table, uint64_t gva)
{
	u64_map_remove(&table->by_gva, gva);
}

struct trap *trap_table_find(const struct trap_table *table, uint64_t gva)
{
	return u64_map_find(&table->by_gva, gva);
}

/* --- one-shot traps -------------------------------------------------------------------------- */

enum { ENDBR_SIZE = 4 };
static const uint8_t oneshot_trap[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};

void oneshot_init(struct oneshots *oneshots, const struct kernel *kernel, struct trap_table *traps)
{
	*oneshots = (struct oneshots){.kernel = kernel, .traps = traps};
	u64_map_init(&oneshots->armed, 0);
}

void oneshot_deinit(struct oneshots *oneshots)
{
	u64_map_deinit(&oneshots->armed);
}

/* An ENDBR, and what the kernel makes of those that nothing needs (apply_seal_endbr() in
 * arch/x86/kernel/alternative.c): a NOP, since 6.15 another one. */
static bool is_endbr(const uint8_t *bytes)
{
	static const uint8_t forms[][ENDBR_SIZE] = {
		{0xf3, 0x0f, 0x1e, 0xfa}, {0x66, 0x0f, 0x1f, 0x00}, {0x0f, 0x1f, 0x40, 0xd6}};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (!memcmp(bytes, forms[i], ENDBR_SIZE))
			return true;
	return false;
}

uint64_t oneshot_place(const struct kernel *kernel, const char *function)
{
	const struct kernel_image *image = kernel->image;
	const uint64_t link = symbols_address(image->symbols, function);
	const uint8_t *bytes = kernel_image_bytes(image, link, ENDBR_SIZE);
	uint64_t site;

	if (!link)
		return 0;
	site = site_in_range(image->mcount_sites, image->nr_mcount_sites, link,
			     link + ENDBR_SIZE + 1);
	if (site)
		return kernel_gva(kernel, site + SITE_SIZE);
	return kernel_gva(kernel, bytes && is_endbr(bytes) ? link + ENDBR_SIZE : link);
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

static int write_text(void *kernel, uint64_t gva, const uint8_t *bytes, size_t size,
		      struct error *err)
{
	return kernel_write(kernel, gva, bytes, size, err);
}

static int take_trap_back(struct oneshots *oneshots, const struct trap *trap, struct error *err)
{
	const struct patch_place place = {trap->gva, GUEST_TRAP_SIZE, trap->original, oneshot_trap,
					  1};
	struct patch_outcome outcome = {0};
	uint8_t now[GUEST_TRAP_SIZE];
	int ret;

	if (has_breaks(oneshots))
		return kernel_set_break(oneshots->kernel, trap->gva, false, err);
	ret = kernel_read(oneshots->kernel, trap->gva, now, sizeof(now), err);
	return ret ? ret
		   : patch_place_restore(&place, now, write_text, (void *)oneshots->kernel,
					 &outcome, err);
}

/* What stands there, and the trap in the table. */
static int add_trap(struct oneshots *oneshots, struct trap *trap, struct error *err)
{
	int ret = kernel_read(oneshots->kernel, trap->gva, trap->original, sizeof(trap->original),
			      err);

	return ret ? ret : trap_table_put(oneshots->traps, trap, err);
}

int oneshot_arm(struct oneshots *oneshots, uint64_t gva, oneshot_fn *fn, void *arg,
		struct error *err)
{
	struct trap trap = {.gva = gva, .kind = TRAP_ONESHOT, .fn = fn, .arg = arg};
	int ret;

	if (u64_map_find(&oneshots->armed, gva))
		return 0;
	if (trap_table_find(oneshots->traps, gva))
		return error_set_at(err, EBUSY, gva, "a trap is there already");
	if (oneshots->armed.count == ONESHOTS_MAX)
		return error_set_at(err, ENOSPC, gva, "too many one-shot traps");
	if (!u64_map_insert(&oneshots->armed, gva, NULL))
		return error_set(err, ENOMEM, "out of memory");
	ret = add_trap(oneshots, &trap, err);
	if (ret)
		goto forget;
	ret = put_trap(oneshots, gva, err);
	if (ret)
		goto remove_trap;
	return 0;

remove_trap:
	trap_table_remove(oneshots->traps, gva);
forget:
	u64_map_remove(&oneshots->armed, gva);
	return ret;
}

/* With its gva out of `armed`; an error puts it back. */
static int disarm(struct oneshots *oneshots, uint64_t gva, struct error *err)
{
	const struct trap *trap = trap_table_find(oneshots->traps, gva);
	int ret = trap ? take_trap_back(oneshots, trap, err) : 0;

	if (!ret)
		trap_table_remove(oneshots->traps, gva);
	else
		u64_map_insert(&oneshots->armed, gva, NULL);
	return ret;
}

int oneshot_disarm(struct oneshots *oneshots, uint64_t gva, struct error *err)
{
	return u64_map_remove(&oneshots->armed, gva) ? disarm(oneshots, gva, err) : 0;
}

int oneshot_disarm_all(struct oneshots *oneshots, struct error *err)
{
	struct u64_map armed = oneshots->armed;
	uint64_t gva;
	size_t pos = 0;
	int ret = 0;

	u64_map_init(&oneshots->armed, 0);
	while (u64_map_next(&armed, &pos, &gva)) {
		int one = disarm(oneshots, gva, ret ? NULL : err);

		ret = ret ? ret : one;
	}
	u64_map_deinit(&armed);
	return ret;
}

static void fire(struct oneshots *oneshots, uint64_t gva, struct guest_trap *hit)
{
	const struct trap *trap = trap_table_find(oneshots->traps, gva);
	struct trap copy;

	if (!trap || trap->kind != TRAP_ONESHOT)
		return;
	copy = *trap;
	/* after an error the vCPU comes to the trap again */
	if (!oneshot_disarm(oneshots, gva, NULL))
		copy.fn(copy.arg, hit);
}

void oneshot_fire(struct oneshots *oneshots, const struct trap *trap, struct guest_trap *hit)
{
	struct guest *guest = oneshots->kernel->guest;
	uint64_t gva = trap->gva;
	bool stopped = !guest->control->stop(guest, NULL);

	/* while this vCPU waited for its stop, another thread may have disarmed it */
	fire(oneshots, gva, hit);
	if (stopped)
		guest->control->resume(guest, NULL);
}

/* --- the first error ------------------------------------------------------------------------- */

enum first_error_state { FIRST_ERROR_NONE, FIRST_ERROR_WRITING, FIRST_ERROR_SET };

void first_error_set(struct first_error *first, const struct error *err)
{
	int none = FIRST_ERROR_NONE;

	if (!atomic_compare_exchange_strong(&first->state, &none, FIRST_ERROR_WRITING))
		return;
	first->error = *err;
	atomic_store_explicit(&first->state, FIRST_ERROR_SET, memory_order_release);
}

const struct error *first_error_get(const struct first_error *first)
{
	int state = atomic_load_explicit(&first->state, memory_order_acquire);

	return state == FIRST_ERROR_SET ? &first->error : NULL;
}
