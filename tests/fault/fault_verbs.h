/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fault_verbs.c runs again and again, each time with another call failing: a program's life over an
 * emulated device, from fi_getinfo to the last fi_close.  Every call that fails is made once more, and
 * must succeed then, unless the library says that the device is gone.  A broken promise ends the process.
 */
#ifndef HM_TEST_FAULT_VERBS_H
#define HM_TEST_FAULT_VERBS_H

#include <stdbool.h>

/* zero_based: regions are addressed from 0.  The device is called emu0. */
void fault_verbs_scene(bool zero_based);
/* What the process is at, for messages. */
extern const char *volatile fault_verbs_step;

/* ---- fault_verbs_wrap.c: functions of the C library that fail ---- */

/* The nth call from now of the function of this name fails, once.  False: no such function. */
bool fault_wrap_fail(const char *name, unsigned nth);
/* Has it come? */
bool fault_wrap_failed(void);
/* Allocations not freed. */
long fault_wrap_live(void);

#endif
