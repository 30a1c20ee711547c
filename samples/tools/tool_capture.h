/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tools: what the library says on stderr, as the reason of a refusal.  Unless the user has set
 * FI_LOG_LEVEL and wants to see that as it is, it is caught in a file and told in this tool's words.
 */
#ifndef HMREG_TOOL_CAPTURE_H
#define HMREG_TOOL_CAPTURE_H

#include <stddef.h>

struct tool_capture {
	int file, saved; /* owned; -1: nothing is caught */
};

/* Before the first call of the library, which reads its environment once. */
void tool_capture_setup(void);
void tool_capture_begin(struct tool_capture *capture);
/* text: each line without what comes before its message, joined by "; "; "" where nothing was said. */
void tool_capture_end(struct tool_capture *capture, char *text, size_t room);
/* The same, and print what was said as one line of this tool. */
void tool_capture_tell(struct tool_capture *capture);

#endif
