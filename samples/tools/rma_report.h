/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: how figures look. */
#ifndef HMREG_RMA_REPORT_H
#define HMREG_RMA_REPORT_H

#include <stddef.h>

/* "12.3 ns", "4.56 us"; "-": not measured.  Returns text. */
const char *rma_time_text(double ns, char *text, size_t room);

#endif
