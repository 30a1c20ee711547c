#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tests/coverage tells the truth about made-up results, and no test names a requirement that is not one.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0

# line ID WORDS: the line of the ID, with tabs as blanks, is this.
line()
{
	have=$(awk -v id="$1" '$1 == id' "$scratch/out" | tr '\t' ' ')
	if [ "$have" != "$1 $2" ]; then
		echo "expected \"$1 $2\", got \"$have\""
		status=1
	fi
}

# result NIC FUNCTION RESULT
result()
{
	printf '%s\trelease\tunit\tprogram\t%s\t%s\n' "$1" "$2" "$3" >>"$scratch/some.tsv"
}

"$root/tests/coverage" "$scratch" >"$scratch/out" 2>/dev/null
line API-05 "open - -"

result sw api_05_length_zero pass
result sw api_05_mode_03_both pass
result verbs mode_03_again pass
result sw 'attr_01_rights[sw-strict]' pass
result sw 'attr_01_rights[sw-verbs]' fail
result sw attr_01_more pass
result sw flag_06_skipped skip
result sw xapi_07_no pass
result sw api_081_no pass
result sw 'mr_sub_03_base_close_busy[sw-strict]' pass
result sw 'mr_sub_03_base_close_busy[sw-verbs]' pass
"$root/tests/coverage" "$scratch" >"$scratch/out" 2>/dev/null
line API-05 "proved sw api_05_length_zero,api_05_mode_03_both"
line MODE-03 "proved sw,verbs api_05_mode_03_both,mode_03_again"
line ATTR-01 "open - attr_01_rights,attr_01_more"
line FLAG-06 "open - flag_06_skipped"
line API-07 "open - -"
line API-08 "open - -"
line SUB-03 "proved sw mr_sub_03_base_close_busy"
lines=$(grep -c '^[A-Z]*-[0-9]*	[a-z]*	[^	]*	[^	]*$' "$scratch/out" || true)
ids=$(grep -c '^[A-Z]*-[0-9]*	' "$root/tests/requirements.txt" || true)
if [ "$lines" != "$ids" ] || [ "$ids" -lt 100 ]; then
	echo "$ids requirements, $lines lines of four fields"
	status=1
fi
[ $status -eq 0 ] && echo "[       OK ] coverage_tells_the_truth" || echo "[  FAILED  ] coverage_tells_the_truth"

# Names of functions like test_api_99_x, api_99_x.
unknown=$(find "$root/tests" -name '*.c' -exec grep -noE \
	'\b([a-z]+_)*(api|mode|attr|flag|sub|reg|cache|hmem|xpu|fn)_[0-9][0-9]_[a-z0-9_]*\(' {} + |
	awk -F: -v OFS=: '
	NR == FNR { split($0, part, "\t"); known[part[1]] = 1; next }
	{
		n = split($3, word, "_")
		for (i = 1; i < n; i++)
			if (word[i] ~ /^(api|mode|attr|flag|sub|reg|cache|hmem|xpu|fn)$/ &&
			    word[i + 1] ~ /^[0-9][0-9]$/ && !(toupper(word[i]) "-" word[i + 1] in known))
				print $1, $2, " " toupper(word[i]) "-" word[i + 1] " is no requirement"
	}' "$root/tests/requirements.txt" -)
if [ -n "$unknown" ]; then
	printf '%s\n' "$unknown"
	echo "[  FAILED  ] coverage_names_are_requirements"
	exit 1
fi
echo "[       OK ] coverage_names_are_requirements"

# tests/README.md has a line for each field note, and names tests that there are.
wrong=$(
	sed -n 's/^\(FN-[0-9]*\)	.*/\1/p' "$root/tests/requirements.txt" | while read -r id; do
		grep -q "^| $id |" "$root/tests/README.md" || echo "tests/README.md has no line for $id"
	done
	grep '^| FN-' "$root/tests/README.md" | grep -oE '`[a-z0-9_]*fn_[0-9]{2}_[a-z0-9_]*`' | tr -d '`' |
		sort -u | while read -r name; do
		grep -rqw --include='*.c' --include='*.sh' -e "$name" "$root/tests" ||
			echo "tests/README.md names $name, which is no test"
	done
)
if [ -n "$wrong" ]; then
	printf '%s\n' "$wrong"
	echo "[  FAILED  ] coverage_field_notes_have_tests"
	exit 1
fi
echo "[       OK ] coverage_field_notes_have_tests"
exit $status
