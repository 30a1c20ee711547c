/* SPDX-License-Identifier: BSD-2-Clause */
/* The tools: see tool_capture.h. */
#include "tool_capture.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common.h"

static bool catches;

void tool_capture_setup(void)
{
	const char *level = getenv("FI_LOG_LEVEL");

	catches = (!level || !*level) && !setenv("FI_LOG_LEVEL", "warn", 1);
}

void tool_capture_begin(struct tool_capture *capture)
{
	capture->file = catches ? memfd_create("log", MFD_CLOEXEC) : -1;
	capture->saved = capture->file < 0 ? -1 : dup(STDERR_FILENO);
	fflush(stderr);
	if (capture->saved >= 0)
		dup2(capture->file, STDERR_FILENO);
}

/* A line of the log begins with process and place; one of this tool's calls with its name. */
static const char *message_of(const char *line)
{
	const char *start = strstr(line, "> ");
	size_t own = strlen(sample_program);

	if (start)
		return start + 2;
	if (!strncmp(line, sample_program, own) && !strncmp(line + own, ": ", 2))
		return line + own + 2;
	return line;
}

static void join_lines(char *log, char *text, size_t room)
{
	char *line, *rest = log;
	size_t used = 0;
	int n;

	text[0] = '\0';
	while ((line = strtok_r(rest, "\n", &rest)) != NULL && used < room) {
		n = snprintf(text + used, room - used, "%s%s", used ? "; " : "", message_of(line));
		used += n > 0 ? (size_t)n : 0;
	}
}

void tool_capture_end(struct tool_capture *capture, char *text, size_t room)
{
	char log[4096];
	ssize_t n = 0;

	text[0] = '\0';
	if (capture->saved >= 0) {
		fflush(stderr);
		dup2(capture->saved, STDERR_FILENO);
		close(capture->saved);
		n = pread(capture->file, log, sizeof(log) - 1, 0);
	}
	if (capture->file >= 0)
		close(capture->file);
	if (n <= 0)
		return;
	log[n] = '\0';
	join_lines(log, text, room);
}

void tool_capture_tell(struct tool_capture *capture)
{
	char text[2048];

	tool_capture_end(capture, text, sizeof(text));
	if (text[0])
		fprintf(stderr, "%s: %s\n", sample_program, text);
}
