/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The gdbstub's client against a peer that plays from a script. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/gdb/internal.h"

static char sent[8192]; /* by the client */

struct peer {
	int fd;
	const char *script;
};

static void send_part(struct peer *peer)
{
	size_t n = strcspn(peer->script, "|");

	if (n && write(peer->fd, peer->script, n) != (ssize_t)n)
		abort();
	peer->script += n + (peer->script[n] == '|');
}

/* Sends the next part of its script after each packet, and closes after the last one. */
static void *run_peer(void *arg)
{
	struct peer *peer = arg;
	size_t n = 0;
	ssize_t got;

	while (*peer->script) {
		const size_t begin = n;
		const char *end;

		while (!(end = strchr(sent + begin, '#')) || end + 3 > sent + n) {
			got = recv(peer->fd, sent + n, sizeof(sent) - 1 - n, 0);
			if (got <= 0)
				return NULL;
			n += (size_t)got;
		}
		send_part(peer);
	}
	shutdown(peer->fd, SHUT_WR);
	while ((got = recv(peer->fd, sent + n, sizeof(sent) - 1 - n, 0)) > 0)
		n += (size_t)got;
	return NULL;
}

/* Run `fn` on a client whose peer plays a script. */
static int play(const char *script, int (*fn)(struct rsp *rsp, struct error *err),
		struct error *err)
{
	struct rsp rsp;
	struct peer peer = {.script = script};
	pthread_t thread;
	int pair[2], ret;

	memset(sent, 0, sizeof(sent));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		abort();
	peer.fd = pair[1];
	if (pthread_create(&thread, NULL, run_peer, &peer))
		abort();
	rsp_init(&rsp, pair[0]);
	ret = fn(&rsp, err);
	shutdown(pair[0], SHUT_RDWR);
	pthread_join(thread, NULL);
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

	is_u64((uint64_t)play("+$01020aff#20", read_memory, &err), 0, "memory is read");
	ok(!memcmp(memory, "\x01\x02\x0a\xff", 4), "memory that is read has the peer's bytes");
	is_str(sent, "$m1000,4#8e+", "a read sends one packet and one acknowledgement");
	ok(!play("$T02thread:01;#04+$01020aff#20", read_memory, &err),
	   "a stop notice before a reply is skipped");
	is_str(sent, "$m1000,4#8e++", "a stop notice before a reply is acknowledged");
	ok(play("+$E14#aa", read_memory, &err) == -EFAULT, "an error reply to a read is -EFAULT");
	ok(play("+$01020a#54", read_memory, &err) == -EBADMSG,
	   "a read of too few bytes is refused");
	ok(play("+$01020axy#45", read_memory, &err) == -EBADMSG,
	   "a read of other than hexadecimal digits is refused");
	ok(!play("+$OK#9a", write_memory, &err), "memory is written");
	is_str(sent, "$Mffffffff81000000,2:12ab#c4+", "a write sends address, size and bytes");
	ok(play("+$E14#aa", write_memory, &err) == -EFAULT, "an error reply to a write is -EFAULT");
	ok(play("+$#00", go_physical, &err) == -EOPNOTSUPP,
	   "a gdbstub without physical addresses is refused");
}

static void test_damage(void)
{
	struct error err;
	char *endless = malloc(RSP_MAX_PACKET + 100);

	ok(play("+$01020aff#21", read_memory, &err) == -EBADMSG, "a wrong checksum is refused");
	ok(play("+$01020a", read_memory, &err) == -ECONNRESET,
	   "a connection that ends in a packet is -ECONNRESET");
	ok(play("", read_memory, &err) == -ECONNRESET, "a connection that ends is -ECONNRESET");
	memset(endless, 'a', RSP_MAX_PACKET + 99);
	endless[0] = '$';
	endless[RSP_MAX_PACKET + 99] = '\0';
	ok(play(endless, read_memory, &err) == -EBADMSG, "a packet that is too long is refused");
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
	ok(!rsp_parse_registers(hex, &r, NULL), "a reply with registers is taken");
	ok(r.regs.rbp == 0x1111 && r.regs.rsp == 0x2222, "registers: RBP comes before RSP");
	ok(r.regs.rip == 0xffffffff81000010 && r.regs.rflags == 0x246,
	   "registers: RIP and flags are read");
	ok(r.sregs.cpl == 3 && r.sregs.gs_base == 0x3333 &&
		   r.sregs.kernel_gs_base == 0xffff888000000000,
	   "registers: privilege level and GS bases are read");
	ok(r.sregs.cr0 == 0x80050033 && r.sregs.cr3 == 0x2b44000 && r.sregs.cr4 == 0x6b0 &&
		   r.sregs.efer == 0xd01,
	   "registers: control registers and EFER are read");
	hex[2 * SIZE - 1] = '\0';
	ok(rsp_parse_registers(hex, &r, NULL) == -EBADMSG,
	   "registers that are cut off are refused");
	ok(rsp_parse_registers("E01", &r, NULL) == -EBADMSG,
	   "an error instead of registers is refused");
}

/* --- breakpoints and running ----------------------------------------------------------------- */

static struct rsp_stop stop;
static struct rsp_registers after;

static int write_registers(struct rsp *rsp, struct error *err)
{
	const struct guest_regs regs = {.rax = 1, .rbp = 2, .rsp = 3, .r15 = 4, .rip = 5};

	return rsp_set_registers(rsp, 1, &regs, &after, err);
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

	ok(!play("+$OK#9a", put_break, &err), "a breakpoint is set");
	ok(strstr(sent, "$Z0,ffffffff81000010,1#") == sent, "a breakpoint is set with Z0");
	ok(!play("+$OK#9a", take_break, &err) && strstr(sent, "$z0,") == sent,
	   "a breakpoint is removed with z0");
	ok(play("+$E16#ac", put_break, &err) == -EFAULT, "a refused breakpoint is -EFAULT");
	ok(play("+$#00", put_break, &err) == -EOPNOTSUPP,
	   "a gdbstub without breakpoints is refused");
	ok(!play("+$OK#9a|+$T05thread:01;#07|+$OK#9a|+$T05thread:02;#08", forget, &err),
	   "the breakpoints of all vCPUs are removed");
	is_str(sent, "$Hc1#dc+$?#3f+$Hc2#dd+$?#3f+",
	       "breakpoints are removed by a '?' to each vCPU");
}

static void test_set_registers(void)
{
	enum { BYTES = 236 };
	const char *const values = sent + sizeof("$Hg2#e1+$G") - 1;
	struct error err;
	char script[2 * BYTES + 40];

	/* registers that are 0, but for the last digit of RAX */
	snprintf(script, sizeof(script), "+$OK#9a|+$OK#9a|+$07%0*d#%02x", 2 * BYTES - 2, 0,
		 ('0' * 2 * BYTES + 7) & 0xff);
	ok(!play(script, write_registers, &err) && after.regs.rax == 7,
	   "registers are written, and read");
	ok(!strncmp(sent, "$Hg2#e1+$G", 10), "registers are written to the chosen vCPU");
	ok(!strncmp(values, "0100000000000000", 16) && !strncmp(values + 6 * 16, "02", 2) &&
		   !strncmp(values + 7 * 16, "03", 2) && !strncmp(values + 15 * 16, "04", 2) &&
		   !strncmp(values + 16 * 16, "0500000000000000#", 17),
	   "registers are written in QEMU's order, up to RIP");
	ok(play("+$OK#9a|+$E22#a9", write_registers, &err) == -EFAULT,
	   "refused registers are -EFAULT");
	ok(play("+$OK#9a|+$OK#9a|+$E22#a9", write_registers, &err) == -EBADMSG,
	   "so are registers that cannot be read again");
}

static void test_set_cr3(void)
{
	struct error err;

	ok(!play("+$m3c#03|+$OK#9a|+$OK#9a", write_cr3, &err), "CR3 is written");
	ok(strstr(sent, "$Hg2#e1+$P1d=0080674523010000#") != NULL,
	   "CR3 is written to the chosen vCPU, and nothing else");
	ok(play("+$m3c#03|+$OK#9a|+$#00", write_cr3, &err) == -EOPNOTSUPP,
	   "a gdbstub that cannot write CR3 is refused");
}

static void test_run(void)
{
	struct error err;

	ok(!play("+$T05thread:02;#08", run, &err) && stop.trap && stop.known && stop.vcpu == 1,
	   "a running guest stops at a breakpoint of vCPU 1");
	is_str(sent, "$c#63+", "running a guest sends one packet and acknowledges the stop");
	ok(!play("+$T02thread:01;#04", run, &err) && !stop.trap,
	   "a guest that is interrupted has hit no breakpoint");
	ok(play("+$W00#b7", run, &err) == -ECONNRESET, "a guest that ends is -ECONNRESET");
	ok(play("+", run, &err) == -ECONNRESET,
	   "a connection that ends while the guest runs is -ECONNRESET");
	ok(play("-", run, &err) == -EBADMSG, "a gdbstub that does not resume the guest is refused");
	ok(play("+$OK#9a", run, &err) == -EBADMSG, "a reply that is not a stop notice is refused");
	is_str(err.text, "malformed stop notice in a gdbstub packet: 'OK'",
	       "the error shows the packet");
	ok(play("$T02thread:01;#04+$T05thread:02;#08", run, &err) == 0 && stop.trap,
	   "a stop notice before the acknowledgement is of an earlier stop");
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
	   "a stop notice with process and thread names the vCPU");
	ok(!rsp_parse_stop("T05", &out, NULL) && out.trap && !out.known,
	   "a stop notice without a thread names no vCPU");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(rsp_parse_stop(bad[i], &out, NULL) == -EBADMSG,
		   "a malformed stop notice is refused: '%s'", bad[i]);
}

/* --- out of step ----------------------------------------------------------------------------- */

/* After an error that loses the connection nothing is sent, and the error stays. */
static int read_then_run(struct rsp *rsp, struct error *err)
{
	int ret = read_memory(rsp, err);

	if (ret && (rsp_continue(rsp, err) != ret || rsp_interrupt(rsp, err) != ret ||
		    rsp_await_stop(rsp, &stop, err) != ret || !rsp_is_lost(rsp)))
		abort();
	return ret;
}

static int read_and_run(struct rsp *rsp, struct error *err)
{
	int ret = read_memory(rsp, err);

	return ret ? ret : run(rsp, err);
}

static int read_twice(struct rsp *rsp, struct error *err)
{
	int ret = read_memory(rsp, err);

	return ret ? ret : read_memory(rsp, err);
}

static int read_after_refusal(struct rsp *rsp, struct error *err)
{
	return read_memory(rsp, err) == -EFAULT && !rsp_is_lost(rsp) ? read_memory(rsp, err) : -1;
}

/* A reply that comes after its time limit. */
static int read_late(struct rsp *rsp, struct error *err)
{
	int ret;

	rsp->timeout_ms = 20;
	ret = read_memory(rsp, err);
	rsp->timeout_ms = RSP_TIMEOUT_MS;
	return ret ? read_then_run(rsp, err) : 0;
}

static void test_out_of_step(void)
{
	struct error err;

	ok(play("|+$01020aff#20", read_late, &err) == -ETIMEDOUT,
	   "a reply after its time limit: the connection is lost");
	is_str(sent, "$m1000,4#8e", "a reply after its time limit: nothing is sent any more");
	ok(play("+$01020a#54", read_then_run, &err) == -EBADMSG,
	   "a malformed reply: the connection is lost");
	is_str(err.text, "malformed memory in a gdbstub packet: '01020a'",
	       "a malformed reply: the first error stays, with the packet");
	is_str(sent, "$m1000,4#8e+", "a malformed reply: nothing is sent any more");
	ok(play("+$01020aff#20$01020aff#20", read_and_run, &err) == -EBADMSG &&
		   !strchr(sent + strlen("$m1000,4#8e"), '$'),
	   "a second reply is noticed before the guest is let go on: %s", err.text);
	ok(play("+$01020aff#20|$01020aff#20+$01020aff#20", read_twice, &err) == -EBADMSG,
	   "a reply before the acknowledgement of its request is refused: %s", err.text);
	ok(play("++$01020aff#20", read_memory, &err) == -EBADMSG,
	   "a second acknowledgement is refused: %s", err.text);
	ok(play("x+$01020aff#20", read_memory, &err) == -EBADMSG,
	   "bytes between packets are refused: %s", err.text);
	ok(!play("+$E14#aa|+$01020aff#20", read_after_refusal, &err),
	   "a refused request does not lose the connection");
}

static void on_signal(int signal)
{
	(void)signal;
}

static void *drain_late(void *arg)
{
	const int *fd = arg;
	sigset_t alarms;
	char bytes[4096];

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	usleep(50000);
	while (read(*fd, bytes, sizeof(bytes)) > 0)
		;
	return NULL;
}

/* More than the socket holds, to a peer that reads late, while signals come. */
static void test_interrupted(void)
{
	static const struct itimerval often = {{0, 1000}, {0, 1000}}, never;
	static char bytes[4 << 20];
	const struct sigaction action = {.sa_handler = on_signal};
	struct error err = {0};
	struct rsp rsp;
	pthread_t thread;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
	    pthread_create(&thread, NULL, drain_late, &pair[1]) ||
	    sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &often, NULL))
		abort();
	rsp_init(&rsp, pair[0]);
	ok(!rsp_give(&rsp, bytes, sizeof(bytes), &err), "a signal does not end the connection: %s",
	   err.text);
	setitimer(ITIMER_REAL, &never, NULL);
	close(pair[0]);
	pthread_join(thread, NULL);
	close(pair[1]);
}

int main(void)
{
	test_interrupted();
	test_breakpoints();
	test_set_registers();
	test_set_cr3();
	test_run();
	test_stop_replies();
	test_memory();
	test_damage();
	test_registers();
	test_out_of_step();
	return tap_done();
}
