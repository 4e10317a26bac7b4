/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Dynamic probes on a fake guest: the places that they patch, the class of their events, and what
 * is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	CALL = 0xe8,
	JMP = 0xe9,
	SLOT_BYTES = 5,
	ALLOC_SLOT = FAKE_CACHE_ALLOC + 15, /* kmem_cache_alloc(): behind the site and a load */
};

static struct fake_session fs;
static uint8_t *ram;

static struct direct_lane *lane(void)
{
	return &ring_engine_of(fs.session->ring_engine)->direct;
}

/* The fake kernel has no current tasks: trampolines are not executed. */
static void create(void)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};
	const char *const specs[] = {"function:kfree", NULL};

	fake_session_create(&fs);
	fake_session_list_return_sites(&fs);
	trace_session_set_options(fs.session, &options);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
	if (trace_session_start(fs.session, specs, NULL))
		abort();
	lane()->has_task = true;
}

static void end(void)
{
	ok(!trace_session_failure(fs.session), "nothing has failed while tracing");
	ok(!trace_session_stop(fs.session, NULL) && !memcmp(ram, fs.fg.base.ram, FAKE_RAM),
	   "after a stop guest memory is what it was");
	fake_session_destroy(&fs);
}

static bool add(const char *spec)
{
	struct error err = {0};
	int ret = trace_session_add_instance(fs.session, spec, &err);

	if (ret)
		tap_diag("%s", err.text);
	return !ret;
}

/* Whether a branch there leads to code of the direct lane. */
static bool is_direct(uint64_t at)
{
	const uint8_t opcode = *fake_text(&fs.fg, at);
	int32_t distance;
	uint64_t target;

	memcpy(&distance, fake_text(&fs.fg, at) + 1, sizeof(distance));
	target = fake_gva(at) + SLOT_BYTES + (uint64_t)(int64_t)distance;
	return (opcode == CALL || opcode == JMP) && target - lane()->arena.gva < lane()->arena.size;
}

static const struct session_instance *last(void)
{
	return fs.session->instances.v[fs.session->instances.n - 1];
}

static const struct event_class *class_of_last(void)
{
	size_t n;

	return last()->ops->classes(last()->tracer, &n);
}

/* "NAME:SIZE@AT ..." */
static const char *fields_of_last(void)
{
	static char text[1000];
	const struct event_class *class = class_of_last();
	size_t n = (size_t)snprintf(text, sizeof(text), "%s/%s %u", class->system, class->name,
				    class->size);

	for (size_t i = 0; i < class->nr_fields; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %s:%u@%u",
				      class->fields[i].name, class->fields[i].size,
				      class->fields[i].at);
	return text;
}

static void test_entry(void)
{
	const struct event_class *class;

	create();
	ok(add("probe:p:my/freed kmem_cache_free cache=%di obj=%r8:u32 +0(%r8):u8[2] $comm"),
	   "a probe of calls");
	ok(is_direct(FAKE_CACHE_FREE) && !strcmp(last()->spec.name, "freed"),
	   "its site is patched, and the instance has the event's name");
	is_str(fields_of_last(),
	       "my/freed 88 __probe_ip:8@0 pid:4@16 faults:4@40 cache:8@48 obj:4@56 arg3_0:1@64 "
	       "arg3_1:1@65 arg4:16@72",
	       "its class has the user's fields");
	class = class_of_last();
	ok(add("other=probe:p:my/freed kmem_cache_free cache=%di obj=%r9:u32 +8(%di):u8[2] $comm"),
	   "a probe with the same fields");
	ok(class_of_last() == class, "has the same class");
	ok(!trace_session_replace_instance(fs.session,
					   "other=probe:p:my/freed kfree cache=%di obj=%r9:u32 "
					   "+8(%di):u8[2] $comm",
					   NULL) &&
		   is_direct(FAKE_KFREE),
	   "it moves to another function, with its stream");
	ok(!trace_session_remove_instance(fs.session, "freed", NULL) && !is_direct(FAKE_CACHE_FREE),
	   "a probe that goes leaves its site as it was");
	end();
}

static void test_return(void)
{
	create();
	ok(add("probe:r:got kmem_cache_alloc $retval bp=%bp"), "a probe of returns");
	ok(is_direct(ALLOC_SLOT) && !is_direct(FAKE_CACHE_ALLOC),
	   "its return slot is patched, and not its site");
	is_str(fields_of_last(), "kprobes/got 56 __probe_ret_ip:8@8 pid:4@16 arg1:8@40 bp:8@48",
	       "its class has the address that it returns to");
	ok(add("graph:kmem_cache_alloc") && is_direct(FAKE_CACHE_ALLOC), "beside a graph");
	end();
}

static void test_filter(void)
{
	char guest[200], host[200];
	const struct session_instance *instance;

	create();
	ok(add("probe:p:f kfree obj=%di:u32 word=+0(%di) if obj > 7 && word == 1 && pid == 3"),
	   "a probe with a condition");
	instance = last();
	instance->ops->conditions(instance->tracer, &instance->spec, DECIDED_BY_GUEST, guest,
				  sizeof(guest));
	instance->ops->conditions(instance->tracer, &instance->spec, DECIDED_BY_HOST, host,
				  sizeof(host));
	is_str(guest, "obj > 7 && pid == 3", "the guest decides what is in registers");
	is_str(host, "word == 1", "the host decides what lies in memory");
	end();
}

/* Each of its arguments is memory, at the end of a chain of pointers. */
static const char *spec_of_chains(unsigned int number, unsigned int arguments, unsigned int depth)
{
	static char text[4000];
	size_t n = (size_t)snprintf(text, sizeof(text), "probe:p:e%u kfree", number);

	for (unsigned int i = 0; i < arguments; i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, " ");
		for (unsigned int k = 0; k < depth; k++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "+%u(", k ? 0 : 8 * i);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%%di");
		for (unsigned int k = 0; k < depth; k++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, ")");
	}
	return text;
}

/* They share the code of the function's site. */
static void test_many(void)
{
	enum { MANY = 6, ARGUMENTS = 16, MOST = 20, DEPTH = 15 };
	struct error err = {0};
	unsigned int added = 0;

	create();
	for (unsigned int i = 0; i < MANY; i++)
		added += add(spec_of_chains(i, ARGUMENTS, 1));
	ok(added == MANY && is_direct(FAKE_KFREE),
	   "%d probes of one function fetch %d words of memory each", MANY, ARGUMENTS);
	while (!trace_session_add_instance(fs.session, spec_of_chains(added, MOST, DEPTH), &err))
		added++;
	is_str(err.text, "kfree, which 8 instances want: the code needs more than 32768 bytes",
	       "one that does not fit is refused with the function and the size");
	ok(is_direct(FAKE_KFREE) && fs.session->instances.n == 1 + added, "and the others go on");
	end();
}

static const struct {
	const char *spec;
	const char *says;
} refused[] = {
	{"probe:p kfre", "no function 'kfre': did you mean 'kfree'?"},
	{"probe:p no_such", "no function 'no_such'"},
	{"probe:p mod:f", "no module 'mod' with a function 'f' is loaded"},
	{"probe:p init_task", "cannot be probed: it is no function"},
	{"probe:p 0x1000", "no function of the kernel is there"},
	{"probe:r kfree", "no return of 'kfree' can be recorded"},
	{"probe:p kfree @no_such", "argument 'arg1': the kernel has no symbol 'no_such'"},
	{"probe:p:kmem/kfree kfree", "'kmem/kfree' is an event of another tracer"},
	{"probe:p kfree a=+0(%di):u8[2] a_0=%di", "two fields have the name 'a_0'"},
	{"probe:p kfree a=%di if b == 1", "b"},
};

static void test_refusals(void)
{
	struct error err = {0};

	create();
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		ok(trace_session_add_instance(fs.session, refused[i].spec, &err) &&
			   strstr(err.text, refused[i].says),
		   "'%s' is refused: %s", refused[i].spec, err.text);
	end();
}

int main(void)
{
	ram = malloc(FAKE_RAM);
	if (!ram)
		abort();
	test_entry();
	test_return();
	test_filter();
	test_many();
	test_refusals();
	free(ram);
	return tap_done();
}
