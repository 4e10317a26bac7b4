/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The monitor's protocol, its clients, and its socket. */
#include "tests/unit/vmm/monitor/monitor-fixture.h"

#include <poll.h>
#include <sys/stat.h>
#include "tests/unit/vmm/monitor/monitor-peer.h"
#include "vmm/monitor/client.h"
#include "vmm/monitor/socket.h"

#define NOT_FOUND(desc) ERROR_REPLY("CommandNotFound", desc)

static void test_negotiation(struct fixture *f)
{
	struct peer peer = peer_open(f->path);

	is_str(hear(&peer),
	       "{\"QMP\":{\"version\":{\"qemu\":{\"major\":0,\"minor\":1,\"micro\":0},"
	       "\"package\":\"sonde-0.1.0\"},\"capabilities\":[]}}",
	       "a client is greeted with the version");
	asks(&peer, "{\"execute\":\"query-status\"}\n",
	     NOT_FOUND("send qmp_capabilities before other commands"));
	asks(&peer, "{\"execute\":\"qmp_capabilities\",\"arguments\":{\"enable\":[\"oob\"]}}\n",
	     GENERIC("there is no capability 'oob'"));
	asks(&peer, "{\"execute\":\"qmp_capabilities\",\"arguments\":{\"enable\":[]}}\n",
	     "{\"return\":{}}");
	asks(&peer, "{\"execute\":\"qmp_capabilities\"}\n",
	     NOT_FOUND("capabilities are negotiated already"));
	asks(&peer, "{\"execute\":\"query-status\"}\n",
	     "{\"return\":{\"status\":\"running\",\"running\":true}}");
	asks(&peer, "{\"execute\":\"nonsense\"}\n",
	     NOT_FOUND("there is no command 'nonsense'; query-commands lists them"));
	peer_close(&peer);
}

static void test_ids(struct fixture *f)
{
	static const char *const ids[] = {"1",    "-9223372036854775808", "1.5",  "\"x\\u0001\"",
					  "null", "[1,{\"a\":[]}]",       "true", "{\"k\":null}"};
	struct peer peer = peer_negotiated(f->path);

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char request[128], want[128];

		snprintf(request, sizeof(request), "{\"id\":%s,\"execute\":\"cont\"}", ids[i]);
		snprintf(want, sizeof(want), "{\"return\":{},\"id\":%s}", ids[i]);
		asks(&peer, request, want);
		snprintf(request, sizeof(request), "{\"execute\":3,\"id\":%s}", ids[i]);
		snprintf(want, sizeof(want),
			 "{\"error\":{\"class\":\"GenericError\",\"desc\":\"key 'execute' is "
			 "missing or "
			 "not a string\"},\"id\":%s}",
			 ids[i]);
		asks(&peer, request, want);
	}
	peer_close(&peer);
}

static void test_streams(struct fixture *f)
{
	const char *request = "{\"execute\": \"cont\",\r\n \"id\": 3}\r\n";
	struct peer peer = peer_negotiated(f->path);

	say(&peer, "{\"execute\":\"cont\",\"id\":1}{\"execute\":\"nope\",\"id\":2}\n"
		   "{\"execute\":\"cont\",\"id\":3}");
	is_str(hear(&peer), "{\"return\":{},\"id\":1}",
	       "the first of three pipelined commands is answered");
	ok(strstr(hear(&peer), "CommandNotFound") != NULL, "the second one, an error, is answered");
	is_str(hear(&peer), "{\"return\":{},\"id\":3}", "the third one is answered");
	for (const char *c = request; *c; c++) {
		char byte[2] = {*c, 0};

		say(&peer, byte);
		usleep(200);
	}
	is_str(hear(&peer), "{\"return\":{},\"id\":3}",
	       "a command that comes byte by byte is answered");
	say(&peer, "GET / HTTP/1.1\r\n{\"execute\":\"cont\",\"id\":4}\n");
	ok(strstr(hear(&peer), "invalid JSON") != NULL, "junk is answered with an error");
	is_str(hear(&peer), "{\"return\":{},\"id\":4}", "the line after junk is answered");
	peer_close(&peer);
}

static void test_too_long(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path);
	char filler[4097];

	memset(filler, 'x', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = 0;
	say(&peer, "{\"execute\":\"");
	for (size_t n = 0; n <= MONITOR_CLIENT_REQUEST_MAX / (sizeof(filler) - 1) + 8; n++)
		say(&peer, filler);
	say(&peer, "\"}\n{\"execute\":\"cont\",\"id\":5}\n");
	is_str(hear(&peer), GENERIC("message longer than 1048576 bytes"),
	       "a line beyond 1 MiB is refused");
	is_str(hear(&peer), "{\"return\":{},\"id\":5}",
	       "the line after a too long one is answered");
	peer_close(&peer);
}

static void test_disconnects(struct fixture *f)
{
	struct peer other = peer_negotiated(f->path);
	struct peer peer = peer_negotiated(f->path);

	say(&peer, "{\"execute\":\"query-st");
	peer_close(&peer);
	peer = peer_negotiated(f->path);
	say(&peer, "{\"execute\":\"query-commands\"}{\"execute\":\"query-commands\"}");
	peer_close(&peer);
	asks(&other, "{\"execute\":\"cont\"}", "{\"return\":{}}");
	peer = peer_negotiated(f->path);
	say(&peer, "{\"execute\":\"cont\",\"id\":1}{\"execute\":\"cont\",\"id\":2}");
	shutdown(peer.fd, SHUT_WR);
	is_str(hear(&peer), "{\"return\":{},\"id\":1}",
	       "a client that has closed its sending side gets the first reply");
	is_str(hear(&peer), "{\"return\":{},\"id\":2}",
	       "a client that has closed its sending side gets the second reply");
	is_str(hear(&peer), "", "after the last reply the connection is closed");
	peer_close(&peer);
	peer_close(&other);
}

static void test_ninth(struct fixture *f)
{
	struct peer peers[MONITOR_MAX_CLIENTS], ninth;

	for (size_t i = 0; i < MONITOR_MAX_CLIENTS; i++)
		peers[i] = peer_negotiated(f->path);
	ninth = peer_open(f->path);
	is_str(hear(&ninth),
	       GENERIC("the monitor has as many clients as it takes: disconnect one first"),
	       "a ninth client gets the reason why it is refused");
	is_str(hear(&ninth), "", "a ninth client is disconnected");
	peer_close(&ninth);
	asks(&peers[7], "{\"execute\":\"cont\"}", "{\"return\":{}}");
	peer_close(&peers[3]);
	peers[3] = peer_negotiated(f->path);
	for (size_t i = 0; i < MONITOR_MAX_CLIENTS; i++)
		peer_close(&peers[i]);
}

/* Requests until the monitor takes no more: a client that does not read must not fill its memory.
 */
static int send_until_blocked(const struct peer *peer, const char *request)
{
	struct pollfd pollfd = {.fd = peer->fd, .events = POLLOUT};
	size_t len = strlen(request);
	int sent = 0;

	while (sent < 1000000 && poll(&pollfd, 1, 500) > 0) {
		ssize_t n = send(peer->fd, request, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			continue;
		if (n != (ssize_t)len)
			return -1;
		sent++;
	}
	return sent;
}

static void test_slow_reader(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path), other = peer_negotiated(f->path);
	int sent = send_until_blocked(&peer, "{\"execute\":\"query-commands\",\"id\":7}");
	int got = 0;

	ok(sent > 0 && sent < 1000000, "requests wait while replies are not read (after %d)", sent);
	asks(&other, "{\"execute\":\"cont\"}", "{\"return\":{}}");
	while (got < sent && !strncmp(hear(&peer), "{\"return\":[{", 12))
		got++;
	is_u64((uint64_t)got, (uint64_t)sent, "all requests are answered when the client reads");
	asks(&peer, "{\"execute\":\"cont\"}", "{\"return\":{}}");
	peer_close(&other);
	peer_close(&peer);
}

static void test_events(struct fixture *f)
{
	struct peer actor = peer_negotiated(f->path), watcher = peer_negotiated(f->path),
		    raw = peer_greeted(f->path);

	say(&actor, "{\"execute\":\"stop\"}");
	is_str(hear_event(&actor), "STOP", "the client that stops the guest gets STOP");
	is_str(hear(&actor), "{\"return\":{}}",
	       "the client that stops the guest gets the reply after STOP");
	asks(&actor, "{\"execute\":\"stop\"}", "{\"return\":{}}");
	asks(&actor, "{\"execute\":\"query-status\"}",
	     "{\"return\":{\"status\":\"paused\",\"running\":false}}");
	say(&actor,
	    "{\"execute\":\"cont\"}{\"execute\":\"trace-start\"}{\"execute\":\"trace-stop\"}");
	is_str(hear_event(&watcher), "STOP", "another client gets STOP");
	is_str(hear_event(&watcher), "RESUME", "another client gets RESUME");
	is_str(hear_event(&watcher), "TRACE_STARTED", "another client gets TRACE_STARTED");
	is_str(hear_event(&watcher), "TRACE_STOPPED", "another client gets TRACE_STOPPED");
	asks(&raw, "{\"execute\":\"qmp_capabilities\",\"id\":1}", "{\"return\":{},\"id\":1}");
	peer_close(&raw);
	peer_close(&watcher);
	peer_close(&actor);
}

static void test_flood(struct fixture *f)
{
	struct peer deaf = peer_negotiated(f->path), raw = peer_greeted(f->path),
		    actor = peer_greeted(f->path);
	int events = 0;

	asks(&actor, "{\"execute\":\"qmp_capabilities\"}", "{\"return\":{}}");
	say(&actor, "{\"execute\":\"x-flood\"}");
	asks(&raw, "{\"execute\":\"qmp_capabilities\",\"id\":2}", "{\"return\":{},\"id\":2}");
	while (!strncmp(hear(&deaf), "{\"event\":\"FLOOD\"", 16))
		events++;
	ok(events > 10 && events < FIXTURE_FLOOD,
	   "a client that does not read is disconnected after %d events", events);
	peer_close(&actor);
	peer_close(&raw);
	peer_close(&deaf);
	deaf = peer_negotiated(f->path);
	peer_close(&deaf);
}

static void test_arguments(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path);

	asks(&peer, "{\"execute\":\"stop\",\"arguments\":{\"x\":1}}",
	     GENERIC("stop has no argument 'x'"));
	asks(&peer, "{\"execute\":\"pmemsave\",\"arguments\":{\"val\":0,\"size\":1}}",
	     GENERIC("pmemsave needs the argument 'filename' (a string)"));
	asks(&peer,
	     "{\"execute\":\"pmemsave\",\"arguments\":{\"val\":0,\"size\":1,\"filename\":\"-\"}}",
	     GENERIC("standard output is the tracer's own; name a file"));
	asks(&peer, "{\"execute\":\"pmemsave\",\"arguments\":{\"val\":0,\"size\":-1}}",
	     GENERIC("argument 'size' of pmemsave must be an integer of 0 or more"));
	asks(&peer, "{\"execute\":\"pmemsave\",\"arguments\":{\"val\":\"0xg\"}}",
	     GENERIC("argument 'val' of pmemsave must be an integer or a string \\\"0x...\\\""));
	asks(&peer, "{\"execute\":\"trace-start\",\"arguments\":{\"specs\":[1]}}",
	     GENERIC("argument 'specs' of trace-start must be a list of strings"));
	say(&peer, "{\"execute\":\"trace-start\",\"arguments\":{\"specs\":[\"a\",\"b\"]}}");
	is_str(hear_event(&peer), "TRACE_STARTED", "TRACE_STARTED comes before the reply");
	is_str(hear(&peer), "{\"return\":{}}", "the reply comes after TRACE_STARTED");
	asks(&peer, "{\"execute\":\"trace-start\"}", GENERIC("tracing is on already"));
	asks(&peer, "{\"execute\":\"trace-snapshot\"}", "{\"return\":{}}");
	asks(&peer, "{\"execute\":\"query-trace\"}",
	     "{\"return\":{\"enabled\":true,\"mode\":\"a;b;\",\"tracers\":[\"kmem\"],"
	     "\"trace_dir\":\"out\",\"events\":1234,\"lost\":7,"
	     "\"sites\":{\"entry\":1013,\"refused\":[null]}}}");
	asks(&peer, "{\"execute\":\"query-cpus-fast\"}",
	     "{\"return\":[{\"cpu-index\":0,\"thread-id\":100},{\"cpu-index\":1,"
	     "\"thread-id\":101}]}");
	peer_close(&peer);
}

static struct peer begin_snapshot(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path);
	int before = f->reads;

	say(&peer, "{\"execute\":\"trace-snapshot\"}");
	while (f->reads == before)
		usleep(1000);
	return peer;
}

/* A snapshot takes as long as its disk: nobody else waits for it, whatever happens meanwhile. */
static void test_snapshot(struct fixture *f)
{
	static const char running[] = "{\"return\":{\"status\":\"running\",\"running\":true}}";
	struct peer other = peer_negotiated(f->path), first, second;

	pthread_mutex_lock(&f->gate);
	first = begin_snapshot(f);
	second = begin_snapshot(f);
	asks(&other, "{\"execute\":\"query-status\"}", running);
	pthread_mutex_unlock(&f->gate);
	is_str(hear(&first), "{\"return\":{}}", "a snapshot is answered when it is written");
	is_str(hear(&second), "{\"return\":{}}", "so is another one at the same time");
	pthread_mutex_lock(&f->gate);
	peer_close(&first);
	first = begin_snapshot(f);
	peer_close(&first);
	asks(&other, "{\"execute\":\"query-status\"}", running);
	first = begin_snapshot(f);
	asks(&other, "{\"execute\":\"x-end\"}", "{\"return\":{}}");
	ok(strstr(hear(&first), "the guest has ended"),
	   "the end of the guest does not wait for it");
	pthread_mutex_unlock(&f->gate);
	peer_close(&first);
	peer_close(&second);
	peer_close(&other);
}

/* Replies order this with the monitor's thread, which ThreadSanitizer does not see. */
__attribute__((no_sanitize("thread"))) static void forbid_changes(struct fixture *f)
{
	f->trace_ops.change = NULL;
}

static void test_instances(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path);

	say(&peer, "{\"execute\":\"trace-remove\",\"arguments\":{\"name\":\"a\"}}");
	hear_event(&peer);
	is_str(hear(&peer), "{\"return\":{}}", "what an earlier start left is removed");
	asks(&peer, "{\"execute\":\"query-instances\"}", "{\"return\":[]}");
	asks(&peer, "{\"execute\":\"trace-add\"}",
	     GENERIC("trace-add needs the argument 'spec' (a string)"));
	say(&peer, "{\"execute\":\"trace-add\",\"arguments\":{\"spec\":\"a=kmem\"}}");
	is_str(hear_event(&peer), "TRACE_CHANGED", "TRACE_CHANGED comes before the reply");
	is_str(hear(&peer), "{\"return\":{}}", "an instance is added");
	asks(&peer, "{\"execute\":\"query-instances\"}",
	     "{\"return\":[{\"name\":\"a\",\"spec\":\"a=kmem\",\"active\":true,\"sites\":12,"
	     "\"refused\":1}]}");
	asks(&peer, "{\"execute\":\"trace-add\",\"arguments\":{\"spec\":\"a=x\"}}",
	     GENERIC("there is an instance 'a' already"));
	asks(&peer, "{\"execute\":\"trace-set\",\"arguments\":{\"spec\":\"b=x\"}}",
	     GENERIC("there is no instance 'b'"));
	asks(&peer, "{\"execute\":\"trace-set\",\"arguments\":{\"spec\":\"a=kmen\"}}",
	     "{\"error\":{\"class\":\"GenericError\",\"desc\":\"unknown tracer 'kmen'\","
	     "\"text\":\"a=kmen\",\"column\":3}}");
	say(&peer, "{\"execute\":\"trace-set\",\"arguments\":{\"spec\":\"a=x\"}}");
	hear_event(&peer);
	is_str(hear(&peer), "{\"return\":{\"switched_sites\":1500,\"switch_ns\":2500000}}",
	       "an instance is replaced, and the reply has what that took");
	asks(&peer, "{\"execute\":\"query-instances\"}",
	     "{\"return\":[{\"name\":\"a\",\"spec\":\"a=x\",\"active\":true,\"sites\":12,"
	     "\"refused\":1}]}");
	say(&peer, "{\"execute\":\"trace-remove\",\"arguments\":{\"name\":\"a\"}}");
	hear_event(&peer);
	is_str(hear(&peer), "{\"return\":{}}", "an instance is removed");
	asks(&peer, "{\"execute\":\"query-instances\"}", "{\"return\":[]}");
	forbid_changes(f);
	asks(&peer, "{\"execute\":\"trace-remove\",\"arguments\":{\"name\":\"a\"}}",
	     GENERIC("this guest's tracers cannot be changed"));
	peer_close(&peer);
}

static void test_quit(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path);

	asks(&peer, "{\"execute\":\"quit\",\"id\":1}", "{\"return\":{},\"id\":1}");
	fixture_destroy(f);
	is_str(hear(&peer), "", "the connection ends with the monitor");
	peer_close(&peer);
}

static void refuses_path(const char *path, int code, const char *want)
{
	struct monitor_socket sock;
	struct error err = {0};

	ok(monitor_socket_open(path, &sock, &err) == -code, "a monitor at '%.40s' is refused",
	   path);
	ok(strstr(err.text, want) != NULL, "the error about that place says: %s", want);
}

static void test_socket_path(void)
{
	char dir[] = "/tmp/sonde-monitor-XXXXXX", path[64], file[64], longer[128];
	struct monitor_socket sock, again;
	struct stat st = {0};

	ok(mkdtemp(dir) != NULL, "a directory is made");
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(file, sizeof(file), "%s/f", dir);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	ok(!monitor_socket_open(path, &sock, NULL), "a new socket is made");
	ok(!stat(path, &st) && st.st_mode == (S_IFSOCK | 0600), "a socket has mode 0600");
	refuses_path(path, EADDRINUSE, "another process uses");
	close(sock.fd);
	ok(!monitor_socket_open(path, &again, NULL), "a socket without a listener is replaced");
	monitor_socket_close(&again);
	ok(stat(path, &st) < 0, "a socket is removed when it is closed");
	fclose(fopen(file, "w"));
	refuses_path(file, EEXIST, "is not a socket");
	ok(!stat(file, &st), "a file that is no socket is left alone");
	refuses_path(longer, ENAMETOOLONG, "longer than 107 bytes");
	refuses_path("", EINVAL, "empty");
	refuses_path("/nonexistent/s", ENOENT, "No such file");
	ok(!monitor_socket_open(path, &sock, NULL) && !rename(file, path),
	   "another file takes the name of the socket");
	monitor_socket_close(&sock);
	ok(!stat(path, &st), "that file is not removed when the socket is closed");
	unlink(path);
	rmdir(dir);
}

static void forget_tracing(struct fixture *f)
{
	f->target.trace = NULL;
}

static void test_no_tracer(void)
{
	struct fixture *f = fixture_create(forget_tracing);
	struct peer peer = peer_negotiated(f->path);
	const char *want = GENERIC("tracing is not configured: start sonde run with --trace or -o");

	asks(&peer, "{\"execute\":\"trace-start\"}", want);
	asks(&peer, "{\"execute\":\"trace-stop\"}", want);
	asks(&peer, "{\"execute\":\"query-trace\"}", want);
	peer_close(&peer);
	fixture_destroy(f);
}

int main(void)
{
	struct fixture *f = fixture_create(NULL);

	if (!f)
		return 1;
	test_negotiation(f);
	test_ids(f);
	test_streams(f);
	test_too_long(f);
	test_disconnects(f);
	test_ninth(f);
	test_slow_reader(f);
	test_events(f);
	test_flood(f);
	test_arguments(f);
	test_instances(f);
	test_snapshot(f);
	test_quit(f);
	test_socket_path();
	test_no_tracer();
	return tap_done();
}
