/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/helpers.h"

#include "guest-symbols/image/mcount.h"
#include "patcher/text/site.h"

/* Called behind their mcount sites. Linux 5.8 has renamed them; those before have the same
 * arguments and results. */
enum helper { READ_KERNEL, READ_USER, TEXT_KERNEL, TEXT_USER, NR_HELPERS };
enum { NR_NAMES = 2 };
static const char *const names[NR_HELPERS][NR_NAMES] = {
	[READ_KERNEL] = {"copy_from_kernel_nofault", "probe_kernel_read"},
	[READ_USER] = {"copy_from_user_nofault", "probe_user_read"},
	[TEXT_KERNEL] = {"strncpy_from_kernel_nofault", "strncpy_from_unsafe"},
	[TEXT_USER] = {"strncpy_from_user_nofault", "strncpy_from_unsafe_user"},
};

uint64_t helper_site_of(const struct kernel_image *image, uint64_t function)
{
	return site_in_range(image->mcount_sites, image->nr_mcount_sites, function,
			     function + HELPER_SITE_OFFSET + 1);
}

static const struct symbol *find_helper(const struct kernel *kernel, enum helper helper)
{
	const struct symbol *symbol = NULL;

	for (size_t i = 0; !symbol && i < NR_NAMES; i++)
		symbol = symbols_find(kernel->image->symbols, names[helper][i]);
	return symbol;
}

bool helper_is(const struct kernel *kernel, uint64_t gva)
{
	bool is = false;

	for (enum helper i = 0; i < NR_HELPERS; i++) {
		const struct symbol *symbol = find_helper(kernel, i);

		is |= symbol && kernel_gva(kernel, symbol->address) == gva;
	}
	return is;
}

/* The guest's ftrace, or this program, may have patched the site. */
static uint64_t behind_site(const struct kernel *kernel, enum helper helper)
{
	const struct symbol *symbol = find_helper(kernel, helper);
	const uint64_t site = symbol ? helper_site_of(kernel->image, symbol->address) : 0;

	if (site)
		return kernel_gva(kernel, site) + SITE_SIZE;
	return symbol ? kernel_gva(kernel, symbol->address) : 0;
}

struct fetch_helpers helpers_of(const struct kernel *kernel)
{
	return (struct fetch_helpers){
		.read_kernel = behind_site(kernel, READ_KERNEL),
		.read_user = behind_site(kernel, READ_USER),
		.text_kernel = behind_site(kernel, TEXT_KERNEL),
		.text_user = behind_site(kernel, TEXT_USER),
	};
}
