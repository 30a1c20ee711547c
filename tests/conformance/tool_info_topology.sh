#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hmreg-info --topology on machines whose sysfs make_machine makes, with emulated accelerators and RDMA devices.
# Usage: tool_info_topology.sh HMREG-INFO MAKE-MACHINE ACCELERATOR-DRIVERS
#   ACCELERATOR-DRIVERS: the folder that has those of each interface
set -u
tool=$1 make=$2 drivers=$3
. "$(dirname "$0")/../attempt.sh"
unset FI_LOG_LEVEL
verbs=${LD_LIBRARY_PATH:-}

# on MACHINE VIEW ARGUMENTS...: what it prints is in out.
on()
{
	machine=$1 view=$2
	shift 2
	folder=$scratch/$machine.$view
	[ -d "$folder" ] || { mkdir "$folder" && "$make" "$machine" "$folder" "$view"; } || return 1
	case $machine in
	oam) iface=rocr ;;
	*) iface=cuda ;;
	esac
	HMREG_SYSFS=$folder FI_HMEM=$iface EMU_CUDA=devices=8 EMU_ROCR=devices=8 HMREG_EMU_VERBS=devices=8 \
		LD_LIBRARY_PATH=$drivers/$iface:$verbs timeout 20 "$tool" --topology "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	cat "$scratch/out" "$scratch/err"
	[ $got -eq 0 ]
}

# Each accelerator has a NIC of its own, and it is this far.
pairs_are()
{
	awk -v want="$1" '
	/^NIC taken first/ { on = 1; next }
	on && NF == 0 { exit }
	on { n++; if (seen[$2]++ || index($0, want) == 0) { print "wrong: " $0; bad = 1 } }
	END { exit bad || n != 8 }' "$scratch/out"
}

switches()
{
	on dgx user || return 1
	pairs_are 'one switch, 3 bridges, ACS not readable (root can); dmabuf' && has '^socket 1$' &&
		has '^  cuda:1  *emu1  *one switch' && has '^  cuda:7 .* system .* node .* switch  *switch\*' || return 1
	on hgx user && pairs_are 'one switch' && has '^  cuda:5  *emu5 '
}

cascade()
{
	on oam user || return 1
	pairs_are 'several switches below one root port, 5 bridges' && has '^  rocr:5  *emu5 ' &&
		has '^    switch 0001:11:00.0, below root port 0001:10:01.1' &&
		has '^      switch 0001:13:00.0, below switch port 0001:12:00.0' && has ' socket .* system '
}

hypervisor()
{
	on cloud user || return 1
	pairs_are 'host bridges of one NUMA node' && has '0104:00:00.0 .* no IOMMU$'
}

redirection()
{
	on dgx on || return 1
	pairs_are 'ACS redirects at 0000:' && has 'switch 0000:15:00.0, .*, ACS redirects$' || return 1
	on dgx off && pairs_are 'ACS does not redirect'
}

# None of these accelerators is in that machine, and half of the NICs: each is told, and has its turn.
unknown()
{
	on flat user || return 1
	pairs_are 'not known' && has '^  \[[0-9]*\] sysfs does not show 0000:17:00.0$' &&
		has '^  *the NIC is not on a PCI bus$'
}

json()
{
	for view in user off on; do
		for machine in dgx hgx oam flat cloud; do
			on $machine $view --json || return 1
			has '"distance": "' && has '"kind": "host bridge", "parent": null' || return 1
			command -v python3 >/dev/null 2>&1 || continue
			python3 - "$scratch/out" <<-'END' || return 1
				import json, sys
				t = json.load(open(sys.argv[1]))["topology"]
				names = {n["name"] for n in t["nics"]}
				bridges = {b["name"] for b in t["bridges"]}
				assert len(t["accelerators"]) == 8 and len(names) == 12, (len(t["accelerators"]), len(names))
				assert len(t["choices"]) == 8
				for c in t["choices"]:
				    assert {n["nic"] for n in c["nics"]} == names
				    assert [n["distance"] for n in c["nics"]][-4:] == ["software"] * 4
				assert len({c["nics"][0]["nic"] for c in t["choices"]}) == 8
				for p in t["accelerators"] + t["nics"]:
				    assert p["bridge"] in bridges or p["reason"], p
				for b in t["bridges"]:
				    assert b["parent"] in bridges or b["kind"] == "host bridge", b
			END
		done
	done
}

# Well formed; boxes are beside or in each other, texts are shorter than what they are in.
picture()
{
	command -v python3 >/dev/null 2>&1 || {
		echo "no python3"
		return 0
	}
	for machine in dgx hgx oam flat cloud; do
		on $machine on --svg || return 1
		python3 - "$scratch/out" <<-'END' || return 1
			import sys, xml.etree.ElementTree as tree
			root = tree.parse(sys.argv[1]).getroot()
			kind = lambda e: e.tag.split("}")[1]
			rects = [(float(r.get("x")), float(r.get("y")), float(r.get("width")), float(r.get("height")), r.get("class"))
			         for r in root.iter() if kind(r) == "rect" and r.get("x")]
			assert len([r for r in rects if r[4] == "accelerator"]) == 8
			assert len([r for r in rects if r[4] == "nic"]) == 8
			assert len([p for p in root if kind(p) == "path" and p.get("d").count("C")]) == 8
			inside = lambda a, b: b[0] < a[0] and b[1] < a[1] and a[0] + a[2] < b[0] + b[2] and a[1] + a[3] < b[1] + b[3]
			apart = lambda a, b: a[0] + a[2] < b[0] or b[0] + b[2] < a[0] or a[1] + a[3] < b[1] or b[1] + b[3] < a[1]
			for i, a in enumerate(rects):
			    assert a[0] + a[2] < float(root.get("width")) and a[1] + a[3] < float(root.get("height")), a
			    for b in rects[i + 1:]:
			        assert apart(a, b) or inside(a, b) or inside(b, a), (a, b)
			wide = {"name": 8.4, "line": 6.5, "title": 7.3, "small": 6.2, "bad": 6.8}
			for t in root.iter():
			    if kind(t) != "text" or t.get("class") == "head" or float(t.get("y")) < 60: continue
			    x, y, end = float(t.get("x")), float(t.get("y")), float(t.get("x")) + wide[t.get("class")] * len(t.text or "")
			    room = [r[0] + r[2] for r in rects if r[0] <= x < r[0] + r[2] and r[1] < y < r[1] + r[3]]
			    assert end <= min(room + [float(root.get("width"))]), (t.text, end, room)
		END
	done
}

# Numbers of sockets may be any that an int holds, and links may be named by anything.
odd_tree()
{
	command -v python3 >/dev/null 2>&1 || {
		echo "no python3"
		return 0
	}
	rm -rf "$scratch/dgx.user"
	mkdir "$scratch/dgx.user" && "$make" dgx "$scratch/dgx.user" user || return 1
	for cpu in 2 3; do
		echo 2147483647 >"$scratch/dgx.user/devices/system/cpu/cpu$cpu/topology/physical_package_id"
	done
	ln -s '../<b>"&' "$scratch/dgx.user/bus/pci/devices/0000:17:00.0/physfn"
	printf '\001"<&\377\n' >"$scratch/dgx.user/bus/pci/devices/0000:17:00.0/iommu_group/type"
	printf '<"\033\n' >"$scratch/dgx.user/bus/pci/devices/0000:37:00.0/numa_node"
	on dgx user --svg && python3 -c 'import sys, xml.etree.ElementTree as t; t.parse(sys.argv[1])' "$scratch/out" &&
		has 'socket 2147483647<' &&
		on dgx user --json && python3 -c 'import json, sys; json.load(open(sys.argv[1], encoding="utf-8"))' "$scratch/out"
	got=$?
	rm -rf "$scratch/dgx.user"
	return $got
}

one_nic_alone()
{
	on dgx user -d emu5 || return 1
	has '1 NIC, 0 software NICs' && has '^  cuda:0  *emu5  *the link between sockets'
}

wrong_options()
{
	for options in '--svg' '--topology --svg --json' '--topology --hmem' '--topology -v' '--topology --params' \
		'--topology --cache 1'; do
		# shellcheck disable=SC2086
		"$tool" $options >/dev/null 2>"$scratch/err"
		[ $? -eq 2 ] || {
			echo "$options should be refused"
			return 1
		}
	done
	"$tool" --topology nothing
	[ $? -eq 1 ]
}

attempt fn_37_topology_of_switches switches
attempt fn_37_topology_of_switches_behind_switches cascade
attempt fn_37_topology_behind_a_hypervisor hypervisor
attempt fn_37_topology_tells_redirection redirection
attempt fn_37_topology_tells_what_is_unknown unknown
attempt topology_json json
attempt topology_picture picture
attempt topology_odd_tree odd_tree
attempt topology_one_nic one_nic_alone
attempt topology_wrong_options wrong_options
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
