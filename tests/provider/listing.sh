#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Debian's fi_info on this machine, and what the plug-in shows to the loader.
# Usage: listing.sh PLUG-IN
set -u
plugin=$1
command -v fi_info >/dev/null 2>&1 || {
	echo "skipped: no fi_info here (package libfabric-bin)"
	exit 77
}
export FI_PROVIDER_PATH="${plugin%/*}"
failed=0

# check NAME COMMAND...
check()
{
	name=$1
	shift
	if "$@"; then
		echo "[       OK ] $name"
	else
		echo "[  FAILED  ] $name"
		failed=1
	fi
}

exports_its_entry_alone()
{
	[ "$(nm -D --defined-only "$plugin" | awk '{ print $3 }')" = fi_prov_ini ]
}

needs_the_c_library_alone()
{
	! readelf -dW "$plugin" | grep NEEDED | grep -vE '\[(libc\.so\.6|ld-linux-.*|lib[at]san\..*|libubsan\..*|libm\.so\.6|libgcc_s\.so\.1)\]'
}

is_listed()
{
	fi_info -l | grep -qx 'hmreg:'
}

lists_its_domains()
{
	list=$(fi_info -p hmreg) || return 1
	for domain in sw-scalable sw-verbs sw-strict sw-any; do
		echo "$list" | grep -qx " *domain: $domain" || return 1
	done
}

tells_all_of_a_domain()
{
	all=$(fi_info -p hmreg -d sw-verbs -v) || return 1
	for line in 'vendor_id: hmreg' 'name: sw-verbs' 'api_version: .*' 'type: FI_EP_RDM'; do
		echo "$all" | grep -qx " *$line" || return 1
	done
}

is_quiet_for_others()
{
	[ -z "$(FI_LOG_LEVEL=warn fi_info -d no-such-domain 2>&1 | grep ':hmreg:')" ]
}

logs_by_libfabric()
{
	FI_LOG_LEVEL=warn fi_info -p hmreg -d no-such-domain 2>&1 |
		grep -q '^libfabric:.*:hmreg:core:.*no device of the name "no-such-domain"'
}

check exports_its_entry_alone exports_its_entry_alone
check needs_the_c_library_alone needs_the_c_library_alone
check is_listed is_listed
check lists_its_domains lists_its_domains
check tells_all_of_a_domain tells_all_of_a_domain
check is_quiet_for_others is_quiet_for_others
check logs_by_libfabric logs_by_libfabric
exit $failed
