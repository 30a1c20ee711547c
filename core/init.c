/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens once, before the first exported function does its work. */
#include <pthread.h>

#include "core/core.h"
#include "core/nic/sw_nic.h"
#include "core/nic/verbs_nic.h"

static void init(void)
{
	verbs_nic_init();
	sw_nic_init();
}

void hm_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init);
}
