/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/replay.h"
#include "vmm/top/part.h"

enum { PART_KMEM, PART_FUNCTIONS, PART_SYSCALLS, PART_STACKS, NR_PARTS };

static top_part_fn *const creators[NR_PARTS] = {[PART_KMEM] = top_kmem_create,
						[PART_FUNCTIONS] = top_functions_create,
						[PART_SYSCALLS] = top_syscalls_create,
						[PART_STACKS] = top_stacks_create};

struct top_trace {
	char *dir;
	struct replay_view view;
	struct replay replay;
	struct top_part *parts[NR_PARTS];
	size_t nr_streams; /* files of streams when it was opened */
};

/* 0: the folder cannot be read. */
static size_t count_streams(const char *dir)
{
	DIR *folder = opendir(dir);
	const struct dirent *entry;
	size_t n = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)))
		n += !strncmp(entry->d_name, "cpu", 3);
	closedir(folder);
	return n;
}

static void end_pass(struct top_trace *t)
{
	for (int i = 0; i < NR_PARTS; i++) {
		analysis_destroy(t->parts[i] ? &t->parts[i]->analysis : NULL);
		t->parts[i] = NULL;
	}
	replay_close(&t->replay);
	t->replay = (struct replay){0};
}

static int begin_pass(struct top_trace *t, struct error *err)
{
	int ret;

	t->nr_streams = count_streams(t->dir);
	ret = replay_open(&t->replay, t->dir, &t->view, err);
	if (!ret)
		ret = replay_select(&t->replay, err);
	for (int i = 0; !ret && i < NR_PARTS; i++)
		ret = creators[i](&t->replay, &t->parts[i], err);
	return ret;
}

int top_trace_open(const char *dir, struct top_trace **out, struct error *err)
{
	struct top_trace *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->view = REPLAY_ALL;
	t->view.follow = true;
	t->dir = strdup(dir);
	ret = t->dir ? begin_pass(t, err) : error_set(err, ENOMEM, "out of memory");
	if (ret)
		top_trace_close(t);
	else
		*out = t;
	return ret;
}

void top_trace_close(struct top_trace *t)
{
	if (!t)
		return;
	end_pass(t);
	free(t->dir);
	free(t);
}

/* Streams that come later are not followed: for them the trace is opened anew. */
static int look_for_streams(struct top_trace *t, struct error *err)
{
	if (count_streams(t->dir) == t->nr_streams)
		return 0;
	end_pass(t);
	return begin_pass(t, err);
}

int top_trace_sample(struct top_trace *t, struct top_model *model, struct error *err)
{
	struct analysis *analyses[NR_PARTS];
	int ret = look_for_streams(t, err);

	if (ret)
		return ret;
	for (int i = 0; i < NR_PARTS; i++)
		analyses[i] = &t->parts[i]->analysis;
	ret = replay_follow(&t->replay, analyses, NR_PARTS, err);
	ret = ret < 0 ? ret : 0;
	for (int i = 0; !ret && i < NR_PARTS; i++)
		ret = t->parts[i]->put(t->parts[i], model, err);
	return ret;
}

int top_trace_put_chains(struct top_trace *t, struct top_model *model, struct error *err)
{
	return t->parts[PART_STACKS]->put(t->parts[PART_STACKS], model, err);
}
