/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread of a domain.  It waits for connection events, completions and asynchronous events
 * of all its endpoints, and does what may not be done under an endpoint's lock.
 *
 * An endpoint leaves in two steps: its descriptors and links are taken out, then whoever takes it out
 * waits until the thread has finished the pass that it was in, since that may have seen the endpoint.  The thread ends
 * with the last endpoint that has taken both.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/nic/verbs_conn.h"

#define EVENTS 32

struct verbs_progress {
	struct verbs_domain *vd;
	uint32_t users; /* endpoints that have not left, under the domain's lock */
	pthread_t thread;
	int epoll, wake;
	struct verbs_source on_wake, on_async;
	bool watches_async;   /* of the thread alone */
	bool told;	      /* of the thread alone: the endpoints know that the device is gone */
	pthread_mutex_t lock; /* protects what follows; innermost */
	pthread_cond_t passed;
	struct hm_list eps;  /* verbs_ep, by their progress_link */
	struct hm_list work; /* verbs_ep, by their work_link */
	uint64_t passes;
	bool stop;
};

static void signal_thread(struct verbs_progress *p)
{
	uint64_t one = 1;
	ssize_t ret;

	do {
		ret = write(p->wake, &one, sizeof(one));
	} while (ret < 0 && errno == EINTR);
}

void verbs_progress_wake(struct verbs_ep *ep)
{
	struct verbs_progress *p = ep->progress;
	bool idle;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	idle = hm_list_empty(&ep->work_link);
	if (idle)
		hm_list_add_tail(&p->work, &ep->work_link);
	pthread_mutex_unlock(&p->lock);
	if (idle)
		signal_thread(p);
}

/* ---- the thread ---- */

void verbs_ep_arm(struct verbs_ep *ep)
{
	int err = ep->gone ? 0 : ibv_req_notify_cq(ep->cq, 0);

	if (err == EIO || err == ENODEV) {
		ep->suspect = true; /* this thread's next work */
		verbs_progress_wake(ep);
	} else if (err != 0) {
		HM_WARN(FI_LOG_EP_CTRL, "ibv_req_notify_cq: %s", strerror(err));
	}
	ep->unarmed = err != 0; /* tried again at the next heartbeat */
	verbs_ep_poll(ep);	/* what came before the request to be notified */
}

static void on_completions(struct verbs_ep *ep)
{
	struct ibv_cq *cq;
	void *context;
	unsigned n = 0;

	while (verbs.get_cq_event(ep->channel, &cq, &context) == 0)
		n++;
	if (n > 0)
		verbs.ack_cq_events(ep->cq, n);
	pthread_mutex_lock(&ep->lock);
	verbs_ep_poll(ep);
	if (n > 0)
		verbs_ep_arm(ep);
	pthread_mutex_unlock(&ep->lock);
}

static void unwatch(struct verbs_progress *p, int fd)
{
	epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void tell_gone(struct verbs_progress *p)
{
	if (p->told || !atomic_load(&p->vd->gone))
		return;
	p->told = true;
	pthread_mutex_lock(&p->vd->lock);
	hm_list_for_each(link, &p->vd->eps)
	{
		struct verbs_ep *ep = hm_list_entry(link, struct verbs_ep, link);

		pthread_mutex_lock(&ep->lock);
		verbs_ep_device_gone(ep);
		pthread_mutex_unlock(&ep->lock);
	}
	pthread_mutex_unlock(&p->vd->lock);
}

static void handle(struct verbs_progress *p, const struct epoll_event *event)
{
	const struct verbs_source *source = event->data.ptr;
	bool broken = event->events & (EPOLLERR | EPOLLHUP);
	uint64_t count;

	switch (source->kind) {
	case VERBS_SOURCE_WAKE:
		if (read(p->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
			HM_WARN(FI_LOG_DOMAIN, "eventfd: %s", strerror(errno));
		break;
	case VERBS_SOURCE_ASYNC:
		verbs_domain_async(p->vd);
		if (broken)
			unwatch(p, p->vd->context->async_fd);
		break;
	case VERBS_SOURCE_EVENTS:
		verbs_conn_events(source->ep);
		if (broken)
			unwatch(p, source->ep->events->fd);
		break;
	case VERBS_SOURCE_COMPLETIONS:
		on_completions(source->ep);
		if (broken)
			unwatch(p, source->ep->channel->fd);
		break;
	}
}

/* An endpoint with deadlines is work whenever time has passed (add), every one at each heartbeat (all). */
static bool add_ticking(struct verbs_progress *p, bool add, bool all)
{
	bool any = false;

	pthread_mutex_lock(&p->lock);
	hm_list_for_each(link, &p->eps)
	{
		struct verbs_ep *ep = hm_list_entry(link, struct verbs_ep, progress_link);

		any |= ep->ticks;
		if (((add && ep->ticks) || all) && hm_list_empty(&ep->work_link))
			hm_list_add_tail(&p->work, &ep->work_link);
	}
	pthread_mutex_unlock(&p->lock);
	return any;
}

static struct verbs_ep *take_work(struct verbs_progress *p)
{
	struct verbs_ep *ep = NULL;

	pthread_mutex_lock(&p->lock);
	if (!hm_list_empty(&p->work)) {
		ep = hm_list_entry(p->work.next, struct verbs_ep, work_link);
		hm_list_del(&ep->work_link);
	}
	pthread_mutex_unlock(&p->lock);
	return ep;
}

static bool end_pass(struct verbs_progress *p)
{
	bool stop;

	pthread_mutex_lock(&p->lock);
	p->passes++;
	pthread_cond_broadcast(&p->passed);
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return stop;
}

static void *run(void *arg)
{
	struct verbs_progress *p = arg;
	struct epoll_event event[EVENTS];
	unsigned beat_ms = verbs_retry_ms() < 1000 ? verbs_retry_ms() : 1000;
	uint64_t tick = 0, beat = verbs_now_ms() + beat_ms;
	struct verbs_ep *ep;

	do {
		int timeout = add_ticking(p, false, false) ? VERBS_TICK_MS : (int)beat_ms;
		int n = epoll_wait(p->epoll, event, EVENTS, timeout);
		bool beats = verbs_now_ms() >= beat;

		for (int i = 0; i < n; i++)
			handle(p, &event[i]);
		tell_gone(p);
		if (beats || verbs_now_ms() >= tick) {
			tick = verbs_now_ms() + VERBS_TICK_MS;
			add_ticking(p, true, beats);
		}
		if (beats)
			beat = verbs_now_ms() + beat_ms;
		while ((ep = take_work(p)))
			ep->ticks = verbs_conn_work(ep, beats);
		tell_gone(p); /* the work may have found it out */
	} while (!end_pass(p));
	return NULL;
}

/* ---- start and end ---- */

static int watch(struct verbs_progress *p, int fd, struct verbs_source *source)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

	if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	HM_WARN(FI_LOG_DOMAIN, "epoll_ctl: %s", strerror(errno));
	return -FI_ENOMEM;
}

static int create_thread(struct verbs_progress *p)
{
	int err = hm_thread_start(&p->thread, "hmreg-verbs", run, p);

	if (err == 0)
		return 0;
	HM_WARN(FI_LOG_DOMAIN, "no thread for progress: %s", strerror(err));
	return err == EAGAIN ? -FI_EAGAIN : -FI_ENOMEM;
}

static void destroy(struct verbs_progress *p)
{
	if (p->epoll >= 0)
		close(p->epoll);
	if (p->wake >= 0)
		close(p->wake);
	pthread_cond_destroy(&p->passed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int start(struct verbs_domain *vd, struct verbs_progress **out)
{
	struct verbs_progress *p = calloc(1, sizeof(*p));
	int ret = -FI_ENOMEM;

	if (!p) {
		HM_WARN(FI_LOG_DOMAIN, "no memory for a progress thread");
		return ret;
	}
	p->vd = vd;
	p->on_wake.kind = VERBS_SOURCE_WAKE;
	p->on_async.kind = VERBS_SOURCE_ASYNC;
	hm_list_init(&p->eps);
	hm_list_init(&p->work);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->passed, NULL);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->epoll < 0 || p->wake < 0) {
		HM_WARN(FI_LOG_DOMAIN, "no file descriptors for a progress thread: %s",
			strerror(errno));
		ret = errno == EMFILE ? -FI_EMFILE : -FI_ENOMEM;
	} else {
		ret = watch(p, p->wake, &p->on_wake);
		/* an adopted context's events are its owner's */
		if (ret == 0 && vd->owns_context)
			ret = watch(p, vd->context->async_fd, &p->on_async);
		if (ret == 0)
			ret = create_thread(p);
	}
	if (ret == 0)
		*out = p;
	else
		destroy(p);
	return ret;
}

static void stop(struct verbs_progress *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_mutex_unlock(&p->lock);
	signal_thread(p);
	pthread_join(p->thread, NULL);
	destroy(p);
}

int verbs_progress_add(struct verbs_ep *ep)
{
	struct verbs_domain *vd = ep->vd;
	struct verbs_progress *p = NULL;
	int ret = 0;

	pthread_mutex_lock(&vd->lock);
	if (!vd->progress)
		ret = start(vd, &vd->progress);
	if (ret == 0) {
		ep->progress = p = vd->progress;
		p->users++;
		pthread_mutex_lock(&p->lock);
		hm_list_add_tail(&p->eps, &ep->progress_link);
		pthread_mutex_unlock(&p->lock);
		hm_list_add_tail(&vd->eps, &ep->link);
	}
	pthread_mutex_unlock(&vd->lock);
	if (ret != 0)
		return ret;
	ep->on_events = (struct verbs_source){ VERBS_SOURCE_EVENTS, ep };
	ep->on_completions = (struct verbs_source){ VERBS_SOURCE_COMPLETIONS, ep };
	ret = watch(p, ep->events->fd, &ep->on_events);
	if (ret == 0)
		ret = watch(p, ep->channel->fd, &ep->on_completions);
	if (ret != 0)
		verbs_progress_remove(ep);
	return ret;
}

/* The thread may be in a pass that has seen the endpoint. */
static void await_pass(struct verbs_progress *p, struct verbs_ep *ep)
{
	uint64_t pass;

	pthread_mutex_lock(&p->lock);
	hm_list_del(&ep->progress_link);
	hm_list_del(&ep->work_link);
	pass = p->passes;
	pthread_mutex_unlock(&p->lock);
	signal_thread(p);
	pthread_mutex_lock(&p->lock);
	while (p->passes == pass)
		pthread_cond_wait(&p->passed, &p->lock);
	hm_list_del(&ep->work_link); /* the pass may have woken it */
	ep->progress = NULL;
	pthread_mutex_unlock(&p->lock);
}

void verbs_progress_remove(struct verbs_ep *ep)
{
	struct verbs_progress *p = ep->progress;
	struct verbs_domain *vd = ep->vd;
	bool last;

	if (!p)
		return;
	pthread_mutex_lock(&vd->lock);
	hm_list_del(&ep->link);
	pthread_mutex_unlock(&vd->lock);
	unwatch(p, ep->events->fd);
	unwatch(p, ep->channel->fd);
	await_pass(p, ep);
	pthread_mutex_lock(&vd->lock);
	last = --p->users == 0;
	if (last)
		vd->progress = NULL;
	pthread_mutex_unlock(&vd->lock);
	if (last)
		stop(p);
}

/* An application that reads an empty queue polls for us. */
void verbs_progress_domain(struct nic_domain *domain)
{
	struct verbs_domain *vd = verbs_domain_of(domain);

	if (pthread_mutex_trylock(&vd->lock) != 0)
		return;
	hm_list_for_each(link, &vd->eps)
	{
		struct verbs_ep *ep = hm_list_entry(link, struct verbs_ep, link);

		if (pthread_mutex_trylock(&ep->lock) != 0)
			continue;
		verbs_ep_poll(ep);
		pthread_mutex_unlock(&ep->lock);
	}
	pthread_mutex_unlock(&vd->lock);
}
