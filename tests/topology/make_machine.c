/* SPDX-License-Identifier: BSD-2-Clause */
/* make_machine NAME FOLDER [user|off|on]: a machine's /sys in an empty folder, for scripts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/topology/machines.h"

int main(int argc, char **argv)
{
	struct machine machine = { .view = MACHINE_USER };

	if (argc < 3) {
		fputs("usage: make_machine NAME FOLDER [user|off|on]\n", stderr);
		return 2;
	}
	machine.root = argv[2];
	if (argc > 3 && strcmp(argv[3], "user") != 0)
		machine.view = strcmp(argv[3], "on") ? MACHINE_ACS_OFF : MACHINE_ACS_ON;
	machine_make(&machine, argv[1]);
	return 0;
}
