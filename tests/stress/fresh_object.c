/* SPDX-License-Identifier: BSD-2-Clause */
/* Loaded and unloaded again: its memory comes and goes with it. */
#include "core/base/export.h"

extern char fresh_object_area[];

HM_EXPORT _Alignas(4096) char fresh_object_area[16 * 4096];
