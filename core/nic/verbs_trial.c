/* SPDX-License-Identifier: BSD-2-Clause */
/* A protection domain and a page, for trials of a device. */
#include "core/nic/verbs_trial.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/nic/verbs.h"

int verbs_trial_open(struct verbs_trial *trial, struct ibv_context *context,
		     const struct verbs_port *port, struct verbs_failure *why)
{
	*trial = (struct verbs_trial){ .site = { .context = context,
						 .port = port->number,
						 .gid_index = port->gid_index,
						 .access = IBV_ACCESS_REMOTE_READ },
				       .size = (size_t)sysconf(_SC_PAGESIZE) };
	trial->page =
		mmap(NULL, trial->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (trial->page == MAP_FAILED)
		return verbs_failed(why, "memory", errno);
	errno = 0;
	trial->site.pd = verbs.alloc_pd(context);
	return trial->site.pd ? 0 : verbs_failed(why, "a protection domain", errno);
}

void verbs_trial_close(struct verbs_trial *trial)
{
	if (trial->site.pd)
		verbs.dealloc_pd(trial->site.pd);
	if (trial->page != MAP_FAILED)
		munmap(trial->page, trial->size);
}
