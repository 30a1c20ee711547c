/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A line on standard error for each call of an emulated driver, where EMU_TRACE is set to 1: what it is a driver
 * of, the thread, the function.  One write(2), as the library's own lines are, so that the order is that of the calls.
 */
#ifndef EMU_TRACE_H
#define EMU_TRACE_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static inline void emu_trace(const char *driver, const char *call)
{
	static _Atomic signed char asked = -1;
	char thread[16] = "", line[128];
	int len;

	if (asked < 0) {
		const char *text = getenv("EMU_TRACE");

		asked = text && strcmp(text, "1") == 0;
	}
	if (!asked)
		return;
	prctl(PR_GET_NAME, thread);
	len = snprintf(line, sizeof(line), "emu:%s:%s:%s\n", driver, thread, call);
	if (len > 0 && write(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* there is nobody to tell */
}

#endif
