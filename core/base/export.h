/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks the functions that an application may link against; everything else stays hidden. */
#ifndef HM_BASE_EXPORT_H
#define HM_BASE_EXPORT_H

#define HM_EXPORT __attribute__((visibility("default")))

#endif
