/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-check: the region's first and last bytes are written by a peer, read back, and compared. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "check.h"

#define PAGE	  ((size_t)4096)
#define GUARD	  ((size_t)64) /* bytes on each side that are looked at */
#define UNTOUCHED 0x5c

/* One piece of the region under test. */
struct piece {
	uint64_t address, key;
	size_t offset, len;
};

static uint8_t *sent(const struct check *check)
{
	return check->host;
}

static uint8_t *returned(const struct check *check)
{
	return check->host + PAGE;
}

static uint8_t *seen(const struct check *check)
{
	return check->host + 2 * PAGE;
}

/* Wait for what was posted.  0, or -1 with a cause. */
static int complete(struct check *check, const char *call, ssize_t posted)
{
	struct fi_cq_err_entry error;
	int ret;

	if (posted)
		return check_failed(check, call, (int)posted, "post-refused");
	ret = sample_wait(&check->near, &error);
	if (!ret)
		return 0;
	if (ret != -FI_EAVAIL)
		return check_failed(check, call, ret, "peer-lost");
	return check_completed(check, call, error.err, error.prov_errno,
			       fi_cq_strerror(check->near.cq, error.prov_errno, error.err_data,
					      NULL, 0));
}

static int copy(struct check *check, void *to, const void *from, size_t len)
{
	int ret = check_memory_copy(check, to, from, len);

	if (!ret)
		return 0;
	check_failed(check, "copy between host and device", ret, "device-copy");
	/* the driver's call, but it is known which */
	if (!strcmp(check->cause->id, "driver-call"))
		check->cause = check_cause("device-copy");
	return -1;
}

/* Is [from, from + len) of the memory as it was before? */
static int check_untouched(struct check *check, const uint8_t *from, size_t len)
{
	size_t i;
	int ret = len ? copy(check, seen(check), from, len) : 0;

	for (i = 0; !ret && i < len; i++)
		if (seen(check)[i] != UNTOUCHED)
			return check_found(check, "data-astray",
					   "the byte at %p was changed, %s the region",
					   (const void *)(from + i),
					   from < check->memory.region ? "before" : "behind");
	return ret;
}

static int compare(struct check *check, const struct piece *piece)
{
	const uint8_t *at = check->memory.region + piece->offset;
	int ret = copy(check, seen(check), at, piece->len);

	if (ret)
		return ret;
	/* bytes that went elsewhere are not here, either: the worse of both is told */
	if (memcmp(seen(check), sent(check), piece->len)) {
		ret = check_untouched(check, check->memory.region - GUARD, GUARD);
		if (!ret)
			ret = check_untouched(check, check->memory.region + check->options.size,
					      GUARD);
		return ret ? ret
			   : check_found(check, "data-lost",
					 "%zu bytes were written at offset %zu, and other bytes "
					 "are there",
					 piece->len, piece->offset);
	}
	if (memcmp(returned(check), sent(check), piece->len))
		return check_found(check, "data-lost",
				   "%zu bytes at offset %zu are right, and others were read",
				   piece->len, piece->offset);
	return 0;
}

static int transfer(struct check *check, const struct piece *piece)
{
	void *desc = fi_mr_desc(check->host_mr);
	uint64_t address = piece->address + piece->offset;
	int ret;

	memset(returned(check), UNTOUCHED, PAGE);
	ret = complete(check, "fi_write",
		       fi_write(check->near.ep, sent(check), piece->len, desc, check->near.peer,
				address, piece->key, NULL));
	if (!ret)
		ret = complete(check, "fi_read",
			       fi_read(check->near.ep, returned(check), piece->len, desc,
				       check->near.peer, address, piece->key, NULL));
	return ret ? ret : compare(check, piece);
}

/* The region's memory and its surroundings get bytes that nobody sends. */
static int prepare(struct check *check)
{
	uint8_t *first = check->memory.region - GUARD;
	size_t left = check->options.size + 2 * GUARD, part;
	int ret = 0;

	check->host = aligned_alloc(PAGE, 3 * PAGE);
	if (!check->host)
		return check_failed(check, "aligned_alloc", -FI_ENOMEM, "kernel-memory");
	memset(check->host, UNTOUCHED, 3 * PAGE);
	for (; !ret && left; first += part, left -= part) {
		part = left < PAGE ? left : PAGE;
		ret = copy(check, first, check->host, part);
	}
	for (part = 0; part < PAGE; part++)
		sent(check)[part] = (uint8_t)(part * 7 + part / 256 + 1);
	return ret;
}

/* Where endpoints cannot be, the library says why. */
static int tell_no_endpoints(struct check *check)
{
	const struct check_cause *cause = check_cause_of_refusal(check->nic.endpoints_cause);

	return check_found(check, cause ? cause->id : "no-endpoint", "%s",
			   check->nic.endpoints_reason);
}

static int connect_ends(struct check *check)
{
	int ret = sample_register_buffer(&check->near, check->host, 2 * PAGE, FI_READ | FI_WRITE,
					 &check->host_mr);

	if (ret)
		return check_failed(check, "registration of a host buffer", ret, "unexplained");
	ret = sample_connect(&check->near, &check->far);
	return ret ? check_failed(check, "enabling the endpoints", ret, "no-endpoint") : 0;
}

int check_transfer(struct check *check)
{
	size_t size = check->options.size, len = size < PAGE ? size : PAGE;
	struct piece piece = { .len = len };
	struct sample_key shared;
	int ret = 0;

	if (check->registers_only)
		return tell_no_endpoints(check);
	if (check->options.kind == CHECK_KIND_MIXED || check->options.kind == CHECK_KIND_FREED ||
	    !check->memory.base)
		return check_found(check, "unexplained", "memory was registered that nobody owns");
	check->ops->forget(&check->soft->fid);
	ret = prepare(check);
	if (!ret)
		ret = connect_ends(check);
	if (ret)
		return ret;
	ret = sample_share(&check->far, check->mr, check->memory.region, &shared);
	if (!ret)
		ret = sample_use(&check->near, &shared, &piece.key);
	if (ret)
		return check_failed(check, "handing the key over", ret, "unexplained");
	piece.address = shared.address;
	ret = transfer(check, &piece);
	piece.offset = size - len;
	if (!ret && piece.offset)
		ret = transfer(check, &piece);
	if (!ret)
		ret = check_untouched(check, check->memory.region - GUARD, GUARD);
	if (!ret)
		ret = check_untouched(check, check->memory.region + size, GUARD);
	sample_unuse(&check->near, &shared, piece.key);
	if (!ret)
		check_passed(check, CHECK_STAGE_TRANSFER,
			     "%zu bytes at each end written, read back and compared", len);
	return ret;
}
