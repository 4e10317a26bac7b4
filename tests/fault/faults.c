/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/fault/faults.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/fault/steps.h"

static atomic_ulong seen, due;
static _Atomic(const char *) failed;
static atomic_bool counting;
static const char *only; /* how the names of calls that count begin; NULL: all do */
static bool is_program;  /* its faults are those of steps */
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

bool fault_is_due_at(const char *name, const void *caller)
{
	unsigned long n;

	if (!atomic_load(&counting) || (only && strncmp(name, only, strlen(only))))
		return false;
	n = atomic_fetch_add(&seen, 1) + 1;
	if (is_program ? !steps_make(name, caller) : n != atomic_load(&due))
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
	steps_write(log);
	fclose(log);
}

static void __attribute__((constructor)) begin_program(void)
{
	const char *step = getenv("SONDE_FAULT"), *in = getenv("SONDE_FAULT_IN"),
		   *n = getenv("SONDE_FAULT_TIME");

	if (!step)
		return;
	is_program = true;
	only = getenv("SONDE_FAULT_ONLY");
	in_forked = in && !strcmp(in, "watchdog");
	steps_begin(step, n ? strtoul(n, NULL, 10) : 1);
	if (!in_forked)
		faults_begin(0);
	atexit(faults_write_log);
}

void faults_forked(void)
{
	faults_end();
	steps_forget();
	if (in_forked)
		faults_begin(0);
}
