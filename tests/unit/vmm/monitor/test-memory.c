/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's memory saved by clients of the monitor, while others are served. */
#include "tests/unit/vmm/monitor/monitor-fixture.h"

#include <sys/stat.h>
#include "tests/unit/vmm/monitor/monitor-peer.h"

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
	test_memory(f);
	test_aside(f);
	test_aside_gone(f);
	test_aside_end(f);
	fixture_destroy(f);
	test_memsave_walk();
	test_memsave_paused();
	test_memsave_is_paused();
	return tap_done();
}
