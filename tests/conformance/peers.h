/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs about peers share. */
#ifndef CONF_PEERS_H
#define CONF_PEERS_H

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

#include "tests/conformance/harness.h"

/* Reads count completions, in whatever order; returns how many of them were errors. */
static inline size_t drain(struct fid_cq *cq, size_t count, struct fi_cq_err_entry *error)
{
	time_t since = time(NULL);
	size_t errors = 0;

	while (count > 0) {
		struct fi_cq_data_entry entry;
		ssize_t ret = fi_cq_read(cq, &entry, 1);

		if (ret == -FI_EAVAIL) {
			error->err_data_size = 0;
			ret = fi_cq_readerr(cq, error, 0);
			errors++;
		}
		if (ret == 1) {
			count--;
			continue;
		}
		assert_int_equal(ret, -FI_EAGAIN);
		if (time(NULL) - since > CONF_TIMEOUT_S)
			fail_msg("%zu completions are missing", count);
		sched_yield();
	}
	return errors;
}

static inline bool is_network(const struct conf *c)
{
	return strncmp(c->profile->name, "sw-", 3) != 0;
}

/* A function of the emulated device, or NULL: another one is in use. */
static inline void *emulator(const struct conf *c, const char *name)
{
	void *library = is_network(c) ? dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
	void *function = library ? dlsym(library, name) : NULL;

	if (library)
		dlclose(library);
	return function;
}

static inline uint16_t port_of(const struct conf_end *end)
{
	struct sockaddr_storage name;
	size_t len = sizeof(name);

	assert_ok(fi_getname(&end->ep->fid, &name, &len));
	return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

/* An endpoint in place of end's closed one, with this address. */
static inline void reopen(struct conf_end *end, const void *name, size_t len)
{
	struct fi_info *info = fi_dupinfo(end->info);

	assert_non_null(info);
	free(info->src_addr);
	info->src_addr = malloc(len);
	assert_non_null(info->src_addr);
	memcpy(info->src_addr, name, len);
	info->src_addrlen = len;
	assert_ok(fi_endpoint(end->domain, info, &end->ep, end));
	assert_ok(fi_ep_bind(end->ep, &end->av->fid, 0));
	assert_ok(fi_ep_bind(end->ep, &end->tx->fid, FI_TRANSMIT));
	assert_ok(fi_ep_bind(end->ep, &end->rx->fid, FI_RECV));
	assert_ok(fi_enable(end->ep));
	fi_freeinfo(info);
}

/* A message from a to b. */
static inline void exchange(struct conf_link *l)
{
	assert_posted(fi_recv(l->b->ep, l->dst, l->len, l->remote->desc, FI_ADDR_UNSPEC, l->dst));
	assert_posted(fi_send(l->a->ep, l->src, l->len, l->local->desc, l->to, l->src));
	conf_done(l->a->tx, l->src);
	conf_done(l->b->rx, l->dst);
	assert_memory_equal(l->dst, l->src, l->len);
}

/* Lines in the log since the mark. */
static inline unsigned log_lines(void)
{
	unsigned lines = 0;

	for (const char *text = conf_log_text(); (text = strchr(text, '\n')); text++)
		lines++;
	return lines;
}

#endif
