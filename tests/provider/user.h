/* SPDX-License-Identifier: BSD-2-Clause */
/* What uses the plug-in through an installed libfabric: a library of its own, as MPI's would be. */
#ifndef TESTS_PROVIDER_USER_H
#define TESTS_PROVIDER_USER_H

#define PROVIDER_EXPORT __attribute__((visibility("default")))

/* Runs all cases; how many failed.  It knows libfabric's own headers alone. */
PROVIDER_EXPORT int provider_cases(void);

#endif
