/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that an accelerator's driver frees: interfaces that are told of it tell the registration caches. */
#include "core/mr/local.h"

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* protects users; before any interface's lock */
static uint32_t users;

void hm_mr_local_follow(hmem_gone_fn *changed)
{
	pthread_mutex_lock(&lock);
	if (users++ == 0)
		hmem_report_gone(changed);
	pthread_mutex_unlock(&lock);
}

void hm_mr_local_unfollow(void)
{
	pthread_mutex_lock(&lock);
	if (--users == 0)
		hmem_report_gone(NULL);
	pthread_mutex_unlock(&lock);
}
