/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread that looks at the disk while a trace ends. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/recorder/internal.h"

enum { SIGNALS = 1 << 1 | 1 << 14 }; /* SIGINT and SIGTERM, in a mask of /proc */

static unsigned int watchers;
static unsigned long long blocked;

static void look_at_thread(const char *number)
{
	char path[300], line[256], name[32] = "";
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", number);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status)) {
		sscanf(line, "Name: %31s", name);
		if (!strcmp(name, "sonde-disk") && sscanf(line, "SigBlk: %llx", &blocked) == 1)
			watchers++;
	}
	if (status)
		fclose(status);
}

static void look_at_threads(struct recorder *r)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;

	(void)r;
	while (tasks && (entry = readdir(tasks)))
		look_at_thread(entry->d_name);
	if (tasks)
		closedir(tasks);
}

int main(void)
{
	struct recorder r = {.patience_ms = 1000};

	recorder_use_disk(&r, look_at_threads);
	is_u64(watchers, 1, "a thread looks at the disk");
	ok((blocked & SIGNALS) == SIGNALS, "signals are left to the main thread: %llx", blocked);
	watchers = 0;
	look_at_threads(&r);
	is_u64(watchers, 0, "it ends");
	return tap_done();
}
