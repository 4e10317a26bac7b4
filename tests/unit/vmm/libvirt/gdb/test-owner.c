/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A real QEMU, without a guest: which of its character devices is an administrator's gdbstub, which
 * stays. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/tap.h"
#include "vmm/libvirt/connection/monitor.h"
#include "vmm/libvirt/connection/reply.h"
#include "vmm/libvirt/gdb/stub.h"

enum { MAX_REPLY = 1 << 16, WAIT_S = 60 };

static FILE *monitor; /* QEMU's replies */
static pid_t qemu;

/* As libvirt starts it, with a monitor and a device of an administrator's. */
static void run_qemu(int fd)
{
	char socket[64];

	snprintf(socket, sizeof(socket), "socket,id=charmonitor,fd=%d", fd);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execlp("qemu-system-x86_64", "qemu-system-x86_64", "-S", "-nodefaults", "-display", "none",
	       "-machine", "pc", "-accel", "tcg", "-m", "16", "-chardev", socket, "-mon",
	       "chardev=charmonitor,mode=control", "-chardev", "null,id=watch", "-mon",
	       "chardev=watch", "-chardev", "null,id=log", "-device",
	       "{\"driver\":\"isa-serial\",\"chardev\":\"log\"}", "-device", "virtio-serial",
	       (char *)NULL);
	_exit(127);
}

/* --- libvirt's part ----------------------------------------------------------------------------
 */

static void send_line(const char *text, int passed)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (passed >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		*CMSG_FIRSTHDR(&message) = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &passed, sizeof(passed));
	}
	if (sendmsg(fileno(monitor), &message, MSG_NOSIGNAL) != (ssize_t)part.iov_len)
		abort();
}

/* Events are left out. NULL: QEMU is not there. */
static char *read_reply(void)
{
	static char line[MAX_REPLY];

	while (fgets(line, sizeof(line), monitor))
		if (!strncmp(line, "{\"return\"", 9) || !strncmp(line, "{\"error\"", 8))
			return strdup(line);
	return NULL;
}

static char *text_of(char *reply)
{
	json_t *all = json_loads(reply, 0, NULL);
	const char *text = json_string_value(json_object_get(all, "return"));
	char *copy = text ? strdup(text) : NULL;

	json_decref(all);
	free(reply);
	return copy;
}

static int send_command(const char *text, int passed, char **result, unsigned int flags)
{
	json_t *wrapped = json_pack("{s:s, s:{s:s}}", "execute", "human-monitor-command",
				    "arguments", "command-line", text);
	char *line = flags & LIBVIRT_QEMU_HMP ? json_dumps(wrapped, 0) : strdup(text);

	json_decref(wrapped);
	send_line(line, passed);
	send_line("\n", -1);
	free(line);
	*result = read_reply();
	if (*result && flags & LIBVIRT_QEMU_HMP)
		*result = text_of(*result);
	return *result ? 0 : -1;
}

static int command(virDomainPtr domain, const char *text, char **result, unsigned int flags)
{
	(void)domain;
	return send_command(text, -1, result, flags);
}

static int command_files(virDomainPtr domain, const char *text, unsigned int nr_in, int *in,
			 unsigned int *nr_out, int **out, char **result, unsigned int flags)
{
	(void)domain;
	(void)nr_out;
	(void)out;
	return send_command(text, nr_in ? *in : -1, result, flags);
}

static int last_code(void)
{
	return 1;
}

static const char *last_message(void)
{
	return "QEMU has ended";
}

static const struct libvirt_api api = {.monitor_command = command,
				       .monitor_command_files = command_files,
				       .last_code = last_code,
				       .last_message = last_message};

/* --- the administrator -------------------------------------------------------------------------
 */

static void hmp(struct libvirt_domain *d, const char *text)
{
	struct error err;
	char *reply;

	if (libvirt_hmp(d, text, &reply, &err))
		tap_diag("%s: %s", text, err.text);
	else
		free(reply);
}

static void add_listener(struct libvirt_domain *d, const char *name)
{
	json_t *backend = json_pack("{s:s, s:{s:{s:s, s:{s:s, s:s}}, s:b, s:b}}", "type", "socket",
				    "data", "addr", "type", "inet", "data", "host", "127.0.0.1",
				    "port", "0", "server", 1, "wait", 0);
	struct error err;

	if (libvirt_qmp(d, "chardev-add", json_pack("{s:s, s:o}", "id", name, "backend", backend),
			-1, NULL, &err))
		tap_diag("%s", err.text);
}

static bool is_used(struct libvirt_domain *d, const char *name)
{
	json_t *devices = NULL;
	bool used = !libvirt_qmp(d, "query-chardev", NULL, -1, &devices, NULL) &&
		    libvirt_reply_has_frontend(devices, name);

	json_decref(devices);
	return used;
}

/* --- tests -------------------------------------------------------------------------------------
 */

static void is_free(struct libvirt_domain *d, const char *label)
{
	struct error err = {0};

	ok(!gdbstub_check_free(d, &err), "%s: the gdbstub is free: %s", label, err.text);
}

static void is_refused(struct libvirt_domain *d, const char *name)
{
	struct error err = {0};
	struct gdbstub stub;

	ok(gdbstub_check_free(d, &err) == -EBUSY && strstr(err.text, name),
	   "the gdbstub of an administrator's is seen at '%s': %s", name, err.text);
	ok(gdbstub_open(&stub, d, &err) == -EBUSY && stub.fd < 0, "%s: ours is not opened", name);
	ok(is_used(d, name), "%s: the gdbstub of an administrator's is left", name);
}

static void test_open(struct libvirt_domain *d)
{
	struct error err = {0};
	struct gdbstub stub;

	ok(!gdbstub_open(&stub, d, &err) && is_used(d, "sonde-gdb"), "ours is opened: %s",
	   err.text);
	ok(!gdbstub_close(&stub, &err) && !is_used(d, "sonde-gdb"), "ours is closed: %s", err.text);
	is_free(d, "after ours was closed");
}

static void test_others(struct libvirt_domain *d)
{
	add_listener(d, "mine");
	add_listener(d, "char-mine");
	add_listener(d, "serial-mine");
	is_free(d, "devices that nothing uses");
	hmp(d, "gdbserver chardev:mine");
	is_refused(d, "mine");
	hmp(d, "gdbserver chardev:char-mine");
	is_refused(d, "char-mine");
	hmp(d, "gdbserver chardev:serial-mine");
	is_refused(d, "serial-mine");
	hmp(d, "gdbserver none");
	is_free(d, "after an administrator's was closed");
}

/* A device's character devices may have any name, as well as a device that is plugged in. */
static void test_plugged(struct libvirt_domain *d)
{
	struct error err = {0};

	hmp(d, "chardev-add null,id=late");
	hmp(d, "device_add virtconsole,id=console,chardev=late");
	ok(is_used(d, "late"), "a device that is plugged in uses its character device");
	is_free(d, "a device that is plugged in");
	d->qemu.pid = 0;
	ok(gdbstub_check_free(d, &err) == -EBUSY && strstr(err.text, "watch"),
	   "QEMU not visible: what may be the gdbstub's counts as that: %s", err.text);
	d->qemu.pid = qemu;
}

/* An administrator's server ends ours, and is none of ours to end. */
static void test_replaced(struct libvirt_domain *d, const char *server, const char *name)
{
	struct error err = {0};
	struct gdbstub stub;

	if (gdbstub_open(&stub, d, &err))
		tap_diag("%s", err.text);
	hmp(d, server);
	ok(!gdbstub_close(&stub, &err) && stub.fd < 0, "'%s' meanwhile: ours is closed: %s", server,
	   err.text);
	ok(is_used(d, name), "'%s' meanwhile: the administrator's is left", server);
	hmp(d, "gdbserver none");
}

static bool start(struct libvirt_domain *d)
{
	int ends[2];
	char *reply;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		abort();
	qemu = fork();
	if (!qemu) {
		close(ends[0]);
		run_qemu(ends[1]);
	}
	close(ends[1]);
	monitor = fdopen(ends[0], "r");
	if (send_command("{\"execute\": \"qmp_capabilities\"}", -1, &reply, 0))
		return false;
	free(reply);
	*d = (struct libvirt_domain){.api = &api,
				     .calling = PTHREAD_MUTEX_INITIALIZER,
				     .name = "web1",
				     .qemu = {.pid = qemu, .fd = -1}};
	return true;
}

static void test_all(struct libvirt_domain *d)
{
	is_free(d, "an administrator's monitor and serial line");
	test_open(d);
	test_others(d);
	test_plugged(d);
	add_listener(d, "next");
	test_replaced(d, "gdbserver chardev:next", "next");
	test_replaced(d, "gdbserver tcp:127.0.0.1:0", "gdb");
	is_free(d, "at the end");
}

int main(void)
{
	struct libvirt_domain domain;
	bool started;

	signal(SIGPIPE, SIG_IGN);
	alarm(WAIT_S);
	started = start(&domain);
	if (started)
		test_all(&domain);
	fclose(monitor);
	kill(qemu, SIGKILL);
	waitpid(qemu, NULL, 0);
	return started ? tap_done() : tap_skip_all("needs qemu-system-x86_64");
}
