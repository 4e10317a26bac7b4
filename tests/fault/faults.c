/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fault/faults.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_ulong seen, due;
static _Atomic(const char *) failed;
static atomic_bool counting;
static const char *only; /* how the names of calls that count begin; NULL: all do */
static unsigned long forked_due;
static bool in_forked; /* not in the first process */

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
	if (!atomic_load(&counting) || (only && strncmp(name, only, strlen(only))) ||
	    atomic_fetch_add(&seen, 1) + 1 != atomic_load(&due))
		return false;
	atomic_store(&failed, name);
	return true;
}

/* --- a whole program -------------------------------------------------------------------------- */

void faults_write_log(void)
{
	const char *path = getenv("SONDE_FAULT_LOG"), *name = faults_failed();
	unsigned long calls = faults_end();
	FILE *log = path ? fopen(path, "a") : NULL;

	if (!log)
		return;
	fprintf(log, "%lu %s\n", calls, name ? name : "-");
	fclose(log);
}

static void __attribute__((constructor)) begin_program(void)
{
	const char *n = getenv("SONDE_FAULT"), *in = getenv("SONDE_FAULT_IN");

	if (!n)
		return;
	only = getenv("SONDE_FAULT_ONLY");
	in_forked = in && !strcmp(in, "watchdog");
	forked_due = strtoul(n, NULL, 10);
	if (!in_forked)
		faults_begin(forked_due);
	atexit(faults_write_log);
}

void faults_forked(void)
{
	faults_end();
	if (in_forked)
		faults_begin(forked_due);
}
