/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/graph/stacks.h"

enum {
	PAGE_BITS = 12,
	MAX_PAGES = 1 << 16, /* a guest's interrupts have four for each CPU */
};

/* Who uses a page. */
struct users {
	uint64_t last, before; /* tasks; the same one at first */
	bool shared;
};

void graph_stacks_init(struct graph_stacks *stacks)
{
	u64_map_init(&stacks->pages, sizeof(struct users));
}

void graph_stacks_deinit(struct graph_stacks *stacks)
{
	u64_map_deinit(&stacks->pages);
}

static struct users *users_of(struct graph_stacks *stacks, uint64_t frame, uint64_t task)
{
	const uint64_t page = frame >> PAGE_BITS;
	struct users *users = u64_map_find(&stacks->pages, page);

	if (users || stacks->pages.count >= MAX_PAGES)
		return users;
	users = u64_map_insert(&stacks->pages, page, NULL);
	if (users)
		*users = (struct users){.last = task, .before = task};
	return users;
}

void graph_stacks_note(struct graph_stacks *stacks, uint64_t frame, uint64_t task)
{
	struct users *users = users_of(stacks, frame, task);

	if (!users || users->last == task)
		return;
	users->shared |= users->before == task;
	users->before = users->last;
	users->last = task;
}

bool graph_stacks_is_shared(const struct graph_stacks *stacks, uint64_t frame)
{
	const struct users *users = u64_map_find(&stacks->pages, frame >> PAGE_BITS);

	return users && users->shared;
}
