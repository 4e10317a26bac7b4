/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/monitor/job.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "formats/base/thread.h"
#include "vmm/loop/event-loop.h"

enum { AT_ONCE_MS = 1 };

/* What a verb wants done on the main thread. Owned by the verb, which waits meanwhile. */
struct errand {
	monitor_errand_fn *fn;
	void *arg;
	int ret;
	struct error *err;
};

struct monitor_job {
	pthread_mutex_t lock;    /* held while the verb uses its target */
	pthread_cond_t answered; /* the errand is done, or the job abandoned */
	bool abandoned, over;
	const struct monitor_verb *verb;
	struct monitor_call call;
	struct errand *errand;       /* not done yet; or NULL */
	struct event_source *notice; /* of the main loop: an errand, or the verb has returned */
	monitor_job_fn *fn;          /* for the latter */
	void *arg;
	int ret;
	struct error err;
};

static void free_job(struct monitor_job *job)
{
	json_decref(job->call.args);
	json_decref(job->call.result);
	pthread_cond_destroy(&job->answered);
	pthread_mutex_destroy(&job->lock);
	free(job);
}

static void *work(void *arg)
{
	struct monitor_job *job = arg;
	bool abandoned;

	job->ret = monitor_verb_run(job->verb, &job->call, &job->err);
	pthread_mutex_lock(&job->lock);
	job->over = true;
	abandoned = job->abandoned;
	if (!abandoned)
		event_timer_arm(job->notice, AT_ONCE_MS);
	pthread_mutex_unlock(&job->lock);
	if (abandoned)
		free_job(job);
	return NULL;
}

/* On the main thread, which alone abandons the job: the errand stays as long as it is under way. */
static void on_notice(void *arg)
{
	struct monitor_job *job = arg;
	struct errand *errand;
	bool over;

	pthread_mutex_lock(&job->lock);
	errand = job->errand;
	over = job->over;
	pthread_mutex_unlock(&job->lock);
	if (errand) {
		errand->ret = errand->fn(errand->arg, errand->err);
		pthread_mutex_lock(&job->lock);
		job->errand = NULL;
		pthread_cond_signal(&job->answered);
		pthread_mutex_unlock(&job->lock);
	} else if (over) {
		job->fn(job->arg);
	}
}

static int start_thread(struct monitor_job *job)
{
	pthread_t thread;
	int code = thread_start(&thread, "sonde-job", work, job);

	if (!code)
		pthread_detach(thread);
	return code;
}

int monitor_job_start(struct event_loop *loop, const struct monitor_verb *verb,
		      const struct monitor_call *call, monitor_job_fn *fn, void *arg,
		      struct monitor_job **out, struct error *err)
{
	struct monitor_job *job = calloc(1, sizeof(*job));
	int ret;

	if (!job)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&job->lock, NULL);
	pthread_cond_init(&job->answered, NULL);
	job->verb = verb;
	job->fn = fn;
	job->arg = arg;
	job->call = *call;
	job->call.job = job;
	job->call.args = call->args ? json_deep_copy(call->args) : json_object();
	ret = job->call.args ? event_loop_add_timer(loop, 0, on_notice, job, &job->notice, err)
			     : error_set(err, ENOMEM, "out of memory");
	if (!ret && start_thread(job)) {
		event_source_remove(job->notice);
		ret = error_set(err, EAGAIN, "cannot start a thread for %s", verb->name);
	}
	if (ret)
		free_job(job);
	else
		*out = job;
	return ret;
}

int monitor_job_result(struct monitor_job *job, struct error *err, json_t **result)
{
	int ret;

	pthread_mutex_lock(&job->lock);
	*err = job->err;
	*result = json_incref(job->call.result);
	ret = job->ret;
	pthread_mutex_unlock(&job->lock);
	return ret;
}

void monitor_job_abandon(struct monitor_job *job)
{
	struct event_source *notice;
	bool over;

	if (!job)
		return;
	pthread_mutex_lock(&job->lock);
	job->abandoned = true;
	over = job->over;
	notice = job->notice;
	pthread_cond_signal(&job->answered);
	pthread_mutex_unlock(&job->lock);
	/* the thread may have freed the job by now, unless it had ended before */
	event_source_remove(notice);
	if (over)
		free_job(job);
}

static int abandoned_error(struct error *err)
{
	return error_set(err, ECANCELED, "the client has gone, or the guest has ended");
}

int monitor_call_use(const struct monitor_call *call, struct error *err)
{
	if (!call->job)
		return 0;
	pthread_mutex_lock(&call->job->lock);
	if (!call->job->abandoned)
		return 0;
	pthread_mutex_unlock(&call->job->lock);
	return abandoned_error(err);
}

void monitor_call_done(const struct monitor_call *call)
{
	if (call->job)
		pthread_mutex_unlock(&call->job->lock);
}

int monitor_call_on_main(const struct monitor_call *call, monitor_errand_fn *fn, void *arg,
			 struct error *err)
{
	struct errand errand = {.fn = fn, .arg = arg, .err = err};
	struct monitor_job *job = call->job;
	bool abandoned;

	if (!job)
		return fn(arg, err);
	pthread_mutex_lock(&job->lock);
	if (!job->abandoned) {
		job->errand = &errand;
		event_timer_arm(job->notice, 0);
	}
	while (job->errand && !job->abandoned)
		pthread_cond_wait(&job->answered, &job->lock);
	abandoned = job->abandoned;
	pthread_mutex_unlock(&job->lock);
	return abandoned ? abandoned_error(err) : errand.ret;
}
