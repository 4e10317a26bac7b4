// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * threads ROUNDS CGROUPS
 *
 * Threads of several processes, in cgroups: CGROUPS is where the hierarchy of version 2 is mounted,
 * with the cgroups `first` and `second`. Two processes of three threads each are in `first`, and
 * later in `second`; the one that starts them is in neither. Each thread has a name, and in each
 * cgroup prints "sonde-thread PID TGID CGROUP NAME" and reads ROUNDS times by pread64(). CGROUP is
 * the inode of the cgroup's directory, which is its id.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 2, THREADS = 3 };

static const char *cgroups;
static int rounds, zero;
static pthread_barrier_t barrier;

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static unsigned long cgroup_id(void)
{
	char line[256] = "", path[512];
	FILE *file = fopen("/proc/self/cgroup", "r");
	struct stat status;

	while (file && fgets(line, sizeof(line), file) && strncmp(line, "0::", 3) != 0)
		;
	check(file && !strncmp(line, "0::", 3), "/proc/self/cgroup");
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	snprintf(path, sizeof(path), "%s%s", cgroups, line + 3);
	check(!stat(path, &status), path);
	return status.st_ino;
}

static void move_to(const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/cgroup.procs", cgroups, name);
	fd = open(path, O_WRONLY);
	check(fd >= 0 && write(fd, "0", 1) == 1, path);
	close(fd);
}

/* What is printed is said before the reads, by which the events are counted. */
static void work(void)
{
	char name[16], byte;

	prctl(PR_GET_NAME, name);
	printf("sonde-thread %ld %d %lu %s\n", syscall(SYS_gettid), getpid(), cgroup_id(), name);
	fflush(stdout);
	for (int i = 0; i < rounds; i++)
		check(pread(zero, &byte, 1, 0) == 1, "pread");
}

static void *run(void *arg)
{
	prctl(PR_SET_NAME, arg);
	work();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	work();
	return NULL;
}

/* Moves all of its threads while they wait. */
static void run_process(int number)
{
	char names[THREADS][16];
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	move_to("first");
	for (int i = 0; i < THREADS; i++) {
		snprintf(names[i], sizeof(names[i]), "worker %d/%d", number, i);
		check(!pthread_create(&threads[i], NULL, run, names[i]), "thread");
	}
	pthread_barrier_wait(&barrier);
	move_to("second");
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	exit(0);
}

int main(int argc, char **argv)
{
	int status;

	if (argc != 3)
		return 2;
	rounds = atoi(argv[1]);
	cgroups = argv[2];
	zero = open("/dev/zero", O_RDONLY);
	check(zero >= 0, "/dev/zero");
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		check(pid >= 0, "fork");
		if (!pid)
			run_process(i);
	}
	work();
	for (int i = 0; i < PROCESSES; i++)
		check(wait(&status) > 0 && status == 0, "a process");
	return 0;
}
