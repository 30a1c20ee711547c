# SPDX-License-Identifier: BSD-2-Clause
# Completion for bash of hmreg-info, hmreg-check and hmreg-rma: options, and the values that they take.
# tests/checks/completion.sh compares the lists with what the programs say.

_hmreg_info_options="-d --device -v --verbose --hmem --check --topology --svg --json --params --cache --stats-dir
	-h --help -V --version"
_hmreg_check_options="-d --nic --iface --device --size --json --list -h --help -V --version"
_hmreg_check_kinds="host device pinned managed private freed beyond mixed foreign read-only no-access unmapped
	short-file device-mapping"
_hmreg_rma_options="-d --device --iface --local-iface --dmabuf --min --max --iters --ops --no-desc --json -q --quiet
	--no-progress -l --list -h --help -V --version --server --client --port --bind --loop --timeout"
_hmreg_interfaces="system cuda rocr ze neuron synapseai"
_hmreg_operations="write read atomic"

# The NIC domains that are there, from the tool that lists them: beside the command itself, or in PATH.
_hmreg_domains()
{
	local tool=hmreg-info

	[[ $1 != */* ]] || tool=${1%/*}/hmreg-info
	"$tool" --json 2>/dev/null | sed -n 's/^.*"domain": *"\([^"]*\)".*$/\1/p'
}

# _hmreg_offer WORDS: those that go on from what is typed.
_hmreg_offer()
{
	local word

	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -W "$1" -- "$typed")
}

# Of a list with commas, the last element goes on.
_hmreg_offer_operations()
{
	local done= word words=

	[[ $typed != *,* ]] || done=${typed%,*},
	for word in $_hmreg_operations; do
		[[ ,$done == *,$word,* ]] || words+=" $done$word"
	done
	_hmreg_offer "$words"
}

# _hmreg_value COMMAND OPTION: offers what this option takes; 1 if it takes nothing.
_hmreg_value()
{
	case ${1##*/}:$2 in
	hmreg-info:-d | hmreg-info:--device | hmreg-check:-d | hmreg-check:--nic | hmreg-rma:-d | hmreg-rma:--device)
		_hmreg_offer "$(_hmreg_domains "$1")"
		;;
	*:--iface | *:--local-iface) _hmreg_offer "$_hmreg_interfaces" ;;
	hmreg-rma:--ops) _hmreg_offer_operations ;;
	hmreg-rma:--client) COMPREPLY=($(compgen -A hostname -- "$typed")) ;;
	hmreg-info:--stats-dir) COMPREPLY=($(compgen -d -- "$typed")) ;;
	hmreg-info:--cache) _hmreg_offer "$(cd /proc && printf '%s ' [0-9]*)" ;;
	hmreg-check:--device | *:--size | *:--min | *:--max | *:--iters | *:--port | *:--bind | *:--timeout) ;;
	*) return 1 ;;
	esac
}

_hmreg()
{
	local typed=${COMP_WORDS[COMP_CWORD]}

	COMPREPLY=()
	_hmreg_value "$1" "${COMP_WORDS[COMP_CWORD - 1]}" && return
	case ${1##*/} in
	hmreg-info) [[ $typed == -* ]] && _hmreg_offer "$_hmreg_info_options" ||
		_hmreg_offer "$(_hmreg_domains "$1")" ;;
	hmreg-check) [[ $typed == -* ]] && _hmreg_offer "$_hmreg_check_options" ||
		_hmreg_offer "$_hmreg_check_kinds" ;;
	hmreg-rma) [[ $typed == -* ]] && _hmreg_offer "$_hmreg_rma_options" ||
		_hmreg_offer "list $(_hmreg_domains "$1")" ;;
	esac
}

complete -F _hmreg hmreg-info hmreg-check hmreg-rma
