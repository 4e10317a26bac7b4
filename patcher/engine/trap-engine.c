/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every place of the plan is a trap, and every hit is emitted by the thread of the vCPU. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "patcher/engine/engine.h"
#include "patcher/engine/trap-reader.h"

struct trap_engine {
	struct engine engine;
	struct engine_config config;
	pthread_mutex_t emitting; /* vCPUs' threads, one at a time */
};

static struct trap_engine *trap_engine_of(struct engine *engine)
{
	return (struct trap_engine *)engine;
}

static int install(struct engine *engine, struct error *err)
{
	const struct engine_config *c = &trap_engine_of(engine)->config;

	patch_plan_use_traps(c->plan);
	return patch_plan_apply(c->plan, c->kernel, err);
}

static enum engine_trap on_trap(struct engine *engine, struct guest_trap *trap)
{
	return trap_reader_take(trap_engine_of(engine)->config.reader, engine, trap);
}

static void submit(struct engine *engine, const struct probe_ref *ref, enum probe_point point,
		   const struct probe_hit *hit)
{
	struct trap_engine *t = trap_engine_of(engine);

	pthread_mutex_lock(&t->emitting);
	t->config.emit(t->config.arg, ref, point, hit);
	if (t->config.emitted)
		t->config.emitted(t->config.arg);
	pthread_mutex_unlock(&t->emitting);
}

static void settle(struct engine *engine, engine_settle_fn *fn, void *arg)
{
	struct trap_engine *t = trap_engine_of(engine);

	pthread_mutex_lock(&t->emitting);
	fn(arg);
	pthread_mutex_unlock(&t->emitting);
}

/* No trampoline has run. */
static bool take_saved_array(struct engine *engine, uint64_t key, uint64_t *words, uint64_t *skip)
{
	(void)engine;
	(void)key;
	(void)words;
	(void)skip;
	return false;
}

static bool refresh(struct engine *engine)
{
	(void)engine;
	return false;
}

static int withdraw(struct engine *engine, struct patch_outcome *outcome, struct error *err)
{
	const struct engine_config *c = &trap_engine_of(engine)->config;

	return patch_plan_revert(c->plan, c->kernel, outcome, err);
}

/* A vCPU never stays in a trapped instruction. */
static int finish(struct engine *engine, struct error *err)
{
	(void)engine;
	(void)err;
	return 0;
}

static void count(struct engine *engine, unsigned int vcpu, struct trace_counters *sum)
{
	const struct trap_reader *reader = trap_engine_of(engine)->config.reader;

	sum->v[COUNTER_TRAPS] += atomic_load(&reader->taken[vcpu % TRAP_READER_VCPUS]);
}

static void destroy(struct engine *engine)
{
	struct trap_engine *t = trap_engine_of(engine);

	pthread_mutex_destroy(&t->emitting);
	free(t);
}

static const struct engine_ops trap_ops = {
	.name = "trap",
	.install = install,
	.on_trap = on_trap,
	.submit = submit,
	.settle = settle,
	.take_saved_array = take_saved_array,
	.refresh = refresh,
	.withdraw = withdraw,
	.finish = finish,
	.end = withdraw,
	.counts = count,
	.destroy = destroy,
};

int trap_engine_create(const struct engine_config *config, struct engine **out, struct error *err)
{
	struct trap_engine *t = calloc(1, sizeof(*t));

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->engine.ops = &trap_ops;
	t->config = *config;
	pthread_mutex_init(&t->emitting, NULL);
	*out = &t->engine;
	return 0;
}

void engine_destroy(struct engine *engine)
{
	if (engine)
		engine->ops->destroy(engine);
}
