/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scenes that doc/make_pictures.py draws.  Each tells on standard error what the program does, one line for each
 * step, between the lines of the library's log and those of the emulated drivers (tests/drivers/emu_trace.h):
 *
 *   scene:begin:NAME    scene:end    what lies between is drawn
 *   scene:WHO:TEXT      WHO (program, device) does this
 *   scene:WHO<TEXT      and this is what it got
 */
#ifndef SCENES_H
#define SCENES_H

#include "samples/common.h"

void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

int scene_registration(void);
int scene_cache(void);
int scene_parts(void);
int scene_device(void);

#endif
