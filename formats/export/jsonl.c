/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A JSON object per line for each event, as sonde events --json prints them. */
#include <errno.h>
#include <stdlib.h>
#include "formats/export/export.h"

struct jsonl {
	struct exporter base;
	struct event_printer *printer;
};

static int put_event(struct exporter *base, const struct event *event)
{
	struct jsonl *j = (struct jsonl *)base;

	base->input.file->error = event_printer_put(j->printer, event);
	return 0;
}

static int finish(struct exporter *base, struct error *err)
{
	struct jsonl *j = (struct jsonl *)base;

	(void)err;
	if (!base->input.file->error)
		base->input.file->error = event_printer_flush(j->printer);
	return 0;
}

static void destroy(struct exporter *base)
{
	struct jsonl *j = (struct jsonl *)base;

	event_printer_destroy(j->printer);
	free(j);
}

static int create(const struct export_input *input, struct exporter **out, struct error *err)
{
	struct jsonl *j = calloc(1, sizeof(*j));
	int ret;

	if (!j)
		return error_set(err, ENOMEM, "out of memory");
	ret = event_printer_create(input->file->fd, true, input->texts, &j->printer, err);
	if (ret) {
		free(j);
		return ret;
	}
	*out = &j->base;
	return 0;
}

const struct exporter_ops jsonl_exporter = {
	.create = create, .event = put_event, .finish = finish, .destroy = destroy};
