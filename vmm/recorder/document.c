/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Documents of JSON beside the streams of a trace. */
#include <errno.h>
#include <stdlib.h>
#include "formats/base/json.h"
#include "vmm/recorder/internal.h"

static char *text_of(json_t *document)
{
	if (!document || json_object_set_new(document, JSON_CHECKSUM_MARK, json_string("crc32c")))
		return NULL;
	return json_dump_with_checksum(document, JSON_INDENT(1));
}

int recorder_write_document(struct trace_writer *writer, const char *name, json_t *document,
			    struct error *err)
{
	char *text = text_of(document);
	int ret = text ? trace_writer_put_document(writer, name, text, err)
		       : error_set(err, ENOMEM, "%s: out of memory", name);

	free(text);
	json_decref(document);
	return ret;
}
