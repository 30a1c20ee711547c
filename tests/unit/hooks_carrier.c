/* SPDX-License-Identifier: BSD-2-Clause */
/* An object that carries the library, loaded and unloaded at run time. */
#include "core/mr/monitor.h"

__attribute__((visibility("default"))) int carrier_start(char *why, size_t size);
__attribute__((visibility("default"))) void carrier_stop(void);

int carrier_start(char *why, size_t size)
{
	return hm_monitor_hooks.start(why, size);
}

void carrier_stop(void)
{
	hm_monitor_hooks.stop();
}
