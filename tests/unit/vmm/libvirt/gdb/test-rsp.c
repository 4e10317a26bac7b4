/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The gdbstub's client against a peer that plays from a script. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/gdb/rsp.h"

static char sent[8192]; /* what the client said */

/* Let the client do `fn` with everything that the peer will ever say already in its socket. */
static int play(const char *peer, int (*fn)(struct rsp *rsp, struct error *err), struct error *err)
{
	struct rsp rsp;
	int pair[2], ret;
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    write(pair[1], peer, strlen(peer)) != (ssize_t)strlen(peer))
		abort();
	shutdown(pair[1], SHUT_WR);
	rsp_init(&rsp, pair[0]);
	ret = fn(&rsp, err);
	n = recv(pair[1], sent, sizeof(sent) - 1, MSG_DONTWAIT);
	sent[n > 0 ? n : 0] = '\0';
	close(pair[0]);
	close(pair[1]);
	return ret;
}

static uint8_t memory[4];

static int read_memory(struct rsp *rsp, struct error *err)
{
	return rsp_read(rsp, 0x1000, memory, sizeof(memory), err);
}

static int write_memory(struct rsp *rsp, struct error *err)
{
	return rsp_write(rsp, 0xffffffff81000000, "\x12\xab", 2, err);
}

static int go_physical(struct rsp *rsp, struct error *err)
{
	return rsp_set_physical(rsp, true, err);
}

static void test_memory(void)
{
	struct error err;

	is_u64((uint64_t)play("+$01020aff#20", read_memory, &err), 0, "read");
	ok(!memcmp(memory, "\x01\x02\x0a\xff", 4), "read: the bytes");
	is_str(sent, "$m1000,4#8e+", "read: the packet and the acknowledgement");
	ok(!play("$T02thread:01;#04+$01020aff#20", read_memory, &err),
	   "a stop notice is passed over");
	is_str(sent, "$m1000,4#8e++", "and acknowledged");
	ok(play("+$E14#aa", read_memory, &err) == -EFAULT, "no memory there");
	ok(play("+$01020a#54", read_memory, &err) == -EFAULT, "too few bytes");
	ok(play("+$01020axy#45", read_memory, &err) == -EFAULT, "no hexadecimal digits");
	ok(!play("+$OK#9a", write_memory, &err), "write");
	is_str(sent, "$Mffffffff81000000,2:12ab#c4+", "write: the packet");
	ok(play("+$E14#aa", write_memory, &err) == -EFAULT, "write: refused");
	ok(play("+$#00", go_physical, &err) == -EPROTO, "not QEMU's gdbstub");
}

static void test_damage(void)
{
	struct error err;
	char *endless = malloc(RSP_MAX_PACKET + 100);

	ok(play("+$01020aff#21", read_memory, &err) == -EPROTO, "a wrong checksum");
	ok(play("+$01020a", read_memory, &err) == -ECONNRESET, "the connection ends in a packet");
	ok(play("", read_memory, &err) == -ECONNRESET, "the connection ends");
	memset(endless, 'a', RSP_MAX_PACKET + 99);
	endless[0] = '$';
	endless[RSP_MAX_PACKET + 99] = '\0';
	ok(play(endless, read_memory, &err) == -EMSGSIZE, "a packet without end");
	free(endless);
}

static void put(char *hex, size_t offset, size_t size, uint64_t value)
{
	for (size_t i = 0; i < size; i++) {
		char digits[3];

		snprintf(digits, sizeof(digits), "%02x", (unsigned int)(value >> 8 * i & 0xff));
		memcpy(hex + 2 * (offset + i), digits, 2);
	}
}

/* Offsets follow from QEMU's gdb-xml/i386-64bit.xml. */
static void test_registers(void)
{
	enum {
		RIP = 128,
		RFLAGS = 136,
		CS = 140,
		GS_BASE = 172,
		CR0 = 188,
		CR3 = 204,
		CR4 = 212,
		EFER = 228,
		SIZE = 236
	};
	struct rsp_registers r;
	char hex[2 * SIZE + 1];

	memset(hex, '0', sizeof(hex) - 1);
	hex[sizeof(hex) - 1] = '\0';
	put(hex, 6 * 8, 8, 0x1111); /* RBP comes before RSP */
	put(hex, 7 * 8, 8, 0x2222);
	put(hex, RIP, 8, 0xffffffff81000010);
	put(hex, RFLAGS, 4, 0x246);
	put(hex, CS, 4, 0x33);
	put(hex, GS_BASE, 8, 0x3333);
	put(hex, GS_BASE + 8, 8, 0xffff888000000000);
	put(hex, CR0, 8, 0x80050033);
	put(hex, CR3, 8, 0x2b44000);
	put(hex, CR4, 8, 0x6b0);
	put(hex, EFER, 8, 0xd01);
	ok(!rsp_parse_registers(hex, &r, NULL), "registers");
	ok(r.regs.rbp == 0x1111 && r.regs.rsp == 0x2222, "RBP and RSP");
	ok(r.regs.rip == 0xffffffff81000010 && r.regs.rflags == 0x246, "RIP and flags");
	ok(r.sregs.cpl == 3 && r.sregs.gs_base == 0x3333 &&
		   r.sregs.kernel_gs_base == 0xffff888000000000,
	   "privilege and GS bases");
	ok(r.sregs.cr0 == 0x80050033 && r.sregs.cr3 == 0x2b44000 && r.sregs.cr4 == 0x6b0 &&
		   r.sregs.efer == 0xd01,
	   "control registers");
	hex[2 * SIZE - 1] = '\0';
	ok(rsp_parse_registers(hex, &r, NULL) == -EPROTO, "too short");
	ok(rsp_parse_registers("E01", &r, NULL) == -EPROTO, "an error instead");
}

/* --- breakpoints, and letting it run --------------------------------------------------------- */

static struct rsp_stop stop;

static int write_registers(struct rsp *rsp, struct error *err)
{
	const struct guest_regs regs = {.rax = 1, .rbp = 2, .rsp = 3, .r15 = 4, .rip = 5};

	return rsp_set_registers(rsp, 1, &regs, err);
}

static int write_cr3(struct rsp *rsp, struct error *err)
{
	return rsp_set_cr3(rsp, 1, 0x12345678000, err);
}

static int put_break(struct rsp *rsp, struct error *err)
{
	return rsp_breakpoint(rsp, 0xffffffff81000010, true, err);
}

static int take_break(struct rsp *rsp, struct error *err)
{
	return rsp_breakpoint(rsp, 0xffffffff81000010, false, err);
}

static int forget(struct rsp *rsp, struct error *err)
{
	return rsp_forget_breakpoints(rsp, 2, err);
}

static int run(struct rsp *rsp, struct error *err)
{
	int ret = rsp_continue(rsp, err);

	return ret ? ret : rsp_await_stop(rsp, &stop, err);
}

static void test_breakpoints(void)
{
	struct error err;

	ok(!play("+$OK#9a", put_break, &err), "a breakpoint");
	ok(strstr(sent, "$Z0,ffffffff81000010,1#") == sent, "its packet");
	ok(!play("+$OK#9a", take_break, &err) && strstr(sent, "$z0,") == sent, "and back");
	ok(play("+$E16#ac", put_break, &err) == -EFAULT, "refused");
	ok(play("+$#00", put_break, &err) == -EPROTO, "not known");
	ok(!play("+$OK#9a+$T05thread:01;#07+$OK#9a+$T05thread:02;#08", forget, &err),
	   "all of each vCPU");
	is_str(sent, "$Hc1#dc+$?#3f+$Hc2#dd+$?#3f+", "by the question of a new debugger");
}

static void test_set_registers(void)
{
	struct error err;
	char *values = sent + sizeof("$Hg2#e1+$G") - 1;

	ok(!play("+$OK#9a+$OK#9a", write_registers, &err), "registers are written");
	ok(!strncmp(sent, "$Hg2#e1+$G", 10), "of the vCPU");
	ok(!strncmp(values, "0100000000000000", 16) && !strncmp(values + 6 * 16, "02", 2) &&
		   !strncmp(values + 7 * 16, "03", 2) && !strncmp(values + 15 * 16, "04", 2) &&
		   !strncmp(values + 16 * 16, "0500000000000000#", 17),
	   "in QEMU's order, up to RIP and no further");
	ok(play("+$OK#9a+$E22#a9", write_registers, &err) == -EFAULT, "refused");
}

static void test_set_cr3(void)
{
	struct error err;

	ok(!play("+$m3c#03+$OK#9a+$OK#9a", write_cr3, &err), "CR3 is written");
	ok(strstr(sent, "$Hg2#e1+$P1d=0080674523010000#") != NULL,
	   "of the vCPU, that register alone");
	ok(play("+$m3c#03+$OK#9a+$#00", write_cr3, &err) == -EPROTO, "not known");
}

static void test_run(void)
{
	struct error err;

	ok(!play("+$T05thread:02;#08", run, &err) && stop.trap && stop.known && stop.vcpu == 1,
	   "runs to a breakpoint of the second vCPU");
	is_str(sent, "$c#63+", "the packets");
	ok(!play("+$T02thread:01;#04", run, &err) && !stop.trap, "is stopped by somebody");
	ok(play("+$W00#b7", run, &err) == -ECONNRESET, "the guest ends");
	ok(play("+", run, &err) == -ECONNRESET, "the connection ends");
	ok(play("-", run, &err) == -EPROTO, "it is not let run");
	ok(play("+$OK#9a", run, &err) == -EPROTO, "no stop");
}

static void test_stop_replies(void)
{
	static const char *const bad[] = {"",
					  "T",
					  "T0",
					  "Txx",
					  "S05",
					  "T05thread:;",
					  "T05thread:0;",
					  "T05thread:-1;",
					  "T05thread:p1.;",
					  "T05thread:ffffffffffffffffff;"};
	struct rsp_stop out;

	ok(!rsp_parse_stop("T05thread:p01.03;", &out, NULL) && out.trap && out.vcpu == 2,
	   "a thread of a process");
	ok(!rsp_parse_stop("T05", &out, NULL) && out.trap && !out.known, "no thread");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(rsp_parse_stop(bad[i], &out, NULL) == -EPROTO, "'%s' is nonsense", bad[i]);
}

int main(void)
{
	test_breakpoints();
	test_set_registers();
	test_set_cr3();
	test_run();
	test_stop_replies();
	test_memory();
	test_damage();
	test_registers();
	return tap_done();
}
