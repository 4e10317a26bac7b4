/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_DEAD_PROCESS_H
#define SONDE_TESTS_LIB_DEAD_PROCESS_H

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A process that is dead, and does not end, as one whose thread hangs in the kernel: SIGKILL has
 * killed it, and a debugger stops it on its way out. It keeps its descriptors.
 */

/* All of its threads are killed, and the first one is held. The others, as one of
 * ThreadSanitizer's, end a moment later. */
static inline void dead_process_await_others(pid_t pid)
{
	char path[64];
	size_t threads;

	snprintf(path, sizeof(path), "/proc/%d/task/*", pid);
	do {
		glob_t found = {0};

		glob(path, 0, NULL, &found);
		threads = found.gl_pathc;
		globfree(&found);
		usleep(1000);
	} while (threads > 1);
}

/* A child that does fn() before it is killed. NULL: nothing. */
static inline pid_t dead_process_start(void (*fn)(void))
{
	int done[2], status;
	pid_t pid;
	char c = 0;

	if (pipe(done))
		abort();
	pid = fork();
	if (!pid) {
		/* its user may have changed */
		prctl(PR_SET_DUMPABLE, 1);
		if (fn)
			fn();
		if (write(done[1], &c, 1) != 1)
			_exit(99);
		for (;;)
			pause();
	}
	close(done[1]);
	if (pid < 0 || read(done[0], &c, 1) != 1 ||
	    ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) || kill(pid, SIGKILL) ||
	    waitpid(pid, &status, __WALL) != pid ||
	    status >> 8 != (SIGTRAP | PTRACE_EVENT_EXIT << 8))
		abort();
	close(done[0]);
	dead_process_await_others(pid);
	return pid;
}

/* Lets it end. It is a zombie then. */
static inline void dead_process_end(pid_t pid)
{
	siginfo_t info;

	if (ptrace(PTRACE_CONT, pid, NULL, NULL) ||
	    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT))
		abort();
}

static inline void dead_process_reap(pid_t pid)
{
	waitpid(pid, NULL, 0);
}

#endif
