/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A 32-bit program, for syscalls.t: it makes each of its system calls by INT 0x80, and then by the
 * entry that the kernel offers in its vDSO (SYSENTER or SYSCALL). Built without a C library: gcc
 * -m32 -nostdlib -static.
 *
 * usage: ia32 ROUNDS
 */
enum { AT_NULL = 0, AT_SYSINFO = 32, O_CREAT_RDWR = 0102, BYTES = 48 };

/* arch/x86/entry/syscalls/syscall_32.tbl of Linux */
enum {
	EXIT = 1,
	READ = 3,
	WRITE = 4,
	CLOSE = 6,
	LSEEK = 19,
	GETPID = 20,
	IOCTL = 54,
	MMAP2 = 192,
	MUNMAP = 91,
	FSTAT64 = 197,
	PREAD64 = 180,
	OPENAT = 295,
	FCNTL64 = 221
};

static long fast_entry; /* 0: INT 0x80 */

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	const long args[] = {a, b, c, d, e, f, nr};
	long result;

	/* EBP and EBX are the compiler's */
	__asm__ volatile(
		"pushl %%ebp\n\tpushl %%ebx\n\t"
		"movl %1, %%eax\n\t"
		"movl 0(%%eax), %%ebx\n\tmovl 4(%%eax), %%ecx\n\tmovl 8(%%eax), %%edx\n\t"
		"movl 12(%%eax), %%esi\n\tmovl 16(%%eax), %%edi\n\tmovl 20(%%eax), %%ebp\n\t"
		"movl 24(%%eax), %%eax\n\t"
		"cmpl $0, %2\n\tje 1f\n\tcall *%2\n\tjmp 2f\n"
		"1:\tint $0x80\n"
		"2:\tpopl %%ebx\n\tpopl %%ebp\n\t"
		: "=&a"(result)
		: "0"(args), "m"(fast_entry), "m"(args)
		: "ecx", "edx", "esi", "edi", "memory", "cc");
	return result;
}

static int work(void)
{
	static char bytes[BYTES] = "forty-eight bytes that a 32-bit program writes.";
	const long fd = call(OPENAT, -100, (long)"/tmp/ia32-file", O_CREAT_RDWR, 0600, 0, 0);
	long where;

	if (fd < 0 || call(WRITE, fd, (long)bytes, BYTES, 0, 0, 0) != BYTES)
		return 1;
	if (call(LSEEK, fd, -BYTES, 1, 0, 0, 0) != 0 ||
	    call(READ, fd, (long)bytes, BYTES, 0, 0, 0) != BYTES)
		return 2;
	if (call(PREAD64, fd, (long)bytes, 8, 40, 0, 0) != 8)
		return 3;
	where = call(MMAP2, 0, 4096, 1, 2, fd, 0);
	if ((unsigned long)where >= -4095ul || call(MUNMAP, where, 4096, 0, 0, 0, 0))
		return 4;
	if (call(IOCTL, fd, 0x5401, 0, 0, 0, 0) >= 0 || call(FCNTL64, fd, 3, 0, 0, 0, 0) < 0 ||
	    call(CLOSE, fd, 0, 0, 0, 0, 0))
		return 5;
	return call(GETPID, 0, 0, 0, 0, 0, 0) <= 1 || call(CLOSE, 12345, 0, 0, 0, 0, 0) != -9;
}

static int digits(const char *text)
{
	int n = 0;

	while (*text >= '0' && *text <= '9')
		n = 10 * n + *text++ - '0';
	return n;
}

/* The kernel's vDSO entry, from the auxiliary vector behind the environment. */
static long find_entry(long *stack)
{
	long *at = stack + stack[0] + 2;

	while (*at)
		at++;
	for (at++; at[0] != AT_NULL; at += 2)
		if (at[0] == AT_SYSINFO)
			return at[1];
	return 0;
}

__attribute__((used)) void start(long *stack)
{
	const long entry = find_entry(stack);
	const int rounds = stack[0] > 1 ? digits((char *)stack[2]) : 1;
	int failed = entry ? 0 : 9;

	for (int i = 0; !failed && i < rounds; i++) {
		fast_entry = i % 2 ? entry : 0;
		failed = work();
	}
	call(EXIT, failed, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmovl %esp, %eax\n\tandl $-16, %esp\n\tsubl $12, %esp\n\tpushl "
	"%eax\n\tcall start\n");
