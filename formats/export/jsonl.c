/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A JSON object per line for each event, as sonde events --json prints them. */
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

static void deinit(struct exporter *base)
{
	struct jsonl *j = (struct jsonl *)base;

	event_printer_destroy(j->printer);
}

static int init(struct exporter *base, struct error *err)
{
	struct jsonl *j = (struct jsonl *)base;

	return event_printer_create(base->input.file->fd, true, base->input.texts, &j->printer,
				    err);
}

const struct exporter_ops jsonl_exporter = {.size = sizeof(struct jsonl),
					    .init = init,
					    .event = put_event,
					    .finish = finish,
					    .deinit = deinit};
