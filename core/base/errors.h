/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts for the error codes that the library returns; fi_strerror itself is in rdma/fi_errno.h. */
#ifndef HM_BASE_ERRORS_H
#define HM_BASE_ERRORS_H

#include <rdma/fi_errno.h>

/* What fi_strerror answers for a number that is no error code. */
#define HM_UNKNOWN_ERROR "Unknown error"

#endif
