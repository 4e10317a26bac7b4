/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instances of the ordered lane come, go and change on a fake guest while it is traced. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/kmem.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "patcher/tracers/kmem/kmem.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	ROUNDS = 200,
	COMMIT_MS = 30,
	PATIENCE_MS = 20000,
	CALL = 0xe8,
	JMP = 0xe9,
	OUT = 0xe6,
	RET = 0xc3,
	KMALLOC_RETURN = FAKE_KMALLOC + 28,
};

static struct fake_session fs;
static pthread_t self;
static unsigned int stops; /* by this thread, without those inside of others */

static void count_stop(struct fake_guest *fg)
{
	if (pthread_equal(pthread_self(), self))
		stops += fg->stopped == 1;
}

static void begin(bool exitless, const char *first, const char *second)
{
	const struct trace_options options = {.exitless = exitless, .ring_bytes = RING_BYTES};
	const char *const specs[] = {first, second, NULL};
	struct error err = {0};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
	ok(!trace_session_start(fs.session, specs, &err), "start with %s: %s", first, err.text);
	fs.fg.on_stop = count_stop;
	stops = 0;
}

static int set(const char *first, const char *second, struct error *err)
{
	const char *const specs[] = {first, second};

	stops = 0;
	return trace_session_set_instances(fs.session, specs, (size_t) !!first + !!second, err);
}

static uint8_t opcode(uint64_t function)
{
	return *fake_text(&fs.fg, function);
}

static uint64_t count(enum counter_id id)
{
	return fake_session_count(&fs, id);
}

static const struct trace_instance_status *instance(const char *name)
{
	return fake_session_instance(&fs, name);
}

/* --- traps ----------------------------------------------------------------------------------- */

static void test_types(void)
{
	begin(false, "kmem:pages", NULL);
	ok(opcode(FAKE_ALLOC_PAGES) == OUT && opcode(FAKE_KFREE) != OUT,
	   "only functions of the wanted type are patched");
	is_u64(fake_session_status(&fs).entry_sites, 2, "the status counts those");
	is_u64(instance("kmem")->sites, 2, "so does the instance");
	ok(!set("kmem", NULL, NULL), "more types");
	is_u64(stops, 1, "take one stop");
	ok(opcode(FAKE_KFREE) == OUT, "their functions are patched");
	ok(opcode(KMALLOC_RETURN) == OUT, "so are the returns of those that allocate");
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	is_u64(fake_session_recorded(&fs), 1, "and recorded");
	ok(!set("kmem:cache", NULL, NULL) && stops == 1, "other types take one stop");
	ok(opcode(FAKE_KFREE) != OUT && opcode(FAKE_CACHE_FREE) == OUT, "the text follows");
	ok(opcode(KMALLOC_RETURN) == RET, "the returns do, too");
	fake_session_call(&fs, 0, FAKE_KFREE, fake_object());
	is_u64(fake_session_recorded(&fs), 1, "what is not wanted is not recorded");
	ok(!set("kmem:cache if bytes_alloc > 100", NULL, NULL), "a filter comes");
	is_u64(stops, 0, "without any stop");
	ok(!set("a=kmem:cache", "b=kmem:cache,vcpu=1", NULL) && !stops,
	   "instances of the same types come and go without a stop");
	ok(!set(NULL, NULL, NULL) && opcode(FAKE_CACHE_FREE) != OUT, "all instances go");
	ok(!set("kmem", NULL, NULL) && opcode(FAKE_KFREE) == OUT, "the tracer comes again");
	fake_session_end(&fs);
}

static const struct probe_ref *leaving;
static bool is_told; /* at each stop */

static void see_stop(struct fake_guest *fg)
{
	(void)fg;
	is_told = leaving->leaving;
}

/* A call that is open when its function goes returns unseen. Before the change takes effect a call
 * around it shows that it has. */
static void test_unseen_return(void)
{
	struct probe_hit inner = {
		.key = fake_stack_top(0) - 64, .args = {64}, .slab_cache = fake_cache()};
	struct probe_hit outer = inner;

	outer.key += 32;
	begin(false, "kmem", NULL);
	leaving = fake_session_ref(&fs, FAKE_KMALLOC);
	fs.fg.on_stop = see_stop;
	ok(!set("kmem:pages", NULL, NULL) && is_told,
	   "a function is known to go before its patch does");
	ok(!set("kmem", NULL, NULL) && !is_told, "a function that comes is not");
	fake_session_emit(&fs, leaving, POINT_ENTRY, &inner);
	atomic_store(&((struct probe_ref *)(uintptr_t)leaving)->leaving, true);
	fake_session_emit(&fs, fake_session_ref(&fs, FAKE_ALLOC_PAGES), POINT_ENTRY, &outer);
	is_u64(count(COUNTER_IN_FLIGHT), 1, "its open call was unfinished");
	is_u64(count(COUNTER_LOST), 0, "and is not lost");
	session_forget_open_calls(fs.session);
	fake_session_end(&fs);
}

/* A call that is open when its function goes. */
static void test_open_calls(void)
{
	struct probe_hit hit = {
		.key = fake_stack_top(0) - 64, .args = {64}, .slab_cache = fake_cache()};
	const struct probe_ref *ref;

	begin(false, "kmem", NULL);
	ref = fake_session_ref(&fs, FAKE_KMALLOC);
	fake_session_emit(&fs, ref, POINT_ENTRY, &hit);
	ok(!set("kmem:pages", NULL, NULL), "a function goes while a call of it is open");
	is_u64(count(COUNTER_IN_FLIGHT), 1, "the call counts as unfinished");
	fake_session_emit(&fs, ref, POINT_ENTRY, &hit);
	ok(!call_table_is_open(fs.session->calls), "what is late of it is passed over");
	ok(!set("kmem", NULL, NULL), "it comes again");
	hit.result = fake_object();
	fake_session_emit(&fs, NULL, POINT_RETURN, &hit);
	is_u64(count(COUNTER_UNPAIRED_RETURNS), 1, "a return without its entry is counted");
	is_u64(fake_session_recorded(&fs), 0, "and no event is made up");
	fake_session_emit(&fs, ref, POINT_ENTRY, &hit);
	ok(!set("a=kmem", NULL, NULL), "another instance takes over while a call is open");
	fake_session_emit(&fs, NULL, POINT_RETURN, &hit);
	is_u64(fake_session_recorded(&fs), 1, "which it gets");
	fake_session_end(&fs);
}

static uint64_t fail_gpa;

static void fail_now(struct fake_guest *fg)
{
	fg->failing_gpa = fail_gpa;
}

static void test_failure(bool exitless)
{
	struct error err = {0};

	begin(exitless, "kmem:kmalloc", NULL);
	fail_gpa = FAKE_PHYS_TEXT + FAKE_FREE_PAGE;
	fs.fg.on_stop = fail_now;
	ok(set("kmem", NULL, &err) == -EIO, "a change fails half-way: %s", err.text);
	fs.fg.on_stop = count_stop;
	fs.fg.failing_gpa = 0;
	ok(opcode(FAKE_KFREE) == (exitless ? JMP : OUT) && opcode(FAKE_FREE_PAGE) != JMP &&
		   opcode(FAKE_FREE_PAGE) != OUT && fake_session_ref(&fs, FAKE_FREE_PAGE)->off,
	   "all is as before");
	ok(!fs.fg.stopped && !strcmp(instance("kmem")->spec, "kmem:kmalloc"), "with the instance");
	ok(!set("kmem", NULL, &err), "the next try succeeds: %s", err.text);
	ok(set("kmem if nonsense == 1", NULL, &err) == -ENOENT, "a bad filter: %s", err.text);
	ok(set("kmem:nonsense", NULL, &err) == -EINVAL, "a bad spec: %s", err.text);
	ok(err.parsed && !strcmp(err.parsed, "kmem:nonsense"), "it is said which one");
	ok(!strcmp(instance("kmem")->spec, "kmem"), "changes nothing");
	fake_session_end(&fs);
}

static void test_functions_by_traps(void)
{
	struct error err = {0};

	begin(false, "kmem", NULL);
	ok(set("kmem", "function", &err) == -ENOTSUP, "functions are refused at once: %s",
	   err.text);
	is_u64(fake_session_status(&fs).nr_specs, 1, "and do not wait");
	fake_session_end(&fs);
}

/* --- rings ----------------------------------------------------------------------------------- */

static struct ring_engine *rings(void)
{
	return ring_engine_of(fs.session->ring_engine);
}

/* A call by its trampoline, which is not complete yet. */
static struct ring_record *reserve_call(uint64_t function, unsigned int vcpu)
{
	const struct patch_set *entries = &fs.session->plan.entries;
	size_t number = patch_set_find(entries, fake_gva(function));
	const struct record_layout *layout = &rings()->set.places[number].layout;
	struct ring_writer writer = ring_writer(rings()->rings[vcpu].header, rings()->ring_bytes);
	struct ring_record *record;
	uint64_t *words;

	record = fake_session_reserve(&fs, &writer, layout->size);
	words = (uint64_t *)(void *)record;
	record->tsc = fs.fg.guest.clock->tsc(&fs.fg.guest);
	words[layout->offset[FIELD_KEY] / 8] = fake_stack_top(vcpu) - 64;
	words[layout->offset[FIELD_ARG0] / 8] = fake_object();
	record->items = (uint32_t)number;
	return record;
}

static struct ring_record *reserve_free(unsigned int vcpu)
{
	return reserve_call(FAKE_KFREE, vcpu);
}

static void commit_free(struct ring_record *record)
{
	uint32_t number = record->items;

	record->items = 0;
	__atomic_store_n(&record->commit, ring_commit(number), __ATOMIC_RELEASE);
}

static void *commit_later(void *record)
{
	clock_wait_ms(COMMIT_MS);
	commit_free(record);
	return NULL;
}

static void test_rings(void)
{
	struct error err = {0};

	begin(true, "kmem:pages", NULL);
	ok(opcode(FAKE_ALLOC_PAGES) == JMP && opcode(FAKE_KFREE) != JMP,
	   "only functions of the wanted type are patched");
	ok(!set("kmem", NULL, &err), "more types: %s", err.text);
	is_u64(stops, 1, "take one stop");
	ok(opcode(FAKE_KFREE) == JMP, "their functions are patched");
	commit_free(reserve_free(1));
	ok(!set("kmem:pages", NULL, NULL), "they go again");
	is_u64(fake_session_recorded(&fs), 1, "what was in the rings is recorded before");
	ok(opcode(FAKE_KFREE) != JMP && opcode(FAKE_ALLOC_PAGES) == JMP, "the text follows");
	ok(!set("kmem:pages if order > 1", NULL, &err) || strstr(err.text, "order"), "a filter");
	is_u64(stops, 0, "takes no stop");
	fake_session_end(&fs);
}

/* What is under way when the instance goes is its own. */
static void test_under_way(void)
{
	pthread_t thread;

	begin(true, "a=kmem:kmalloc", "b=kmem");
	if (pthread_create(&thread, NULL, commit_later, reserve_free(2)))
		return;
	ok(!set("b=kmem", NULL, NULL), "an instance goes while a record is not complete");
	pthread_join(thread, NULL);
	is_u64(fake_session_recorded(&fs), 2, "both instances have got the event");
	fake_session_end(&fs);
}

/* A vCPU that the host does not run, in the middle of a record. */
static void test_late(void)
{
	struct ring_record *record;
	struct error err = {0};

	begin(true, "a=kmem:kmalloc", "b=kmem");
	record = reserve_free(2);
	ok(!set("b=kmem", NULL, NULL), "a change does not wait for ever");
	ok(set("c=kmem", NULL, &err) == -EAGAIN, "the next one waits for it: %s", err.text);
	commit_free(record);
	ok(!set("c=kmem", NULL, &err), "and comes when it is over: %s", err.text);
	is_u64(fake_session_recorded(&fs), 2, "both instances have got the event");
	fake_session_end(&fs);
}

/* A vCPU was in a trampoline when its function went. That it reserves a record afterwards, and that
 * the function comes again before this is read, opens no call: its return was not recorded. */
static void test_late_call(void)
{
	struct ring_record *record;

	begin(true, "kmem", NULL);
	ok(!set("kmem:pages", NULL, NULL), "a function goes");
	record = reserve_call(FAKE_KMALLOC, 2);
	ok(!set("kmem", NULL, NULL), "and comes again");
	commit_free(record);
	ok(ordered_await(fs.session), "which takes effect behind the record");
	ok(!call_table_is_open(fs.session->calls), "a call of before is passed over");
	fake_session_end(&fs);
}

static void test_beside_functions(void)
{
	struct error err = {0};

	begin(true, "f=function:kfree", NULL);
	ok(opcode(FAKE_KFREE) == CALL, "a function is recorded alone");
	is_u64(fake_session_status(&fs).entry_sites, 0, "no probe is patched");
	ok(!set("f=function:kfree", "kmem", &err), "probes come: %s", err.text);
	is_u64(stops, 1, "in one stop");
	ok(opcode(FAKE_KFREE) == JMP && opcode(FAKE_CACHE_FREE) == JMP,
	   "the function's site has a trampoline of both");
	ok(!set("f=function:kfree", "kmem:pages", &err), "those of some types: %s", err.text);
	ok(opcode(FAKE_KFREE) == CALL && opcode(FAKE_ALLOC_PAGES) == JMP,
	   "the site has code of the function alone");
	ok(!set("kmem:pages", "g=function:kmem_cache_free", &err) && stops == 1,
	   "both lanes change in one stop: %s", err.text);
	ok(opcode(FAKE_KFREE) != CALL && opcode(FAKE_CACHE_FREE) == CALL, "as the text does");
	ok(instance("g")->active && !instance("g")->waiting, "what is added traces at once");
	ok(!set("kmem", NULL, &err) && opcode(FAKE_CACHE_FREE) == JMP, "functions go: %s",
	   err.text);
	fake_session_end(&fs);
}

static void test_added_function(void)
{
	begin(true, "kmem", NULL);
	ok(!trace_session_add_instance(fs.session, "f=function:kfree", NULL),
	   "a function is added");
	ok(instance("f")->active && !instance("f")->waiting, "and is on at once");
	fake_session_end(&fs);
}

static int no_facts(void *arg, struct slab_page_facts *out, struct error *err)
{
	(void)arg;
	(void)out;
	return error_set(err, ENOTSUP, "odd struct page");
}

static void break_kmem(struct fake_guest *fg)
{
	struct kmem_tracer *t = (struct kmem_tracer *)fs.session->tracers.v[0];

	t->pages.facts = no_facts;
	fg->on_stop = NULL;
}

/* A kernel whose allocators cannot be traced by trampolines, though its functions can. */
static void test_functions_alone(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};
	const char *const specs[] = {"function:kfree", NULL};
	struct error err = {0};

	fake_session_create(&fs);
	trace_session_set_options(fs.session, &options);
	fs.fg.on_stop = break_kmem;
	ok(!trace_session_start(fs.session, specs, &err), "functions are traced: %s", err.text);
	ok(instance("function")->active && opcode(FAKE_KFREE) == CALL, "by trampolines");
	ok(trace_session_add_instance(fs.session, "kmem", &err) == -ENOTSUP &&
		   strstr(err.text, "odd struct page"),
	   "kmem is refused: %s", err.text);
	ok(!trace_session_add_instance(fs.session, "g=function:kmem_cache_free", &err) &&
		   opcode(FAKE_CACHE_FREE) == CALL,
	   "other functions are not: %s", err.text);
	ok(!trace_session_remove_instance(fs.session, "g", NULL), "and go again");
	fake_session_end(&fs);
}

/* The guest's own ftrace has a site until it gives it back. */
static void test_held(void)
{
	const struct site_refusal *refused;
	struct error err = {0};

	begin(true, "kmem:pages", NULL);
	fake_branch(&fs.fg, FAKE_KFREE, CALL, FAKE_UPDATE);
	ok(!trace_session_add_instance(fs.session, "f=function:kfree,kmem_cache_free", &err),
	   "one of two functions is held: %s", err.text);
	ok(instance("f")->sites == 1 && instance("f")->nr_refused == 1, "it is refused");
	refused = instance("f")->refused;
	ok(strstr(refused->reason, "ftrace") && !strcmp(refused->function, "kfree"),
	   "by name: %s %s", refused->function, refused->reason);
	fake_branch(&fs.fg, FAKE_DURING_UPDATE, CALL, FAKE_UPDATE + 0x40);
	fake_code(&fs.fg, FAKE_UPDATE + 0x40, "\xc3", 1);
	memcpy(fake_text(&fs.fg, FAKE_KFREE), fs.text + FAKE_KFREE, 5);
	ok(fake_guest_call(&fs.fg, 0, FAKE_CALLER, FAKE_UPDATE) >= 0, "it is given back");
	ok(instance("f")->sites == 2 && !instance("f")->nr_refused && opcode(FAKE_KFREE) == CALL,
	   "and recorded");
	ok(!trace_session_stop(fs.session, NULL), "stop");
	fake_session_destroy(&fs);
}

/* A guest that has used up its budget can still be left. */
static void test_no_budget(void)
{
	struct budget *budget;
	struct error err = {0};

	begin(true, "kmem:pages", "f=function:kfree,kmem_cache_free");
	budget = fs.fg.guest.budget;
	budget->most = 0;
	ok(trace_session_add_instance(fs.session, "g=function:__kmalloc", &err) == -ENOMEM,
	   "without budget no instance is added: %s", err.text);
	ok(opcode(FAKE_KFREE) == CALL && instance("f")->active, "those that are there go on");
	ok(!trace_session_stop(fs.session, NULL) && !memcmp(fake_text(&fs.fg, 0), fs.text, 0x2000),
	   "tracing stops, and the guest's text is as before");
	fake_session_destroy(&fs);
}

/* An instance that comes and goes while tracing is off has nothing to record. */
static void test_asked(void)
{
	begin(true, "kmem", "f=function:kfree");
	ok(instance("kmem")->asked && instance("f")->asked && instance("f")->begun,
	   "what tracing starts with is asked for");
	ok(!set("kmem", "f=function:kmem_cache_free", NULL) && instance("f")->asked,
	   "so is what comes while it is on");
	ok(!trace_session_stop(fs.session, NULL) && !set("kmem", "g=function:kfree", NULL),
	   "another comes while it is off");
	ok(instance("kmem")->asked && !instance("g")->asked && !instance("g")->begun,
	   "it is not asked for");
	fake_session_destroy(&fs);
}

static bool await_lost(const char *name, uint64_t n)
{
	for (int i = 0; i < PATIENCE_MS && instance(name)->lost < n; i++)
		clock_wait_ms(1);
	return instance(name)->lost == n;
}

static void lose(struct ring *ring, uint64_t n)
{
	__atomic_store_n(&ring->header->lost, n, __ATOMIC_RELAXED);
}

/* What rings lose counts for the instances that have them, from their beginning on. */
static void test_lost(void)
{
	begin(true, "kmem", "f=function:kfree");
	lose(&rings()->rings[1], 5);
	ring_engine_wake(rings());
	ok(await_lost("kmem", 5) && !instance("f")->lost, "the ordered lane loses events");
	ok(!trace_session_add_instance(fs.session, "g=function:kfree", NULL) &&
		   !trace_session_add_instance(fs.session, "late=kmem:pages", NULL),
	   "others come");
	lose(&rings()->direct.rings[FAKE_VCPUS], 7);
	lose(&rings()->rings[0], 1);
	ring_engine_wake(rings());
	ok(await_lost("g", 7) && !instance("f")->lost, "so does a ring of the direct lane");
	ok(await_lost("kmem", 6) && await_lost("late", 1), "what was before is not theirs");
	ok(!trace_session_stop(fs.session, NULL) && instance("kmem")->lost == 6 &&
		   instance("g")->lost == 7,
	   "the counts stay");
	fake_session_destroy(&fs);
}

static bool has_conditions(const char *name, const char *guest, const char *host)
{
	const struct trace_instance_status *status = instance(name);

	return !strcmp(status->guest_conditions, guest) && !strcmp(status->host_conditions, host);
}

static void test_conditions(void)
{
	struct error err = {0};

	begin(true, "kmem:cache,vcpu=0-1+3 if bytes_alloc > 1", "function:kfree");
	ok(has_conditions("kmem", "", "vcpu=0-1+3 && bytes_alloc > 1"), "the host decides kmem's");
	ok(has_conditions("function", "", ""), "without conditions neither guest nor host decides");
	ok(!set("kmem", "function:kfree,vcpu=0-1+3 if vcpu == 2 && ip != 7", &err),
	   "a function with conditions: %s", err.text);
	ok(has_conditions("function", "vcpu=0-1+3 && vcpu == 2", "ip != 7"),
	   "the guest decides '%s', the host '%s'", instance("function")->guest_conditions,
	   instance("function")->host_conditions);
	ok(set("kmem", "function:kfree,vcpu=3-4", &err) == -EINVAL && err.column == 21 &&
		   strstr(err.text, "0 to 3: it has no vcpu=4"),
	   "a vCPU that the guest lacks: %s", err.text);
	fake_session_end(&fs);
}

static void test_many(bool exitless)
{
	static const char *const specs[] = {"a=kmem:pages",
					    "a=kmem:kmalloc,cache",
					    "a=kmem",
					    "a=kmem:cache if bytes_alloc > 8",
					    "a=kmem:pages,vcpu=1",
					    "b=kmem:kmalloc"};
	enum { NR_SPECS = sizeof(specs) / sizeof(specs[0]) };
	bool good = true;

	begin(exitless, "c=kmem:kmalloc", NULL);
	for (unsigned int i = 0; i < ROUNDS && good; i++) {
		const char *functions = i % 3 && exitless ? "f=function:k*" : NULL;
		const char *list[] = {"c=kmem:kmalloc", specs[i * 5 % NR_SPECS], functions};
		size_t n = functions ? 3 : 1 + i % 2;

		good &= !trace_session_set_instances(fs.session, list, n, NULL);
		good &= !fake_session_ref(&fs, FAKE_KFREE)->off;
		if (exitless)
			commit_free(reserve_free(i % FAKE_VCPUS));
		else
			fake_session_call(&fs, i % FAKE_VCPUS, FAKE_KFREE, fake_object());
		good &= !trace_session_set_instances(fs.session, list, 1, NULL);
	}
	ok(good, "%d changes", 2 * ROUNDS);
	ok(fake_session_recorded(&fs) == FAKE_MAX_EVENTS, "an instance that stays loses nothing");
	is_u64(count(COUNTER_LOST) + count(COUNTER_UNPAIRED_RETURNS), 0, "nothing is lost");
	fake_session_end(&fs);
}

int main(void)
{
	self = pthread_self();
	test_types();
	test_open_calls();
	test_unseen_return();
	test_failure(false);
	test_functions_by_traps();
	test_rings();
	test_under_way();
	test_late();
	test_late_call();
	test_failure(true);
	test_beside_functions();
	test_added_function();
	test_functions_alone();
	test_held();
	test_no_budget();
	test_asked();
	test_lost();
	test_conditions();
	test_many(false);
	test_many(true);
	return tap_done();
}
