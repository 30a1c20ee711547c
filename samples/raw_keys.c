/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw keys: a region's key as bytes, which its owner sends and the peer maps before use.
 *
 *   raw_keys [DOMAIN]
 *
 * Where FI_MR_RAW was agreed there is no other way (sw-strict).  Elsewhere fi_mr_key gives the key at
 * once, but the same calls work: a program that uses them runs on every NIC, as this one does.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "common.h"

#define ROOM 64

/* What the owner sends: plain bytes. */
struct message {
	uint64_t base;	  /* as fi_mr_raw_attr gives it; peers address the region from here */
	uint64_t raw_len; /* bytes in raw */
	uint8_t raw[SAMPLE_RAW_KEY_MAX];
};

struct stage {
	struct sample_end initiator, target;
	char text[ROOM], memory[ROOM];
	struct fid_mr *text_mr, *memory_mr;
	struct message sent;
};

/* Target: the key's bytes.  How many there are is in mr_key_size; a short buffer is -FI_ETOOSMALL. */
static int offer(struct stage *s)
{
	size_t len = s->target.info->domain_attr->mr_key_size, i;
	int ret;

	if (len > sizeof(s->sent.raw))
		return sample_fail("mr_key_size", -FI_ETOOSMALL);
	ret = fi_mr_raw_attr(s->memory_mr, &s->sent.base, s->sent.raw, &len, 0);
	if (ret)
		return sample_fail("fi_mr_raw_attr", ret);
	s->sent.raw_len = len;
	printf("target:    the region's raw key has %zu bytes, its base address is 0x%llx\n"
	       "          ",
	       len, (unsigned long long)s->sent.base);
	for (i = 0; i < len; i++)
		printf(" %02x", s->sent.raw[i]);
	printf("\n");
	return 0;
}

/* Write the text with this key; *err is the completion's FI_E code, 0 where it arrived. */
static int write_text(struct stage *s, const char *text, uint64_t key, int *err)
{
	struct sample_end *from = &s->initiator;
	struct fi_cq_err_entry error = { 0 };
	int ret;

	memset(s->memory, 0, ROOM);
	memset(s->text, 0, ROOM);
	snprintf(s->text, ROOM, "%s", text);
	ret = (int)fi_write(from->ep, s->text, ROOM, fi_mr_desc(s->text_mr), from->peer,
			    s->sent.base, key, NULL);
	if (!ret)
		ret = sample_wait(from, &error);
	*err = error.err;
	if (ret && ret != -FI_EAVAIL)
		return sample_fail("fi_write", ret);
	if (!*err && memcmp(s->memory, s->text, ROOM)) {
		fprintf(stderr, "the memory does not hold what was written\n");
		return -FI_EIO;
	}
	printf("initiator: \"%s\" with key 0x%llx: %s\n", text, (unsigned long long)key,
	       *err ? fi_strerror(*err) : "arrived");
	return 0;
}

/* A write that must end like this. */
static int expect(struct stage *s, const char *text, uint64_t key, int want)
{
	int err, ret = write_text(s, text, key, &err);

	if (ret || err == want)
		return ret;
	fprintf(stderr, "it should have ended with %d, and did with %d\n", want, err);
	return -FI_EOTHER;
}

/* Initiator: map, use, give back.  Each mapping is given back for itself; until then it works. */
static int use_mapped(struct stage *s)
{
	struct fid_domain *domain = s->initiator.domain;
	int raw = !!(s->initiator.info->domain_attr->mr_mode & FI_MR_RAW);
	uint64_t key[2];
	int ret = 0, i;

	for (i = 0; i < 2 && !ret; i++)
		ret = fi_mr_map_raw(domain, s->sent.base, s->sent.raw, s->sent.raw_len, &key[i], 0);
	if (ret) {
		if (i > 1)
			fi_mr_unmap_key(domain, key[0]);
		return sample_fail("fi_mr_map_raw", ret);
	}
	ret = expect(s, "mapped twice", key[0], 0);
	i = fi_mr_unmap_key(domain, key[0]);
	if (!ret)
		ret = i ? sample_fail("fi_mr_unmap_key", i) : expect(s, "once", key[1], 0);
	i = fi_mr_unmap_key(domain, key[1]);
	if (!ret)
		ret = i ? sample_fail("fi_mr_unmap_key", i) : 0;
	/* what was the region's own key before works on; one that exists by mapping alone does not */
	return ret ? ret : expect(s, "not at all", key[1], raw ? FI_EKEYREJECTED : 0);
}

/* Bytes that were damaged on their way are found out when they are mapped. */
static int map_damaged(struct stage *s)
{
	struct message bad = s->sent;
	uint64_t key;
	int ret;

	if (bad.raw_len < 16) /* a plain key has no room for a check sum */
		return 0;
	bad.raw[9] ^= 0x10;
	ret = fi_mr_map_raw(s->initiator.domain, bad.base, bad.raw, bad.raw_len, &key, 0);
	printf("initiator: a key with a wrong bit is %s\n", ret ? "refused" : "taken");
	if (ret == -FI_EINVAL)
		return 0;
	if (!ret)
		fi_mr_unmap_key(s->initiator.domain, key);
	return -FI_EOTHER;
}

static int run(struct stage *s)
{
	struct fid_mr **mr[] = { &s->text_mr, &s->memory_mr };
	int ret, failed, i;

	printf("NIC domain %s, FI_MR_RAW is %s\n", s->target.info->domain_attr->name,
	       s->target.info->domain_attr->mr_mode & FI_MR_RAW ? "agreed" : "not needed");
	ret = sample_register_buffer(&s->initiator, s->text, ROOM, FI_WRITE, &s->text_mr);
	if (!ret)
		ret = sample_register_buffer(&s->target, s->memory, ROOM, FI_REMOTE_WRITE,
					     &s->memory_mr);
	if (!ret)
		ret = offer(s);
	if (!ret)
		ret = use_mapped(s);
	if (!ret)
		ret = map_damaged(s);
	for (i = 0; i < 2; i++) {
		failed = *mr[i] ? fi_close(&(*mr[i])->fid) : 0;
		ret = ret ? ret : failed;
	}
	return ret;
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
		ret = run(&stage);
	failed = sample_close(&stage.initiator);
	ret = ret ? ret : failed;
	failed = sample_close(&stage.target);
	ret = ret ? ret : failed;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
