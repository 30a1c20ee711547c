#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws the guide's pictures from traces of the library: what tests/doc/guide_scenes, the library's log and the
emulated drivers wrote on one standard error.  tests/checks/pictures.sh makes the traces.

Usage: make_pictures.py TRACES OUT     TRACES/NAME.trace becomes OUT/NAME.svg
       make_pictures.py --steps FILE   the steps that are drawn, a line each

No time, address or number of a process is in a picture: one differs only where the steps do.
"""
import pathlib
import re
import sys
from xml.sax.saxutils import escape

SCENES = ["registration", "cache", "parts", "device"]

# What a call is for.  One that is not here is drawn without words.
WORDS = {
    "cuPointerGetAttributes": "whose memory is it, and which allocation?",
    "cuPointerSetAttribute": "copies in order with the NIC's (SYNC_MEMOPS)",
    "cuMemGetHandleForAddressRange": "export: a dma-buf, as a file descriptor",
    "ibv_reg_dmabuf_mr": "import it: a region of the NIC, with its key",
    "ibv_reg_mr_iova2": "pin and translate: a region, with its key",
    "ibv_dereg_mr": "the key ends",
    "ibv_post_send": "the transfer",
    "ibv_poll_cq": "its completion",
    "ibv_alloc_mw": "a window",
    "ibv_bind_mw": "bound to its part: a key",
    "ibv_dealloc_mw": "the window ends",
    "ibv_create_qp": "a queue pair, which binds all windows",
}
# Calls that are not drawn: how a context is entered, how a queue pair is made ready, how a thread asks to be woken.
LEFT_OUT = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "ibv_create_cq", "ibv_query_port", "ibv_query_gid",
            "ibv_modify_qp", "ibv_req_notify_cq"}

LANES = {
    "registration": ["program", "library", "CUDA driver", "NIC driver"],
    "cache": ["program", "library", "NIC driver"],
    "device": ["kernel on the device", "ring and counter", "engine", "NIC driver"],
}
TITLES = {
    "registration": "From a pointer to a key: one registration of device memory",
    "cache": "The registration cache: a miss, a hit, an invalidation, a miss",
    "parts": "Sub-MRs: one registration, parts with keys of their own",
    "device": "A transfer that a device starts",
}


class Fail(Exception):
    """A trace that is not of the form that is drawn."""


def scene_lines(text, name):
    """The lines of the scene."""
    found = re.search(r"^scene:begin:%s$(.*?)^scene:end$" % name, text, flags=re.S | re.M)
    if not found:
        raise Fail("the trace has no whole scene " + name)
    return found.group(1).strip("\n").split("\n")


def events(lines):
    """(who, what, text) of each line that is drawn; who is program, device, ring, cache, log, or a driver."""
    out = []
    for line in lines:
        step = re.match(r"scene:(\w+)([:<])(.*)$", line)
        call = re.match(r"emu:(\w+):([^:]*):(\w+)$", line)
        said = re.match(r"hmreg:.*:mr:tell_way\(\):\d+<debug> (.*)$", line)
        if step:
            out.append((step.group(1), "return" if step.group(2) == "<" else "call", step.group(3)))
        elif call and call.group(2) == "hmreg-verbs" and call.group(3) != "ibv_poll_cq":
            continue  # the library's thread of events has a time of its own; what it completes belongs to a step
        elif call and call.group(3) not in LEFT_OUT:
            out.append(("CUDA driver" if call.group(1) == "CUDA" else "NIC driver", call.group(2), call.group(3)))
        elif said:
            out.append(("log", "note", said.group(1)))
        elif not call and not line.startswith("hmreg:"):
            raise Fail("not understood: " + line)
    return out


def arrows(name, lines):
    """(from, to, text, kind) of a scene of the host; calls that follow each other are one, with their count."""
    out, call_at = [], 0
    for who, what, text in events(lines):
        if who == "program" and what == "call":
            call_at = len(out) + 1
            out.append(("program", "library", text, "call"))
        elif who == "program":
            out.append(("library", "program", text, "return"))
        elif who == "cache":  # the figures are read when the step is over, and are about all of it
            out.insert(call_at, ("library", "library", text, "note"))
        elif who == "log":
            out.append(("library", "library", text, "note"))
        elif text == "ibv_poll_cq":  # by whichever thread looks first
            out.append((who, "library", text, "call"))
        elif out and re.match(r"%s( x\d+)?$" % text, out[-1][2]):
            count = int((re.search(r" x(\d+)$", out[-1][2]) or ["", "1"])[1]) + 1
            out[-1] = out[-1][:2] + ("%s x%d" % (text, count), "call")
        else:
            out.append(("library", who, text, "call"))
    if name != "parts" and any(step not in LANES[name] for arrow in out for step in arrow[:2]):
        raise Fail("somebody is in it who has no lane")
    return out


def device_arrows(lines):
    """
    The same of the scene of a device.  Kernel and engine run at the same time: each one's steps are in its own
    order, and those of the engine lie between the kernel's call that posts and the end of its wait.
    """
    found = events(lines)
    mine = [event for event in found if event[0] in ("device", "ring")]
    engine = [event for event in found if event[0] == "NIC driver"]
    shape = [(who, what) for who, what, _ in mine]
    if shape != [("device", "call"), ("ring", "call"), ("device", "return"), ("device", "call"), ("device", "return")]:
        raise Fail("the kernel's steps are others")
    if [text for _, _, text in engine] != ["ibv_post_send", "ibv_poll_cq"] or engine[0][1] != "hmreg-xpu":
        raise Fail("the engine's steps are others")
    if found.index(engine[0]) < 1 or found.index(engine[-1]) > len(found) - 2:
        raise Fail("the engine is not between the post and the end of the wait")
    kernel, ring, worker, nic = LANES["device"]
    return [(kernel, ring, mine[0][2], "call"), (ring, ring, mine[1][2], "note"), (ring, kernel, mine[2][2], "return"),
            (kernel, ring, mine[3][2], "call"), (ring, worker, "the request is taken", "inferred"),
            (worker, nic, engine[0][2], "call"), (nic, worker, engine[1][2], "call"),
            (worker, ring, "the counter is raised", "inferred"), (ring, kernel, mine[4][2], "return")]


def steps(name, text):
    """What is drawn."""
    lines = scene_lines(text, name)
    return device_arrows(lines) if name == "device" else arrows(name, lines)


def as_text(drawn):
    """A line for each step."""
    return "".join("%s -> %s: %s%s\n" % (a, b, text, "" if kind == "call" else " (%s)" % kind)
                   for a, b, text, kind in drawn)


# ---- drawing ----

STYLE = ("text{font-family:'DejaVu Sans',Verdana,sans-serif;font-size:13px;fill:#222}"
         ".title{font-size:17px;font-weight:bold}.lane{font-weight:bold;text-anchor:middle}"
         ".code{font-family:'DejaVu Sans Mono',monospace;font-size:12px}.why{font-size:11px;fill:#666}"
         ".line{stroke:#999;stroke-dasharray:2 4}.call{stroke:#1f5fa8;stroke-width:1.6}"
         ".return{stroke:#4b8b3b;stroke-width:1.4;stroke-dasharray:7 4}"
         ".inferred{stroke:#999;stroke-width:1.4;stroke-dasharray:2 3}"
         ".note{fill:#fff3cd;stroke:#d9b95b}.head{fill:#e8eef7;stroke:#1f5fa8}")


class Picture:
    """An SVG that grows."""

    def __init__(self, name, drawn, width):
        self.name, self.drawn, self.width, self.parts = name, drawn, width, []
        self.text(20, 30, TITLES[name], "title")

    def add(self, form, *values):
        """One element."""
        self.parts.append(form % values)

    def text(self, x, y, words, kind="", anchor="start"):
        """One line of text."""
        style = '' if anchor == "start" else ' text-anchor="%s"' % anchor
        self.add('<text x="%d" y="%d" class="%s"%s>%s</text>', x, y, kind, style, escape(words))

    def box(self, x, y, width, height, kind):
        """A box."""
        self.add('<rect x="%d" y="%d" width="%d" height="%d" rx="4" class="%s"/>', x, y, width, height, kind)

    def arrow(self, x1, x2, y, kind):
        """A horizontal arrow."""
        self.add('<line x1="%d" y1="%d" x2="%d" y2="%d" class="%s" marker-end="url(#%s)"/>', x1, y,
                 x2 - 2 if x2 > x1 else x2 + 2, y, kind, kind)

    def whole(self, height):
        """The file."""
        marks = "".join('<marker id="%s" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
                        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="%s"/></marker>' % mark
                        for mark in (("call", "#1f5fa8"), ("return", "#4b8b3b"), ("inferred", "#999")))
        return ('<?xml version="1.0" encoding="UTF-8"?>\n<!-- SPDX-License-Identifier: BSD-2-Clause -->\n'
                '<!-- Drawn by doc/make_pictures.py from a trace; tests/checks/pictures.sh makes it anew. -->\n'
                '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">\n'
                '<title>%s</title>\n<desc>\n%s</desc>\n<style>%s</style>\n<defs>%s</defs>\n'
                '<rect width="100%%" height="100%%" fill="white"/>\n%s\n</svg>\n' % (
                    self.width, height, self.width, height, escape(TITLES[self.name]), escape(as_text(self.drawn)),
                    STYLE, marks, "\n".join(self.parts)))


def sequence(name, drawn):
    """A sequence diagram."""
    lanes, gap = LANES[name], 330
    picture = Picture(name, drawn, gap * len(lanes) - 40)
    words = dict(WORDS)
    at = {lane: 145 + i * gap for i, lane in enumerate(lanes)}
    bottom = 110 + 46 * len(drawn)
    for lane in lanes:
        picture.add('<line x1="%d" y1="80" x2="%d" y2="%d" class="line"/>', at[lane], at[lane], bottom)
        picture.box(at[lane] - 95, 52, 190, 28, "head")
        picture.text(at[lane], 71, lane, "lane")
    for i, (begin, end, text, kind) in enumerate(drawn):
        y = 122 + 46 * i
        why = words.get(text.split(" ")[0], "")
        if text == "cuPointerGetAttributes":  # after the first, it is about pieces
            words[text] = "once more, for each piece of the range"
        if kind == "note":
            width = max(60, 8 * len(text) + 20)
            picture.box(at[begin] - width // 2, y - 20, width, 28, "note")
            picture.text(at[begin], y - 1, text, "code", "middle")
            continue
        picture.arrow(at[begin], at[end], y, kind)
        middle = (at[begin] + at[end]) // 2
        picture.text(middle, y - 6, text, "why" if kind == "inferred" else "code", "middle")
        picture.text(middle, y + 14, "(not in the trace)" if kind == "inferred" else why, "why", "middle")
    if name == "cache":
        picture.text(20, bottom + 20, "The old region's ibv_dereg_mr comes later, at a miss or when the domain closes.",
                     "why")
    return picture.whole(bottom + 36)


def parts_of(drawn):
    """name: (offset, length, rights, what the NIC was asked for), and what closing each gave."""
    made, closed, of = {}, [], None
    for _, end, text, kind in drawn:
        begin = re.match(r"(base|part \d+): offset (\d+), (\d+) bytes, (.*)$", text)
        if begin:
            of = made.setdefault(begin.group(1), (int(begin.group(2)), int(begin.group(3)), begin.group(4), []))[3]
        elif text.startswith("fi_close("):
            of = []
            closed.append([text, of])
        elif kind == "return":
            of.append("= " + text)
        elif end == "NIC driver":
            of.append(text)
    if "base" not in made or len(made) < 3 or not closed:
        raise Fail("the parts are not all there")
    return made, closed


def parts_picture(drawn):
    """A base and its parts, to scale, and what the NIC was asked for."""
    made, closed = parts_of(drawn)
    picture = Picture("parts", drawn, 1080)
    base, scale = made["base"], 1040 / made["base"][1]
    for name, (offset, length, rights, _) in made.items():
        x, y = 20 + offset * scale, 56 if name == "base" else 126
        picture.box(x, y, length * scale - 4, 52, "head" if name == "base" else "note")
        picture.text(x + length * scale / 2 - 2, y + 22, "%s: %d KiB at %d KiB" % (
            name, length // 1024, offset // 1024), "code", "middle")
        picture.text(x + length * scale / 2 - 2, y + 41, rights, "why", "middle")
    y = 216
    picture.text(20, y, "What the NIC's driver was asked for", "title")
    for name, (_, length, _, calls) in made.items():
        y += 26
        picture.text(20, y, name, "code")
        picture.text(330, y, ", ".join(calls[:-1]), "code")
        picture.text(1060, y, calls[-1][2:], "code", "end")
    for text, calls in closed:
        y += 26
        picture.text(20, y, text, "code")
        picture.text(330, y, ", ".join(calls[:-1]) or "nothing", "code")
        picture.text(1060, y, calls[-1][2:], "code", "end")
    y += 30
    picture.text(20, y, "The base pins and translates its %d KiB once; a part asks for a window alone, whatever its "
                 "length. A base with parts cannot be closed." % (base[1] // 1024), "why")
    return picture.whole(y + 20)


def draw(name, text):
    """The picture of a trace."""
    drawn = steps(name, text)
    return parts_picture(drawn) if name == "parts" else sequence(name, drawn)


def main(args):
    """All pictures, or the steps of one trace."""
    if len(args) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if args[0] == "--steps":
            path = pathlib.Path(args[1])
            sys.stdout.write(as_text(steps(path.stem, path.read_text(encoding="utf-8"))))
            return 0
        for name in SCENES:
            text = (pathlib.Path(args[0]) / (name + ".trace")).read_text(encoding="utf-8")
            (pathlib.Path(args[1]) / (name + ".svg")).write_text(draw(name, text), encoding="utf-8")
    except Fail as failure:
        print("make_pictures.py: %s" % failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
