/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/ctl/document.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "formats/base/json.h"
#include "vmm/ctl/connection.h"

enum { TIMEOUT_MS = 30 * 1000, MAX_BYTES = QMP_REPLY_MAX };

static int read_folder(const struct document_kind *kind, const char *dir, json_t **out,
		       struct error *err)
{
	char *path;
	int ret;

	if (asprintf(&path, "%s/%s", dir, kind->file) < 0)
		return error_set(err, ENOMEM, "out of memory");
	ret = json_read_file(path, MAX_BYTES, out, err);
	free(path);
	if (ret == -ENOENT)
		return error_set(
			err, ENOENT,
			"%s has no %s: it is written when a recording with --trace %s ends", dir,
			kind->what, kind->spec);
	return ret;
}

static int read_file(const struct document_kind *kind, const char *path, json_t **out,
		     struct error *err)
{
	int ret = json_read_file(path, MAX_BYTES, out, err);

	if (ret == -EINVAL)
		error_prefix(
			err,
			"neither a trace, nor a monitor's socket, nor a %s as --json prints it: ",
			kind->what);
	return ret;
}

int document_read(const struct document_kind *kind, const char *source, json_t **out,
		  struct error *err)
{
	struct stat st;

	if (stat(source, &st))
		return error_set(err, errno, "%s: %s", source, strerror(errno));
	if (S_ISSOCK(st.st_mode))
		return qmp_query(source, TIMEOUT_MS, kind->query, out, err);
	return S_ISDIR(st.st_mode) ? read_folder(kind, source, out, err)
				   : read_file(kind, source, out, err);
}
