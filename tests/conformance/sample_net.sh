#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What the program that loads the network plug-in answers to arguments that make no sense.  (What the plug-in itself
# refuses, the program tries each time.)
# Usage: sample_net.sh NET_USER PLUG-IN
set -u
program=$1 plugin=$2
cd "$(dirname "$0")/../.." || exit 1
. tests/attempt.sh

attempt net_nothing answers 2 'usage:' "$program"
attempt net_one_slice answers 2 'usage:' "$program" "$plugin" sw-verbs host 1
attempt net_too_many_slices answers 2 'usage:' "$program" "$plugin" sw-verbs host 1000000
attempt net_no_plugin answers 1 '/nowhere.so' "$program" /nowhere.so sw-verbs
attempt net_no_table answers 1 'hmreg_net_plugin' "$program" "$(ldd "$program" | sed -n 's/.*libc.so.6 => \([^ ]*\).*/\1/p')" sw-verbs
attempt net_kind_unknown answers 1 '"pigeon": memory is of the kinds' "$program" "$plugin" sw-verbs pigeon
attempt net_domain_unknown answers 1 'plug-in: nowhere:' "$program" "$plugin" nowhere
[ "$failed" -eq 0 ]
