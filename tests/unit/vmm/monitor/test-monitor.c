/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/vmm/monitor/monitor-fixture.h"

#include <poll.h>
#include <sys/stat.h>
#include "tests/unit/vmm/monitor/monitor-peer.h"
#include "vmm/monitor/client.h"
#include "vmm/monitor/socket.h"

#define ERROR_REPLY(class, desc) "{\"error\":{\"class\":\"" class "\",\"desc\":\"" desc "\"}}"
#define GENERIC(desc) ERROR_REPLY("GenericError", desc)
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

/* Seconds since an event's time stamp, by the clock it was taken from: time() is up to a tick
 * behind. */
static long long age_of(const json_t *stamp)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (long long)now.tv_sec - json_integer_value(json_object_get(stamp, "seconds"));
}

/* An event's name, or the whole line if it is none or has no time stamp of today. */
static const char *hear_event(const struct peer *peer)
{
	static char name[64];
	const char *line = hear(peer);
	json_t *event = json_loads(line, 0, NULL);
	const json_t *stamp = json_object_get(event, "timestamp");
	const char *text = json_string_value(json_object_get(event, "event"));
	bool good = text && age_of(stamp) >= 0 && age_of(stamp) < 60 &&
		    json_is_integer(json_object_get(stamp, "microseconds"));

	snprintf(name, sizeof(name), "%s", good ? text : line);
	json_decref(event);
	return name;
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

static void save(const struct fixture *f, const struct peer *peer, const char *verb,
		 const char *val, uint64_t size, const char *want)
{
	char request[256];

	snprintf(request, sizeof(request),
		 "{\"execute\":\"%s\",\"arguments\":{\"val\":%s,\"size\":%llu,\"filename\":"
		 "\"%s/saved\"}}",
		 verb, val, (unsigned long long)size, f->dir);
	say(peer, request);
	if (*want == '{')
		ok(!strcmp(hear(peer), want), "%s of %llu bytes at %s succeeds", verb,
		   (unsigned long long)size, val);
	else
		ok(strstr(hear(peer), want) != NULL, "%s of %llu bytes at %s fails: %s", verb,
		   (unsigned long long)size, val, want);
}

/* Whether the saved file holds RAM [at, at + size), and who may read it. */
static void saved_is(const struct fixture *f, uint64_t at, size_t size)
{
	static uint8_t got[FIXTURE_RAM + 1];
	char name[64];
	struct stat st = {0};
	FILE *in;
	size_t n;

	snprintf(name, sizeof(name), "%s/saved", f->dir);
	in = fopen(name, "r");
	n = in ? fread(got, 1, sizeof(got), in) : 0;
	ok(n == size && !memcmp(got, f->ram + at, size), "0x%zx bytes of RAM are saved", size);
	ok(!stat(name, &st) && (st.st_mode & 0777) == 0600,
	   "a saved file is readable by its owner only");
	if (in)
		fclose(in);
	unlink(name);
}

/* In a folder such as /tmp the name may be another user's. */
static void test_foreign(struct fixture *f, struct peer *peer)
{
	char name[64], other[64];
	FILE *out;

	snprintf(name, sizeof(name), "%s/saved", f->dir);
	snprintf(other, sizeof(other), "%s/other", f->dir);
	out = fopen(other, "w");
	if (!out || chmod(other, 0666) || symlink(other, name))
		abort();
	fclose(out);
	save(f, peer, "pmemsave", "0", 16, "cannot open");
	unlink(name);
	if (link(other, name))
		abort();
	save(f, peer, "pmemsave", "0", 16, "is not a file of yours alone");
	unlink(name);
	if (rename(other, name))
		abort();
	save(f, peer, "pmemsave", "0", 16, "{\"return\":{}}");
	saved_is(f, 0, 16);
}

static void test_memory(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path);

	save(f, &peer, "pmemsave", "0", FIXTURE_RAM, "{\"return\":{}}");
	saved_is(f, 0, FIXTURE_RAM);
	save(f, &peer, "pmemsave", "\"0x1234\"", 5000, "{\"return\":{}}");
	saved_is(f, 0x1234, 5000);
	test_foreign(f, &peer);
	save(f, &peer, "pmemsave", "0", FIXTURE_RAM + 1, "is incomplete");
	save(f, &peer, "pmemsave", "-4096", 8192, "beyond the end of the address space");
	save(f, &peer, "pmemsave", "-4096", 4096, "is incomplete");
	save(f, &peer, "pmemsave", "0", 0, "size is 0");
	save(f, &peer, "memsave", "268439000", 9000, "{\"return\":{}}");
	saved_is(f, 268439000 - FIXTURE_GVA_OFFSET, 9000);
	save(f, &peer, "memsave", "268500000", 9000, "not mapped (at 0x10010000)");
	saved_is(f, 0, 0);
	asks(&peer,
	     "{\"execute\":\"memsave\",\"arguments\":{\"val\":0,\"size\":1,\"filename\":\"/\","
	     "\"cpu-index\":2}}",
	     GENERIC("cpu-index must be less than 2"));
	asks(&peer,
	     "{\"execute\":\"pmemsave\",\"arguments\":{\"val\":0,\"size\":1,\"filename\":\"/\"}}",
	     GENERIC("cannot open '/': Is a directory"));
	peer_close(&peer);
}

static void put_entry(struct fixture *f, uint64_t at, uint64_t entry)
{
	memcpy(f->ram + at, &entry, sizeof(entry));
}

static void use_page_tables(struct fixture *f)
{
	f->trace_ops.translate = NULL;
	f->cr3 = 0x1000;
	memset(f->ram + 0x1000, 0, 0x4000);
	put_entry(f, 0x1000 + 511 * 8, 0x2003);
	put_entry(f, 0x2000 + 510 * 8, 0x3003);
	put_entry(f, 0x3000 + 8 * 8, 0x4003);
	put_entry(f, 0x4000, 0x7003);
}

#define SAVE_TEXT                                                                \
	"{\"execute\":\"memsave\",\"arguments\":{\"val\":\"0xffffffff81000%s\"," \
	"\"size\":%u,\"cpu-index\":1,\"filename\":\"%s/saved\"}}"

/* Without a translator memsave walks the page table of the vCPU asked for. */
static void test_memsave_walk(void)
{
	struct fixture *f = fixture_create(use_page_tables);
	struct peer peer = peer_negotiated(f->path);
	char request[256];

	snprintf(request, sizeof(request), SAVE_TEXT, "100", 256, f->dir);
	asks(&peer, request, "{\"return\":{}}");
	saved_is(f, 0x7100, 256);
	save(f, &peer, "memsave", "-2130706432", 16, "vcpu 0, stops 1");
	saved_is(f, 0, 0);
	is_u64((uint64_t)f->stops, 0, "the guest runs on after memsave has failed");
	peer_close(&peer);
	fixture_destroy(f);
}

/* The monitor's thread holds the guest meanwhile, which a thread that saves memory cannot stop. */
static void test_memsave_paused(void)
{
	struct fixture *f = fixture_create(use_page_tables);
	struct peer peer = peer_negotiated(f->path);
	char request[256], together[400];

	snprintf(request, sizeof(request), SAVE_TEXT, "100", 256, f->dir);
	snprintf(together, sizeof(together), "{\"execute\":\"stop\"}%s{\"execute\":\"cont\"}",
		 request);
	say(&peer, together);
	is_str(hear_event(&peer), "STOP", "the guest is paused");
	is_str(hear(&peer), "{\"return\":{}}", "its client is told so");
	is_str(hear(&peer), "{\"return\":{}}", "memsave reads the memory of a paused guest");
	is_str(hear_event(&peer), "RESUME", "the same client's next command resumes it");
	is_str(hear(&peer), "{\"return\":{}}", "and is answered");
	saved_is(f, 0x7100, 256);
	is_u64((uint64_t)f->stops, 0, "nothing of memsave holds the guest");
	peer_close(&peer);
	fixture_destroy(f);
}

/* A whole page table, all of one page. */
static void map_much(struct fixture *f)
{
	use_page_tables(f);
	for (uint64_t i = 0; i < 512; i++)
		put_entry(f, 0x4000 + i * 8, 0x7003);
}

static const char *hear_reply(const struct peer *peer)
{
	const char *line = hear(peer);

	while (!strncmp(line, "{\"event\"", 8))
		line = hear(peer);
	return line;
}

/* The guest is paused after some of it was saved; and a client that saves it then goes away. */
static void test_memsave_is_paused(void)
{
	struct fixture *f = fixture_create(map_much);
	struct peer saver = peer_negotiated(f->path), other = peer_negotiated(f->path);
	char request[256], name[64];
	struct stat st = {0};

	snprintf(name, sizeof(name), "%s/saved", f->dir);
	snprintf(request, sizeof(request), SAVE_TEXT, "000", 2 << 20, f->dir);
	say(&saver, request);
	say(&other, "{\"execute\":\"stop\"}");
	is_str(hear_event(&other), "STOP", "the guest is paused while memory is saved");
	is_str(hear(&other), "{\"return\":{}}", "its client is told so");
	is_str(hear_reply(&saver), "{\"return\":{}}", "memory is saved nevertheless");
	ok(!stat(name, &st) && st.st_size == 2 << 20, "all of it");
	peer_close(&saver);
	for (unsigned int i = 0; i < 20; i++) {
		saver = peer_negotiated(f->path);
		say(&saver, request);
		usleep(1000 * (i % 3));
		peer_close(&saver);
	}
	asks(&other, "{\"execute\":\"query-status\"}",
	     "{\"return\":{\"status\":\"paused\",\"running\":false}}");
	peer_close(&other);
	unlink(name);
	fixture_destroy(f);
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

#define SAVE_ALL \
	"{\"execute\":\"pmemsave\",\"arguments\":{\"val\":0,\"size\":65536,\"filename\":\"%s\"}}"

/* Begin to save memory that cannot be read yet. */
static struct peer begin_save(struct fixture *f)
{
	struct peer peer = peer_negotiated(f->path);
	int before = f->reads;
	char name[64], request[200];

	snprintf(name, sizeof(name), "%s/saved", f->dir);
	snprintf(request, sizeof(request), SAVE_ALL, name);
	pthread_mutex_lock(&f->gate);
	say(&peer, request);
	while (f->reads == before)
		usleep(1000);
	return peer;
}

/* Memory is saved on a thread of its own: nobody else waits for it. */
static void test_aside(struct fixture *f)
{
	struct peer saver = begin_save(f), other = peer_negotiated(f->path);

	asks(&other, "{\"execute\":\"query-status\"}",
	     "{\"return\":{\"status\":\"running\",\"running\":true}}");
	say(&saver, "{\"execute\":\"query-status\",\"id\":7}");
	asks(&other, "{\"execute\":\"query-status\",\"id\":8}",
	     "{\"return\":{\"status\":\"running\",\"running\":true},\"id\":8}");
	pthread_mutex_unlock(&f->gate);
	is_str(hear(&saver), "{\"return\":{}}", "a client gets its reply when memory is saved");
	is_str(hear(&saver), "{\"return\":{\"status\":\"running\",\"running\":true},\"id\":7}",
	       "its next request has waited for that");
	saved_is(f, 0, FIXTURE_RAM);
	peer_close(&saver);
	peer_close(&other);
}

/* A client that ends its sending side gets the reply; one that goes away stops the work. */
static void test_aside_gone(struct fixture *f)
{
	struct peer saver = begin_save(f), other;

	shutdown(saver.fd, SHUT_WR);
	pthread_mutex_unlock(&f->gate);
	is_str(hear(&saver), "{\"return\":{}}", "a client that sends no more gets its reply");
	is_str(hear(&saver), "", "and is disconnected then");
	saved_is(f, 0, FIXTURE_RAM);
	peer_close(&saver);
	for (int i = 0; i < 20; i++) {
		saver = begin_save(f);
		peer_close(&saver);
		usleep(1000 * (unsigned int)(i % 3));
		pthread_mutex_unlock(&f->gate);
	}
	other = peer_negotiated(f->path);
	asks(&other, "{\"execute\":\"query-status\"}",
	     "{\"return\":{\"status\":\"running\",\"running\":true}}");
	peer_close(&other);
}

/* The guest's memory goes: what reads it has ended before. */
static void test_aside_end(struct fixture *f)
{
	struct peer saver = begin_save(f), other = peer_negotiated(f->path);
	char name[64];
	int reads;

	snprintf(name, sizeof(name), "%s/saved", f->dir);
	say(&other, "{\"execute\":\"x-end\"}");
	usleep(100000);
	pthread_mutex_unlock(&f->gate);
	is_str(hear(&other), "{\"return\":{}}",
	       "the end of a guest waits for a reading of its memory");
	reads = f->reads;
	ok(strstr(hear(&saver), "the guest has ended"), "who waits for the rest is told");
	usleep(10000);
	is_u64((uint64_t)f->reads, (uint64_t)reads, "after that its memory is not read any more");
	unlink(name);
	peer_close(&saver);
	peer_close(&other);
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
	test_memory(f);
	test_aside(f);
	test_aside_gone(f);
	test_aside_end(f);
	test_memsave_walk();
	test_memsave_paused();
	test_memsave_is_paused();
	test_quit(f);
	test_socket_path();
	test_no_tracer();
	return tap_done();
}
