/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys over several regions of the emulated device: what they lead to, and what is refused as by mlx5. */
#include "tests/drivers/verbs/ping.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>

#define PIECE 64u

/* Two connected queue pairs, and one to itself that writes lists. */
struct bench {
	struct ping ping;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
};

static struct ibv_qp *make_qp(struct bench *bench, struct ibv_pd *pd, uint32_t entries)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = bench->cq,
		.recv_cq = bench->cq,
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = entries * (uint32_t)sizeof(struct ibv_sge) },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
	};
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
					  .send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST };

	return mlx5dv_create_qp(pd->context, &attr, &dv);
}

static void open_bench(struct bench *bench, const char *settings)
{
	ping_settings(settings);
	ping_open(&bench->ping, 0);
	ping_connect(&bench->ping);
	bench->cq = ibv_create_cq(bench->ping.context, 8, NULL, NULL, 0);
	assert_non_null(bench->cq);
	bench->qp = make_qp(bench, bench->ping.pd, 4);
	assert_non_null(bench->qp);
	ping_rts(bench->qp, bench->qp->qp_num);
	bench->ex = ibv_qp_to_qp_ex(bench->qp);
	bench->dv = mlx5dv_qp_ex_from_ibv_qp_ex(bench->ex);
	for (unsigned int i = 0; i < PING_BYTES; i++)
		bench->ping.ends[1].buffer[i] = (uint8_t)(i / PIECE + 1);
}

static void close_bench(struct bench *bench)
{
	assert_int_equal(ibv_destroy_qp(bench->qp), 0);
	assert_int_equal(ibv_destroy_cq(bench->cq), 0);
	ping_close(&bench->ping);
}

static struct mlx5dv_mkey *make_key(struct ibv_pd *pd, uint16_t entries)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = pd,
					      .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					      .max_entries = entries };

	return mlx5dv_create_mkey(&attr);
}

/* Every second piece of ends[1]'s buffer. */
static void fill(const struct bench *bench, struct ibv_sge *list, unsigned int count)
{
	const struct end *end = &bench->ping.ends[1];

	for (unsigned int i = 0; i < count; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)end->buffer + 2 * i * PIECE, PIECE,
					    end->mr->lkey };
}

/* What ibv_wr_complete says. */
static int write_list(struct bench *bench, struct mlx5dv_mkey *key, unsigned int flags,
		      unsigned int access, struct ibv_sge *list, uint16_t count)
{
	ibv_wr_start(bench->ex);
	bench->ex->wr_id = 7;
	bench->ex->wr_flags = flags;
	mlx5dv_wr_mr_list(bench->dv, key, access, count, list);
	return ibv_wr_complete(bench->ex);
}

static enum ibv_wc_status completed(struct bench *bench)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(bench->cq, 1, &wc), 1);
	assert_int_equal(ibv_poll_cq(bench->cq, 1, &wc), 0);
	return wc.status;
}

static enum ibv_wc_status read_through(struct bench *bench, uint32_t rkey, uint64_t addr,
				       uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = ping_wr(&bench->ping, IBV_WR_RDMA_READ, &sge, length);

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = addr;
	ping_post(&bench->ping.ends[0], &wr);
	return ping_wc(&bench->ping.ends[0]).status;
}

#define INLINE (IBV_SEND_INLINE | IBV_SEND_SIGNALED)
#define READ   IBV_ACCESS_REMOTE_READ

static void fn_26_a_list_is_addressed_from_0(void **state)
{
	struct bench bench;
	struct mlx5dv_mkey *key;
	struct ibv_sge list[3];
	uint8_t *got;

	(void)state;
	open_bench(&bench, "indirect=1,devx=2");
	got = bench.ping.ends[0].buffer;
	key = make_key(bench.ping.pd, 3);
	assert_non_null(key);
	fill(&bench, list, 3);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 3), 0);
	assert_int_equal(completed(&bench), IBV_WC_SUCCESS);
	assert_int_equal(read_through(&bench, key->rkey, PIECE - 1, PIECE + 2), IBV_WC_SUCCESS);
	assert_int_equal(got[0], 1);
	assert_int_equal(got[1], 3);
	assert_int_equal(got[PIECE], 3);
	assert_int_equal(got[PIECE + 1], 5);
	assert_int_equal(read_through(&bench, key->rkey, 2 * PIECE, PIECE + 1),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	close_bench(&bench);
}

/* Nothing of it is carried out, and the queue pair works on. */
static void fn_26_lists_that_the_provider_refuses(void **state)
{
	struct bench bench;
	struct mlx5dv_mkey *key;
	struct ibv_sge list[5];

	(void)state;
	open_bench(&bench, "indirect=1,devx=2");
	key = make_key(bench.ping.pd, 3);
	fill(&bench, list, 5);
	assert_int_equal(write_list(&bench, key, IBV_SEND_SIGNALED, READ, list, 3), EOPNOTSUPP);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 0), EINVAL);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 4), ENOMEM); /* of the key */
	assert_int_equal(write_list(&bench, key, INLINE, READ | IBV_ACCESS_RELAXED_ORDERING, list,
				    3),
			 EINVAL);
	assert_int_equal(write_list(&bench, key, INLINE, READ | IBV_ACCESS_ON_DEMAND, list, 3),
			 EINVAL);
	list[1].length = 1u << 31;
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 3), EINVAL);
	list[1].length = PIECE;
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 3), 0);
	assert_int_equal(completed(&bench), IBV_WC_SUCCESS);
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	key = make_key(bench.ping.pd, 5);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 5), ENOMEM); /* of the queue */
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	close_bench(&bench);
}

/* A list is taken by a key that has none; it has none again once it was invalidated. */
static void fn_26_one_list_at_a_time(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	struct bench bench;
	struct mlx5dv_mkey *key;
	struct ibv_sge list[2];

	(void)state;
	open_bench(&bench, "indirect=1,devx=2");
	key = make_key(bench.ping.pd, 2);
	fill(&bench, list, 2);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 2), 0);
	assert_int_equal(completed(&bench), IBV_WC_SUCCESS);
	wr.invalidate_rkey = key->rkey;
	assert_int_equal(ibv_post_send(bench.qp, &wr, &bad), 0);
	assert_int_equal(completed(&bench), IBV_WC_SUCCESS);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 1), 0);
	assert_int_equal(completed(&bench), IBV_WC_SUCCESS);
	assert_int_equal(read_through(&bench, key->rkey, 0, PIECE), IBV_WC_SUCCESS);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 2), 0);
	assert_int_equal(completed(&bench), IBV_WC_MW_BIND_ERR);
	assert_int_equal(bench.qp->state, IBV_QPS_ERR);
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	close_bench(&bench);
}

/* The key itself, its entries, and who uses it belong to one protection domain. */
static void reg_04_protection_domains(void **state)
{
	struct bench bench;
	struct mlx5dv_mkey *key;
	struct ibv_sge list[2];
	struct ibv_pd *other;
	struct ibv_mr *mr;

	(void)state;
	open_bench(&bench, "indirect=1,devx=2");
	fill(&bench, list, 2);
	other = ibv_alloc_pd(bench.ping.context);
	mr = ibv_reg_mr(other, bench.ping.ends[1].buffer, PING_BYTES, PING_ACCESS);
	key = make_key(bench.ping.pd, 2);
	list[1].lkey = mr->lkey;
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 2), 0);
	assert_int_equal(completed(&bench), IBV_WC_SUCCESS);
	assert_int_equal(read_through(&bench, key->rkey, 0, PIECE), IBV_WC_SUCCESS);
	assert_int_equal(read_through(&bench, key->rkey, 0, PIECE + 1), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	key = make_key(other, 2);
	assert_int_equal(write_list(&bench, key, INLINE, READ, list, 2), 0);
	assert_int_equal(completed(&bench), IBV_WC_MW_BIND_ERR);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	close_bench(&bench);
}

/* A key does not give what its entries do not. */
static void attr_01_rights_of_the_entries(void **state)
{
	struct bench bench;
	struct mlx5dv_mkey *key;
	struct ibv_sge list[1], sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	(void)state;
	open_bench(&bench, "indirect=1,devx=2");
	fill(&bench, list, 1);
	mr = ibv_reg_mr(bench.ping.pd, bench.ping.ends[1].buffer, PING_BYTES, 0);
	list[0].lkey = mr->lkey;
	key = make_key(bench.ping.pd, 1);
	assert_int_equal(write_list(&bench, key, INLINE, READ | IBV_ACCESS_REMOTE_WRITE, list, 1),
			 0);
	assert_int_equal(completed(&bench), IBV_WC_SUCCESS);
	wr = ping_wr(&bench.ping, IBV_WR_RDMA_WRITE, &sge, 8);
	wr.wr.rdma.rkey = key->rkey;
	wr.wr.rdma.remote_addr = 0;
	ping_post(&bench.ping.ends[0], &wr);
	ping_expect(&bench.ping.ends[0], 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close_bench(&bench);
}

static void fn_25_contexts_without_devx(void **state)
{
	struct mlx5dv_context_attr attr = { .flags = MLX5DV_CONTEXT_FLAGS_DEVX };
	struct ibv_context *context;
	struct ibv_device **list;
	struct ibv_pd *pd;
	struct bench bench;

	(void)state;
	open_bench(&bench, "indirect=1");
	assert_null(make_key(bench.ping.pd, 2));
	assert_int_equal(errno, EOPNOTSUPP);
	close_bench(&bench);
	list = ibv_get_device_list(NULL);
	context = mlx5dv_open_device(list[0], &attr);
	assert_non_null(context);
	pd = ibv_alloc_pd(context);
	assert_null(make_key(pd, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(mlx5dv_destroy_mkey(make_key(pd, 2)), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
	ibv_free_device_list(list);
	ping_settings("indirect=1,devx=0");
	list = ibv_get_device_list(NULL);
	assert_null(mlx5dv_open_device(list[0], &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	ibv_free_device_list(list);
	ping_none_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_26_a_list_is_addressed_from_0),
		cmocka_unit_test(fn_26_lists_that_the_provider_refuses),
		cmocka_unit_test(fn_26_one_list_at_a_time),
		cmocka_unit_test(reg_04_protection_domains),
		cmocka_unit_test(attr_01_rights_of_the_entries),
		cmocka_unit_test(fn_25_contexts_without_devx),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
