#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes doc/troubleshooting.md from the table of hmreg-check (samples/tools/check_causes.h), the causes of the
library (include/rdma/) and the commands by which tests/conformance/tool_check.sh provokes each.

Usage: make_troubleshooting.py ROOT [--list FILE]    the guide goes to standard output
--list: what `hmreg-check --list' printed; fails where the table as read here differs from it
"""
import pathlib
import re
import sys

STAGES = [
    ("DRIVER", "Driver", "The library of the memory's interface is loaded, and the driver started."),
    ("DEVICE", "Device", "The accelerator of this number is looked for."),
    ("MEMORY", "Memory kind", "Memory is allocated, and the driver and the kernel are asked what it is."),
    ("NIC", "NIC", "The NIC is found, opened, and asked what it can do. It has to be there before memory is exported "
     "to it."),
    ("EXPORT", "Export", "The device's driver exports the memory as a dma-buf, unless the NIC reaches it in another way."),
    ("IMPORT", "NIC import", "The NIC's driver imports the dma-buf."),
    ("REGISTRATION", "Registration", "The memory becomes a region with a key."),
    ("TRANSFER", "Transfer", "A peer in the same process writes through the key and reads back."),
    ("CLOSE", "End", "Region, endpoints and NIC are closed."),
    ("ANY", "Any stage", "What can be met at more than one stage; the line `FAILED` of the output names it."),
    ("OPTIONS", "Command line", "Nothing was tried yet."),
]

EVIDENCE = [
    ("DRIVER", "the driver's library and version"),
    ("MODULES", "its kernel modules and the kernel"),
    ("DEVICE", "the device, whether it exports dma-bufs, its PCI window"),
    ("MEMORY", "the range, and what the driver says the memory is"),
    ("NIC", "the NIC, whether it imports dma-bufs, its limits"),
    ("PATH", "the path between device and NIC"),
    ("RDMA", "the kernel's RDMA devices, the files in /dev/infiniband, ib_uverbs"),
    ("PEER", "the modules for peer memory"),
    ("LIMITS", "RLIMIT_MEMLOCK, RLIMIT_NOFILE, RLIMIT_AS, the user"),
]

INTERFACES = {"FI_HMEM_CUDA": "CUDA", "FI_HMEM_ROCR": "ROCr", "FI_HMEM_ZE": "Level Zero", "FI_HMEM_NEURON": "Neuron",
              "FI_HMEM_SYNAPSEAI": "SynapseAI"}

HEAD = """<!-- SPDX-License-Identifier: BSD-2-Clause -->
<!-- Written by doc/make_troubleshooting.py from samples/tools/check_causes.h: change that, not this. -->
# Troubleshooting

`hmreg-check` takes memory all the way from its driver to a transfer, and stops at the first failure. Run it as the
user, in the container and with the environment of the program that fails, and with what the program registers:

    hmreg-check --iface cuda --device 1 --size 64M --nic mlx5_0

The last lines name the *cause*; its exit status is the same number. Look the cause up below: {count} of them, in the
order of the walk. Names and numbers stay what they are in later versions, so that scripts can compare them.
`--json` prints the same as one object, and `hmreg-check --list` this table.

A program gets the same from the library: `refusal` of `hmreg_fabric_ops` (hmreg_ext(3)) tells what calls of a thread
were refused for, each as a `HMREG_CAUSE_` number with its words; a completion with an error has a `HMREG_` number in
`prov_errno` (hmreg_fi_cq(3)).

*Collect* is what belongs into a report beside the words of the library, which are always there: `hmreg-check` prints
all of it. *Try it* is a command that provokes the cause without the hardware, over the emulated drivers of the tests;
`$verbs` stands for `build/debug/tests/drivers/verbs`, `$accel` for `build/debug/tests/drivers/accel`.

"""


class Fail(Exception):
    """What the files have is not what this script reads."""


def macro(text, name):
    """The body of #define NAME(...), its line continuations taken away."""
    match = re.search(r"#define %s\(\w+\)((?:[^\n]*\\\n)*[^\n]*)" % name, text)
    if not match:
        raise Fail("no " + name)
    body = match.group(1).replace("\\\n", "\n")
    return re.sub(r"/\*.*?\*/", "", body, flags=re.S)


def calls(body, name):
    """The arguments of each NAME(...), which are strings (joined), words or calls of macros."""
    token = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([A-Za-z0-9_|]+)|([(),]))')
    found, at = [], 0
    body = body.strip()
    while at < len(body):
        depth, args, words, strings = 0, [], [], []
        while True:
            match = token.match(body, at)
            if not match:
                raise Fail("not understood: " + body[at:at + 60])
            at = match.end()
            string, word, mark = match.groups()
            if string is not None:
                strings.append(string.replace('\\"', '"').replace("\\\\", "\\"))
            elif word:
                words.append(word)
            elif mark == "(":
                depth += 1
            elif (mark == "," and depth == 1) or (mark == ")" and depth == 1):
                args.append("".join(strings) if strings else " ".join(words))
                words, strings = [], []
                if mark == ")":
                    break
            elif mark == ")":
                depth -= 1
            if depth == 1 and mark == "(" and words == [name]:
                words = []
        found.append(args)
        while at < len(body) and body[at].isspace():
            at += 1
    return found


def comments(text, prefix):
    """What the headers say about each constant of an enumeration."""
    return {name: " ".join(said.split()) for name, said in
            re.findall(r"\b(%s[A-Z0-9_]+)\s*=\s*\d+,?\s*/\*(.*?)\*/" % prefix, text, flags=re.S)}


def ways(text):
    """cause: the first command by which the test provokes it, that needs no files of the test's own."""
    settings = dict(re.findall(r'\b(on_[a-z0-9]+|ze_driver)="?([^"\s]+)"?', text))
    folders = {"cuda": "$verbs:$accel/cuda", "rocr": "$verbs:$accel/rocr", "ze": "$verbs:$accel/ze",
               "neuron": "$verbs:$accel/neuron"}
    found = {}
    for cause, rest in re.findall(r"^provokes ([a-z0-9-]+) ?(.*)$", text, flags=re.M):
        for name, value in settings.items():
            rest = re.sub(r'"?\$%s"?(?![a-z0-9_])' % name, lambda _: value, rest)
        for name, value in folders.items():
            rest = re.sub(r"\$%s(?![a-z0-9_])" % name, lambda _: value, rest)
        if "$scratch" in rest or cause in found:
            continue
        words = [word for word in rest.replace('"', "").split() if not word.startswith("ASAN_OPTIONS=")]
        variables = [word for word in words if re.match(r"[A-Z0-9_]+=", word)]
        found[cause] = " ".join(variables + ["hmreg-check"] + words[len(variables):])
    return found


def code(text):
    """`this' of the table as code, and nothing of it as a mark or as HTML."""
    parts = re.split(r"`([^']*)'", text)
    for i, part in enumerate(parts):
        parts[i] = "`%s`" % part if i % 2 else re.sub(r"([*<|])", r"\\\1", re.sub(r"  +", " ", part))
    return "".join(parts)


def seen(cause, stage, source, said):
    """What one sees, in the tool's output and in a program."""
    kind, _, name = source.partition(" ")
    lines = ["`cause: %s (exit status %s)`" % (cause[0], cause[1])]
    if stage not in ("ANY", "OPTIONS", "CLOSE"):
        word = {"MEMORY": "memory", "NIC": "nic"}.get(stage, stage.lower())
        lines.insert(0, "`FAILED  %s`" % word)
    text = ", ".join(lines) + ". "
    if kind == "REFUSAL":
        full = "HMREG_CAUSE_" + name
        return text + "In a program: the call fails, and the refusal is `%s`%s." % (
            full, " (%s)" % code(said[full]) if full in said else "")
    if kind == "ERROR":
        full = "HMREG_" + name
        return text + "In a program: a completion with the error `%s`%s." % (
            full, ", %s" % code(said[full]) if full in said else "")
    return text + "Only the tool tells it."


def evidence(shows, stage):
    """What to collect for these SHOW_ bits."""
    bits = [bit.replace("SHOW_", "") for bit in re.findall(r"SHOW_\w+", shows)]
    if stage == "OPTIONS":
        return "nothing; the command line is the evidence"
    if bits == ["ALL"]:
        bits = [bit for bit, _ in EVIDENCE]
    known = dict(EVIDENCE)
    return "; ".join(["the call with its error, and the library's words"] + [known[bit] for bit in bits])


def compare(rows, path):
    """The table as read here against what the tool printed."""
    listed = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        status, name, stage, cause, remedy = line.split("\t")
        listed[name] = (status, stage.lower(), cause, remedy)
    read = {row[0]: (row[1], row[2].lower(), row[5], row[6]) for row in rows}
    if read != listed:
        raise Fail("not as the tool has it: " + " ".join(sorted(
            name for name in set(read) | set(listed) if read.get(name) != listed.get(name))))


def guide(root, listed):
    """The whole text."""
    table = (root / "samples/tools/check_causes.h").read_text(encoding="utf-8")
    rows = calls(macro(table, "CHECK_CAUSES"), "CAUSE")
    remedies = {}
    for name, interface, remedy in calls(macro(table, "CHECK_REMEDIES"), "REMEDY"):
        remedies.setdefault(name, []).append((INTERFACES[interface], remedy))
    said = comments((root / "include/rdma/fi_ext_hmreg_cause.h").read_text(encoding="utf-8"), "HMREG_CAUSE_")
    said.update(comments((root / "include/rdma/fi_ext_hmreg.h").read_text(encoding="utf-8"), "HMREG_"))
    tries = ways((root / "tests/conformance/tool_check.sh").read_text(encoding="utf-8"))
    if any(len(row) != 7 for row in rows) or not set(remedies) <= {row[0] for row in rows}:
        raise Fail("rows of another form")
    if {row[2] for row in rows} - {stage for stage, _, _ in STAGES}:
        raise Fail("a stage without a title")
    if listed:
        compare(rows, listed)
    out = [HEAD.format(count=len(rows))]
    for stage, title, about in STAGES:
        of_stage = sorted((row for row in rows if row[2] == stage), key=lambda row: int(row[1]))
        out.append("- [%s](#%s): %s\n" % (title, title.lower().replace(" ", "-"), ", ".join(
            "[%s](#%s)" % (row[0], row[0]) for row in of_stage)))
    for stage, title, about in STAGES:
        out.append("\n## %s\n\n%s\n" % (title, about))
        for row in sorted((row for row in rows if row[2] == stage), key=lambda row: int(row[1])):
            name, status, _, source, shows, cause, remedy = row
            out.append("\n### %s\n\n" % name)
            out.append("- **What one sees:** %s\n" % seen(row, stage, source, said))
            out.append("- **Cause:** %s\n" % code(cause))
            out.append("- **Collect:** %s.\n" % code(evidence(shows, stage)))
            out.append("- **Remedy:** %s\n" % code(remedy))
            for interface, other in remedies.get(name, []):
                out.append("  - %s: %s\n" % (interface, code(other)))
            out.append("- **Exit status:** %s\n" % status)
            if name in tries:
                out.append("- **Try it:** `%s`\n" % tries[name])
    return "".join(out)


def main(args):
    """The guide of the tree args[0]."""
    if len(args) not in (1, 3) or (len(args) == 3 and args[1] != "--list"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        sys.stdout.write(guide(pathlib.Path(args[0]), args[2] if len(args) == 3 else None))
    except Fail as failure:
        print("make_troubleshooting.py: %s" % failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
