/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory fails piece by piece under registration, address insertion, messages and events. */
#include <netinet/in.h>

#include "tests/fault/fault.h"

#define MANY 300 /* regions, addresses: enough to make every table grow */

/* ---- registration ---- */

/* The call's answer, once its output has been looked at. */
static int keep_mr(struct scene *s, int ret, struct fid_mr *const *mr)
{
	if (ret)
		assert_ptr_equal(*mr, UNTOUCHED);
	else
		s->mr[0] = *mr;
	return ret;
}

static int run_reg(struct scene *s)
{
	struct fid_mr *mr = UNTOUCHED;

	return keep_mr(s, fi_mr_reg(s->domain, s->src, SCENE_BYTES, FAULT_ALL, 0, 7, 0, &mr, s),
		       &mr);
}

static int run_regv(struct scene *s)
{
	struct iovec iov[3] = { { s->src, 100 }, { s->src + 200, 50 }, { s->dst, 8 } };
	struct fid_mr *mr = UNTOUCHED;

	return keep_mr(s, fi_mr_regv(s->domain, iov, 3, FAULT_ALL, 0, 7, 0, &mr, s), &mr);
}

static int run_regattr(struct scene *s)
{
	struct iovec iov = { s->src, SCENE_BYTES };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FAULT_ALL, .requested_key = 7
	};
	struct fid_mr *mr = UNTOUCHED;

	return keep_mr(s, fi_mr_regattr(s->domain, &attr, FI_RMA_EVENT, &mr), &mr);
}

static void undo_reg(struct scene *s)
{
	assert_int_equal(fi_close(&s->mr[0]->fid), 0);
	s->mr[0] = NULL;
}

/* The event comes exactly when the registration has succeeded. */
static void undo_reg_event(struct scene *s)
{
	struct fi_eq_entry entry;
	uint32_t event;

	assert_int_equal(fi_eq_read(s->eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_int_equal(event, FI_MR_COMPLETE);
	assert_ptr_equal(entry.fid, s->mr[0]);
	assert_ptr_equal(entry.context, s);
	assert_int_equal(fi_eq_read(s->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	undo_reg(s);
}

static struct fid_mr *many[MANY];

static void undo_many(struct scene *s)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };

	assert_int_equal(s->ops->stats(&s->domain->fid, &stats), 0);
	assert_int_equal(stats.regions, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		if (!(s->mode & (FI_MR_PROV_KEY | FI_MR_RAW)))
			assert_int_equal(fi_mr_key(many[i]), i);
		assert_int_equal(fi_close(&many[i]->fid), 0);
	}
}

static int run_many(struct scene *s)
{
	for (unsigned i = 0; i < MANY; i++) {
		struct fid_mr *mr = UNTOUCHED;
		int ret = fi_mr_reg(s->domain, s->src + i, 1, FAULT_ALL, 0, i, 0, &mr, NULL);

		if (!ret) {
			many[i] = mr;
			continue;
		}
		assert_ptr_equal(mr, UNTOUCHED);
		while (i-- > 0)
			assert_int_equal(fi_close(&many[i]->fid), 0);
		return ret;
	}
	return 0;
}

/* ---- sub-MRs: of mr[1], which scene_unregister can close only if none holds it ---- */

static int make_sub(struct scene *s, const struct iovec *iov, size_t count, struct fid_mr *base,
		    uint64_t key, struct fid_mr **mr)
{
	struct fi_mr_attr attr = { .mr_iov = iov,
				   .iov_count = count,
				   .access = FAULT_ALL,
				   .requested_key = key,
				   .base_mr = base,
				   .sub_mr_cnt = count > 1 ? 1000 : 0 };

	*mr = UNTOUCHED;
	return fi_mr_regattr(s->domain, &attr, 0, mr);
}

static int run_sub(struct scene *s)
{
	struct iovec iov[3] = { { s->dst, 100 }, { s->dst + 200, 50 }, { s->dst + 50, 8 } };
	struct fid_mr *mr;
	int ret = make_sub(s, iov, 3, s->mr[1], 7, &mr);

	if (ret)
		assert_ptr_equal(mr, UNTOUCHED);
	else
		s->ptr = mr;
	return ret;
}

static void undo_sub(struct scene *s)
{
	struct fid_mr *mr = s->ptr;

	assert_int_equal(fi_close(&s->mr[1]->fid), -FI_EBUSY);
	scene_works(s);
	assert_int_equal(fi_close(&mr->fid), 0);
}

static void close_chain(unsigned count)
{
	for (; count > 1; count--) {
		assert_int_equal(fi_close(&many[count - 2]->fid), -FI_EBUSY);
		assert_int_equal(fi_close(&many[count - 1]->fid), 0);
	}
	if (count > 0)
		assert_int_equal(fi_close(&many[0]->fid), 0);
}

/* A failure leaves the chain as it is, down to its last link. */
static int run_chain(struct scene *s)
{
	struct iovec iov = { s->dst, 8 };

	for (unsigned i = 0; i < MANY; i++) {
		int ret = make_sub(s, &iov, 1, i ? many[i - 1] : s->mr[1], 200 + i, &many[i]);

		if (!ret)
			continue;
		assert_ptr_equal(many[i], UNTOUCHED);
		assert_int_equal(fault_lines(), 1);
		close_chain(i);
		assert_int_equal(fault_lines(), i ? i - 1 : 0);
		return ret;
	}
	return 0;
}

static void undo_chain(struct scene *s)
{
	(void)s;
	close_chain(MANY);
}

/* ---- raw keys ---- */

static uint64_t mapped[MANY];

/*
 * The key of a region, mapped with another base address each time, since it is but counted with the same; or
 * for the domains with 8-byte keys a number.
 */
static int map_one(struct scene *s, unsigned i)
{
	uint64_t raw[2] = { UINT64_C(0x1234000000) + i, 0 }, base, key = 99;
	size_t size = sizeof(raw[0]);
	int ret;

	if (s->mode & FI_MR_RAW) {
		size = sizeof(raw);
		assert_int_equal(fi_mr_raw_attr(s->mr[1], &base, (uint8_t *)raw, &size, 0), 0);
	}
	ret = fi_mr_map_raw(s->domain, i, (uint8_t *)raw, size, &key, 0);
	if (ret)
		assert_int_equal(key, 99);
	else
		mapped[i] = key;
	return ret;
}

static void unmap(struct scene *s, unsigned count)
{
	while (count-- > 0)
		assert_int_equal(fi_mr_unmap_key(s->domain, mapped[count]), 0);
}

static int run_map(struct scene *s)
{
	for (unsigned i = 0; i < MANY; i++) {
		int ret = map_one(s, i);

		if (ret) {
			unmap(s, i);
			return ret;
		}
	}
	return 0;
}

static void undo_map(struct scene *s)
{
	unmap(s, MANY);
}

/* ---- addresses ---- */

static struct sockaddr_in addresses[MANY];
static fi_addr_t inserted[MANY];
static int codes[MANY];

static void make_addresses(void)
{
	for (unsigned i = 0; i < MANY; i++)
		addresses[i] = (struct sockaddr_in){ .sin_family = AF_INET,
						     .sin_port = htons((uint16_t)(1000 + i)),
						     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void remove_inserted(struct scene *s)
{
	for (unsigned i = 0; i < MANY; i++)
		if (inserted[i] != FI_ADDR_NOTAVAIL)
			assert_int_equal(fi_av_remove(s->av, &inserted[i], 1, 0), 0);
}

/* One failure costs at most one address; its code is ENOMEM and its place says so. */
static int run_insert(struct scene *s)
{
	unsigned failed = 0;
	int ret;

	make_addresses();
	ret = fi_av_insert(s->av, addresses, MANY, inserted, FI_SYNC_ERR, codes);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(inserted[i] == FI_ADDR_NOTAVAIL, codes[i] != 0);
		assert_true(codes[i] == 0 || codes[i] == FI_ENOMEM);
		failed += codes[i] != 0;
	}
	assert_int_equal(ret, MANY - failed);
	if (!failed)
		return 0;
	assert_int_equal(failed, 1);
	remove_inserted(s);
	return -FI_ENOMEM;
}

static void undo_insert(struct scene *s)
{
	struct sockaddr_in in;

	for (unsigned i = 0; i < MANY; i++) {
		size_t len = sizeof(in);

		assert_int_equal(fi_av_lookup(s->av, inserted[i], &in, &len), 0);
		assert_int_equal(ntohs(in.sin_port), 1000 + i);
	}
	remove_inserted(s);
}

/* With events the insertion has happened in full, event included, or not at all. */
static int run_insert_event(struct scene *s)
{
	int ret;

	make_addresses();
	for (unsigned i = 0; i < 3; i++)
		inserted[i] = FI_ADDR_UNSPEC;
	ret = fi_av_insert(s->av, addresses, 3, inserted, 0, s);
	for (unsigned i = 0; ret && i < 3; i++)
		assert_true(inserted[i] == FI_ADDR_UNSPEC || inserted[i] == FI_ADDR_NOTAVAIL);
	return ret;
}

static void undo_insert_event(struct scene *s)
{
	struct fi_eq_entry entry;
	uint32_t event;

	assert_int_equal(fi_eq_read(s->eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_int_equal(event, FI_AV_COMPLETE);
	assert_ptr_equal(entry.context, s);
	assert_int_equal(entry.data, 3);
	assert_int_equal(fi_eq_read(s->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	/* 0 is the address that was there before */
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(inserted[i], 1 + i);
	assert_int_equal(fi_av_remove(s->av, inserted, 3, 0), 0);
}

/* ---- messages ---- */

static int run_recv(struct scene *s)
{
	return (int)fi_recv(s->ep, s->dst, SCENE_BYTES, scene_desc(s, 1), FI_ADDR_UNSPEC, s);
}

/* The one receive that is posted takes the one message; a second would wait. */
static void undo_recv(struct scene *s)
{
	memset(s->src, 0x3c, SCENE_BYTES);
	assert_int_equal(fi_send(s->ep, s->src, SCENE_BYTES, scene_desc(s, 0), s->self, s), 0);
	scene_done(s->tx, s);
	scene_done(s->rx, s);
	assert_memory_equal(s->src, s->dst, SCENE_BYTES);
}

static int send_with(struct scene *s, uint64_t flags)
{
	void *desc = scene_desc(s, 0);
	struct iovec iov = { s->src, 1000 };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = s->self, .context = s
	};

	memset(s->src, 0x66, 1000);
	return (int)fi_sendmsg(s->ep, &msg, flags);
}

static int run_send(struct scene *s)
{
	return send_with(s, FI_TRANSMIT_COMPLETE);
}

static int run_send_delivery(struct scene *s)
{
	return send_with(s, FI_DELIVERY_COMPLETE);
}

static int run_inject(struct scene *s)
{
	memset(s->src, 0x66, 1000);
	return (int)fi_inject(s->ep, s->src, 1000, s->self);
}

/* What was sent waits; the receive that comes now gets it, and there is no second. */
static void receive(struct scene *s)
{
	struct fi_cq_data_entry entry;

	memset(s->dst, 0, SCENE_BYTES);
	assert_int_equal(run_recv(s), 0);
	scene_done(s->rx, s);
	memset(s->src, 0x66, 1000);
	assert_memory_equal(s->src, s->dst, 1000);
	assert_int_equal(s->dst[1000], 0);
	assert_int_equal(fi_cq_read(s->rx, &entry, 1), -FI_EAGAIN);
}

static void undo_send(struct scene *s)
{
	scene_done(s->tx, s);
	receive(s);
}

static void undo_send_delivery(struct scene *s)
{
	struct fi_cq_data_entry entry;

	assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAGAIN);
	receive(s);
	scene_done(s->tx, s);
}

static void undo_inject(struct scene *s)
{
	struct fi_cq_data_entry entry;

	receive(s);
	assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAGAIN);
}

/* ---- events ---- */

static int run_eq_write(struct scene *s)
{
	ssize_t ret = fi_eq_write(s->eq, 77, "event", 6, 0);

	return ret == 6 ? 0 : (int)ret;
}

static void undo_eq_write(struct scene *s)
{
	char text[16];
	uint32_t event;

	assert_int_equal(fi_eq_read(s->eq, &event, text, sizeof(text), 0), 6);
	assert_int_equal(event, 77);
	assert_string_equal(text, "event");
	assert_int_equal(fi_eq_read(s->eq, &event, text, sizeof(text), 0), -FI_EAGAIN);
}

/* ---- the table ---- */

#define ROW(title, how, undoing, ...)                                                              \
	{                                                                                          \
		.name = title, .kinds = FAULT_MEMORY, .code = -FI_ENOMEM, .run = how,              \
		.undo = undoing, __VA_ARGS__                                                       \
	}
/* A table of the domain or vector keeps what it has grown by. */
#define TABLE	 .lines = 1, .keeps = true, .absorbs = true
#define ENDPOINT .lines = 1, .opts = SCENE_ENDPOINT, .registered = true
/* A message that cannot be kept now: no refusal, so no line. */
#define NO_ROOM(title, how, undoing)                                                               \
	{                                                                                          \
		.name = title, .kinds = FAULT_MEMORY, .code = -FI_EAGAIN, .registered = true,      \
		.opts = SCENE_ENDPOINT | SCENE_CQ_ONE, .run = how, .undo = undoing                 \
	}

static struct scenario scenarios[] = {
	ROW("api_20_no_memory_reg", run_reg, undo_reg, TABLE),
	ROW("api_20_no_memory_regv", run_regv, undo_reg, TABLE),
	ROW("api_20_no_memory_regattr", run_regattr, undo_reg, TABLE),
	ROW("api_18_api_20_no_memory_reg_event", run_reg, undo_reg_event, TABLE,
	    .opts = SCENE_REG_EQ),
	ROW("api_20_no_memory_many_regions", run_many, undo_many, TABLE),
	ROW("sub_01_sub_03_api_20_no_memory_sub", run_sub, undo_sub, ENDPOINT, .keeps = true,
	    .absorbs = true),
	ROW("sub_04_api_20_no_memory_chain", run_chain, undo_chain, .opts = SCENE_ENDPOINT,
	    .registered = true, .keeps = true, .absorbs = true),
	ROW("api_11_api_20_no_memory_map_raw", run_map, undo_map, ENDPOINT, .keeps = true,
	    .absorbs = true),
	ROW("api_20_no_memory_av_insert", run_insert, undo_insert, TABLE),
	ROW("api_20_no_memory_av_insert_event", run_insert_event, undo_insert_event, .lines = 1,
	    .opts = SCENE_AV_EVENT),
	ROW("api_20_no_memory_recv", run_recv, undo_recv, ENDPOINT),
	ROW("api_20_no_memory_eq_write", run_eq_write, undo_eq_write, .lines = 1),
	NO_ROOM("api_20_no_room_send", run_send, undo_send),
	NO_ROOM("api_20_no_room_send_delivery", run_send_delivery, undo_send_delivery),
	NO_ROOM("api_20_no_room_inject", run_inject, undo_inject),
};

int main(void)
{
	return fault_all("fault_calls", scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
