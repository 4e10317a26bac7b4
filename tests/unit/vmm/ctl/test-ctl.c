/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/vmm/monitor/monitor-fixture.h"

#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "vmm/cmd.h"
#include "vmm/monitor/socket.h"

enum { OUTPUT = 8192, MAX_ARGS = 8 };

static char out_text[OUTPUT], err_text[OUTPUT];

/* One standard stream, redirected to a file that holds `content`. */
struct redirect {
	int saved, fd;
	int target;
};

static struct redirect redirect(int target, const char *content)
{
	struct redirect r = {.saved = dup(target), .target = target};
	char name[] = "/tmp/sonde-monitor-XXXXXX";

	r.fd = mkstemp(name);
	unlink(name);
	if (write(r.fd, content, strlen(content)) < 0)
		tap_diag("write: %s", strerror(errno));
	lseek(r.fd, 0, SEEK_SET);
	dup2(r.fd, target);
	return r;
}

static void restore(const struct redirect *r, char *text)
{
	ssize_t n = text ? pread(r->fd, text, OUTPUT - 1, 0) : 0;

	if (text)
		text[n > 0 ? n : 0] = 0;
	dup2(r->saved, r->target);
	close(r->saved);
	close(r->fd);
}

/* `sonde ctl` with these words ("" is none) and this standard input. Fills out_text and err_text.
 */
static int ctl(const char *input, const char *path, const char *a, const char *b, const char *c)
{
	const char *given[] = {"ctl", "--timeout", "1", path, a, b, c};
	char *argv[MAX_ARGS + 1] = {0};
	struct redirect in = redirect(0, input), out, err;
	int argc = 0, status;

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		if (*given[i])
			argv[argc++] = (char *)given[i];
	}
	fflush(stdout);
	__fpurge(stdin);
	clearerr(stdin);
	out = redirect(1, "");
	err = redirect(2, "");
	status = cmd_ctl(argc, argv);
	fflush(stdout);
	restore(&err, err_text);
	restore(&out, out_text);
	restore(&in, NULL);
	return status;
}

static void says(const struct fixture *f, const char *a, const char *b, const char *c,
		 const char *want)
{
	is_u64((uint64_t)ctl("", f->path, a, b, c), 0, "exit status 0");
	is_str(out_text, want, a);
	is_str(err_text, "", "nothing on stderr");
}

static void complains(const char *path, const char *a, const char *b, const char *c, int status,
		      const char *want)
{
	is_u64((uint64_t)ctl("", path, a, b, c), (uint64_t)status, "exit status");
	ok(!strncmp(err_text, "sonde ctl: ", 11) && strstr(err_text, want) &&
		   strchr(err_text, '\n') == err_text + strlen(err_text) - 1,
	   "one line: %s", want);
	is_str(out_text, "", "nothing on stdout");
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
	says(f, "trace", "on", "kmem", "");
	is_str(f->specs, "kmem;", "the spec arrives");
	is_u64((uint64_t)ctl("", f->path, "trace", "status", ""), 0, "trace status");
	ok(!strncmp(out_text, "tracing   on (kmem;) to ?\n", 26), "shows the state");
	says(f, "trace", "off", "", "");
	ctl("", f->path, "commands", "", "");
	ok(strstr(out_text, "pmemsave val=address size=size filename=string\n") != NULL,
	   "commands lists arguments");
	snprintf(saved, sizeof(saved), "%s/saved", f->dir);
	is_u64((uint64_t)ctl("pmemsave val=0x10 size=4096 filename=", f->path, "query-version", "",
			     ""),
	       0, "any verb by name");
	is_str(out_text, "qemu:\n  major: 0\n  minor: 1\n  micro: 0\npackage: sonde-0.1.0\n",
	       "its answer in lines");
	ok(stat(saved, &st) < 0, "standard input is not read when there is a command");
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
	complains(f->path, "--timeout", "0", "", 2, "--timeout takes 1 to");
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
	is_u64((uint64_t)ctl(input, f->path, "", "", ""), 0, "commands from standard input");
	ok(!strncmp(out_text, "running\nusage: sonde ctl", 24), "no prompt in a pipe");
	snprintf(input, sizeof(input), "%s/saved", f->dir);
	ok(!stat(input, &st) && st.st_size == 0x20, "the second one did its work");
	unlink(input);
	is_u64((uint64_t)ctl("status\nnonsense\nstop\n", f->path, "", "", ""), 1,
	       "a failure ends the input");
	is_str(out_text, "running\n", "what came before it is done");
	ok(!f->paused, "what comes after it is not");
	is_u64((uint64_t)ctl("trace x\n", f->path, "", "", ""), 1, "so does a usage error");
	is_u64((uint64_t)ctl("status", f->path, "", "", ""), 0, "no newline at the end");
	is_str(out_text, "running\n", "is fine");
}

static void test_stale(struct fixture *f)
{
	struct monitor_socket sock;
	char path[64];

	snprintf(path, sizeof(path), "%s/stale", f->dir);
	ok(!monitor_socket_open(path, &sock, NULL), "a socket");
	close(sock.fd);
	complains(path, "status", "", "", 1, "nobody listens on");
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
		"an impostor: %.20s", impostor.greeting))
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
	is_str(err_text, "", "without complaint");
}

int main(void)
{
	struct fixture *f = fixture_create();

	if (!f)
		return 1;
	test_commands(f);
	test_errors(f);
	test_input(f);
	test_stale(f);
	test_impostors(f);
	test_quit(f);
	fixture_destroy(f);
	return tap_done();
}
