/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of an accelerator as a memory region: it is allocated, registered with its interface and device,
 * written by a peer from host memory, and read back with the bytes around it.
 *
 *   device_memory [DOMAIN [INTERFACE]]     INTERFACE: cuda, rocr, ze, neuron or synapseai
 *
 * Exit status 77: there is no accelerator here.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "common.h"

#define SKIPPED 77
#define LEN	8192
#define GUARD	256 /* bytes before and behind the region, which nobody may write */
#define ALL	(GUARD + LEN + GUARD)

struct scene {
	struct sample_end peer, owner;
	struct hmreg_hmem_ops *ops; /* of the owner's fabric */
	struct sample_place place;
};

/* The first device of the interface of this name, or of any.  Says why there is none. */
static bool find_device(struct scene *s, const char *name)
{
	struct hmreg_hmem_iface iface = { .size = sizeof(iface) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	struct fid *fabric = &s->owner.fabric->fid;
	int i;

	for (i = FI_HMEM_CUDA; i <= FI_HMEM_SYNAPSEAI; i++) {
		if (s->ops->iface(fabric, (enum fi_hmem_iface)i, &iface) ||
		    (name && strcmp(name, iface.name)))
			continue;
		if (iface.devices && !s->ops->device(fabric, (enum fi_hmem_iface)i, 0, &device)) {
			s->place = (struct sample_place){ (enum fi_hmem_iface)i, device.id };
			printf("memory of %s:%d, %s\n", iface.name, device.id, device.name);
			return true;
		}
		printf("%s: %s\n", iface.name, iface.reason);
	}
	printf("skipped: no accelerator%s%s\n", name ? " of the interface " : "", name ? name : "");
	return false;
}

/* What a peer does with the key: from is host memory. */
static int write_from_host(struct scene *s, struct fid_mr *target, void *first, void *from)
{
	struct sample_key shared;
	struct fid_mr *source;
	uint64_t key;
	int ret = sample_register_buffer(&s->peer, from, LEN, FI_WRITE, &source), failed;

	if (ret)
		return ret;
	ret = sample_share(&s->owner, target, first, &shared);
	if (!ret)
		ret = sample_use(&s->peer, &shared, &key);
	if (!ret) {
		ret = sample_finish(&s->peer, "fi_write",
				    fi_write(s->peer.ep, from, LEN, fi_mr_desc(source),
					     s->peer.peer, shared.address, key, NULL));
		failed = sample_unuse(&s->peer, &shared, key);
		ret = ret ? ret : failed;
	}
	failed = fi_close(&source->fid);
	return ret ? ret : failed;
}

/* The host does not touch device memory itself: the interface copies. */
static int write_and_compare(struct scene *s, unsigned char *device)
{
	static unsigned char want[ALL], found[ALL];
	struct fid *fabric = &s->owner.fabric->fid;
	struct fid_mr *mr;
	int ret, failed, i;

	memset(want, 0xa5, ALL);
	ret = s->ops->copy(fabric, device, want, ALL);
	if (ret)
		return sample_fail("copy to the device", ret);
	for (i = 0; i < LEN; i++)
		want[GUARD + i] = (unsigned char)(i * 7 + i / 256);
	ret = sample_register_at(&s->owner, &s->place, device + GUARD, LEN, FI_REMOTE_WRITE, &mr);
	if (ret)
		return ret;
	ret = write_from_host(s, mr, device + GUARD, want + GUARD);
	failed = fi_close(&mr->fid);
	if (ret || failed)
		return ret ? ret : sample_fail("fi_close of a region", failed);
	ret = s->ops->copy(fabric, found, device, ALL);
	if (ret)
		return sample_fail("copy from the device", ret);
	if (memcmp(found, want, ALL)) {
		fputs("the device holds other bytes than the peer wrote\n", stderr);
		return -FI_EIO;
	}
	printf("%d bytes were written, and %d on either side were left alone\n", LEN, GUARD);
	return 0;
}

static int run(struct scene *s, const char *name)
{
	struct fid *fabric = &s->owner.fabric->fid;
	void *device;
	int ret = fi_open_ops(fabric, HMREG_HMEM_OPS, 0, (void **)&s->ops, NULL), failed;

	if (ret)
		return sample_fail("fi_open_ops of " HMREG_HMEM_OPS, ret);
	if (!find_device(s, name))
		return SKIPPED;
	ret = s->ops->alloc(fabric, s->place.iface, s->place.device, HMREG_HMEM_DEVICE, ALL,
			    &device);
	if (ret)
		return sample_fail("allocating on the device", ret);
	ret = write_and_compare(s, device);
	failed = s->ops->free(fabric, s->place.iface, s->place.device, HMREG_HMEM_DEVICE, device);
	return ret || !failed ? ret : sample_fail("giving device memory back", failed);
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL;
	struct scene s = { .ops = NULL };
	int ret, failed;

	ret = sample_open_named(&s.peer, domain, FI_RMA | FI_HMEM, 0);
	if (!ret)
		ret = sample_open_named(&s.owner, domain, FI_RMA | FI_HMEM, 0);
	if (!ret)
		ret = sample_connect(&s.peer, &s.owner);
	if (!ret) {
		printf("NIC domain %s\n", s.owner.info->domain_attr->name);
		ret = run(&s, argc > 2 ? argv[2] : NULL);
	}
	failed = sample_close(&s.peer) | sample_close(&s.owner);
	if (ret == SKIPPED && !failed)
		return SKIPPED;
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
