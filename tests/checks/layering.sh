#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Who may include whom: reads every #include of the tree and reports those that the layers do not
# allow.  First it shows, on a tree made for that, that each kind of violation is caught.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# violations FOLDER: prints a line for each include that is not allowed.
violations()
{
	(cd "$1" && find core hmem dmabuf xpu include samples tests \( -name '*.[ch]' -o -name '*.[ch]pp' \) 2>/dev/null | sort |
		xargs -r awk '
	function layer(path)
	{
		if (path == "core/init.c") return "init"
		if (path ~ /^core\/base\//) return "base"
		if (path ~ /^core\/topo\//) return "topo"
		if (path ~ /^core\/nic\/sw[^\/]*$/) return "nic-sw"
		if (path ~ /^core\/nic\//) return "nic"
		if (path ~ /^core\/mr\//) return "mr"
		sub(/\/.*/, "", path)
		return path
	}
	BEGIN {
		base = "^core/base/"
		hmem = "|^hmem/hmem\\.h$"
		dmabuf = "|^dmabuf/dmabuf\\.h$"
		may["base"] = base
		may["hmem"] = base "|^hmem/"
		may["dmabuf"] = base hmem "|^dmabuf/"
		may["topo"] = base "|^core/topo/"
		may["nic"] = base dmabuf "|^core/nic/|^core/topo/pci\\.h$"
		may["nic-sw"] = may["nic"] hmem
		may["mr"] = base hmem dmabuf "|^core/nic/nic\\.h$|^core/mr/"
		may["core"] = "^core/|^hmem/|^dmabuf/"
		may["xpu"] = may["core"] "|^xpu/"
		may["init"] = "^(core|hmem|dmabuf|xpu)/"
		may["include"] = "^$"
		may["samples"] = "^samples/"
		may["tests"] = "^(core|hmem|dmabuf|xpu|samples|tests)/"
	}
	!/^[ \t]*#[ \t]*include[ \t]*["<]/ { next }
	{
		own = layer(FILENAME)
		quoted = ($0 ~ /include[ \t]*"/)
		name = $0
		sub(/^[^"<]*["<]/, "", name)
		sub(/[">].*/, "", name)
		# Tests and samples may name a file by its place relative to their own folder.
		if (quoted && name !~ /^(core|hmem|dmabuf|xpu|samples|tests)\// &&
		    (own == "tests" || own == "samples")) {
			folder = FILENAME
			sub(/[^\/]*$/, "", folder)
			name = folder name
			while (sub(/[^\/]+\/\.\.\//, "", name))
				;
		}
		bad = ""
		if (quoted && name !~ may[own])
			bad = "is outside what this layer may see"
		else if (!quoted && name ~ /^(core|hmem|dmabuf|xpu|tests)\//)
			bad = "is internal: write it in quotes"
		else if (!quoted && name ~ /^infiniband\// && FILENAME !~ /^core\/nic\/verbs|^tests\/|^samples\/own_queue_pairs\.c$/)
			bad = "belongs in core/nic/verbs* alone"
		else if (quoted && name ~ /\.c$/ && own != "tests")
			bad = "is a source, not a header"
		if (bad)
			printf "%s:%d: %s %s\n", FILENAME, FNR, name, bad
	}')
}

# plant FILE INCLUDE
plant()
{
	mkdir -p "$scratch/tree/${1%/*}"
	printf '/* x */\n#include %s\n' "$2" >"$scratch/tree/$1"
}

# expect caught|quiet FILE INCLUDE
expect()
{
	rm -rf "$scratch/tree"
	plant "$2" "$3"
	found=$(violations "$scratch/tree")
	case $1:${found:+found} in
	caught:found | quiet:) ;;
	*)
		echo "error: self-test: $2 with #include $3 should be $1"
		echo "[  FAILED  ] layering_self_test"
		exit 1
		;;
	esac
}

self_test()
{
	expect caught core/base/log.c '"core/core.h"'
	expect caught core/base/log.c '"hmem/hmem.h"'
	expect caught core/topo/place.c '"hmem/hmem.h"'
	expect caught core/topo/place.c '"core/nic/nic.h"'
	expect caught core/nic/verbs_path.c '"core/topo/place.h"'
	expect caught hmem/system.c '"core/nic/nic.h"'
	expect caught hmem/system.c '"core/mr/mr.h"'
	expect caught dmabuf/export.c '"hmem/cuda_abi.h"'
	expect caught core/nic/comp.c '"hmem/hmem.h"'
	expect caught core/nic/sw_nic.c '"core/mr/mr.h"'
	expect caught core/nic/sw_nic.c '"core/core.h"'
	expect caught core/mr/mr.c '"core/nic/sw.h"'
	expect caught core/mr/mr.c '"core/info.h"'
	expect caught core/ep.c '"xpu/ctx.h"'
	expect caught core/ep.c '"log.h"'
	expect caught core/ep.c '"../base/log.h"'
	expect caught core/ep.c '<core/core.h>'
	expect caught core/ep.c '<infiniband/verbs.h>'
	expect caught core/ep.c '"tests/unit/x.h"'
	expect caught core/ep.c '"core/cq.c"'
	expect caught include/rdma/fabric.h '"core/core.h"'
	expect caught include/hmreg/hmreg.hpp '"core/core.h"'
	expect caught samples/a.c '"core/core.h"'
	expect caught samples/a.cpp '"core/core.h"'
	expect caught samples/tools/a.c '"tests/x.h"'
	expect caught samples/tools/a.c '"../../core/core.h"'
	expect caught samples/a.c '<infiniband/verbs.h>'
	expect quiet core/base/log.c '<rdma/fabric.h>'
	expect quiet core/topo/place.c '"core/base/sysfs.h"'
	expect quiet core/nic/verbs_path.c '"core/topo/pci.h"'
	expect quiet hmem/system.c '"core/base/log.h"'
	expect quiet dmabuf/export.c '"hmem/hmem.h"'
	expect quiet core/nic/comp.c '"dmabuf/dmabuf.h"'
	expect quiet core/nic/sw_copy.c '"hmem/hmem.h"'
	expect quiet core/nic/verbs_mr.c '<infiniband/verbs.h>'
	expect quiet samples/own_queue_pairs.c '<infiniband/verbs.h>'
	expect quiet core/mr/mr.c '"core/nic/nic.h"'
	expect quiet core/ep.c '"core/mr/mr.h"'
	expect quiet core/init.c '"xpu/ctx.h"'
	expect quiet xpu/ctx.c '"core/core.h"'
	expect quiet samples/tools/a.c '"samples/common.h"'
	expect quiet samples/tools/a.c '"../common.h"'
	expect quiet samples/a.c '"common.h"'
	expect quiet tests/unit/a.c '"core/nic/sw.h"'
	echo "[       OK ] layering_self_test"
}

self_test
found=$(violations "$root")
if [ -n "$found" ]; then
	printf '%s\n' "$found"
	echo "[  FAILED  ] layering_who_includes_whom"
	exit 1
fi
echo "[       OK ] layering_who_includes_whom"
