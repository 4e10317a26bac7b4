/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/identify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PAGES = 1 << 16,
	MAX_SITES = 1 << 20,
	MAX_RECORD = 256, /* sizeof(struct dyn_ftrace) is 16 */
	MAX_PAGE = 256,
	AT_ONCE = 128, /* records in one read */
};

/*
 * FTRACE_FL_DISABLED in struct dyn_ftrace's flags (include/linux/ftrace.h, the same in all
 * versions): ftrace_module_init() sets it, and ftrace_module_enable() clears it when the module's
 * text has its final permissions. In between, ftrace still expects its own bytes there.
 */
#define RECORD_DISABLED (UINT64_C(1) << 25)

struct layout {
	uint32_t next, records, index, page_size; /* struct ftrace_page */
	uint32_t ip, flags, record_size;          /* struct dyn_ftrace */
};

enum wanted {
	LINKS_OF_IMAGE,  /* link addresses of the image's sites */
	GVAS_OF_ALL,     /* gvas, without modules that are being loaded */
	GVAS_OF_MODULES, /* of these, those outside the image, which are counted only */
};

struct sites {
	struct address_list *out;
	size_t seen; /* modules' too */
	size_t in_image;
	enum wanted wanted;
};

static int get_field(const struct kernel *kernel, const char *structure, const char *member,
		     uint32_t width, uint32_t limit, uint32_t *out, struct error *err)
{
	struct btf_field field;
	int ret = btf_field(kernel->image->btf, structure, member, &field, err);

	if (ret)
		return ret;
	if (field.size != width || field.offset > limit || width > limit - field.offset)
		return error_set(err, ENOTSUP, "BTF: %s.%s has an unexpected size or place",
				 structure, member);
	*out = field.offset;
	return 0;
}

static int get_layout(const struct kernel *kernel, struct layout *out, struct error *err)
{
	const struct btf_types *btf = kernel->image->btf;
	int ret = kernel_image_check_btf(kernel->image, err);

	if (ret)
		return ret;
	out->page_size = btf_struct_size(btf, "ftrace_page");
	out->record_size = btf_struct_size(btf, "dyn_ftrace");
	if (!out->page_size || out->page_size > MAX_PAGE || !out->record_size ||
	    out->record_size > MAX_RECORD)
		return error_set(err, ENOTSUP, "BTF does not describe the kernel's mcount sites");
	ret = get_field(kernel, "ftrace_page", "next", 8, out->page_size, &out->next, err);
	if (!ret)
		ret = get_field(kernel, "ftrace_page", "records", 8, out->page_size, &out->records,
				err);
	if (!ret)
		ret = get_field(kernel, "ftrace_page", "index", 4, out->page_size, &out->index,
				err);
	if (!ret)
		ret = get_field(kernel, "dyn_ftrace", "ip", 8, out->record_size, &out->ip, err);
	return ret ? ret
		   : get_field(kernel, "dyn_ftrace", "flags", 8, out->record_size, &out->flags,
			       err);
}

static int add_site(struct sites *sites, uint64_t address, struct error *err)
{
	if (address_list_add(sites->out, address))
		return error_set(err, ENOMEM, "no memory for %zu sites", sites->out->n + 1);
	return 0;
}

static int add_record(const struct kernel *kernel, const struct layout *layout,
		      const uint8_t *record, struct sites *sites, struct error *err)
{
	uint64_t ip, flags;
	bool in_image;

	memcpy(&ip, record + layout->ip, sizeof(ip));
	memcpy(&flags, record + layout->flags, sizeof(flags));
	in_image = kernel_in_image(kernel, ip);
	sites->in_image += in_image;
	if (sites->wanted == LINKS_OF_IMAGE)
		return in_image ? add_site(sites, kernel_link(kernel, ip), err) : 0;
	if (in_image ? sites->wanted == GVAS_OF_MODULES : flags & RECORD_DISABLED)
		return 0;
	return add_site(sites, ip, err);
}

static int read_records(const struct kernel *kernel, const struct layout *layout, uint64_t gva,
			uint32_t nr, struct sites *sites, struct error *err)
{
	uint8_t records[AT_ONCE * MAX_RECORD];
	int ret = 0;

	if (nr > MAX_SITES - sites->seen)
		return error_set_at(err, EBADMSG, gva, "the kernel has too many mcount sites");
	sites->seen += nr;
	for (uint32_t done = 0, n; !ret && done < nr; done += n) {
		n = nr - done < AT_ONCE ? nr - done : AT_ONCE;
		ret = kernel_read(kernel, gva + (uint64_t)done * layout->record_size, records,
				  (size_t)n * layout->record_size, err);
		for (uint32_t i = 0; !ret && i < n; i++)
			ret = add_record(kernel, layout, records + i * layout->record_size, sites,
					 err);
	}
	return ret;
}

/* Whether these records, which are all of one module, are the image's. */
static bool is_of_image(const struct kernel *kernel, const struct layout *layout, uint64_t records)
{
	uint64_t ip;

	return !kernel_read(kernel, records + layout->ip, &ip, sizeof(ip), NULL) &&
	       kernel_in_image(kernel, ip);
}

static int read_page(const struct kernel *kernel, const struct layout *layout, uint64_t *page,
		     struct sites *sites, struct error *err)
{
	uint8_t bytes[MAX_PAGE];
	uint64_t records;
	int32_t nr;
	int ret = kernel_read(kernel, *page, bytes, layout->page_size, err);

	if (ret)
		return ret;
	memcpy(&records, bytes + layout->records, sizeof(records));
	memcpy(&nr, bytes + layout->index, sizeof(nr));
	if (nr < 0)
		return error_set_at(err, EBADMSG, *page, "the kernel's mcount sites are damaged");
	memcpy(page, bytes + layout->next, sizeof(*page));
	if (sites->wanted == GVAS_OF_MODULES && nr && is_of_image(kernel, layout, records)) {
		sites->in_image += (uint32_t)nr;
		return 0;
	}
	return read_records(kernel, layout, records, (uint32_t)nr, sites, err);
}

static int read_chain(const struct kernel *kernel, struct sites *sites, struct error *err)
{
	uint64_t start = kernel_symbol(kernel, "ftrace_pages_start"), page = 0;
	struct layout layout;
	int ret;

	if (!start)
		return error_set(err, ENOTSUP,
				 "the kernel has no mcount sites (CONFIG_DYNAMIC_FTRACE)");
	ret = get_layout(kernel, &layout, err);
	if (!ret)
		ret = kernel_read(kernel, start, &page, sizeof(page), err);
	if (!ret && !page)
		ret = error_set_at(err, EAGAIN, start,
				   "the kernel has not set up its mcount sites yet");
	for (int i = 0; !ret && page; i++) {
		ret = i < MAX_PAGES ? read_page(kernel, &layout, &page, sites, err)
				    : error_set_at(err, EBADMSG, page,
						   "the chain of mcount sites is endless");
	}
	if (!ret && !sites->out->n && sites->wanted != GVAS_OF_MODULES)
		ret = error_set(err, ENOTSUP, "the kernel's list of mcount sites is empty");
	return ret;
}

static int read_sites(const struct kernel *kernel, struct sites *sites, struct error *err)
{
	int ret = read_chain(kernel, sites, err);

	if (ret)
		address_list_deinit(sites->out);
	else
		address_list_sort(sites->out);
	return ret;
}

int ftrace_sites_read(const struct kernel *kernel, uint64_t **out, size_t *n, struct error *err)
{
	struct address_list list = {0};
	int ret = read_sites(kernel, &(struct sites){.out = &list, .wanted = LINKS_OF_IMAGE}, err);

	if (ret)
		return ret;
	*out = list.v;
	*n = list.n;
	return 0;
}

int ftrace_sites_read_all(const struct kernel *kernel, struct address_list *out, struct error *err)
{
	*out = (struct address_list){.budget = kernel->guest->budget};
	return read_sites(kernel, &(struct sites){.out = out, .wanted = GVAS_OF_ALL}, err);
}

/* --- what changes ----------------------------------------------------------------------------- */

int ftrace_census_take(struct ftrace_census *census, const struct kernel *kernel, struct error *err)
{
	struct sites sites = {.out = &census->modules, .wanted = GVAS_OF_MODULES};
	int ret;

	*census = (struct ftrace_census){.modules.budget = kernel->guest->budget};
	ret = read_sites(kernel, &sites, err);
	census->in_image = sites.in_image;
	return ret;
}

void ftrace_census_deinit(struct ftrace_census *census)
{
	address_list_deinit(&census->modules);
	*census = (struct ftrace_census){0};
}

bool ftrace_census_is_same(const struct ftrace_census *a, const struct ftrace_census *b)
{
	return a->in_image == b->in_image && address_list_is_same(&a->modules, &b->modules);
}
