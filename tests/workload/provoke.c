// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes the guest's kernel print stacks, or keeps tasks asleep in an allocation (see README.md):
 *
 *   provoke kmalloc BYTES   makes the kernel kmalloc() that many bytes; its refusal is expected
 *   provoke idly COMMAND... runs the command with SCHED_IDLE
 *   provoke hold CPU        occupies the CPU as a real-time task, until killed
 *   provoke toil CPU        occupies the CPU with work of the kernel, until killed
 *   provoke kexec KERNEL INITRD COMMAND_LINE   starts another kernel
 *   provoke crash KERNEL INITRD COMMAND_LINE   panics, which starts another kernel
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check(bool pass, const char *what)
{
	if (pass)
		return;
	fprintf(stderr, "provoke: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The kernel copies a control message into kmalloc() memory before it parses it. */
static void send_control(size_t size)
{
	struct msghdr message = {.msg_control = malloc(size), .msg_controllen = size};
	int ends[2];

	check(message.msg_control, "memory");
	memset(message.msg_control, 0, size);
	check(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0, "socketpair");
	check(sendmsg(ends[0], &message, MSG_DONTWAIT) == -1, "a bad control message");
	check(errno == ENOBUFS || errno == EINVAL, "a bad control message");
}

static void idly(char **command)
{
	struct sched_param none = {0};

	check(sched_setscheduler(0, SCHED_IDLE, &none) == 0, "sched_setscheduler");
	execvp(command[0], command);
	check(false, command[0]);
}

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

/* A system call of seconds, again and again: the CPU is hardly ever in user mode. */
static void toil(int cpu)
{
	const size_t size = 64 << 20;
	char *bytes = malloc(size);

	check(bytes, "memory");
	pin_to(cpu);
	while (getrandom(bytes, size, 0) > 0)
		;
	check(false, "getrandom");
}

/* Any weight of the fair scheduler would leave the others a small part of the CPU. */
static void hold(int cpu)
{
	struct sched_param lowest = {.sched_priority = 1};

	pin_to(cpu);
	check(sched_setscheduler(0, SCHED_FIFO, &lowest) == 0, "sched_setscheduler");
	for (volatile unsigned int i = 0;; i++)
		;
}

enum { FILE_ON_CRASH = 2 }; /* KEXEC_FILE_ON_CRASH of linux/kexec.h */

static void load_kernel(char **arguments, unsigned long flags)
{
	int kernel = open(arguments[0], O_RDONLY), initrd = open(arguments[1], O_RDONLY);

	check(kernel >= 0, arguments[0]);
	check(initrd >= 0, arguments[1]);
	check(!syscall(SYS_kexec_file_load, kernel, initrd, strlen(arguments[2]) + 1, arguments[2],
		       flags),
	      "kexec_file_load");
}

static void crash(void)
{
	int enable = open("/proc/sys/kernel/sysrq", O_WRONLY);
	int trigger = open("/proc/sysrq-trigger", O_WRONLY);

	check(enable >= 0 && write(enable, "1", 1) == 1, "/proc/sys/kernel/sysrq");
	check(trigger >= 0 && write(trigger, "c", 1) == 1, "/proc/sysrq-trigger");
}

static void start_kernel(char **arguments)
{
	load_kernel(arguments, 0);
	check(!syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_KEXEC,
		       NULL),
	      "kexec");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "kmalloc") == 0)
		send_control(strtoul(argv[2], NULL, 10));
	else if (argc > 2 && strcmp(argv[1], "idly") == 0)
		idly(argv + 2);
	else if (argc == 3 && strcmp(argv[1], "hold") == 0)
		hold(atoi(argv[2]));
	else if (argc == 3 && strcmp(argv[1], "toil") == 0)
		toil(atoi(argv[2]));
	else if (argc == 5 && strcmp(argv[1], "kexec") == 0)
		start_kernel(argv + 2);
	else if (argc == 5 && strcmp(argv[1], "crash") == 0) {
		load_kernel(argv + 2, FILE_ON_CRASH);
		crash();
	} else
		return 2;
	return 0;
}
