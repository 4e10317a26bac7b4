/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/helpers.h"

#include "guest-symbols/image/mcount.h"
#include "patcher/text/site.h"

/* Called behind their mcount sites. */
enum helper { READ_KERNEL, READ_USER, TEXT_KERNEL, TEXT_USER };
const char *const helper_names[NR_HELPERS] = {
	[READ_KERNEL] = "copy_from_kernel_nofault",
	[READ_USER] = "copy_from_user_nofault",
	[TEXT_KERNEL] = "strncpy_from_kernel_nofault",
	[TEXT_USER] = "strncpy_from_user_nofault",
};

uint64_t helper_site_of(const struct kernel_image *image, uint64_t function)
{
	return site_in_range(image->mcount_sites, image->nr_mcount_sites, function,
			     function + HELPER_SITE_OFFSET + 1);
}

/* The guest's ftrace, or this program, may have patched the site. */
static uint64_t behind_site(const struct kernel *kernel, const char *name)
{
	const struct symbol *symbol = symbols_find(kernel->image->symbols, name);
	const uint64_t site = symbol ? helper_site_of(kernel->image, symbol->address) : 0;

	if (site)
		return kernel_gva(kernel, site) + SITE_SIZE;
	return symbol ? kernel_gva(kernel, symbol->address) : 0;
}

struct fetch_helpers helpers_of(const struct kernel *kernel)
{
	return (struct fetch_helpers){
		.read_kernel = behind_site(kernel, helper_names[READ_KERNEL]),
		.read_user = behind_site(kernel, helper_names[READ_USER]),
		.text_kernel = behind_site(kernel, helper_names[TEXT_KERNEL]),
		.text_user = behind_site(kernel, helper_names[TEXT_USER]),
	};
}
