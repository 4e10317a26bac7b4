/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The data of a comparison: what sonde diff says as JSON. */
#include <errno.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/cli/cli.h"
#include "formats/html/html.h"
#include "formats/html/page.h"

static int put_data(struct export_file *file, json_t *diff, const struct diff_options *options)
{
	json_t *dirs = json_pack("[oo]", json_from_text(options->dirs[0]),
				 json_from_text(options->dirs[1]));
	int ret;

	export_text(file, "{\"kind\":\"diff\",\n\"dirs\":");
	ret = page_put(file, dirs);
	export_text(file, ",\n\"diff\":");
	if (!ret)
		ret = page_put(file, json_incref(diff));
	export_text(file, "}");
	return ret;
}

static int write_page(struct export_file *file, json_t *diff, const struct diff_options *options,
		      struct error *err)
{
	char nonce[33];
	int ret = page_begin(file, nonce);

	if (!ret)
		ret = put_data(file, diff, options);
	if (ret)
		return error_set(err, -ret, "%s", strerror(-ret));
	page_end(file, nonce);
	return export_file_finish(file, err);
}

int html_diff(const char *verb, const struct replay_view views[2],
	      const struct diff_options *options, const struct html_target *target)
{
	struct export_file *file = NULL;
	json_t *diff = NULL;
	struct error err;
	int ret = CLI_OK;

	if (export_file_create(target->path, target->replace, &file, &err))
		return cli_error(verb, &err);
	ret = diff_json_of(verb, views, options, &diff);
	if (!ret && write_page(file, diff, options, &err))
		ret = cli_error(verb, &err);
	json_decref(diff);
	export_file_destroy(file);
	return ret;
}
