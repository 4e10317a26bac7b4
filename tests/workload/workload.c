// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The work that test guests do while they are traced (see README.md):
 *
 *   workload [-n ITERATIONS] [-p PROCESSES]   one process pinned to each CPU in turn
 *            [-F]                             which fork no further ones
 *            [-O]                             which only use pipes and events of their own
 *            [-S]                             which only make 300 short system calls each time
 *            [-w]                             says when all are ready and when all are done, and
 *                                             waits for a line of standard input each time
 *   workload --marker begin|end               the markers of a window, on every CPU
 *
 * Deterministic: uses no random numbers and no clock, and does not depend on earlier runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/workload/marker.h"

#define MAX_PROCESSES 64
#define MAX_ITERATIONS 10000000

enum work { ALL, NO_FORKS, OWN, CALLS };

struct job {
	enum work work;
	unsigned long iterations;
	unsigned int processes;
	bool waits;
	/* If it waits, pipes to the first process and from it: one to begin, and one to end. */
	int up[2], begin[2], end[2];
};

static void check(bool pass, const char *what)
{
	if (pass)
		return;
	fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static void use_files(const char *folder)
{
	char path[64], other[80], data[1024];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(other, sizeof(other), "%s.renamed", path);
	memset(data, 'x', sizeof(data));
	check(mkdir(folder, 0700) == 0, folder);
	fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
	check(fd >= 0, path);
	check(write(fd, data, sizeof(data)) == sizeof(data), "write file");
	check(pread(fd, data, sizeof(data), 0) == sizeof(data), "read file");
	close(fd);
	check(rename(path, other) == 0 && stat(other, &st) == 0, "rename");
	fd = open(other, O_RDONLY);
	check(fd >= 0, other);
	close(fd);
	check(unlink(other) == 0 && rmdir(folder) == 0, "remove file");
}

static void use_pipes(void)
{
	char data[512] = "pipe";
	int ends[2];

	check(pipe(ends) == 0, "pipe");
	check(write(ends[1], data, sizeof(data)) == sizeof(data), "write pipe");
	check(read(ends[0], data, sizeof(data)) == sizeof(data), "read pipe");
	close(ends[0]);
	close(ends[1]);
}

/* Small kernels have no sockets at all. */
static bool has_sockets(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != ENOSYS;
}

static void use_unix_sockets(int type)
{
	char data[256] = "socket";
	int ends[2];

	check(socketpair(AF_UNIX, type, 0, ends) == 0, "socketpair");
	check(send(ends[0], data, sizeof(data), 0) == sizeof(data), "send");
	check(recv(ends[1], data, sizeof(data), 0) == sizeof(data), "recv");
	close(ends[0]);
	close(ends[1]);
}

/* If there is no loopback interface, the kernel still does the first half of this work. */
static void use_udp(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(to);
	char data[100] = "udp";
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	check(fd >= 0, "socket");
	if (bind(fd, (struct sockaddr *)&to, size) == 0 &&
	    getsockname(fd, (struct sockaddr *)&to, &size) == 0 &&
	    sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&to, size) == sizeof(data))
		check(recv(fd, data, sizeof(data), 0) == sizeof(data), "recv udp");
	close(fd);
}

static void use_sockets(void)
{
	use_unix_sockets(SOCK_STREAM);
	use_unix_sockets(SOCK_DGRAM);
	use_udp();
}

static void use_fork(void)
{
	pid_t pid = fork();
	int status;

	check(pid >= 0, "fork");
	if (pid == 0)
		_exit(0);
	check(waitpid(pid, &status, 0) == pid && status == 0, "wait");
}

static void use_memory(void)
{
	size_t size = 16 * 4096, at;
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(map != MAP_FAILED, "mmap");
	for (at = 0; at < size; at += 4096)
		map[at] = 1;
	/* Splits the mapping in three, so that it takes more than one vm_area_struct. */
	check(mprotect(map + size / 4, size / 4, PROT_READ) == 0, "mprotect");
	check(munmap(map, size) == 0, "munmap");
}

static void use_events(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int counter = eventfd(1, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	int set = epoll_create1(0);
	struct pollfd wait_for = {.fd = counter, .events = POLLIN};

	check(counter >= 0 && timer >= 0 && set >= 0, "eventfd, timerfd, epoll");
	check(epoll_ctl(set, EPOLL_CTL_ADD, counter, &event) == 0, "epoll_ctl");
	check(epoll_ctl(set, EPOLL_CTL_ADD, timer, &event) == 0, "epoll_ctl");
	check(epoll_wait(set, &event, 1, 0) == 1, "epoll_wait");
	check(poll(&wait_for, 1, 0) == 1, "poll");
	close(set);
	close(timer);
	close(counter);
}

/* They touch only what is the process's own, so that none waits for another process. */
static void make_calls(unsigned long iterations)
{
	int fd = open("/dev/zero", O_RDONLY);
	unsigned int i;

	check(fd >= 0, "/dev/zero");
	while (iterations--) {
		for (i = 0; i < 100; i++) {
			getppid();
			check(fcntl(fd, F_GETFD) == 0, "fcntl");
			check(lseek(fd, 0, SEEK_SET) == 0, "lseek");
		}
	}
	close(fd);
}

/* A process waits until all others have come here, too, and the first one lets them go on. */
static void meet(const struct job *job, const int *gate)
{
	char byte = 0;

	if (job->waits)
		check(write(job->up[1], &byte, 1) == 1 && read(gate[0], &byte, 1) == 1, "meet");
}

static void lead(const struct job *job, const int *gate, const char *what)
{
	char bytes[MAX_PROCESSES] = "";
	unsigned int i;

	if (!job->waits)
		return;
	for (i = 0; i < job->processes; i++)
		check(read(job->up[0], bytes, 1) == 1, "meet");
	printf("workload: %s\n", what);
	fflush(stdout);
	while (read(STDIN_FILENO, bytes, 1) == 1 && bytes[0] != '\n')
		;
	check(write(gate[1], bytes, job->processes) == (ssize_t)job->processes, "meet");
}

static void do_all(const char *own, unsigned long iterations, bool forks)
{
	bool sockets = has_sockets();
	char folder[40];

	snprintf(folder, sizeof(folder), "%s/files", own);
	while (iterations--) {
		use_files(folder);
		use_pipes();
		if (sockets)
			use_sockets();
		if (forks)
			use_fork();
		use_memory();
		use_events();
	}
}

/* Of all, what processes hardly ever wait for each other in. */
static void do_own(unsigned long iterations)
{
	while (iterations--) {
		use_pipes();
		use_events();
	}
}

static void run_process(unsigned int number, const struct job *job)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char own[32];

	check(pin_to((int)(number % (unsigned int)cpus)), "sched_setaffinity");
	snprintf(own, sizeof(own), "/tmp/workload.%u", number);
	/* Processes that change the same folder wait for each other. */
	check(mkdir(own, 0700) == 0, own);
	meet(job, job->begin);
	if (job->work == CALLS)
		make_calls(job->iterations);
	else if (job->work == OWN)
		do_own(job->iterations);
	else
		do_all(own, job->iterations, job->work == ALL);
	meet(job, job->end);
	check(rmdir(own) == 0, own);
	exit(0);
}

static int run(struct job *job)
{
	unsigned int i, failed = 0;
	int status;

	if (job->waits)
		check(pipe(job->up) == 0 && pipe(job->begin) == 0 && pipe(job->end) == 0, "pipe");
	for (i = 0; i < job->processes; i++) {
		pid_t pid = fork();

		check(pid >= 0, "fork");
		if (pid == 0)
			run_process(i, job);
	}
	lead(job, job->begin, "ready");
	lead(job, job->end, "done");
	for (i = 0; i < job->processes; i++)
		failed += wait(&status) < 0 || status != 0;
	printf("workload: %u processes, %lu iterations, %u failed\n", job->processes,
	       job->iterations, failed);
	return failed != 0;
}

static int mark(const char *kind)
{
	bool begin = strcmp(kind, "begin") == 0;

	if (!begin && strcmp(kind, "end") != 0) {
		fprintf(stderr, "workload: --marker takes begin or end, not '%s'\n", kind);
		return 2;
	}
	check(put_marker(begin, CPU_SETSIZE), "setgroups");
	return 0;
}

/* Reads a count between 1 and max; exits with status 2 on anything else. */
static unsigned long count_of(const char *text, unsigned long max)
{
	char *end;
	unsigned long count = strtoul(text, &end, 10);

	if (*end == '\0' && count >= 1 && count <= max)
		return count;
	fprintf(stderr, "workload: '%s' is not a count from 1 to %lu\n", text, max);
	exit(2);
}

int main(int argc, char **argv)
{
	struct job job = {
		.iterations = 100,
		.processes = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN),
	};
	int option;

	if (argc == 3 && strcmp(argv[1], "--marker") == 0)
		return mark(argv[2]);
	while ((option = getopt(argc, argv, "n:p:FOSw")) != -1) {
		if (option == 'n')
			job.iterations = count_of(optarg, MAX_ITERATIONS);
		else if (option == 'p')
			job.processes = (unsigned int)count_of(optarg, MAX_PROCESSES);
		else if (option == 'F')
			job.work = NO_FORKS;
		else if (option == 'O')
			job.work = OWN;
		else if (option == 'S')
			job.work = CALLS;
		else if (option == 'w')
			job.waits = true;
		else
			return 2;
	}
	return run(&job);
}
