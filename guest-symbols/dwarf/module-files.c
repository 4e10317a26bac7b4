/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/dwarf/debug-file.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Debian's 6.1 has 4,000 modules; a kernel build has 60,000 files. */
enum { MAX_LOOKED_AT = 1 << 20, MAX_FILES = 1 << 16, MAX_NAME = 64 };

struct module_file {
	char name[MAX_NAME]; /* of the module: "snd_hda_intel" of "snd-hda-intel.ko" */
	char *path;
};

struct module_files {
	char root[PATH_MAX];
	struct module_file *all; /* in the order in which they are to be tried */
	size_t n, room;
};

/* False: it is not named as a module's is. */
static bool name_of(const char *file, char out[MAX_NAME])
{
	const char *end = strstr(file, ".ko");
	size_t n = end ? (size_t)(end - file) : 0;

	if (!n || n >= MAX_NAME || (strcmp(end, ".ko") != 0 && strcmp(end, ".ko.debug") != 0))
		return false;
	snprintf(out, MAX_NAME, "%.*s", (int)n, file);
	for (char *c = out; *c; c++)
		*c = *c == '-' ? '_' : *c;
	return true;
}

/* What there is no memory for is left out. */
static void add_file(struct module_files *files, const char *name, const char *path)
{
	if (files->n == files->room) {
		const size_t room = files->room ? 2 * files->room : 256;
		struct module_file *bigger =
			room <= MAX_FILES ? reallocarray(files->all, room, sizeof(*bigger)) : NULL;

		if (!bigger)
			return;
		files->all = bigger;
		files->room = room;
	}
	files->all[files->n].path = strdup(path);
	snprintf(files->all[files->n].name, MAX_NAME, "%s", name);
	files->n += files->all[files->n].path != NULL;
}

/* Links are not followed: /lib/modules/RELEASE has some to the source. */
static void add_folder(struct module_files *files, char *folder)
{
	char *const roots[] = {folder, NULL};
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT | FTS_COMFOLLOW, NULL);
	size_t left = MAX_LOOKED_AT;
	char name[MAX_NAME];
	const FTSENT *entry;

	while (walk && left-- && (entry = fts_read(walk))) {
		if ((entry->fts_info == FTS_F || entry->fts_info == FTS_NSOK) &&
		    name_of(entry->fts_name, name))
			add_file(files, name, entry->fts_path);
	}
	if (walk)
		fts_close(walk);
}

static void add_installed(struct module_files *files, const struct trace_info *info)
{
	static const char *const places[][2] = {
		{"/usr/lib/debug/lib/modules/", ""},
		{"/usr/lib/debug/usr/lib/modules/", ""},
		{"/lib/modules/", "/build"},
		{"/lib/modules/", ""},
	};
	char release[DEBUG_RELEASE_ROOM], path[2 * PATH_MAX];

	if (!debug_file_release(info, release))
		return;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s%s%s", files->root, places[i][0], release,
			 places[i][1]);
		add_folder(files, path);
	}
}

/* "debug/vmlinux": "debug". The whole system is no folder of a kernel's. */
static void add_beside(struct module_files *files, const char *kernel)
{
	char folder[PATH_MAX] = ".";
	const char *slash = strrchr(kernel, '/');

	if (slash == kernel || (slash && (size_t)(slash - kernel) >= sizeof(folder)))
		return;
	if (slash)
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - kernel), kernel);
	add_folder(files, folder);
}

struct module_files *module_files_create(const char *root, const char *kernel,
					 const struct trace_info *info)
{
	struct module_files *files = calloc(1, sizeof(*files));

	if (!files)
		return NULL;
	snprintf(files->root, sizeof(files->root), "%s", root);
	if (kernel)
		add_beside(files, kernel);
	add_installed(files, info);
	return files;
}

void module_files_destroy(struct module_files *files)
{
	for (size_t i = 0; files && i < files->n; i++)
		free(files->all[i].path);
	if (files)
		free(files->all);
	free(files);
}

int module_files_open(const struct module_files *files, const char *module, const char *id)
{
	int fd = -ENOENT;

	for (size_t i = 0; fd < 0 && i < files->n; i++) {
		if (!strcmp(files->all[i].name, module))
			fd = debug_file_open_id(files->all[i].path, id);
	}
	if (fd < 0 && *id)
		fd = debug_file_search_id(files->root, id);
	return fd < 0 ? -ENOENT : fd;
}
