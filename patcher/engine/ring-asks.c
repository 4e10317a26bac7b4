/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of the guest that ask the host before they begin, and the thread that answers. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "formats/base/thread.h"
#include "patcher/engine/ring-internal.h"

enum {
	POLL_NS = 5000000, /* between two looks into the boxes */
	NS_PER_MS = 1000000,
	CODE_ALIGN = 16,
};

/* --- life ------------------------------------------------------------------------------------ */

void asks_init(struct ring_engine *x)
{
	pthread_mutex_init(&x->asks.lock, NULL);
	thread_cond_init(&x->asks.wake);
}

void asks_deinit(struct ring_engine *x)
{
	pthread_cond_destroy(&x->asks.wake);
	pthread_mutex_destroy(&x->asks.lock);
}

/* --- what the guest sees ---------------------------------------------------------------------- */

static int add_jump(struct ring_asks *asks, size_t i, const struct engine_ask *ask,
		    const struct ask_code *code, struct error *err)
{
	struct patch patch = {.gva = ask->place.gva, .size = JUMP_SIZE, .function = ask->function};

	memcpy(patch.old_bytes, ask->place.bytes, JUMP_SIZE);
	memcpy(patch.new_bytes, code->jump, JUMP_SIZE);
	return patch_set_add(&asks->jumps[i], &patch, err);
}

static int add_code(struct ring_engine *x, size_t i, struct error *err)
{
	const struct engine_ask *ask = &x->config.asks->v[i];
	struct ring_asks *asks = &x->asks;
	const uint64_t begin = (x->set.code_bytes + CODE_ALIGN - 1) & ~(uint64_t)(CODE_ALIGN - 1);
	const uint64_t at = begin + asks->code_bytes;
	const struct ask_spec spec = {
		.gva = x->mapping.gva + at,
		.box = x->mapping.gva + asks_box_offset(x) + i * sizeof(struct ask_box),
		.place = ask->place,
		.wait = ask->wait,
		.refuses = ask->refuses,
		.many = ask->many,
		.sleep = x->config.asks->sleep,
		.argument = ask->argument,
		.patience = ring_engine_ticks(x, (uint64_t)ask->patience_ms * NS_PER_MS),
	};
	struct ask_code code;
	int ret = ask_generate(&spec, x->config.decoder, &code, err);

	if (ret)
		return ret;
	if (at + code.size > x->code_bytes)
		return error_set(err, ENOSPC,
				 "no room for %u bytes of code by which the guest asks: %" PRIu64
				 " are free",
				 code.size, x->code_bytes > at ? x->code_bytes - at : 0);
	memcpy(x->scratch.hva + at, code.bytes, code.size);
	asks->code_bytes += (code.size + CODE_ALIGN - 1U) & ~(CODE_ALIGN - 1U);
	return add_jump(asks, i, ask, &code, err);
}

int asks_make(struct ring_engine *x, struct error *err)
{
	struct ring_asks *asks = &x->asks;
	int ret = 0;

	asks->n = x->config.asks ? x->config.asks->n : 0;
	asks->code_bytes = 0;
	for (size_t i = 0; !ret && i < asks->n; i++)
		ret = add_code(x, i, err);
	asks->code_bytes += CODE_ALIGN; /* what aligns the first one */
	return ret;
}

void asks_forget_boxes(struct ring_engine *x)
{
	pthread_mutex_lock(&x->asks.lock);
	x->asks.boxes = NULL;
	pthread_mutex_unlock(&x->asks.lock);
}

void asks_free(struct ring_engine *x)
{
	asks_forget_boxes(x);
	for (size_t i = 0; i < x->asks.n; i++)
		patch_set_deinit(&x->asks.jumps[i]);
	x->asks.n = 0;
	x->asks.code_bytes = 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

static uint64_t get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void put(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static bool is_waiting(const struct ask_box *box, bool many, uint64_t *asked)
{
	*asked = get(&box->asked);
	return (many || get(&box->waiting)) && get(&box->answered) != *asked &&
	       get(&box->refused) != *asked;
}

/*
 * A task that gives up meanwhile, and the next one that asks, do not take this answer for theirs:
 * it has the question's number. It is there before the guest goes on: resuming a guest whose vCPU
 * spins may take long.
 */
static void serve(struct ring_engine *x, size_t i, struct ask_box *box)
{
	const struct engine_asks *config = x->config.asks;
	struct engine_question question = {.ask = i};
	enum engine_answer answer;
	bool held = false;

	if (__atomic_exchange_n(&box->given_up, 0, __ATOMIC_ACQ_REL))
		config->gave_up(config->arg, i);
	if (!is_waiting(box, config->v[i].many, &question.number))
		return;
	question.argument = get(&box->argument);
	answer = config->answer(config->arg, &question, &held);
	if (answer != ANSWER_LATER)
		put(answer == ANSWER_GO ? &box->answered : &box->refused, question.number);
	if (held)
		x->guest->control->resume(x->guest, NULL);
}

static void *serve_all(void *arg)
{
	struct ring_engine *x = arg;
	struct ring_asks *asks = &x->asks;
	const struct engine_asks *config = x->config.asks;

	pthread_mutex_lock(&asks->lock);
	while (!asks->quit) {
		struct timespec until = ring_engine_deadline(clock_monotonic_ns(), POLL_NS);

		for (size_t i = 0; asks->boxes && i < asks->n; i++)
			serve(x, i, &asks->boxes[i]);
		config->poll(config->arg);
		if (!asks->quit)
			pthread_cond_timedwait(&asks->wake, &asks->lock, &until);
	}
	pthread_mutex_unlock(&asks->lock);
	return NULL;
}

static int start_thread(struct ring_engine *x, struct error *err)
{
	struct ring_asks *asks = &x->asks;
	int code;

	asks->boxes = (struct ask_box *)(void *)(x->scratch.hva + asks_box_offset(x));
	asks->quit = false;
	code = thread_start(&asks->thread, "sonde-asks", serve_all, x);
	asks->running = !code;
	return code ? error_set(err, code, "cannot start the thread that answers the guest") : 0;
}

void asks_stop_thread(struct ring_engine *x)
{
	struct ring_asks *asks = &x->asks;

	if (!asks->running)
		return;
	pthread_mutex_lock(&asks->lock);
	asks->quit = true;
	pthread_cond_signal(&asks->wake);
	pthread_mutex_unlock(&asks->lock);
	pthread_join(asks->thread, NULL);
	asks->running = false;
}

/* --- with the guest stopped ------------------------------------------------------------------- */

/* What spins goes on by itself when the jump is gone (ASK_SPIN). */
static bool keeps_jump(const struct ring_engine *x, size_t i)
{
	const struct ring_asks *asks = &x->asks;
	uint64_t asked;

	return asks->boxes && asks->jumps[i].applied && x->config.asks->v[i].wait == ASK_SLEEP &&
	       is_waiting(&asks->boxes[i], false, &asked);
}

int asks_restore(struct ring_engine *x, bool all, struct patch_outcome *outcome, struct error *err)
{
	struct ring_asks *asks = &x->asks;
	int ret = 0;

	for (size_t i = 0; i < asks->n; i++) {
		int one = 0;

		if (all || !keeps_jump(x, i))
			one = patch_set_revert(&asks->jumps[i], x->kernel, outcome,
					       ret ? NULL : err);
		ret = ret ? ret : one;
	}
	return ret;
}

bool asks_keep_jumps(const struct ring_engine *x)
{
	bool any = false;

	for (size_t i = 0; i < x->asks.n; i++)
		any |= x->asks.jumps[i].applied;
	return any;
}

/* Whether a vCPU, or a task that was preempted, is between the instructions that the jump replaces.
 * No mutex keeps tasks out of a function that many may be in. */
static bool is_entered(struct ring_engine *x, const struct engine_ask *ask)
{
	const struct quiesce_policy policy = {.tasks = &x->tasks,
					      .gva = ask->place.gva + 1,
					      .size = ask->place.size - 1U,
					      .paused = true};
	struct quiesce quiesce;

	return quiesce_begin(&quiesce, x->guest, &policy, NULL) || quiesce_check(&quiesce, NULL);
}

static int put_jump(struct ring_engine *x, size_t i, struct error *err)
{
	const struct engine_ask *ask = &x->config.asks->v[i];
	struct patch_set *jump = &x->asks.jumps[i];

	if (ask->many && !jump->applied && is_entered(x, ask))
		return error_set(err, EBUSY, "a task may be in %s()", ask->function);
	return patch_set_apply(jump, x->kernel, err);
}

/* Of the functions that many tasks may be in, or of the others. */
static int put_jumps(struct ring_engine *x, bool many, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < x->asks.n; i++)
		if (x->config.asks->v[i].many == many)
			ret = put_jump(x, i, err);
	return ret;
}

int asks_begin(struct ring_engine *x, struct error *err)
{
	int ret = x->asks.n ? start_thread(x, err) : 0;

	return ret ? ret : put_jumps(x, false, err);
}

int asks_begin_many(struct ring_engine *x, struct error *err)
{
	return put_jumps(x, true, err);
}
