/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Documents of JSON beside the streams of a trace. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/base/json.h"
#include "vmm/recorder/internal.h"

static char *text_of(json_t *document)
{
	if (!document || json_object_set_new(document, JSON_CHECKSUM_MARK, json_string("crc32c")))
		return NULL;
	return json_dump_with_checksum(document, JSON_INDENT(1));
}

int recorder_write_document(const char *dir, const char *name, json_t *document, struct error *err)
{
	char *text = text_of(document);
	const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char temporary[64];
	int ret = -ENOMEM;

	snprintf(temporary, sizeof(temporary), "%s.tmp", name);
	if (fd < 0)
		ret = -errno;
	else if (text)
		ret = file_replace(fd, name, temporary, text, strlen(text), FILE_VOLATILE);
	if (fd >= 0)
		close(fd);
	free(text);
	json_decref(document);
	return ret ? error_set(err, -ret, "cannot write %s/%s: %s", dir, name, strerror(-ret)) : 0;
}
