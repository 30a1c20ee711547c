/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vm_lookup NAME [rma]: asks for the RDMA device of this name as a program would (with rma: as one that
 * wants FI_RMA), opens a domain on it, and says how far that went: "fi_getinfo 0", "fi_domain -13", ...
 * Its exit status is 0 unless something is wrong with the answers themselves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

static int say(const char *call, int ret)
{
	printf("%s %d\n", call, ret);
	return ret;
}

/* A domain with one region and one endpoint, and all of it closed again. */
static int use(struct fi_info *info)
{
	static char buf[4096];
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_mr *mr;

	if (say("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL)))
		return 0;
	if (say("fi_domain", fi_domain(fabric, info, &domain, NULL)) == 0) {
		if (say("fi_mr_reg", fi_mr_reg(domain, buf, sizeof(buf), FI_REMOTE_READ, 0, 1, 0,
					       &mr, NULL)) == 0)
			say("close", fi_close(&mr->fid));
		if (say("fi_endpoint", fi_endpoint(domain, info, &ep, NULL)) == 0 &&
		    fi_close(&ep->fid))
			return 1;
		if (fi_close(&domain->fid))
			return 1;
	}
	return fi_close(&fabric->fid) ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *info = (struct fi_info *)0x10;
	int status;

	if (argc < 2 || argc > 3 || !hints)
		return 2;
	if (argc == 3)
		hints->caps = FI_RMA;
	hints->mode = ~0ull;
	hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
	hints->domain_attr->name = strdup(argv[1]);
	if (say("fi_getinfo", fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info)) == 0) {
		status = strcmp(info->domain_attr->name, argv[1]) != 0;
		status |= use(info);
		fi_freeinfo(info);
	} else {
		status = info != NULL; /* the one output that is written on failure too */
	}
	fi_freeinfo(hints);
	return status;
}
