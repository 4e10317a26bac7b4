/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of a kernel image, for a trace that lacks their names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "guest-symbols/cmd.h"
#include "guest-symbols/image/kernel-image.h"

/* Without a build id on either side the banners are compared. */
static int check_same(const struct kernel_image *image, const struct trace_info *info,
		      struct error *err)
{
	char build_id[2 * sizeof(image->build_id) + 1] = "";

	hex_encode(build_id, image->build_id, image->build_id_size);
	if (build_id[0] && info->build_id[0]) {
		if (!strcmp(build_id, info->build_id))
			return 0;
		return error_set(err, EINVAL,
				 "not the kernel that was traced: its build id is %.16s, not %.16s",
				 build_id, info->build_id);
	}
	if (!strncmp(image->banner, info->banner, sizeof(info->banner) - 1))
		return 0;
	return error_set(err, EINVAL, "not the kernel that was traced, which is \"%.80s\"",
			 info->banner);
}

static int list_functions(const struct kernel_image *image, uint64_t slide,
			  struct sidecar_symbol *out, size_t *n)
{
	uint64_t last = 0;

	for (size_t i = 0; i < symbols_count(image->symbols); i++) {
		const struct symbol *symbol = symbols_at(image->symbols, i);

		if (symbol->address == last || !kernel_image_is_text(image, symbol->address))
			continue;
		last = symbol->address;
		symbol = symbols_covering(image->symbols, last);
		out[*n] = (struct sidecar_symbol){.address = last + slide,
						  .start = last + slide,
						  .size = symbol->size,
						  .name = strdup(symbol->name)};
		if (!out[*n].name)
			return -ENOMEM;
		out[*n].returned.bytes =
			kernel_image_returned(image, symbol->name, out[*n].returned.name,
					      sizeof(out[*n].returned.name));
		++*n;
	}
	return 0;
}

static int read_functions(const struct kernel_image *image, const struct trace_info *info,
			  struct sidecar_symbol **out, size_t *n, struct error *err)
{
	int ret = check_same(image, info, err);

	*n = 0;
	if (ret)
		return ret;
	*out = calloc(symbols_count(image->symbols) + 1, sizeof(**out));
	if (*out && !list_functions(image, (uint64_t)info->virt_slide, *out, n))
		return 0;
	while (*n)
		free((*out)[--*n].name);
	free(*out);
	return error_set(err, ENOMEM, "out of memory");
}

int kernel_functions(const char *path, const struct trace_info *info, struct sidecar_symbol **out,
		     size_t *n, struct error *err)
{
	struct kernel_image *image = NULL;
	int ret = kernel_image_open(path, NULL, &image, err);

	if (!ret) {
		ret = read_functions(image, info, out, n, err);
		if (ret)
			error_prefix(err, "%s: ", path);
	}
	kernel_image_destroy(image);
	return ret;
}
