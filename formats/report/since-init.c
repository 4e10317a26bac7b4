/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/since-init.h"

#include <errno.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/trace/reader.h"

/* Linux 7.1 and later have it as free_reserved_page() and __free_reserved_area(); compilers split
 * off "NAME.part.0". */
static bool is_function(const char *name)
{
	static const char *const names[] = {"free_reserved_area", "free_reserved_page", NULL};

	name += strspn(name, "_");
	return text_begins_as(name, strcspn(name, "."), names);
}

/* The kernel frees the memory of its own initialisation last, then runs init (init/main.c). */
bool since_init_frees(const struct sidecar *sidecar, const struct kmem_record *record)
{
	return record->event_id == KMEM_EVENT_FREE && record->type_id == KMEM_TYPE_PAGES &&
	       is_function(sidecar_function_text(sidecar, record->call_site).s);
}

void since_init_begin(struct since_init *init)
{
	*init = (struct since_init){.ns = INT64_MIN};
}

/* Looking up a name takes longer than all that a pass does for a record otherwise. */
void since_init_note(struct since_init *init, const struct sidecar *sidecar,
		     const struct kmem_record *record)
{
	const size_t i = (record->call_site ^ record->call_site >> 8) % SINCE_INIT_ASKED;

	if (record->type_id != KMEM_TYPE_PAGES || !record->call_site)
		return;
	if (init->asked[i].call_site != record->call_site) {
		init->asked[i].call_site = record->call_site;
		init->asked[i].frees = since_init_frees(sidecar, record);
	}
	if (init->asked[i].frees && record->timestamp > init->ns)
		init->ns = record->timestamp;
}

bool since_init_is_known(const struct sidecar *sidecar)
{
	for (size_t i = 0; sidecar && i < sidecar->nr_symbols; i++)
		if (is_function(sidecar->symbols[i].name))
			return true;
	return false;
}

static int search(struct trace_reader *reader, const struct sidecar *names, int64_t *ns,
		  struct error *err)
{
	const struct sidecar *own = trace_reader_sidecar(reader);
	struct kmem_record record;
	struct event event;
	bool found = false;
	int ret;

	while ((ret = trace_reader_next(reader, &event, err)) > 0) {
		if (!kmem_record_of(&event, &record))
			continue;
		if (!since_init_frees(names, &record) && !since_init_frees(own, &record))
			continue;
		*ns = event.ns;
		found = true;
	}
	if (!ret && !found)
		ret = error_set(err, ENOENT,
				"--since init: no pages were freed by free_reserved_area(), so "
				"nothing says when init began");
	return ret;
}

/* Whether a free of such memory was the last one shows at the end. */
int since_init_find(const char *dir, const struct sidecar *names, int64_t *ns, struct error *err)
{
	struct trace_reader *reader;
	int ret = trace_reader_open(dir, &reader, err);

	if (ret)
		return ret;
	trace_reader_read_ahead(reader, TRACE_READER_ALL_CPUS);
	ret = search(reader, names, ns, err);
	trace_reader_close(reader);
	return ret;
}
