// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * timed COMMAND [ARGUMENT...]: inside a guest, runs the command and prints how long it took by the
 * guest's clock: "sonde-timed: NANOSECONDS". With -icount a nanosecond is an instruction.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t begin = now_ns();
	int status;
	pid_t pid;

	if (argc < 2)
		return 2;
	pid = fork();
	if (pid == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		printf("sonde-timed: failed\n");
		return 1;
	}
	printf("sonde-timed: %" PRIu64 "\n", now_ns() - begin);
	return 0;
}
