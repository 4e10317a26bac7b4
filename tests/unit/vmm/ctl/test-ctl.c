/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/vmm/monitor/monitor-fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "tests/lib/capture.h"
#include "vmm/cmd.h"
#include "vmm/ctl/ctl.h"
#include "vmm/monitor/socket.h"

static struct capture capture;

/* `sonde ctl` with these words ("" is none) and this standard input. */
static int ctl(const char *input, const char *path, const char *a, const char *b, const char *c)
{
	const char *given[] = {"ctl", "--timeout", "1s", path, a, b, c};
	enum { NR_GIVEN = sizeof(given) / sizeof(given[0]) };
	char *argv[NR_GIVEN + 1] = {0};
	int argc = 0, status;

	for (size_t i = 0; i < NR_GIVEN; i++) {
		if (*given[i])
			argv[argc++] = (char *)given[i];
	}
	capture_begin(&capture, input);
	status = cmd_ctl(argc, argv);
	capture_end(&capture);
	return status;
}

static void says(const struct fixture *f, const char *a, const char *b, const char *c,
		 const char *want)
{
	char name[96];

	snprintf(name, sizeof(name), "ctl %s %s %s: prints the monitor's answer", a, b, c);
	ok(ctl("", f->path, a, b, c) == 0 && !*capture.err, "ctl %s %s %s: succeeds", a, b, c);
	is_str(capture.out, want, name);
}

static void complains(const char *path, const char *a, const char *b, const char *c, int status,
		      const char *want)
{
	ok(ctl("", path, a, b, c) == status && !*capture.out, "ctl %s %s %s: fails with status %d",
	   a, b, c, status);
	ok(!strncmp(capture.err, "sonde ctl: ", 11) && strstr(capture.err, want) &&
		   strchr(capture.err, '\n') == capture.err + strlen(capture.err) - 1,
	   "ctl %s %s %s: prints one line with '%s'", a, b, c, want);
}

static void test_commands(struct fixture *f)
{
	char saved[64];
	struct stat st = {0};

	says(f, "status", "", "", "running\n");
	says(f, "stop", "", "", "");
	says(f, "status", "", "", "paused\n");
	says(f, "--json", "status", "", "{\n  \"status\": \"paused\",\n  \"running\": false\n}\n");
	says(f, "cont", "", "", "");
	ctl("", f->path, "commands", "", "");
	ok(strstr(capture.out, "pmemsave val=address size=size filename=string\n") != NULL,
	   "'commands' lists arguments");
	snprintf(saved, sizeof(saved), "%s/saved", f->dir);
	is_u64((uint64_t)ctl("pmemsave val=0x10 size=4096 filename=", f->path, "query-version", "",
			     ""),
	       0, "any verb of the monitor can be given by its name");
	is_str(capture.out, "qemu:\n  major: 0\n  minor: 1\n  micro: 0\npackage: sonde-0.1.0\n",
	       "an answer without a form of its own is printed in lines");
	ok(stat(saved, &st) < 0, "standard input is not read if there is a command");
}

static void test_tracing(struct fixture *f)
{
	says(f, "trace", "on", "kmem",
	     "tracing kmem: 1,013 functions, 1 refused (see 'trace status')\n");
	is_str(f->specs, "kmem;", "the spec reaches the tracer");
	is_u64((uint64_t)ctl("", f->path, "trace", "status", ""), 0, "'trace status' succeeds");
	ok(!strncmp(capture.out, "tracing   on kmem (kmem;) to out\nevents    1,234: ", 50),
	   "'trace status' prints the state and the counts");
	is_u64((uint64_t)ctl("", f->path, "metrics", "", ""), 0, "'metrics' succeeds");
	ok(strstr(capture.out, "\nsonde_tracing{trace_dir=\"out\"} 1\n") &&
		   strstr(capture.out, "\nsonde_lost_total{"),
	   "'metrics' prints them as metrics");
	says(f, "trace", "off", "", "tracing is off: 1,234 events in out, 7 lost\n");
	says(f, "--json", "trace-start", "", "{}\n");
	says(f, "--json", "trace-stop", "", "{}\n");
}

/* As `sonde run` shows it. */
static void test_place(struct fixture *f)
{
	static const char shown[] = "sonde ctl: unknown tracer 'kmen'\n  a=kmen\n    ^\n";

	is_u64((uint64_t)ctl("", f->path, "trace", "add", "a=kmen"), 1, "a wrong spec is refused");
	is_str(capture.err, shown, "the place in it is shown");
	is_u64((uint64_t)ctl("trace set a=kmen\n", f->path, "", "", ""), 1,
	       "so is one from standard input");
	is_str(capture.err, shown, "with its place");
}

/* What a monitor does not offer is not in its help. */
static void test_help(struct fixture *f)
{
	static const char want[] = "  cont                    let a paused guest go on\n";

	is_u64((uint64_t)ctl("", f->path, "help", "", ""), 0, "'help' succeeds");
	ok(strstr(capture.out, want) != NULL, "'help' lists what this monitor offers");
	ok(strstr(capture.out, "  trace on [SPEC...]      begin tracing") != NULL,
	   "'help' lists short forms");
	ok(!strstr(capture.out, "qmp_capabilities"), "'help' leaves out what ctl does itself");
	f->guest_ops.pauses = false;
	f->target.trace = NULL;
	ctl("", f->path, "help", "", "");
	ok(!strstr(capture.out, "  cont ") && !strstr(capture.out, "  stop "),
	   "'help' leaves out cont and stop where the guest's owner does not pause it");
	ok(!strstr(capture.out, "trace on"),
	   "'help' leaves out tracing where it is not configured");
	ok(strstr(capture.out, "  status ") && strstr(capture.out, "  quit "),
	   "'help' lists status and quit everywhere");
	f->guest_ops.pauses = true;
	f->target.trace = &f->trace_ops;
}

/* What works without a monitor lists what all monitors offer together. */
static void test_usage(void)
{
	static const struct monitor_verb *const lists[] = {
		monitor_guest_verbs, monitor_memory_verbs, monitor_trace_verbs};
	char line[96];

	is_u64((uint64_t)ctl("", "--help", "", "", ""), 0, "'sonde ctl --help' needs no monitor");
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct monitor_verb *verb = lists[i]; verb->name; verb++) {
			const char *typed = qmp_command_short(verb->name);

			if (!typed)
				continue;
			snprintf(line, sizeof(line), "\n  %s ", typed);
			ok(strstr(capture.out, line), "'sonde ctl --help' lists '%s'", typed);
		}
}

static void test_errors(struct fixture *f)
{
	complains(f->path, "nonsense", "", "", 1, "there is no command 'nonsense'");
	complains(f->path, "trace", "of", "", 2, "usage: trace on [SPEC...]");
	complains(f->path, "stop", "x=1", "", 1, "stop has no argument 'x'");
	complains(f->path, "stop", "x", "", 2, "'x' is not of the form key=value");
	complains(f->path, "trace", "off", "", 1, "tracing is off already");
	complains("", "", "", "", 2, "which SOCKET?");
	complains(f->path, "--nope", "", "", 2, "unknown option --nope; see 'sonde ctl --help'");
	complains(f->path, "--timeout", "0", "", 2, "--timeout takes a time from 1ms to 24h");
	complains("/nonexistent/s", "status", "", "", 1, "there is no socket '/nonexistent/s'");
	complains(f->dir, "status", "", "", 1, "is not a socket");
}

static void test_input(struct fixture *f)
{
	char input[256];
	struct stat st = {0};

	snprintf(input, sizeof(input),
		 "# a comment\n\nstatus\npmemsave val=0 size=0x20 filename='%s/saved'\nhelp\nexit\n"
		 "nonsense\n",
		 f->dir);
	is_u64((uint64_t)ctl(input, f->path, "", "", ""), 0,
	       "commands from standard input succeed up to exit");
	ok(!strncmp(capture.out, "running\n  ", 10),
	   "there is no prompt if standard input is a pipe");
	snprintf(input, sizeof(input), "%s/saved", f->dir);
	ok(!stat(input, &st) && st.st_size == 0x20, "each line is run");
	unlink(input);
	is_u64((uint64_t)ctl("status\nnonsense\nstop\n", f->path, "", "", ""), 1,
	       "a command that fails ends the input with status 1");
	is_str(capture.out, "running\n", "the commands before it are run");
	ok(!f->paused, "the commands after it are not run");
	is_u64((uint64_t)ctl("trace x\n", f->path, "", "", ""), 1,
	       "a usage error ends the input with status 1");
	is_u64((uint64_t)ctl("status", f->path, "", "", ""), 0,
	       "a last line without a newline succeeds");
	is_str(capture.out, "running\n", "a last line without a newline is run");
}

static void test_stale(struct fixture *f)
{
	struct monitor_socket sock;
	char path[64];

	snprintf(path, sizeof(path), "%s/stale", f->dir);
	ok(!monitor_socket_open(path, &sock, NULL),
	   "a socket is made that its process leaves behind");
	close(sock.fd);
	complains(path, "status", "", "", 1, "no process listens on");
	unlink(path);
}

/* A peer that answers any connection with fixed bytes, then stays, or sends them for ever. */
struct impostor {
	struct monitor_socket sock;
	const char *greeting;
	bool stays, repeats;
};

static void *impostor_run(void *arg)
{
	struct impostor *self = arg;
	char sink[256];
	int fd;

	while ((fd = accept(self->sock.fd, NULL, NULL)) < 0 && errno == EAGAIN)
		usleep(1000);
	if (fd < 0)
		return NULL;
	do {
		if (send(fd, self->greeting, strlen(self->greeting), MSG_NOSIGNAL) < 0)
			break;
	} while (self->repeats);
	while (self->stays && recv(fd, sink, sizeof(sink), 0) > 0)
		;
	close(fd);
	return NULL;
}

static void meets(const struct fixture *f, struct impostor impostor, const char *want)
{
	char path[64];
	pthread_t thread;

	snprintf(path, sizeof(path), "%s/impostor", f->dir);
	if (!ok(!monitor_socket_open(path, &impostor.sock, NULL) &&
			!pthread_create(&thread, NULL, impostor_run, &impostor),
		"an impostor listens, which says: %.20s", impostor.greeting))
		return;
	complains(path, "status", "", "", 1, want);
	pthread_join(thread, NULL);
	monitor_socket_close(&impostor.sock);
}

#define GREETING "{\"QMP\":{\"version\":{},\"capabilities\":[]}}\n"

static void test_impostors(struct fixture *f)
{
	meets(f, (struct impostor){.greeting = "SSH-2.0-x\n", .stays = true}, "does not speak QMP");
	meets(f, (struct impostor){.greeting = "{\"hello\":1}", .stays = true},
	      "does not speak QMP: its greeting is another");
	meets(f, (struct impostor){.greeting = "[]", .stays = true},
	      "does not speak QMP: its greeting is another");
	meets(f, (struct impostor){.greeting = ""}, "closed the connection");
	meets(f, (struct impostor){.greeting = "", .stays = true}, "no answer from");
	meets(f, (struct impostor){.greeting = "  \n", .repeats = true}, "no answer from");
	meets(f, (struct impostor){.greeting = GREETING, .stays = true}, "no answer from");
	meets(f, (struct impostor){.greeting = GREETING "{\"return\":{},\"id\":99}", .stays = true},
	      "no answer from");
	meets(f, (struct impostor){.greeting = GREETING "{\"event\":\"X\"}", .repeats = true},
	      "no answer from");
	meets(f,
	      (struct impostor){.greeting = GREETING "{\"error\":{\"desc\":\"no\\u001b[2J\"}}\n",
				.stays = true},
	      "no?[2J");
	meets(f, (struct impostor){.greeting = GREETING "{\"error\":3}\n", .stays = true},
	      "refused without a reason");
}

static void test_quit(struct fixture *f)
{
	is_u64((uint64_t)ctl("quit\nstatus\n", f->path, "", "", ""), 0,
	       "quit is the last command of the input");
	is_str(capture.err, "", "the lines after quit are not run");
}

/* A child of another user listens. Returns it, when it does. */
static pid_t listen_as(uid_t uid, const char *path)
{
	struct sockaddr_un address;
	char byte;
	int done[2];
	pid_t child;

	if (pipe(done) || monitor_socket_address(path, &address, NULL))
		abort();
	child = fork();
	if (!child) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || setuid(uid) ||
		    listen(fd, 1) || write(done[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(done[1]);
	if (child < 0 || read(done[0], &byte, 1) != 1)
		abort();
	close(done[0]);
	return child;
}

/* Root is told whose the socket is: what another user's process says is not believed. */
static void test_other_user(const struct fixture *f)
{
	enum { NOBODY = 65534 };
	char path[64];
	pid_t child;

	if (geteuid()) {
		tap_skip("a socket of another user is refused", "only root can be another user");
		return;
	}
	snprintf(path, sizeof(path), "%s/other", f->dir);
	child = listen_as(NOBODY, path);
	complains(path, "status", "", "", 1, "a process of user 65534 listens on");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	unlink(path);
}

int main(void)
{
	struct fixture *f = fixture_create(NULL);

	if (!f)
		return 1;
	test_commands(f);
	test_tracing(f);
	test_place(f);
	test_help(f);
	test_usage();
	test_errors(f);
	test_input(f);
	test_stale(f);
	test_impostors(f);
	test_other_user(f);
	test_quit(f);
	fixture_destroy(f);
	return tap_done();
}
