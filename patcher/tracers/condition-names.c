/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/condition-names.h"

#include "formats/event/kmem.h"
#include "guest-symbols/kmem/allocators.h"

static int flag(void *arg, const struct event_field *field, const char *name, uint64_t *value)
{
	const struct condition_names *n = arg;

	(void)field;
	return gfp_name_mask(n->info.gfp_names, n->info.nr_gfp_names, name, value);
}

static const char *flag_name(void *arg, const struct event_field *field, size_t number)
{
	const struct condition_names *n = arg;

	(void)field;
	return number < n->info.nr_gfp_names ? n->info.gfp_names[number].name : NULL;
}

static int any_flag(void *arg, const struct event_field *field, const char *name, uint64_t *value)
{
	(void)arg;
	(void)field;
	(void)name;
	*value = 0;
	return 0;
}

void condition_names_init(struct condition_names *n, const struct kernel_image *image)
{
	n->info.nr_gfp_names = 0;
	n->names = (struct event_names){.arg = n, .flag = any_flag};
	if (!image)
		return;
	gfp_names_read(image, &n->info);
	n->names.flag = flag;
	n->names.flag_name = flag_name;
}
