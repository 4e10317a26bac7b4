/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code in front of a function that asks the host, run on this CPU: answers, refusals, no answer. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "formats/base/clock.h"
#include "patcher/trampoline/ask.h"
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

enum {
	RAX = 0,
	RCX = 1,
	RDX = 2,
	RSP = 4,
	RDI = 7,
	R10 = 10,
	R11 = 11,
	CPU = 0,
	RESULT = 42,
	SLEEP_AT = 0x10, /* in the function's page; its counter behind it */
	COUNT_AT = 0x20,
	PARAMETER = 24,
	ROOM = 256,
};

static const uint64_t forever = UINT64_C(1) << 60, shortly = 20000000;

/* The function is `mov $42,%eax; ret`, msleep() counts. */
struct asker {
	struct fake_function function;
	struct fake_cpu *cpu;
	struct ask_box *box;
	struct ask_spec spec;
	struct ask_code code;
	uint64_t parameter[4];
};

static void *map_box(void)
{
	void *box = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (box == MAP_FAILED)
		abort();
	return box;
}

static void put_sleep(struct asker *a)
{
	uint8_t *at = a->function.code + SLEEP_AT;
	uint32_t count = (uint32_t)(uintptr_t)(a->function.code + COUNT_AT);

	memcpy(at, "\x48\xff\x04\x25", 4); /* incq COUNT */
	memcpy(at + 4, &count, sizeof(count));
	at[8] = 0xc3;
	memset(a->function.code + COUNT_AT, 0, sizeof(uint64_t));
}

static uint64_t sleeps(const struct asker *a)
{
	return __atomic_load_n((const uint64_t *)(const void *)(a->function.code + COUNT_AT),
			       __ATOMIC_ACQUIRE);
}

static void begin_spec(struct asker *a, enum ask_wait wait, bool refuses, bool many,
		       uint64_t patience)
{
	struct decoder *decoder;
	struct error err;

	*a = (struct asker){.cpu = fake_cpu_enter(CPU), .box = map_box()};
	a->spec = (struct ask_spec){.gva = fake_function_begin(&a->function, 0xe9),
				    .box = (uint64_t)(uintptr_t)a->box,
				    .wait = wait,
				    .refuses = refuses,
				    .many = many,
				    .argument = PARAMETER,
				    .patience = patience};
	put_sleep(a);
	a->spec.sleep = (uint64_t)(uintptr_t)(a->function.code + SLEEP_AT);
	a->spec.place = (struct displaced){.gva = (uint64_t)(uintptr_t)a->function.code,
					   .size = JUMP_SIZE,
					   .bytes = {0xb8, RESULT}};
	if (decoder_create(&decoder, NULL))
		abort();
	if (!ok(!ask_generate(&a->spec, decoder, &a->code, &err), "the code is generated"))
		tap_diag("%s", err.text);
	decoder_destroy(decoder);
	ok(!memcmp(a->function.code, a->code.jump, JUMP_SIZE), "the jump leads to the code");
	memcpy((void *)(uintptr_t)a->spec.gva, a->code.bytes, a->code.size);
	fake_cpu_randomise(a->cpu);
	a->cpu->in.reg[RSP] = (uint64_t)(uintptr_t)a->cpu->stack + FAKE_STACK - ROOM;
	a->cpu->in.reg[RDI] = (uint64_t)(uintptr_t)a->parameter;
	a->parameter[PARAMETER / 8] = 0x1234567890;
	a->cpu->target = (uint64_t)(uintptr_t)a->function.code;
}

static void begin(struct asker *a, enum ask_wait wait, bool refuses, uint64_t patience)
{
	begin_spec(a, wait, refuses, false, patience);
}

static void end(struct asker *a)
{
	munmap(a->box, 4096);
	fake_function_destroy(&a->function);
	fake_cpu_leave(a->cpu);
}

/* Registers that the function must get or preserve. */
static bool preserved(const struct asker *a)
{
	const uint32_t free = 1u << RAX | 1u << RCX | 1u << RDX | 1u << R10 | 1u << R11 |
			      (a->spec.wait == ASK_SLEEP ? 1u << RDI : 0);

	return fake_cpu_preserved(a->cpu, free) && a->cpu->in.reg[RSP] == a->cpu->out.reg[RSP];
}

static int32_t result(const struct asker *a)
{
	return (int32_t)a->cpu->out.reg[RAX];
}

static uint64_t get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* --- a host that answers ---------------------------------------------------------------------- */

struct host {
	struct asker *asker;
	bool refuse, restore;
	uint64_t argument;
};

static void *serve(void *arg)
{
	struct host *h = arg;
	struct ask_box *box = h->asker->box;

	while (!get(&box->waiting))
		clock_wait_ms(1);
	clock_wait_ms(10);
	h->argument = get(&box->argument);
	if (h->restore)
		memcpy(h->asker->function.code, h->asker->spec.place.bytes, JUMP_SIZE);
	else
		__atomic_store_n(h->refuse ? &box->refused : &box->answered, get(&box->asked),
				 __ATOMIC_RELEASE);
	return NULL;
}

static void run_with(struct host *h)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, serve, h))
		abort();
	fake_cpu_run();
	pthread_join(thread, NULL);
}

static const char *name_of(enum ask_wait wait)
{
	return wait == ASK_SLEEP ? "sleeping" : "spinning";
}

static void test_answered(enum ask_wait wait)
{
	struct asker a;
	struct host h = {.asker = &a};

	begin(&a, wait, true, forever);
	for (uint64_t i = 1; i <= 3; i++) {
		run_with(&h);
		ok(result(&a) == RESULT, "%s: after an answer the function runs", name_of(wait));
		ok(a.box->asked == i && a.box->answered == i && !a.box->waiting,
		   "%s: question %d is over", name_of(wait), (int)i);
	}
	ok(preserved(&a), "%s: registers and stack are preserved", name_of(wait));
	if (wait == ASK_SLEEP)
		ok(sleeps(&a) > 0, "sleeping: the task slept in between");
	else
		is_u64(h.argument, 0x1234567890, "spinning: the host gets the argument");
	end(&a);
}

static void test_refused(enum ask_wait wait)
{
	struct asker a;
	struct host h = {.asker = &a, .refuse = true};

	begin(&a, wait, true, forever);
	run_with(&h);
	ok(result(&a) == -EBUSY && !a.box->waiting && preserved(&a),
	   "%s: after a refusal the function fails with EBUSY", name_of(wait));
	h.refuse = false;
	run_with(&h);
	ok(result(&a) == RESULT, "%s: the next question is another one", name_of(wait));
	end(&a);
}

/* --- no host ---------------------------------------------------------------------------------- */

static void test_dead(enum ask_wait wait, bool refuses)
{
	const int32_t expected = refuses ? -EBUSY : RESULT;
	struct asker a;
	struct host h = {.asker = &a};
	uint64_t asked, before;

	begin(&a, wait, refuses, shortly);
	fake_cpu_run();
	ok(result(&a) == expected && !a.box->waiting && preserved(&a),
	   "%s: without an answer the function %s", name_of(wait),
	   refuses ? "fails with EBUSY" : "runs");
	ok(a.box->given_up, "%s: the task has given up", name_of(wait));
	asked = a.box->asked;
	before = sleeps(&a);
	fake_cpu_run();
	ok(result(&a) == expected && a.box->asked == asked && sleeps(&a) == before,
	   "%s: the next task does not wait", name_of(wait));
	a.box->given_up = 0;
	end(&a);
	begin(&a, wait, refuses, forever);
	a.box->asked = a.box->refused = a.box->answered = 7;
	run_with(&h);
	ok(result(&a) == RESULT && a.box->asked == 8,
	   "%s: once the host lives again, tasks wait for it", name_of(wait));
	end(&a);
}

static uint64_t no_out(void *arg, uint64_t rip)
{
	(void)arg;
	(void)rip;
	abort();
}

/* The host answers just when the task reads the clock, which is behind the deadline. */
static void answer_at_clock(void *arg, uint64_t rip)
{
	struct asker *a = arg;
	const uint64_t code = a->spec.gva;

	if (a->box->asked && rip - code - 2 < a->code.size && rip - code >= 2 &&
	    !memcmp((const void *)(uintptr_t)(rip - 2), "\x0f\x31", 2))
		a->box->answered = a->box->asked;
}

static void test_late(enum ask_wait wait)
{
	struct asker a;

	begin(&a, wait, true, 0);
	fake_host_install(no_out, answer_at_clock, &a);
	a.cpu->in.flags |= FAKE_FLAG_TRAP;
	fake_cpu_run();
	ok(result(&a) == RESULT && a.box->answered == 1 && !a.box->given_up,
	   "%s: an answer that has come counts, though the deadline has passed", name_of(wait));
	end(&a);
}

/* --- one of many ------------------------------------------------------------------------------ */

enum { BEFORE = 5, OTHERS = 2 }; /* questions */

/* When a task has asked, others ask, too, and then they are answered in turn. */
static void *serve_many(void *arg)
{
	struct host *h = arg;
	struct ask_box *box = h->asker->box;

	while (get(&box->asked) == BEFORE)
		clock_wait_ms(1);
	__atomic_add_fetch(&box->asked, OTHERS, __ATOMIC_ACQ_REL);
	clock_wait_ms(10);
	h->argument = get(&box->answered);
	__atomic_store_n(&box->answered, h->refuse ? BEFORE + 1 : get(&box->asked),
			 __ATOMIC_RELEASE);
	return NULL;
}

static void test_many(bool own)
{
	struct asker a;
	struct host h = {.asker = &a, .refuse = own};
	pthread_t thread;

	begin_spec(&a, ASK_SPIN, false, true, forever);
	a.box->asked = a.box->answered = BEFORE;
	if (pthread_create(&thread, NULL, serve_many, &h))
		abort();
	fake_cpu_run();
	pthread_join(thread, NULL);
	ok(result(&a) == RESULT && h.argument == BEFORE && preserved(&a),
	   "one of many goes on after the answer to %s question", own ? "its own" : "the last");
	ok(a.box->asked == BEFORE + 1 + OTHERS && !a.box->waiting && !a.box->argument,
	   "it counts its question only");
	end(&a);
}

static void test_many_in_vain(void)
{
	struct asker a;

	begin_spec(&a, ASK_SPIN, false, true, shortly);
	fake_cpu_run();
	ok(result(&a) == RESULT && a.box->given_up && a.box->asked == 1 && preserved(&a),
	   "one of many goes on without an answer");
	fake_cpu_run();
	ok(result(&a) == RESULT && a.box->asked == 1, "the next one does not wait");
	end(&a);
}

/* Another process has put the text back: nobody will answer. */
static void test_restored(void)
{
	struct asker a;
	struct host h = {.asker = &a, .restore = true};

	begin(&a, ASK_SPIN, true, forever);
	run_with(&h);
	ok(result(&a) == RESULT && !a.box->waiting,
	   "spinning: a function that has its own bytes back runs");
	end(&a);
}

static void test_sleeper_comes_back(void)
{
	struct asker a;

	begin(&a, ASK_SLEEP, false, shortly);
	memcpy(a.function.code, a.spec.place.bytes, JUMP_SIZE);
	fake_cpu_run();
	is_u64((uint64_t)result(&a), RESULT,
	       "sleeping: a task that returns from its sleep to the restored function runs it");
	is_u64(a.box->asked, 0, "sleeping: it meets no code of the tracer");
	end(&a);
}

/* --- what cannot be --------------------------------------------------------------------------- */

static void test_refusals(void)
{
	struct asker a;
	struct decoder *decoder;
	struct ask_spec spec;
	struct error err;

	begin(&a, ASK_SLEEP, false, forever);
	if (decoder_create(&decoder, NULL))
		abort();
	spec = a.spec;
	spec.gva += UINT64_C(1) << 33;
	ok(ask_generate(&spec, decoder, &a.code, &err) == -ERANGE, "code that is too far away");
	spec = a.spec;
	spec.box += UINT64_C(1) << 33;
	ok(ask_generate(&spec, decoder, &a.code, &err) == -ERANGE, "a box that is too far away");
	spec = a.spec;
	memcpy(spec.place.bytes, "\xe8\0\0\0\0", JUMP_SIZE);
	ok(ask_generate(&spec, decoder, &a.code, &err) == -EILSEQ,
	   "a call in the function's place");
	decoder_destroy(decoder);
	end(&a);
}

int main(void)
{
	for (enum ask_wait wait = ASK_SLEEP; wait <= ASK_SPIN; wait++) {
		test_answered(wait);
		test_refused(wait);
		test_dead(wait, true);
		test_dead(wait, false);
		test_late(wait);
	}
	test_many(true);
	test_many(false);
	test_many_in_vain();
	test_restored();
	test_sleeper_comes_back();
	test_refusals();
	return tap_done();
}
