/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Dynamic probes on a fake guest: the places that they patch, the class of their events, and what
 * is refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "patcher/tracers/helpers.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum {
	RING_BYTES = 64 << 10,
	CALL = 0xe8,
	JMP = 0xe9,
	SLOT_BYTES = 5,
	ALLOC_SLOT = FAKE_CACHE_ALLOC + 15, /* kmem_cache_alloc(): behind the site and a load */
	ALLOC_LOAD = FAKE_CACHE_ALLOC + 5,
	LOAD_BYTES = 10,
};

static struct fake_session fs;
static uint8_t *ram;

static struct direct_lane *lane(void)
{
	return &ring_engine_of(fs.session->ring_engine)->direct;
}

/* The fake kernel has no current tasks: trampolines are not executed. */
static void create_with(uint32_t ring_bytes)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = ring_bytes};
	const char *const specs[] = {"function:kfree", NULL};

	fake_session_create(&fs);
	fake_session_list_return_sites(&fs);
	fake_session_list_reserved(&fs);
	trace_session_set_options(fs.session, &options);
	memcpy(ram, fs.fg.base.ram, FAKE_RAM);
	if (trace_session_start(fs.session, specs, NULL))
		abort();
	lane()->task_fields = DIRECT_TASK_FIELDS;
}

static void create(void)
{
	create_with(RING_BYTES);
}

static void end(void)
{
	fake_session_end_as(&fs, ram);
}

static bool add(const char *spec)
{
	return fake_session_add(&fs, spec);
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
	       "my/freed 96 pid:4@24 __probe_ip:8@0 faults:4@48 cache:8@56 obj:4@64 arg3_0:1@72 "
	       "arg3_1:1@73 arg4:16@80",
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

static struct ring_shape shape_of_last(void)
{
	const struct session_instance *instance = last();
	struct ring_shape shape = {0};

	pthread_mutex_lock(&lane()->lock);
	for (unsigned int id = 0; id < DIRECT_MAX; id++)
		if (lane()->slots[id].state == DIRECT_LIVE &&
		    lane()->slots[id].want.fetch == instance->ops->fetch(instance->tracer))
			shape = lane()->shapes[id];
	pthread_mutex_unlock(&lane()->lock);
	return shape;
}

/* "probe:p:sN kfree ..." with N strings, in rings of so many bytes. */
static int add_strings(unsigned int n, struct error *err)
{
	char spec[400];

	snprintf(spec, sizeof(spec), "probe:p:s%u kfree", n);
	while (n--)
		strcat(spec, " +0(%di):string");
	return trace_session_add_instance(fs.session, spec, err);
}

static void test_strings(void)
{
	struct error err = {0};

	create();
	ok(add("probe:p:named kfree a=+0(%di):string n=%si b=+8(%di):ustring"),
	   "a probe of strings");
	is_str(fields_of_last(),
	       "kprobes/named 592 pid:4@24 __probe_ip:8@0 faults:4@48 a:1@80 n:8@64 b:1@336",
	       "its class has room for both, behind its values");
	ok(shape_of_last().size == 56 && shape_of_last().items == 64 &&
		   shape_of_last().items_at == 28,
	   "its records are as long as their strings");
	ok(add("probe:p:counted kfree a=+0(%di):string,hist:keys=a:vals=hitcount") &&
		   last()->ops->fetch(last()->tracer)->bytes == 8 + FETCH_STRING_SIZE &&
		   !last()->ops->fetch(last()->tracer)->nr_long_strings,
	   "those of a histogram are short");
	end();
	create_with(RING_MIN_DATA);
	ok(!add_strings(1, &err), "small rings have room for a string");
	ok(add_strings(2, &err) == -ENOSPC && strstr(err.text, "a record of 560 bytes"),
	   "two are refused: %s", err.text);
	end();
}

static void test_return(void)
{
	create();
	ok(add("probe:r:got kmem_cache_alloc $retval bp=%bp"), "a probe of returns");
	ok(is_direct(ALLOC_SLOT) && !is_direct(FAKE_CACHE_ALLOC),
	   "its return slot is patched, and not its site");
	is_str(fields_of_last(), "kprobes/got 64 pid:4@24 __probe_ret_ip:8@8 arg1:8@48 bp:8@56",
	       "its class has the address that it returns to");
	ok(add("graph:kmem_cache_alloc") && is_direct(FAKE_CACHE_ALLOC), "beside a graph");
	end();
}

/* kmem_cache_alloc() loads its result by one instruction of ten bytes. */
static void test_inside(void)
{
	static const uint8_t nops[] = {0x90, 0x90, 0x90, 0x90, 0x90};

	create();
	ok(add("probe:p:load kmem_cache_alloc+5 %ax cx=%cx +0(%r10):u32"),
	   "a probe in the middle of a function");
	ok(is_direct(ALLOC_LOAD) && !is_direct(FAKE_CACHE_ALLOC) && !is_direct(ALLOC_SLOT),
	   "its instruction is patched, and neither site nor slot");
	ok(!memcmp(fake_text(&fs.fg, ALLOC_LOAD) + SLOT_BYTES, nops, LOAD_BYTES - SLOT_BYTES),
	   "what the jump leaves of it are NOPs");
	is_str(fields_of_last(),
	       "kprobes/load 80 pid:4@24 __probe_ip:8@0 faults:4@48 arg1:8@56 cx:8@64 arg3:4@72",
	       "its class has all registers that it asks for");
	ok(event_field_find(class_of_last(), "__probe_ip")->type == EVENT_CODE,
	   "and a place with an offset");
	ok(last()->refused.n == 0, "nothing of it is refused");
	ok(add("graph:kmem_cache_alloc") && is_direct(FAKE_CACHE_ALLOC) && is_direct(ALLOC_SLOT) &&
		   is_direct(ALLOC_LOAD),
	   "beside a graph of the function");
	ok(add("same=probe:p kmem_cache_alloc+5 %di"), "a second one at the same place");
	ok(!trace_session_remove_instance(fs.session, "load", NULL) && is_direct(ALLOC_LOAD),
	   "the first one goes, and the place stays");
	ok(!trace_session_remove_instance(fs.session, "same", NULL) &&
		   !memcmp(fake_text(&fs.fg, ALLOC_LOAD), fs.text + ALLOC_LOAD, LOAD_BYTES),
	   "with the second one the instruction is back");
	ok(add("probe:p kmem_cache_alloc+5"), "it is probed again until the end");
	end();
}

/* A kprobe that reaches the instruction gets it; the instance says so. */
static void test_kprobe(void)
{
	struct error err;

	create();
	if (!add("probe:p:load kmem_cache_alloc+5"))
		abort();
	fake_text(&fs.fg, ALLOC_SLOT)[0] = 0xcc;
	ok(add("probe:p:third kfree") && is_direct(ALLOC_LOAD) &&
		   !trace_session_remove_instance(fs.session, "third", NULL) &&
		   is_direct(ALLOC_LOAD),
	   "a kprobe elsewhere in the function leaves the probe alone");
	fake_text(&fs.fg, ALLOC_SLOT)[0] = fs.text[ALLOC_SLOT];
	ok(!fs.fg.guest.control->stop(&fs.fg.guest, NULL) &&
		   !kprobe_handoff_give(&fs.session->kprobes, fake_gva(ALLOC_LOAD + 7), &err),
	   "the guest is about to make a kprobe there");
	fs.fg.guest.control->resume(&fs.fg.guest, NULL);
	ok(!memcmp(fake_text(&fs.fg, ALLOC_LOAD), fs.text + ALLOC_LOAD, LOAD_BYTES),
	   "the instruction is the guest's");
	direct_count_sites(fs.session, fs.session->instances.v[fs.session->instances.n - 1]);
	ok(last()->sites == 0 && last()->refused.n == 1 &&
		   strstr(last()->refused.v[0].reason, "a kprobe of the guest"),
	   "the probe has no place: %s", last()->refused.v[0].reason);
	fake_text(&fs.fg, ALLOC_LOAD)[0] = 0xcc;
	ok(add("probe:p:other kfree"), "another probe comes");
	direct_count_sites(fs.session, fs.session->instances.v[1]);
	ok(fs.session->instances.v[1]->refused.n == 1 &&
		   strstr(fs.session->instances.v[1]->refused.v[0].reason, "INT3"),
	   "as long as the kprobe is there, the first one is refused: %s",
	   fs.session->instances.v[1]->refused.v[0].reason);
	fake_text(&fs.fg, ALLOC_LOAD)[0] = fs.text[ALLOC_LOAD];
	ok(!trace_session_remove_instance(fs.session, "other", NULL) && is_direct(ALLOC_LOAD),
	   "the next change behind it takes the place again");
	end();
}

static void register_kprobe(struct fake_guest *fg)
{
	fg->on_stop = NULL;
	fake_session_put_kprobe(&fs, ALLOC_LOAD, FAKE_KPROBE_DISABLED);
}

static bool has_kprobe(struct session_instance *instance)
{
	direct_count_sites(fs.session, instance);
	return instance->refused.n == 1 && strstr(instance->refused.v[0].reason, "registered");
}

/* It shows in no text, and has copied the instruction. */
static void test_disabled_kprobe(void)
{
	create();
	fake_session_put_kprobe(&fs, ALLOC_LOAD - 4, FAKE_KPROBE_DISABLED);
	ok(add("probe:p:load kmem_cache_alloc+5") && !is_direct(ALLOC_LOAD) &&
		   has_kprobe(fs.session->instances.v[1]),
	   "a kprobe that is registered, and disabled, keeps its instruction");
	fake_session_put_kprobe(&fs, ALLOC_LOAD - 4, FAKE_KPROBE_FTRACE);
	ok(add("probe:p:third kfree") && is_direct(ALLOC_LOAD), "one of ftrace's has none");
	fake_session_put_kprobe(&fs, ALLOC_LOAD + LOAD_BYTES - 1, FAKE_KPROBE_DISABLED);
	ok(!trace_session_remove_instance(fs.session, "third", NULL) && !is_direct(ALLOC_LOAD),
	   "a change finds one that has come");
	fake_session_put_kprobe(&fs, 0, 0);
	ok(add("probe:p:third kfree") && is_direct(ALLOC_LOAD), "and that it has gone");
	end();
}

static void test_kprobe_comes(void)
{
	create();
	fs.fg.on_stop = register_kprobe;
	ok(add("probe:p:load kmem_cache_alloc+5") && !fs.fg.on_stop,
	   "a kprobe is registered between a plan and its change");
	ok(!is_direct(ALLOC_LOAD) && has_kprobe(fs.session->instances.v[1]), "it is noticed");
	fake_session_put_kprobe(&fs, 0, 0);
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
	unsigned int added = 0, taken = 0, most = 0;

	create();
	for (unsigned int i = 0; i < MANY; i++)
		added += add(spec_of_chains(i, ARGUMENTS, 1));
	ok(added == MANY && is_direct(FAKE_KFREE),
	   "%d probes of one function fetch %d words of memory each", MANY, ARGUMENTS);
	while (!trace_session_add_instance(fs.session, spec_of_chains(added, MOST, DEPTH), &err))
		added++;
	ok(sscanf(err.text,
		  "kfree, which 8 instances want: the code takes %u bytes, %u are the most", &taken,
		  &most) == 2,
	   "one that does not fit is refused with the function and sizes: %s", err.text);
	ok(most == 32768 && taken > most && taken < 2 * most,
	   "the code's size is all that it takes");
	ok(is_direct(FAKE_KFREE) && fs.session->instances.n == 1 + added, "and the others go on");
	end();
}

static const struct {
	const char *spec;
	const char *says;
} refused[] = {
	{"probe:p kfre", "no function 'kfre': did you mean 'kfree'?"},
	{"probe:p no_such", "no function 'no_such'"},
	{"probe:p init_task", "cannot be probed: it is no function"},
	{"probe:p 0x1000", "no function of the kernel is there"},
	{"probe:r kfree", "no return of 'kfree' can be recorded"},
	{"probe:p kfree @no_such", "argument 'arg1': the kernel has no symbol 'no_such'"},
	{"probe:p:kmem/kfree kfree", "'kmem/kfree' is an event of another tracer"},
	{"probe:p kfree a=+0(%di):u8[2] a_0=%di", "two fields have the name 'a_0'"},
	{"probe:p kfree a=%di if b == 1", "b"},
	{"probe:p kmem_cache_alloc+6",
	 "kmem_cache_alloc+0x6 cannot be probed: no instruction begins "
	 "there; try +0x5"},
	{"probe:p kmem_cache_alloc+15", "the function returns there: probe it with r; try +0x5"},
	{"probe:p kfree+5", "kfree+0x5 cannot be probed: the instruction is shorter than"},
	{"probe:p kfree+4096", "kfree has 256 bytes only"},
	{"probe:r kmem_cache_alloc+5", "a probe of returns has no offset: kmem_cache_alloc+0x5"},
	{"probe:p __alloc_pages+5", "the kernel rewrites a jump label there"},
	{"probe:p kmem_cache_alloc+5 $arg1", "parameters are known only where a function begins"},
};

/* The guest's function that reads memory for probes, as kernels since 5.8 name it, and before. */
static void test_helper(const char *name)
{
	const struct fake_symbol helper[] = {{name, FAKE_CACHE_ALLOC}, {NULL, 0}};
	char says[80], returns[80], inside[80], beginning[80];
	struct error err = {0};

	snprintf(says, sizeof(says), "the tracer itself calls '%s'", name);
	snprintf(returns, sizeof(returns), "probe:r %s", name);
	snprintf(inside, sizeof(inside), "probe:p %s+5", name);
	snprintf(beginning, sizeof(beginning), "probe:p %s", name);
	create();
	if (fake_guest_add_symbols(&fs.fg, helper))
		abort();
	is_u64(helpers_of(&fs.session->kernel).read_kernel, fake_gva(FAKE_CACHE_ALLOC) + SITE_SIZE,
	       name);
	ok(trace_session_add_instance(fs.session, returns, &err) == -ENOTSUP &&
		   strstr(err.text, says),
	   "returns of a function that the tracer calls are refused: %s", err.text);
	ok(trace_session_add_instance(fs.session, inside, &err) == -ENOTSUP &&
		   strstr(err.text, says),
	   "and so are its instructions: %s", err.text);
	ok(add(beginning), "the tracer does not pass its beginning");
	end();
}

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
	test_strings();
	test_return();
	test_inside();
	test_kprobe();
	test_disabled_kprobe();
	test_kprobe_comes();
	test_filter();
	test_many();
	test_helper("copy_from_kernel_nofault");
	test_helper("probe_kernel_read");
	test_refusals();
	free(ram);
	return tap_done();
}
