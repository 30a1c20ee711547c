/* SPDX-License-Identifier: BSD-2-Clause */
/* See common.h. */
#define _POSIX_C_SOURCE 200809L

#include "common.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_cm.h>

#define EAGER_POLLS 16 /* before others may run */

const char *sample_program;
unsigned int sample_timeout_s = SAMPLE_TIMEOUT_S;
int sample_mr_modes = SAMPLE_MR_MODES;
enum fi_cq_format sample_cq_format = FI_CQ_FORMAT_MSG;

/* The start of a message. */
static void print_program(void)
{
	if (sample_program)
		fprintf(stderr, "%s: ", sample_program);
}

int sample_fail(const char *call, ssize_t ret)
{
	print_program();
	fprintf(stderr, "%s: %s (%d)\n", call, fi_strerror((int)-ret), (int)ret);
	return (int)ret;
}

/* Hints for this domain, or any; NULL: no memory. */
static struct fi_info *make_hints(const char *domain, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = caps;
	hints->domain_attr->mr_mode = sample_mr_modes;
	if (domain) {
		hints->domain_attr->name = strdup(domain);
		if (!hints->domain_attr->name) {
			fi_freeinfo(hints);
			return NULL;
		}
	}
	return hints;
}

int sample_find_at(const char *domain, uint64_t caps, const char *node, const char *service,
		   uint64_t flags, struct fi_info **info)
{
	struct fi_info *hints = make_hints(domain, caps);
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->ep_attr->type = FI_EP_RDM;
	/* A completion then means that the bytes are in the target's memory. */
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	ret = fi_getinfo(SAMPLE_API_VERSION, node, service, flags, hints, info);
	fi_freeinfo(hints);
	return ret;
}

int sample_find_registration(const char *domain, uint64_t caps, struct fi_info **info)
{
	struct fi_info *hints = make_hints(domain, caps);
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	ret = fi_getinfo(SAMPLE_API_VERSION, NULL, NULL, 0, hints, info);
	fi_freeinfo(hints);
	return ret;
}

int sample_find(const char *domain, uint64_t caps, struct fi_info **info)
{
	return sample_find_at(domain, caps, NULL, NULL, 0, info);
}

/* The endpoint and the two objects that it works with. */
static int open_endpoint(struct sample_end *end, uint64_t cq_flags)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = sample_cq_format, .size = 256 };
	int ret;

	ret = fi_av_open(end->domain, &av_attr, &end->av, NULL);
	if (ret)
		return sample_fail("fi_av_open", ret);
	ret = fi_cq_open(end->domain, &cq_attr, &end->cq, NULL);
	if (ret)
		return sample_fail("fi_cq_open", ret);
	ret = fi_endpoint(end->domain, end->info, &end->ep, NULL);
	if (ret)
		return sample_fail("fi_endpoint", ret);
	ret = fi_ep_bind(end->ep, &end->av->fid, 0);
	if (ret)
		return sample_fail("fi_ep_bind of the address vector", ret);
	ret = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV | cq_flags);
	if (ret)
		return sample_fail("fi_ep_bind of the completion queue", ret);
	return 0;
}

int sample_open(struct sample_end *end, const struct fi_info *info, uint64_t cq_flags)
{
	int ret;

	memset(end, 0, sizeof(*end));
	end->peer = FI_ADDR_UNSPEC;
	end->next_key = 1;
	end->info = fi_dupinfo(info);
	if (!end->info)
		return sample_fail("fi_dupinfo", -FI_ENOMEM);
	ret = fi_fabric(end->info->fabric_attr, &end->fabric, NULL);
	if (ret) {
		sample_fail("fi_fabric", ret);
		goto close_all;
	}
	ret = fi_domain(end->fabric, end->info, &end->domain, NULL);
	if (ret) {
		sample_fail("fi_domain", ret);
		goto close_all;
	}
	if (end->info->ep_attr->type != FI_EP_UNSPEC)
		ret = open_endpoint(end, cq_flags);
	if (ret)
		goto close_all;
	return 0;

close_all:
	sample_close(end);
	return ret;
}

int sample_open_named(struct sample_end *end, const char *domain, uint64_t caps, uint64_t cq_flags)
{
	struct fi_info *info;
	int ret = sample_find(domain, caps, &info);

	if (ret) {
		memset(end, 0, sizeof(*end));
		if (ret == -FI_ENODATA) {
			print_program();
			fprintf(stderr, "no NIC domain %s offers what is needed here\n",
				domain ? domain : "of this machine");
		}
		return sample_fail("fi_getinfo", ret);
	}
	ret = sample_open(end, info, cq_flags);
	fi_freeinfo(info);
	return ret;
}

/* Close one object; the first failure is what the caller hears of. */
static void close_object(struct fid *fid, const char *what, int *first)
{
	int ret = fi_close(fid);
	char call[64];

	if (ret) {
		snprintf(call, sizeof(call), "fi_close of the %s", what);
		sample_fail(call, ret);
		if (!*first)
			*first = ret;
	}
}

int sample_close_endpoint(struct sample_end *end)
{
	int ret = 0;

	if (end->ep)
		close_object(&end->ep->fid, "endpoint", &ret);
	end->ep = NULL;
	return ret;
}

int sample_close(struct sample_end *end)
{
	int ret = sample_close_endpoint(end);

	if (end->cq)
		close_object(&end->cq->fid, "completion queue", &ret);
	if (end->av)
		close_object(&end->av->fid, "address vector", &ret);
	if (end->domain)
		close_object(&end->domain->fid, "domain", &ret);
	if (end->fabric)
		close_object(&end->fabric->fid, "fabric", &ret);
	if (end->info)
		fi_freeinfo(end->info);
	memset(end, 0, sizeof(*end));
	return ret;
}

int sample_enter(struct sample_end *end, const void *address, fi_addr_t *peer)
{
	int ret = fi_av_insert(end->av, address, 1, peer, 0, NULL);

	return ret == 1 ? 0 : sample_fail("fi_av_insert", ret < 0 ? ret : -FI_EINVAL);
}

/* Enter the address of to into the vector of end. */
static int enter_address(struct sample_end *end, struct sample_end *to)
{
	unsigned char address[256];
	size_t len = sizeof(address);
	int ret;

	ret = fi_getname(&to->ep->fid, address, &len);
	if (ret)
		return sample_fail("fi_getname", ret);
	return sample_enter(end, address, &end->peer);
}

int sample_connect(struct sample_end *one, struct sample_end *other)
{
	int ret = fi_enable(one->ep);

	if (!ret)
		ret = fi_enable(other->ep);
	if (ret)
		return sample_fail("fi_enable", ret);
	ret = enter_address(one, other);
	return ret ? ret : enter_address(other, one);
}

int sample_make_usable(struct sample_end *end, struct fid_mr *mr, struct fid_cntr *count_writes)
{
	int mode = end->info->domain_attr->mr_mode;
	int ret;

	if (count_writes) {
		ret = fi_mr_bind(mr, &count_writes->fid, FI_REMOTE_WRITE);
		if (ret)
			return sample_fail("fi_mr_bind of the counter", ret);
	}
	if (mode & FI_MR_ENDPOINT) {
		ret = fi_mr_bind(mr, &end->ep->fid, 0);
		if (ret)
			return sample_fail("fi_mr_bind of the endpoint", ret);
	}
	if ((mode & FI_MR_ENDPOINT) || (count_writes && (mode & FI_MR_RMA_EVENT))) {
		ret = fi_mr_enable(mr);
		if (ret)
			return sample_fail("fi_mr_enable", ret);
	}
	if (mode & FI_MR_MMU_NOTIFY) {
		/* The pages are there by now: the NIC may look them up. */
		ret = fi_mr_refresh(mr, NULL, 0, 0);
		if (ret)
			return sample_fail("fi_mr_refresh", ret);
	}
	return 0;
}

static int register_attr(struct sample_end *end, struct fi_mr_attr *attr, uint64_t flags,
			 struct fid_cntr *count_writes, struct fid_mr **mr)
{
	int mode = end->info->domain_attr->mr_mode;
	struct fid_mr *region;
	int ret;

	if (!(mode & FI_MR_PROV_KEY))
		attr->requested_key = end->next_key++;
	if (count_writes && (mode & FI_MR_RMA_EVENT))
		flags |= FI_RMA_EVENT;
	ret = fi_mr_regattr(end->domain, attr, flags, &region);
	if (ret)
		return sample_fail("fi_mr_regattr", ret);
	ret = sample_make_usable(end, region, count_writes);
	if (ret) {
		fi_close(&region->fid);
		return ret;
	}
	*mr = region;
	return 0;
}

int sample_register_attr(struct sample_end *end, struct fi_mr_attr *attr, uint64_t flags,
			 struct fid_mr **mr)
{
	return register_attr(end, attr, flags, NULL, mr);
}

int sample_register(struct sample_end *end, const struct iovec *iov, size_t count, uint64_t access,
		    uint64_t flags, struct fid_cntr *count_writes, struct fid_mr **mr)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.iface = FI_HMEM_SYSTEM,
	};

	return register_attr(end, &attr, flags, count_writes, mr);
}

int sample_register_part(struct sample_end *end, struct fid_mr *base, void *buffer, size_t len,
			 uint64_t access, struct fid_mr **mr)
{
	struct iovec iov = { .iov_base = buffer, .iov_len = len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access, .base_mr = base
	};

	return register_attr(end, &attr, 0, NULL, mr);
}

/* The device's number stands in the member of its interface. */
void sample_name_place(struct fi_mr_attr *attr, const struct sample_place *place)
{
	attr->iface = place->iface;
	switch (place->iface) {
	case FI_HMEM_SYSTEM:
		break;
	case FI_HMEM_CUDA:
		attr->device.cuda = place->device;
		break;
	case FI_HMEM_NEURON:
		attr->device.neuron = place->device;
		break;
	case FI_HMEM_SYNAPSEAI:
		attr->device.synapseai = place->device;
		break;
	case FI_HMEM_ROCR:
		attr->device.rocr = place->device;
		break;
	default:
		attr->device.ze = place->device;
	}
}

int sample_register_at(struct sample_end *end, const struct sample_place *place, void *buffer,
		       size_t len, uint64_t access, struct fid_mr **mr)
{
	struct iovec iov = { .iov_base = buffer, .iov_len = len };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = access };

	sample_name_place(&attr, place);
	return register_attr(end, &attr, 0, NULL, mr);
}

int sample_register_dmabuf(struct sample_end *end, int fd, uint64_t offset, size_t len, void *base,
			   uint64_t access, struct fid_mr **mr)
{
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .offset = offset, .len = len, .base_addr = base };
	struct fi_mr_attr attr = {
		.dmabuf = &dmabuf,
		.iov_count = 1,
		.access = access,
		.iface = FI_HMEM_SYSTEM,
	};

	return register_attr(end, &attr, FI_MR_DMABUF, NULL, mr);
}

int sample_register_buffer(struct sample_end *end, void *buffer, size_t len, uint64_t access,
			   struct fid_mr **mr)
{
	struct iovec iov = { .iov_base = buffer, .iov_len = len };

	return sample_register(end, &iov, 1, access, 0, NULL, mr);
}

int sample_share(struct sample_end *end, struct fid_mr *mr, const void *first,
		 struct sample_key *shared)
{
	int mode = end->info->domain_attr->mr_mode;
	size_t size = sizeof(shared->raw);
	int ret;

	memset(shared, 0, sizeof(*shared));
	shared->address = (mode & FI_MR_VIRT_ADDR) ? (uintptr_t)first : 0;
	if (!(mode & FI_MR_RAW)) {
		shared->key = fi_mr_key(mr);
		if (shared->key == FI_KEY_NOTAVAIL)
			return sample_fail("fi_mr_key", -FI_ENOKEY);
		return 0;
	}
	ret = fi_mr_raw_attr(mr, &shared->base, shared->raw, &size, 0);
	if (ret)
		return sample_fail("fi_mr_raw_attr", ret);
	shared->raw_size = (uint32_t)size;
	return 0;
}

int sample_use(struct sample_end *end, const struct sample_key *shared, uint64_t *key)
{
	struct sample_key copy = *shared; /* fi_mr_map_raw takes a pointer to non-const */
	int ret;

	if (!shared->raw_size) {
		*key = shared->key;
		return 0;
	}
	ret = fi_mr_map_raw(end->domain, copy.base, copy.raw, copy.raw_size, key, 0);
	return ret ? sample_fail("fi_mr_map_raw", ret) : 0;
}

int sample_unuse(struct sample_end *end, const struct sample_key *shared, uint64_t key)
{
	int ret;

	if (!shared->raw_size)
		return 0;
	ret = fi_mr_unmap_key(end->domain, key);
	return ret ? sample_fail("fi_mr_unmap_key", ret) : 0;
}

/*
 * Called after each poll that found nothing: has it been too long since *start (0: first call)?  Lets
 * others run: on a machine with few processors one of them has what is waited for.
 */
static int waited_too_long(unsigned int polls, time_t *start)
{
	struct timespec now;

	if (polls >= EAGER_POLLS)
		sched_yield();
	if (polls % 64)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!*start)
		*start = now.tv_sec;
	return now.tv_sec - *start > (time_t)sample_timeout_s;
}

int sample_wait(struct sample_end *end, struct fi_cq_err_entry *error)
{
	struct fi_cq_err_entry unwanted;
	struct fi_cq_data_entry entry; /* has room for the shorter format, too */
	time_t start = 0;
	unsigned int polls = 0;
	ssize_t ret;

	while ((ret = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN) {
		if (waited_too_long(++polls, &start))
			return -FI_ETIMEDOUT;
	}
	if (ret == 1)
		return 0;
	if (ret != -FI_EAVAIL)
		return ret < 0 ? (int)ret : -FI_EOTHER;
	if (!error)
		error = &unwanted;
	memset(error, 0, sizeof(*error));
	ret = fi_cq_readerr(end->cq, error, 0);
	return ret == 1 ? -FI_EAVAIL : (ret < 0 ? (int)ret : -FI_EOTHER);
}

int sample_finish(struct sample_end *end, const char *call, ssize_t posted)
{
	struct fi_cq_err_entry error;
	int ret;

	if (posted)
		return sample_fail(call, posted);
	ret = sample_wait(end, &error);
	if (ret == -FI_EAVAIL) {
		print_program();
		fprintf(stderr, "%s: %s: %s\n", call, fi_strerror(error.err),
			fi_cq_strerror(end->cq, error.prov_errno, error.err_data, NULL, 0));
		return -error.err;
	}
	return ret ? sample_fail(call, ret) : 0;
}

/* ---- topology ---- */

const char *sample_distance(enum hmreg_distance distance)
{
	static const char *const words[] = {
		[HMREG_DISTANCE_DEVICE] = "same device",
		[HMREG_DISTANCE_SWITCH] = "one switch",
		[HMREG_DISTANCE_ROOT_PORT] = "one root port",
		[HMREG_DISTANCE_HOST_BRIDGE] = "one host bridge",
		[HMREG_DISTANCE_NODE] = "one NUMA node",
		[HMREG_DISTANCE_SOCKET] = "one socket",
		[HMREG_DISTANCE_SYSTEM] = "another socket",
		[HMREG_DISTANCE_UNKNOWN] = "place not known",
		[HMREG_DISTANCE_SOFTWARE] = "in software",
	};
	size_t known = sizeof(words) / sizeof(words[0]);

	/* a newer library may know others */
	return (size_t)distance < known && words[distance] ? words[distance]
							   : words[HMREG_DISTANCE_UNKNOWN];
}
