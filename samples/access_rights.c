/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each right of a region allows, and what a violation looks like.
 *
 *   access_rights [DOMAIN]
 *
 * A violation never harms the target: the operation completes in error at the peer that tried, with
 * a cause, and both endpoints work on.  Exit status 0: every attempt ended as the table says.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "common.h"

#define ROOM 64
#define BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)

enum attempt {
	ATTEMPT_WRITE,
	ATTEMPT_READ
};

/* How the key or the region is spoilt before the attempt. */
enum twist {
	TWIST_NONE,
	TWIST_KEY,
	TWIST_PAST_END,
	TWIST_CLOSED,
	TWIST_TWICE,
	TWIST_DISABLED
};

struct attempt_case {
	const char *text;
	uint64_t rights; /* of the target's region */
	enum attempt attempt;
	enum twist twist;
	int err; /* FI_E code of the error completion, 0: success */
};

static const struct attempt_case cases[] = {
	{ "write, region grants remote write", FI_REMOTE_WRITE, ATTEMPT_WRITE, TWIST_NONE, 0 },
	{ "read, region grants remote read", FI_REMOTE_READ, ATTEMPT_READ, TWIST_NONE, 0 },
	{ "write, region grants remote read only", FI_REMOTE_READ, ATTEMPT_WRITE, TWIST_NONE,
	  FI_EACCES },
	{ "read, region grants remote write only", FI_REMOTE_WRITE, ATTEMPT_READ, TWIST_NONE,
	  FI_EACCES },
	{ "write, region grants local rights only", FI_READ | FI_WRITE | FI_SEND | FI_RECV,
	  ATTEMPT_WRITE, TWIST_NONE, FI_EACCES },
	{ "write, one byte past the region's end", BOTH, ATTEMPT_WRITE, TWIST_PAST_END, FI_EINVAL },
	{ "write, key that nobody gave out", BOTH, ATTEMPT_WRITE, TWIST_KEY, FI_ENOKEY },
	{ "write, region closed meanwhile", BOTH, ATTEMPT_WRITE, TWIST_CLOSED, FI_ENOKEY },
	{ "second write with a single-use key", BOTH, ATTEMPT_WRITE, TWIST_TWICE, FI_ENOKEY },
	{ "write, region not enabled yet", BOTH, ATTEMPT_WRITE, TWIST_DISABLED, FI_EOPBADSTATE },
	{ "write, all in order again", BOTH, ATTEMPT_WRITE, TWIST_NONE, 0 },
};

struct stage {
	struct sample_end initiator, target;
	struct fid_mr *local_mr;
	char local[ROOM];
	char memory[2 * ROOM]; /* the region is the first half */
};

static int try_once(struct stage *s, const struct attempt_case *c, uint64_t address, uint64_t key,
		    struct fi_cq_err_entry *error)
{
	struct sample_end *from = &s->initiator;
	void *desc = fi_mr_desc(s->local_mr);
	ssize_t ret;

	memset(s->local, c->attempt == ATTEMPT_WRITE ? 'w' : 0, ROOM);
	if (c->attempt == ATTEMPT_WRITE)
		ret = fi_write(from->ep, s->local, ROOM, desc, from->peer, address, key, NULL);
	else
		ret = fi_read(from->ep, s->local, ROOM, desc, from->peer, address, key, NULL);
	memset(error, 0, sizeof(*error));
	return ret ? (int)ret : sample_wait(from, error);
}

/* Compare outcome and memory with what the case says, and print both. */
static int judge(struct stage *s, const struct attempt_case *c, int ret, int err,
		 struct fi_cq_err_entry *error)
{
	const char *touched = c->attempt == ATTEMPT_WRITE ? s->memory : s->local;
	char before = c->attempt == ATTEMPT_WRITE ? 't' : 0;
	char after = c->attempt == ATTEMPT_WRITE ? 'w' : 't';
	char want = err ? before : after;
	size_t ours = c->attempt == ATTEMPT_WRITE ? 2 * ROOM : ROOM;
	size_t i;

	if (ret && ret != -FI_EAVAIL)
		return sample_fail(c->text, ret);
	if (error->err)
		printf("%-40s err %d (%s), prov_errno %d\n%40s %s\n", c->text, error->err,
		       fi_strerror(error->err), error->prov_errno, "",
		       fi_cq_strerror(s->initiator.cq, error->prov_errno, error->err_data, NULL,
				      0));
	else
		printf("%-40s done\n", c->text);
	if (error->err != err) {
		fprintf(stderr, "%s: should have given %d (%s)\n", c->text, err, fi_strerror(err));
		return -FI_EOTHER;
	}
	for (i = 0; i < ours; i++) {
		if (touched[i] != (i < ROOM ? want : before)) {
			fprintf(stderr, "%s: byte %zu of the memory is wrong\n", c->text, i);
			return -FI_EIO;
		}
	}
	return 0;
}

/* The region of a case; TWIST_DISABLED leaves it without fi_mr_enable(). */
static int open_region(struct stage *s, const struct attempt_case *c, struct fid_mr **mr)
{
	struct iovec iov = { s->memory, ROOM };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = c->rights };
	int ret;

	if (c->twist != TWIST_DISABLED)
		return sample_register(&s->target, &iov, 1, c->rights,
				       c->twist == TWIST_TWICE ? FI_MR_SINGLE_USE : 0, NULL, mr);
	attr.requested_key = s->target.next_key++; /* ignored where the NIC chooses keys */
	ret = fi_mr_regattr(s->target.domain, &attr, 0, mr);
	return ret ? sample_fail("fi_mr_regattr", ret) : 0;
}

static int run_case(struct stage *s, const struct attempt_case *c)
{
	int raw = s->target.info->domain_attr->mr_mode & FI_MR_RAW;
	int err = c->err, ret, failed;
	struct fi_cq_err_entry error;
	struct sample_key shared;
	struct fid_mr *mr;
	uint64_t key, given;

	memset(s->memory, 't', sizeof(s->memory));
	ret = open_region(s, c, &mr);
	if (ret)
		return ret;
	ret = sample_share(&s->target, mr, s->memory, &shared);
	if (!ret)
		ret = sample_use(&s->initiator, &shared, &key);
	if (ret)
		goto close;
	given = key;
	if (c->twist == TWIST_PAST_END)
		shared.address++;
	if (c->twist == TWIST_KEY) {
		given = key ^ 0x5a5a00;
		if (raw) /* where keys are mapped before use, this one was not */
			err = FI_EKEYREJECTED;
	}
	if (c->twist == TWIST_CLOSED) {
		ret = fi_close(&mr->fid);
		mr = NULL;
	}
	if (!ret && c->twist == TWIST_TWICE) {
		ret = try_once(s, c, shared.address, given, &error);
		memset(s->memory, 't', sizeof(s->memory));
	}
	if (!ret) {
		ret = try_once(s, c, shared.address, given, &error);
		ret = judge(s, c, ret, err, &error);
	}
	failed = sample_unuse(&s->initiator, &shared, key);
	ret = ret ? ret : failed;
close:
	failed = mr ? fi_close(&mr->fid) : 0;
	return ret ? ret : failed;
}

static int run_cases(struct stage *s)
{
	int mode = s->target.info->domain_attr->mr_mode, ret, failed;
	size_t i;

	printf("NIC domain %s\n", s->target.info->domain_attr->name);
	ret = sample_register_buffer(&s->initiator, s->local, ROOM, FI_READ | FI_WRITE,
				     &s->local_mr);
	for (i = 0; !ret && i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* Only some NICs have regions that wait for being enabled. */
		if (cases[i].twist != TWIST_DISABLED || (mode & FI_MR_ENDPOINT))
			ret = run_case(s, &cases[i]);
	}
	failed = s->local_mr ? fi_close(&s->local_mr->fid) : 0;
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL;
	static struct stage stage;
	int ret, failed;

	ret = sample_open_named(&stage.initiator, domain, FI_RMA, 0);
	if (!ret)
		ret = sample_open_named(&stage.target, domain, FI_RMA, 0);
	if (!ret)
		ret = sample_connect(&stage.initiator, &stage.target);
	if (!ret)
		ret = run_cases(&stage);
	failed = sample_close(&stage.initiator);
	ret = ret ? ret : failed;
	failed = sample_close(&stage.target);
	ret = ret ? ret : failed;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
