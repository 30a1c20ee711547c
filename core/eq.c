/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues, fi_eq(3).  A queue grows as events come, so that none is lost; the size asked for is
 * only a minimum.  Errors wait on a list of their own and must be read before any event.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

#define EQ_WRITE_MAX 4096 /* bytes of an event that fi_eq_write takes */

/* ---- adding ---- */

static int append(struct hm_eq *eq, struct hm_list *list, uint32_t event, const void *data,
		  size_t len)
{
	struct hm_eq_event *entry = malloc(sizeof(*entry) + len);

	if (!entry) {
		HM_WARN(FI_LOG_EQ, "no memory for an event of %zu bytes", len);
		return -FI_ENOMEM;
	}
	entry->event = event;
	entry->len = len;
	memcpy(entry->data, data, len);
	pthread_mutex_lock(&eq->lock);
	hm_list_add_tail(list, &entry->link);
	pthread_mutex_unlock(&eq->lock);
	hm_wait_signal(&eq->wait);
	return 0;
}

int hm_eq_push(struct hm_eq *eq, uint32_t event, const struct fi_eq_entry *entry)
{
	return append(eq, &eq->events, event, entry, sizeof(*entry));
}

int hm_eq_push_error(struct hm_eq *eq, const struct fi_eq_err_entry *error)
{
	assert(!error->err_data && !error->err_data_size);
	return append(eq, &eq->errors, 0, error, sizeof(*error));
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	struct hm_eq *eq = hm_eq_of(&fid->fid);
	int ret;

	if (!eq->writable) {
		HM_WARN(FI_LOG_EQ, "fi_eq_write: the queue was opened without FI_WRITE");
		return -FI_EINVAL;
	}
	if (flags) {
		HM_WARN(FI_LOG_EQ, "fi_eq_write: flags 0x%llx, none are defined",
			(unsigned long long)flags);
		return -FI_EBADFLAGS;
	}
	if (!buf || !len || len > EQ_WRITE_MAX) {
		HM_WARN(FI_LOG_EQ, "fi_eq_write: %s of %zu bytes, an event has 1 to %d",
			buf ? "buffer" : "NULL buffer", len, EQ_WRITE_MAX);
		return -FI_EINVAL;
	}
	ret = append(eq, &eq->events, event, buf, len);
	return ret ? ret : (ssize_t)len;
}

/* ---- reading ---- */

/* A read: where its event goes, and what came of it. */
struct eq_read {
	struct hm_eq *eq;
	uint32_t *event;
	void *buf;
	size_t len;
	bool peek;
	ssize_t ret;
};

static struct hm_eq_event *front(struct hm_list *list)
{
	return hm_list_empty(list) ? NULL : hm_list_entry(list->next, struct hm_eq_event, link);
}

/* Under the lock.  The event that the caller is to free, if it was read and not peeked at. */
static struct hm_eq_event *read_locked(struct eq_read *r)
{
	struct hm_eq_event *entry = front(&r->eq->events);

	if (!hm_list_empty(&r->eq->errors)) {
		r->ret = -FI_EAVAIL;
		return NULL;
	}
	if (!entry) {
		r->ret = -FI_EAGAIN;
		return NULL;
	}
	if (entry->len > r->len) {
		HM_WARN(FI_LOG_EQ, "fi_eq_read: buffer of %zu bytes, the event has %zu", r->len,
			entry->len);
		r->ret = -FI_ETOOSMALL;
		return NULL;
	}
	*r->event = entry->event;
	memcpy(r->buf, entry->data, entry->len);
	r->ret = (ssize_t)entry->len;
	if (r->peek)
		return NULL;
	hm_list_del(&entry->link);
	return entry;
}

/* True when anything but "empty" came of it. */
static bool try_read(void *arg)
{
	struct eq_read *r = arg;
	struct hm_eq_event *done;

	pthread_mutex_lock(&r->eq->lock);
	done = read_locked(r);
	pthread_mutex_unlock(&r->eq->lock);
	free(done);
	return r->ret != -FI_EAGAIN;
}

static int start_read(struct eq_read *r, struct fid_eq *fid, uint32_t *event, void *buf, size_t len,
		      uint64_t flags)
{
	if (!event || (!buf && len)) {
		HM_WARN(FI_LOG_EQ, "fi_eq_read: NULL %s", event ? "buffer" : "event");
		return -FI_EINVAL;
	}
	if (flags & ~(uint64_t)FI_PEEK) {
		HM_WARN(FI_LOG_EQ, "fi_eq_read: flags 0x%llx, only FI_PEEK is defined",
			(unsigned long long)flags);
		return -FI_EBADFLAGS;
	}
	*r = (struct eq_read){
		.eq = hm_eq_of(&fid->fid),
		.event = event,
		.buf = buf,
		.len = len,
		.peek = (flags & FI_PEEK) != 0,
	};
	return 0;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct eq_read r;
	int ret = start_read(&r, fid, event, buf, len, flags);

	if (ret)
		return ret;
	try_read(&r);
	return r.ret;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	struct eq_read r;
	int ret = start_read(&r, fid, event, buf, len, flags);

	if (ret)
		return ret;
	if (r.eq->wait.obj == FI_WAIT_NONE) {
		HM_WARN(FI_LOG_EQ, "fi_eq_sread: the queue was opened with FI_WAIT_NONE");
		return -FI_ENOSYS;
	}
	ret = hm_wait_until(&r.eq->wait, try_read, &r, timeout);
	return ret ? ret : r.ret;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct hm_eq *eq = hm_eq_of(&fid->fid);
	struct hm_eq_event *entry;
	struct fi_eq_err_entry error;

	if (!buf) {
		HM_WARN(FI_LOG_EQ, "fi_eq_readerr: NULL buffer");
		return -FI_EINVAL;
	}
	if (flags) {
		HM_WARN(FI_LOG_EQ, "fi_eq_readerr: flags 0x%llx, none are defined",
			(unsigned long long)flags);
		return -FI_EBADFLAGS;
	}
	pthread_mutex_lock(&eq->lock);
	entry = front(&eq->errors);
	if (entry)
		hm_list_del(&entry->link);
	pthread_mutex_unlock(&eq->lock);
	if (!entry)
		return -FI_EAGAIN;
	memcpy(&error, entry->data, sizeof(error));
	free(entry);
	/* There is never error data: a buffer that the caller brought stays as it is. */
	error.err_data = buf->err_data_size ? buf->err_data : NULL;
	*buf = error;
	return sizeof(error);
}

/* ---- the rest ---- */

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	const char *text = fi_strerror(prov_errno);

	(void)fid;
	(void)err_data;
	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	return hm_wait_control(&hm_eq_of(fid)->wait, FI_LOG_EQ, command, arg);
}

static bool eq_ready(void *arg)
{
	struct hm_eq *eq = arg;
	bool ready;

	pthread_mutex_lock(&eq->lock);
	ready = !hm_list_empty(&eq->events) || !hm_list_empty(&eq->errors);
	pthread_mutex_unlock(&eq->lock);
	return ready;
}

int hm_eq_trywait(struct hm_eq *eq)
{
	int ret = hm_wait_try(&eq->wait, eq_ready, eq);

	if (ret == -FI_EINVAL)
		HM_WARN(FI_LOG_EQ, "fi_trywait: the event queue has no FI_WAIT_FD");
	return ret;
}

static void drop_all(struct hm_list *list)
{
	struct hm_eq_event *entry;

	while ((entry = front(list)) != NULL) {
		hm_list_del(&entry->link);
		free(entry);
	}
}

static int eq_close(struct fid *fid)
{
	struct hm_eq *eq = hm_eq_of(fid);
	int ret = hm_check_unused(&eq->users, "event queue");

	if (ret)
		return ret;
	hm_wait_destroy(&eq->wait);
	pthread_mutex_destroy(&eq->lock);
	drop_all(&eq->errors);
	drop_all(&eq->events);
	hm_unuse(&eq->fabric->users);
	hm_fid_end(fid);
	free(eq);
	return 0;
}

static const struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = hm_no_bind,
	.control = eq_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

static const struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int hm_eq_open(struct fid_fabric *fabric_fid, struct fi_eq_attr *attr, struct fid_eq **eq_out,
	       void *context)
{
	struct hm_fabric *fabric = hm_fabric_of(&fabric_fid->fid);
	struct hm_eq *eq;
	int ret;

	if (!attr || !eq_out) {
		HM_WARN(FI_LOG_EQ, "fi_eq_open: NULL %s", attr ? "eq" : "attr");
		return -FI_EINVAL;
	}
	if (attr->flags & ~(uint64_t)(FI_WRITE | FI_AFFINITY)) {
		HM_WARN(FI_LOG_EQ, "fi_eq_open: unknown flags in 0x%llx",
			(unsigned long long)attr->flags);
		return -FI_EBADFLAGS;
	}
	ret = hm_wait_check(attr->wait_obj, FI_LOG_EQ, "fi_eq_open");
	if (ret)
		return ret;
	eq = calloc(1, sizeof(*eq));
	if (!eq || pthread_mutex_init(&eq->lock, NULL)) {
		HM_WARN(FI_LOG_EQ, "fi_eq_open: out of memory");
		ret = -FI_ENOMEM;
		goto free_eq;
	}
	ret = hm_wait_init(&eq->wait, attr->wait_obj);
	if (ret)
		goto destroy_lock;
	hm_list_init(&eq->events);
	hm_list_init(&eq->errors);
	eq->writable = (attr->flags & FI_WRITE) != 0;
	eq->fabric = fabric;
	eq->eq.fid.fclass = FI_CLASS_EQ;
	eq->eq.fid.context = context;
	eq->eq.fid.ops = (struct fi_ops *)&eq_fid_ops;
	eq->eq.ops = (struct fi_ops_eq *)&eq_ops;
	hm_use(&fabric->users);
	*eq_out = &eq->eq;
	return 0;

destroy_lock:
	pthread_mutex_destroy(&eq->lock);
free_eq:
	free(eq);
	return ret;
}
