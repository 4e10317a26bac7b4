/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fault/faults.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_ulong seen, due;
static _Atomic(const char *) failed;
static atomic_bool counting;
static char log_line[128];

void faults_begin(unsigned long n)
{
	atomic_store(&seen, 0);
	atomic_store(&failed, NULL);
	atomic_store(&due, n);
	atomic_store(&counting, true);
}

unsigned long faults_end(void)
{
	atomic_store(&counting, false);
	return atomic_load(&seen);
}

const char *faults_failed(void)
{
	return atomic_load(&failed);
}

bool fault_is_due(const char *name)
{
	if (!atomic_load(&counting) || atomic_fetch_add(&seen, 1) + 1 != atomic_load(&due))
		return false;
	atomic_store(&failed, name);
	return true;
}

/* --- a whole program -------------------------------------------------------------------------- */

static void write_log(void)
{
	const char *path = getenv("SONDE_FAULT_LOG"), *name = faults_failed();
	FILE *log = path ? fopen(path, "a") : NULL;

	if (!log)
		return;
	snprintf(log_line, sizeof(log_line), "%lu %s\n", atomic_load(&seen), name ? name : "-");
	fputs(log_line, log);
	fclose(log);
}

static void __attribute__((constructor)) begin_program(void)
{
	const char *n = getenv("SONDE_FAULT");

	if (!n)
		return;
	faults_begin(strtoul(n, NULL, 10));
	atexit(write_log);
}
