/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-info: what the library says on stderr, as the reason of a refusal.  Unless the user has set
 * FI_LOG_LEVEL and wants to see that as it is, it is caught in a file and told in this tool's words.
 */
#ifndef HMREG_INFO_CAPTURE_H
#define HMREG_INFO_CAPTURE_H

#include <stddef.h>

struct info_capture {
	int file, saved; /* owned; -1: nothing is caught */
};

/* Before the first call of the library, which reads its environment once. */
void info_capture_setup(void);
void info_capture_begin(struct info_capture *capture);
/* text: each line without what comes before its message, joined by "; "; "" where nothing was said. */
void info_capture_end(struct info_capture *capture, char *text, size_t room);

#endif
