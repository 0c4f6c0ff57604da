#!/usr/bin/env python3
"""Opens the lab in headless Chromium and uses it as people do.

    lab_browser.py [--shots DIR] WARPLINE

Starts `WARPLINE lab` in a directory of its own for each check: a network from a template, changed by hand and as text, both ways; runs, with
their curves and reports; packets that move, event by event, and one that is followed; live hosts with terminals, and a link that changes; a grid of runs; keyboard and names for screen
readers; sizes and colours; a large network; and pages of other origins, which must get nothing. No request may leave for
elsewhere, and nothing may be logged to the console. Without Chromium it exits with 77. Standard library only.
"""

import argparse
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "study" / "tests"))
from report_browser import Browser  # noqa: E402

LARGE = """duration = "1ms"
sample_interval = "100us"
[topology]
kind = "leaf-spine"
leaves = 100
spines = 90
hosts = 10
host = { rate = "10Gbit/s", delay = "1us" }
fabric = { rate = "10Gbit/s", delay = "1us" }
[[flow]]
from = "host"
to = "host"
pattern = "permutation"
"""


CALL = """duration = "3s"
[[link]]
between = ["a", "b"]
rate = "5Mbit/s"
delay = "10ms"
[[flow]]
name = "call"
from = "a"
to = "b"
app = "media"
"""


class Lab:
    """A lab with its page open in the browser."""

    def __init__(self, browser, program, width=1280, height=820, scheme="light", **files):
        self.browser = browser
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="lab-browser-"))
        for name, text in files.items():
            (self.directory / f"{name}.toml").write_text(text)
        place = f"{next(iter(files))}.toml" if files else "."
        # A job in the background of a shell ignores Ctrl-C, and so would the lab.
        heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        self.process = subprocess.Popen([program, "lab", place], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=self.directory, preexec_fn=heeds)
        self.address = self.process.stdout.readline().split()[-1]
        self.origin = self.address.split("#")[0].rstrip("/")
        self.target = browser.page()
        browser.size(width, height)
        browser.scheme(scheme)
        browser.open(self.address)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.calm()
            self.browser.end_page(self.target)
        finally:
            self.process.send_signal(signal.SIGINT)
            try:
                code = self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                code = "nothing, and was killed"
            shutil.rmtree(self.directory, ignore_errors=True)
        if kind is None:
            assert code == 0, f"the lab ended with {code}"

    def calm(self):
        """Nothing went wrong so far, and nothing was asked of anybody else."""
        complaints = [told for told in self.browser.complaints() if not told.startswith(f"request: {self.origin}/") and not told.startswith("request: data:")]
        self.browser.events.clear()
        errors = self.run("document.documentElement.dataset.errors")
        assert not complaints and not errors, f"{complaints} {errors}"

    def run(self, expression):
        return self.browser.run(expression)

    def wait(self, condition, complaint):
        self.browser.wait(condition, complaint)

    def press(self, words, within="document"):
        found = self.run(f"""(() => {{ const b = [...{within}.querySelectorAll('button')].find(b => b.textContent.trim() === {json.dumps(words)} && b.offsetParent !== null);
            b?.click(); return Boolean(b); }})()""")
        assert found, f"there is no button {words!r}"

    def give(self, selector, value, event="change"):
        self.run(f"""(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};
            e.dispatchEvent(new Event({json.dumps(event)}, {{ bubbles: true }})); }})()""")

    def template(self, name):
        self.press(name, "document.querySelector('dialog')")
        self.wait(f"W.lab.doc.suggestion === {json.dumps(name.replace(' ', '-') + '.toml')} && W.lab.doc.checked.written", f"the template {name} does not open")

    def key(self, key, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers)

    def mouse(self, kind, x, y, **more):
        self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def place(self, node):
        # What is typed or chosen is checked and drawn a little later.
        self.wait(f"W.lab.network.nodes.some(own => own.name === {json.dumps(node)})", f"{node} is not drawn")
        return self.run(f"""(() => {{ const n = W.lab.network, i = n.nodes.findIndex(own => own.name === {json.dumps(node)}), box = n.canvas.getBoundingClientRect();
            return [box.left + n.sx(i), box.top + n.sy(i)]; }})()""")

    def drag(self, start, end, **more):
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, button="left", buttons=1, clickCount=1, **more)
        for part in (0.3, 0.7, 1):
            self.mouse("mouseMoved", start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part, button="left", buttons=1, **more)
        self.mouse("mouseReleased", *end, button="left", clickCount=1, **more)

    def text(self):
        return self.run("W.lab.doc.text")

    def valid(self):
        self.wait("W.lab.doc.checked.valid", "the scenario is not valid")


# Number of colours on a canvas: a blank one has one.
COLOURS = """(() => { const c = document.querySelector('%s canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
    for (let i = 0; i < d.length; i += 16) if (d[i + 3] > 200) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]); return seen.size; })()"""
PICTURE = "document.querySelector('#part-watch canvas').toDataURL()"


def edits(browser, program, shot):
    """By hand and as text: each change is seen on the other side, is undone, and keeps the comments."""
    with Lab(browser, program) as lab:
        lab.template("two hosts")
        lab.valid()
        assert lab.run(COLOURS % "#part-network") > 4, "the drawing is blank"
        # A link is chosen in the drawing: its fields are shown, and changed.
        a, b = lab.place("r1"), lab.place("r2")
        middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]
        lab.drag(middle, middle)
        lab.wait("document.querySelector('.inspector h2').textContent === 'Link r1 – r2'", "a click on a link does not choose it")
        lab.give('[data-path="link.1.rate"]', "3Mbit/s")
        lab.wait("W.lab.doc.drawing.links[1].there.words.startsWith('3 Mbit/s')", "the drawing does not follow a field")
        assert 'rate = "3Mbit/s"\n' in lab.text() and "# the bottleneck" in lab.text(), lab.text()
        assert lab.run("W.lab.editor.area.value === W.lab.doc.text"), "the text does not follow a field"
        # A kind with its parameters.
        lab.give('[data-path="link.1.queue"]', "red")
        lab.wait("W.lab.doc.checked.written.link[1].queue.kind === 'red'", "a kind of queue cannot be chosen")
        lab.wait("document.querySelector('[data-path=\"link.1.queue.limit\"]')", "the parameters of a queue are not shown")
        lab.give('[data-path="link.1.queue.limit"]', "15p")
        lab.wait("W.lab.doc.drawing.links[1].there.words.includes('red of 15 packets')", "a parameter is not taken")
        # An error shows at the field, at the line and in the drawing. Undo takes the change back.
        lab.give('[data-path="link.1.delay"]', "soon")
        lab.wait("W.lab.doc.checked.problems.length === 1", "no problem is found")
        line = lab.text().split("\n").index('delay = "soon"') + 1
        lab.wait(f"document.querySelector('.gutter .wrong')?.textContent === '{line}'", "the line is not marked")
        lab.wait("W.lab.network.wrong.has('link.1') && document.querySelector('[data-path=\"link.1.delay\"]').ariaInvalid === 'true'", "neither the drawing nor the field shows the error")
        shot("error")
        lab.run("document.querySelector('.problems button').click()")
        chosen = lab.run("W.lab.doc.text.slice(W.lab.editor.area.selectionStart, W.lab.editor.area.selectionEnd)")
        assert chosen == '"soon"', chosen
        lab.key("z", 2)
        lab.valid()
        # Typed: the drawing and the fields follow; undo and redo go through both kinds of change.
        lab.run("(() => { const a = W.lab.editor.area; a.value = a.value.replace('\"client\", \"r1\"', '\"laptop\", \"r1\"').replace('from = \"client\"', 'from = \"laptop\"'); a.dispatchEvent(new Event('input')); })()")
        lab.wait("W.lab.doc.drawing.nodes.some(n => n.name === 'laptop') && W.lab.doc.checked.valid", "the drawing does not follow the text")
        lab.run("W.lab.undo()")
        lab.wait("W.lab.doc.drawing.nodes.some(n => n.name === 'client')", "undo does not take back what was typed")
        lab.run("W.lab.redo()")
        lab.wait("W.lab.doc.drawing.nodes.some(n => n.name === 'laptop')", "redo does not bring it again")
        # A node is moved, and a link drawn to a free place makes another.
        before = lab.place("server")
        lab.drag(before, [before[0] - 30, before[1] + 90])
        assert lab.run("Object.keys(W.lab.doc.places).includes('server')"), "a node that was moved is not kept"
        start = lab.place("server")
        lab.drag(start, [start[0] - 60, start[1] + 70], modifiers=8)
        lab.wait("W.lab.doc.drawing.nodes.some(n => n.name === 'n1')", "no link can be drawn")
        # By form: a flow, and a name for the node.
        lab.run("W.lab.inspector.choose({ kind: 'node', name: 'n1' })")
        lab.give("#node-name", "printer")
        lab.wait("W.lab.doc.drawing.nodes.some(n => n.name === 'printer')", "a node cannot be renamed")
        lab.wait("W.lab.doc.places.printer", "a node that is renamed does not keep its place")
        lab.press("+ Flow", "document.querySelector('.tools')")
        lab.give("#add0", "laptop")
        lab.give("#add1", "printer")
        lab.press("Add the flow")
        lab.wait("W.lab.doc.drawing.flows.length === 2 && W.lab.doc.checked.valid", "a flow cannot be added")
        shot("edited")
        # The fields of a flow are those of its application. While something is missing, links keep the values that they had.
        assert not lab.run("Boolean(document.querySelector('.inspector > .inspector-body > .row [data-path=\"flow.1.rate\"]'))")
        lab.give('[data-path="flow.1.app"]', "cbr")
        lab.wait("document.querySelector('[data-path=\"flow.1.rate\"]') && !W.lab.doc.checked.valid", "the fields of an application are not shown")
        assert lab.run("W.lab.network.links[0].there?.words.startsWith('100 Mbit/s')"), "a link has lost its values"
        lab.give('[data-path="flow.1.rate"]', "200kbit/s")
        lab.valid()
        lab.run("W.lab.inspector.choose({ kind: 'node', name: 'printer' })")
        lab.press("Remove this node")
        lab.wait("W.lab.doc.drawing.flows.length === 1 && W.lab.doc.drawing.nodes.length === 4", "a node cannot be removed")
        # Saved; and not over what somebody else has written.
        lab.press("Save")
        lab.give("#ask", "mine.toml")
        lab.run("document.querySelector('dialog form').requestSubmit()")
        lab.wait("W.lab.doc.name === 'mine.toml'", "the scenario is not saved")
        file = lab.directory / "mine.toml"
        assert file.read_text() == lab.text()
        assert lab.run("W.lab.network.nodes.length") == 4, "the drawing is lost by saving"
        file.write_text(file.read_text() + "# by an editor\n")
        lab.run("W.lab.change({ do: 'set', path: ['duration'], value: '7s' })")
        lab.wait("W.lab.doc.text.includes('7s')", "a change is lost")
        lab.press("Save")
        lab.wait("document.querySelector('dialog')?.textContent.includes('changed by another program')", "the conflict does not show")
        assert "# by an editor" in file.read_text()
        # The browser itself logs the refusal (409) to the console.
        lab.browser.events.clear()
        lab.press("Read the file again, and lose my changes")
        lab.wait("W.lab.doc.text.includes('# by an editor')", "the file is not read again")
        # What was given a moment before is saved, too. Who saves twice is not told that another program was there.
        lab.run("W.lab.change({ do: 'set', path: ['duration'], value: '8s' })")
        lab.run("""(() => { const f = document.querySelector('[data-path="warmup"]'), b = [...document.querySelectorAll('button')].find(b => b.textContent === 'Save');
            f.value = '1s'; f.dispatchEvent(new Event('change', { bubbles: true })); b.click(); b.click(); })()""")
        lab.wait("W.lab.doc.saved.includes('warmup') && W.lab.doc.saved === W.lab.doc.text", "a value that was given is not saved")
        lab.run("W.lab.save()")
        assert file.read_text() == lab.text() and '"8s"' in lab.text(), lab.text()
        assert not lab.run("Boolean(document.querySelector('dialog'))"), "the page is in conflict with itself"
        # What a terminal prints: a character may be two units of a string of JavaScript.
        printed = lab.run("import('/assets/live.js').then(({ Screen }) => new Screen().add('first\\na😀b\\rc'))")
        assert printed == "first\nc😀b", printed


def runs(browser, program, shot):
    """A run with its curves, stopped; one to its end with its report; a comparison; a grid."""
    with Lab(browser, program) as lab:
        lab.template("two hosts")
        lab.valid()
        lab.run("W.lab.change({ do: 'set', path: ['duration'], value: '1000000s' })")
        lab.wait("W.lab.doc.checked.about.duration_s === 1e6", "the duration is not taken")
        lab.run("W.lab.runs.start({ record: false })")
        lab.wait("W.lab.runs.live?.time.length > 0", "no curve comes")
        lab.wait("document.querySelectorAll('.live .plot[data-drawn]').length > 2 && W.lab.runs.live.bar.value > 0", "no progress is shown")
        shot("live")
        # A tab that is not seen asks for nothing, and goes on when it is seen again.
        seen = "Object.defineProperty(document, 'hidden', { value: %s, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))"
        lab.run(seen % "true")
        assert lab.run("W.lab.runs.live === null"), "a tab that is not seen still reads its run's curves"
        lab.run(seen % "false")
        lab.wait("W.lab.runs.live?.time.length > 0", "the curves do not come back with the tab")
        lab.press("Stop")
        lab.wait("W.lab.runs.entries[0].job?.state === 'stopped'", "the run does not stop")
        lab.wait("document.querySelector('.run-detail iframe')", "what was measured until then is not shown")
        lab.run("W.lab.runs.chosen.add(W.lab.runs.entries[0].run); 0")
        lab.press("Rename")
        lab.give("#ask", "long")
        lab.run("document.querySelector('dialog form').requestSubmit()")
        lab.wait("W.lab.runs.entries.some(e => e.run === 'long')", "a run cannot be renamed")
        assert lab.run("[...W.lab.runs.chosen].join()") == "long", "a run that was chosen is not any more under its new name"
        lab.run("W.lab.runs.chosen.clear(); W.lab.runs.fill()")
        assert (lab.directory / "runs/long/summary.json").exists()
        lab.run("W.lab.change({ do: 'set', path: ['duration'], value: '5s' })")
        lab.wait("W.lab.doc.checked.about.duration_s === 5", "the duration is not taken")
        lab.run("W.lab.runs.start({ record: false, name: 'short' })")
        lab.wait("W.lab.runs.entries.some(e => e.run === 'short' && e.totals)", "a run does not end")
        lab.run("document.querySelectorAll('.run-list input').forEach(box => box.click())")
        lab.press("Compare the chosen runs")
        lab.wait("document.querySelector('.run-detail iframe')?.title.includes('2 runs')", "runs cannot be compared")
        lab.press("Several …")
        # A number that JavaScript would change.
        lab.give("#many-seeds", "1, 9007199254740993", "input")
        lab.wait("document.querySelector('.many [role=status]').textContent.includes('9007199254740991')", "a seed that is too large is not refused")
        lab.give("#many-seeds", "1..2", "input")
        lab.give("#axis-key0", "flow.0.cc", "input")
        lab.give("#axis-values0", "reno, vegas", "input")
        lab.press("Start", "document.querySelector('dialog')")
        lab.wait("document.querySelectorAll('table.grid td button').length === 4", "there is no grid")
        lab.wait("[...document.querySelectorAll('table.grid td button')].every(b => b.textContent.endsWith('bit/s'))", "the cells do not fill")
        shot("grid")
        lab.press("Compare all")
        lab.wait("document.querySelector('.run-detail iframe')", "the runs of a grid cannot be compared")
        lab.run("W.lab.runs.refresh()")
        assert lab.run("Boolean(document.querySelector('.run-detail iframe'))"), "the comparison goes when the list is read again"
        lab.run("W.lab.runs.open(W.lab.runs.opened)")
        lab.wait("document.querySelectorAll('table.grid td button').length === 4", "the grid does not come back")
        lab.run("document.querySelectorAll('table.grid td button')[3].click()")
        lab.wait("document.querySelector('.run-detail h2')?.textContent.endsWith('cc-vegas/seed-2')", "a cell does not open")
        names = sorted(path.parent.name for path in (lab.directory / "runs").glob("*/cc-*/seed-*/summary.json"))
        assert len(names) == 4, names


def datagrams(browser, program, shot):
    """What is said of datagrams has their numbers, which are not those of bytes."""
    with Lab(browser, program, call=CALL) as lab:
        lab.valid()
        lab.press("Run and watch")
        lab.wait("!document.getElementById('part-watch').hidden && W.lab.watch.playing", "the run is not played")
        lab.run("W.lab.watch.pause()")
        lab.run("W.lab.watch.seek(2e9)")
        lab.wait("W.lab.watch.windows.has(W.lab.watch.t)", "a jump leads nowhere")
        said = set()
        for _ in range(60):
            before = lab.run("W.lab.watch.t")
            lab.run("W.lab.watch.step(1)")
            lab.wait(f"W.lab.watch.t > {before} && W.lab.watch.spoken.textContent", "there is no next event")
            said.add(lab.run("W.lab.watch.spoken.textContent"))
        shot("datagrams")
        assert any(re.search(r": datagram \d+ of call, \d+ B ", words) for words in said), said
        assert any("of call, back to the sender, " in words for words in said), said
        assert not any("bytes" in words for words in said), said


def watches(browser, program, shot):
    """Packets move, forward and back; events are gone through; a packet that was dropped is followed."""
    with Lab(browser, program) as lab:
        lab.template("two hosts")
        lab.valid()
        lab.run("W.lab.watch.toggle(1)")
        assert not lab.run("W.lab.watch.playing"), "no run is played"
        lab.press("Run and watch")
        lab.wait("!document.getElementById('part-watch').hidden && W.lab.watch.playing", "the run is not played")
        first = lab.run(PICTURE)
        lab.wait(f"({PICTURE}).length && W.lab.watch.drawn.length > 0", "no packet is under way")
        time_before = lab.run("W.lab.watch.t")
        lab.wait(f"W.lab.watch.t > {time_before} + 1e6", "time does not pass")
        assert lab.run(PICTURE) != first, "the picture does not move"
        shot("watch")
        # Backwards, and anywhere.
        lab.run("W.lab.watch.pause()")
        lab.run("W.lab.watch.seek(12.5e9)")
        lab.wait("W.lab.watch.windows.has(W.lab.watch.t) && (W.lab.watch.draw(), true)", "a jump leads nowhere")
        lab.run("W.lab.watch.toggle(-1)")
        lab.wait("W.lab.watch.t < 12.49e9", "it does not play backwards")
        lab.run("W.lab.watch.pause()")
        kept = lab.run("W.lab.watch.windows.parts.reduce((sum, part) => sum + part.time.length, 0)")
        assert kept <= 8 * 6000, f"{kept} events are kept"
        # Event by event, both ways.
        before = lab.run("W.lab.watch.t")
        lab.run("W.lab.watch.step(1)")
        lab.wait(f"W.lab.watch.t > {before} && W.lab.watch.spoken.textContent", "there is no next event")
        after = lab.run("W.lab.watch.t")
        lab.run("W.lab.watch.step(-1)")
        lab.wait(f"W.lab.watch.t < {after}", "there is no event before")
        # To the next drop, and the story of its packet.
        lab.run("W.lab.watch.which.value = 'bad'")
        lab.run("W.lab.watch.step(1)")
        lab.wait("W.lab.watch.spoken.textContent.includes('dropped at r1')", "no drop is found")
        lab.wait("document.querySelector('.moments .drop')", "the drop is not listed")
        lab.run("document.querySelector('.moments .drop').click()")
        lab.wait("document.querySelector('.story')?.textContent.includes('the queue was full')", "the reason of the drop does not show")
        shot("story")
        lab.run("document.querySelector('.story p button').click()")
        lab.wait("document.querySelector('.story').textContent.includes('caused the acknowledgement')", "the packet that was sent again has no acknowledgement")
        # From far away to the packet that is followed, which the server looks for.
        followed = lab.run("W.lab.watch.followed.packet")
        lab.run("W.lab.watch.which.value = 'followed'; W.lab.watch.seek(0)")
        lab.wait("W.lab.watch.windows.has(0)", "a jump leads nowhere")
        lab.run("performance.clearResourceTimings(); W.lab.watch.step(1)")
        found = "W.lab.watch.windows.events.some(e => e.time === W.lab.watch.t && e.packet === %d)" % followed
        lab.wait(f"{found} && performance.getEntriesByType('resource').some(e => e.name.includes('/api/runs/step'))", "an event that is far away is not found")
        # A packet in the drawing.
        lab.run("W.lab.watch.follow(null); W.lab.watch.which.value = 'all'")
        lab.wait("W.lab.watch.drawn.length > 0", "no packet is drawn")
        spot = lab.run("""(() => { const { points: [[ax, ay], [bx, by]] } = W.lab.watch.drawn[0], box = W.lab.watch.network.canvas.getBoundingClientRect();
            return [box.left + (ax + bx) / 2, box.top + (ay + by) / 2]; })()""")
        lab.drag(spot, spot)
        lab.wait("W.lab.watch.followed && !document.querySelector('.story').hidden", "a packet in the drawing cannot be chosen")
        # By keyboard.
        lab.run("W.lab.watch.follow(null); W.lab.watch.seek(1e9); document.querySelector('.player .play').focus()")
        at = lab.run("W.lab.watch.t")
        lab.key("ArrowRight")
        lab.wait(f"W.lab.watch.t > {at}", "the arrow key does not step")
        # With less motion it goes from event to event.
        lab.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        at = lab.run("W.lab.watch.t")
        lab.run("W.lab.watch.toggle(1)")
        lab.wait(f"W.lab.watch.t > {at} && W.lab.watch.windows.events.some(e => e.time === W.lab.watch.t)", "with less motion it does not step")
        lab.run("W.lab.watch.pause()")


# What a checker of accessibility would find: names, references, contrast, order. It says what is wrong.
ACCESSIBLE = """(() => {
  const wrong = [], seen = (e) => e.offsetParent !== null && getComputedStyle(e).visibility !== 'hidden';
  const name = (e) => (e.ariaLabel || (e.getAttribute('aria-labelledby') ?? '').split(' ').map(id => document.getElementById(id)?.textContent ?? '').join('') ||
    [...(e.labels ?? [])].map(l => l.textContent).join('') || (e.matches('button, a, summary') ? e.textContent : '') || e.title || '').trim();
  const told = (e) => `<${e.tagName.toLowerCase()} class="${e.className}"> ${e.textContent.slice(0, 30)}`;
  for (const e of document.querySelectorAll('button, input, select, textarea, a[href], summary, [role=img], iframe, progress')) if (seen(e) && !name(e)) wrong.push('no name: ' + told(e));
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach(id => wrong.push('twice: #' + id));
  for (const attribute of ['aria-describedby', 'aria-labelledby', 'for', 'list'])
    for (const e of document.querySelectorAll(`[${attribute}]`)) for (const id of e.getAttribute(attribute).split(' ')) if (!document.getElementById(id)) wrong.push(`${attribute} leads nowhere: ${id}`);
  for (const e of document.querySelectorAll('ul > *, ol > *')) if (e.tagName !== 'LI') wrong.push('not an item: ' + told(e));
  for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) wrong.push('order of its own: ' + told(e));
  if (document.querySelectorAll('main').length !== 1 || document.querySelectorAll('h1').length !== 1 || !document.documentElement.lang || !document.title) wrong.push('main, h1, language or title');
  let level = 1;
  for (const e of document.querySelectorAll('h1, h2, h3, h4')) { if (!seen(e)) continue; const own = Number(e.tagName[1]); if (own > level + 1) wrong.push('heading skipped: ' + told(e)); level = own; }
  const rgb = (text) => { const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true }); c.fillStyle = text; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
  const light = (c) => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const layers = []; for (let at = e; at; at = at.parentElement) { const c = rgb(getComputedStyle(at).backgroundColor); layers.push(c); if (c[3] === 255) break; }
    let base = layers.pop() ?? [255, 255, 255, 255]; if (base[3] < 255) base = [255, 255, 255, 255];
    while (layers.length) { const c = layers.pop(), a = c[3] / 255; base = base.map((v, i) => i < 3 ? c[i] * a + v * (1 - a) : 255); } return base; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const done = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || done.has(e) || !seen(e) || e.closest('option, script, noscript, .hidden-text, .skip, :disabled, [aria-pressed=false].legend')) continue;
    done.add(e);
    const style = getComputedStyle(e);
    if (style.fontSize === '0px' || style.color === 'rgba(0, 0, 0, 0)') continue;
    const back = behind(e), front = rgb(style.color), a = light(front.slice(0, 3)), b = light(back.slice(0, 3));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.45) wrong.push(`contrast ${ratio.toFixed(2)}: ${told(e)}`);
  }
  return wrong;
})()"""


# axe-core's own checks: what is against a rule, and where. Not in the frame of a report, with which no script of the page can talk.
AXE = """axe.run(document, { iframes: false }).then(found => found.violations.map(rule => `${rule.id}: ${rule.help}: ` + rule.nodes.map(node => node.target.join(' ')).join(', ')))"""


def accessible(browser, program, shot, axe=None):
    """Names, references, headings and contrast in each part, light and dark; no part is wider than the screen. `axe` is the text of axe-core."""
    # Widths decide where things are, schemes what colours they have: neither asks for the other.
    for width, height, scheme in ((1280, 820, "light"), (400, 860, "dark"), (2500, 1300, "light")):
        with Lab(browser, program, width, height, scheme) as lab:
            def check(what):
                wrong = lab.run(ACCESSIBLE)
                if axe:
                    lab.run("typeof axe") == "object" or lab.run(axe + "; 0")
                    wrong += lab.run(AXE)
                assert not wrong, f"{what}, {width} px, {scheme}: " + "\n".join(wrong)
                wide = lab.run("document.documentElement.scrollWidth")
                assert wide <= width, f"{what}: at {width} px the page is {wide} px wide"
                shot(f"{what}-{width}-{scheme}")
            check("begin")
            lab.template("shared bottleneck")
            lab.valid()
            lab.run("W.lab.inspector.choose({ kind: 'link', origin: 'link.2' })")
            check("network")
            lab.run("W.lab.inspector.choose({ kind: 'flow', entry: 1 })")
            check("flow")
            lab.press("Run and watch")
            lab.wait("!document.getElementById('part-watch').hidden && W.lab.watch.drawn?.length > 0", "the run is not played")
            lab.run("W.lab.watch.pause()")
            check("watch")
            lab.run("W.lab.show('runs')")
            lab.wait("document.querySelector('.run-detail iframe')", "there is no report")
            check("runs")
            lab.press("Several …")
            check("several")
            lab.run("document.querySelector('dialog').close(); W.lab.show('live')")
            lab.wait("document.querySelector('#part-live .hint')", "the live part is empty")
            check("live")


def keyboard(browser, program, shot):
    """A network is made and run without a mouse: Tab reaches what is there, and Enter uses it."""
    with Lab(browser, program) as lab:
        def to(words, tries=80):
            for _ in range(tries):
                if lab.run("(document.activeElement.ariaLabel || document.activeElement.textContent || '').trim()") == words:
                    return
                lab.key("Tab")
            raise AssertionError(f"Tab does not reach {words!r}")
        def enter():
            browser.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
            browser.call("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)
        def tab():
            browser.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
            browser.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        lab.key = lambda key, modifiers=0: tab() if key == "Tab" else Lab.key(lab, key, modifiers)
        to("empty")
        enter()
        lab.wait("W.lab.doc.suggestion === 'empty.toml'", "Enter does not choose a template")
        to("Add a link")
        enter()
        lab.wait("document.activeElement.id === 'add0'", "the form does not take the focus")
        enter()
        lab.wait("W.lab.doc.drawing.links.length === 1", "Enter does not add the link")
        lab.run("document.querySelector('.tools button').focus()")
        to("Add a flow")
        enter()
        lab.wait("document.activeElement.id === 'add0'", "the form does not take the focus")
        browser.call("Input.insertText", text="client")
        lab.run("document.activeElement.blur(); document.getElementById('add1').focus(); document.getElementById('add1').select()")
        browser.call("Input.insertText", text="server")
        enter()
        lab.wait("W.lab.doc.drawing.flows.length === 1 && W.lab.doc.checked.valid", "Enter does not add the flow")
        lab.run("document.querySelector('.bar button').focus()")
        to("Run and watch")
        enter()
        lab.wait("!document.getElementById('part-watch').hidden && W.lab.watch.drawn?.length > 0", "the run is not played")


def large(browser, program, shot):
    """A thousand hosts and ten thousand links are drawn, found by name, and zoomed."""
    with Lab(browser, program, big=LARGE) as lab:
        lab.valid()
        assert lab.run("[W.lab.network.nodes.length, W.lab.network.links.length].join()") == "1190,10000"
        lab.wait("W.lab.network.width > 0", "there is no drawing")
        lab.wait((COLOURS % "#part-network") + " > 3", "the drawing is blank")
        assert lab.run("document.querySelectorAll('.things li').length") < 700, "the list has all links"
        lab.run("(() => { const f = document.querySelector('.things input'); f.value = 'host.999'; f.dispatchEvent(new Event('input')); })()")
        assert lab.run("[...document.querySelectorAll('.things .name')].some(e => e.textContent === 'host.999')"), "a host is not found by its name"
        lab.run("W.lab.network.zoom(5)")
        shot("large")


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of another origin."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title><body></body>")

    def log_message(self, *_):
        pass


# All that a page can try, with the key and without it. It reports what it could read.
ATTACK = """(async () => {
  const lab = %s, key = %s, got = [];
  const wait = (ms) => new Promise(done => setTimeout(done, ms));
  const json = { 'content-type': 'application/json', authorization: 'Bearer ' + key };
  const body = JSON.stringify({ name: 'taken.toml', text: 'duration = "1s"', version: null });
  for (const [path, options] of [['/api/hello', {}], ['/api/hello', { headers: { authorization: 'Bearer ' + key } }], ['/api/file', { method: 'PUT', headers: json, body }],
      ['/api/runs', { method: 'POST', body: '{"text": ""}', headers: { 'content-type': 'text/plain' } }], ['/assets/main.js', {}], ['/', {}]]) {
    try { got.push(path + ' ' + (await (await fetch(lab + path, options)).text()).slice(0, 40)); } catch {}
    try { const r = await fetch(lab + path, { ...options, headers: {}, method: options.method === 'PUT' ? 'POST' : options.method, mode: 'no-cors' }); if (r.type !== 'opaque') got.push('not opaque ' + path); } catch {}
  }
  try { const socket = new WebSocket(lab.replace('http', 'ws') + '/api/runs/events?run=x'); socket.onopen = () => got.push('socket'); } catch {}
  const frame = document.createElement('iframe'); frame.src = lab + '/'; document.body.append(frame);
  const script = document.createElement('script'); script.src = lab + '/api/schema'; script.onload = () => got.push('script'); document.body.append(script);
  const form = document.createElement('form'); form.method = 'POST'; form.action = lab + '/api/runs'; form.enctype = 'text/plain'; form.target = 'aside';
  const aside = document.createElement('iframe'); aside.name = 'aside'; document.body.append(aside);
  form.innerHTML = '<input name=\\'{"text": "duration = 1", "x": "\\' value=\\'"}\\'>'; document.body.append(form); form.submit();
  await wait(1500);
  try { if (frame.contentDocument) got.push('frame'); } catch {}
  return got;
})()"""


def hostile(browser, program, shot):
    """A page of another port of this machine, in the same browser, gets nothing and changes nothing, even if it knew the key."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Lab(browser, program) as lab:
            lab.template("two hosts")
            lab.calm()
            key = lab.run("sessionStorage.getItem('warpline-lab-key')")
            assert key and lab.run("location.hash") == "" and lab.run("document.cookie") == "", "the key stays in the address, or is a cookie"
            own = browser.session
            other = browser.page()
            browser.call("Page.navigate", url=f"http://127.0.0.1:{server.server_port}/")
            browser.wait("document.title === 'elsewhere'", "the other page does not open")
            got = browser.run(ATTACK % (json.dumps(lab.origin), json.dumps(key)))
            assert not got, got
            browser.end_page(other)
            browser.session = own
            browser.events.clear()
            assert sorted(path.name for path in lab.directory.iterdir()) == ["runs"], list(lab.directory.iterdir())
            assert list((lab.directory / "runs").iterdir()) == []
    finally:
        server.shutdown()


def live(browser, program, shot):
    """A live run: its curves, a terminal on each host, ping and iperf3 by a click, a link that changes, and the scenario of what has happened."""
    with Lab(browser, program) as lab:
        lab.template("live hosts")
        lab.valid()
        lab.press("Run")
        lab.wait("document.querySelector('.run-detail progress')", "the run does not begin")
        lab.press("Live", "document.querySelector('.parts')")
        lab.wait("document.querySelectorAll('.hosts button').length === 2", "the run's hosts are not shown")
        shot("begun")
        lab.press("Terminal on client")
        screen = "(document.querySelector('.terminal[aria-label=\"Terminal on client\"] .screen')?.textContent ?? '')"
        lab.wait(f"{screen}.length > 0", "no shell asks for a command")

        def type_line(line, host="client"):
            lab.run(f"""(() => {{ const i = document.querySelector('.terminal[aria-label="Terminal on {host}"] .typed'); i.value = {json.dumps(line)}; i.form.requestSubmit(); }})()""")

        type_line("echo on $WARPLINE_HOST")
        lab.wait(f"/^on client$/m.test({screen})", "a command does not run on the host")
        # The shortest round trip before and after a change of the link: a busy machine is late. Without the line it is below 1 ms, and without the change 40.
        type_line("ping -c 4 -i 0.2 $WARPLINE_ADDR_SERVER | tail -1")
        lab.wait(f"/^rtt [^=]*= (4\\d|[5-9]\\d|1[0-3]\\d)\\./m.test({screen})", "a ping does not take the 40 ms of the line")
        lab.press("Change …", "document.querySelector('table.links')")
        lab.give(".change-form [aria-label^=delay]", "soon")
        lab.press("Change", "document.querySelector('.change-form')")
        lab.wait("document.querySelector('.toast.wrong')?.textContent.includes('soon')", "a wrong value is not refused")
        lab.browser.events.clear()
        lab.give(".change-form [aria-label^=delay]", "120ms")
        lab.press("Change", "document.querySelector('.change-form')")
        lab.wait("document.querySelector('table.links .words').textContent.includes('120 ms')", "the link does not change")
        type_line("ping -c 4 -i 0.2 $WARPLINE_ADDR_SERVER | tail -1")
        lab.wait(f"/^rtt [^=]*= (1[4-9]\\d|[2-9]\\d\\d)\\./m.test({screen})", "a ping does not feel the change")
        # Ctrl-C ends what runs, and the shell goes on. The program itself says that it runs: a shell that is about to start one may miss Ctrl-C.
        type_line("sh -c 'echo begun; exec sleep 1000'; echo never")
        lab.wait(f"/^begun$/m.test({screen})", "a second command does not run on the host")
        lab.press("Ctrl-C", "document.querySelector('.terminal')")
        # On a line of its own, whatever the shell prints before it.
        type_line("printf '\\nstill here\\n'")
        lab.wait(f"/^still here$/m.test({screen})", "Ctrl-C does not interrupt")
        if shutil.which("iperf3"):
            lab.press("iperf3", "document.querySelector('.terminal')")
            # With the shell's next prompt: what is typed before belongs to iperf3, and not to the scenario.
            lab.wait(f"/iperf Done[^]*[#$] *$/.test({screen})", "iperf3 is not a click away")
        lab.press("ping", "document.querySelector('.terminal')")
        lab.wait(f"{screen}.includes('bytes from')", "ping is not a click away")
        shot("terminals")
        lab.run("document.querySelector('.terminal .icon').click()")
        lab.wait("document.querySelectorAll('.terminal').length <= 1", "a terminal cannot be closed")
        lab.press("Show its curves")
        lab.wait("document.querySelector('.run-detail progress')", "the curves are not shown")
        lab.press("Stop", "document.querySelector('.run-detail')")
        lab.wait("document.querySelector('.run-detail iframe')", "there is no report after the stop")
        scenario = (lab.directory / "runs/live-hosts/scenario.toml").read_text()
        assert "[[change]]" in scenario and "120ms" in scenario, scenario
        # What was typed, clicked and interrupted are programs of it.
        for part in ("echo on $WARPLINE_HOST", '"timeout", "--signal=INT"', "ping -c 10"):
            assert part in scenario, f"{part}: {scenario}"
        lab.press("Live", "document.querySelector('.parts')")
        lab.wait("document.querySelector('.in-progress').textContent.includes('Nothing is in progress')", "a run that is over is still shown")


GUEST = """name = "guest"
duration = "600s"
clock = { mode = "real" }
link = [{ between = ["client", "router"], rate = "20Mbit/s", delay = "5ms" }]
[[host]]
name = "client"
endpoint = "guest"
"""


def guest(browser, program, shot):
    """A guest of a live run has a terminal, too."""
    if shutil.which("linux.uml") is None:
        print("guest: left out, there is no linux.uml (apt-get install user-mode-linux)")
        return
    # A shell that begins at once, whatever this user's does first.
    os.environ["SHELL"] = "/bin/sh"
    with Lab(browser, program, guest=GUEST) as lab:
        lab.valid()
        lab.press("Run")
        lab.wait("document.querySelector('.run-detail progress')", "the run does not begin")
        lab.press("Live", "document.querySelector('.parts')")
        lab.wait("document.querySelectorAll('.hosts button').length === 1", "the run's guest is not shown")
        lab.press("Terminal on client")
        screen = "(document.querySelector('.terminal .screen')?.textContent ?? '')"
        lab.wait(f"{screen}.length > 0", "no shell asks for a command")
        lab.run("""(() => { const i = document.querySelector('.terminal .typed'); i.value = 'uname -n; cat /proc/1/comm; ping -c 1 10.0.0.2'; i.form.requestSubmit(); })()""")
        lab.wait(f"/^client\\nagent$/m.test({screen}) && {screen}.includes('1 received')", "a command does not run in the guest")
        shot("terminal")
        lab.run("document.querySelector('.terminal .icon').click()")
        lab.press("Show its curves")
        lab.press("Stop", "document.querySelector('.run-detail')")
        lab.wait("document.querySelector('.run-detail iframe')", "there is no report after the stop")
        scenario = next((lab.directory / "runs").glob("guest*/scenario.toml")).read_text()
        assert "cat /proc/1/comm" in scenario, scenario


def once(browser, program, shot):
    """A page that has lost its key says what to do."""
    with Lab(browser, program) as lab:
        lab.run("sessionStorage.clear()")
        browser.events.clear()
        browser.open(lab.origin + "/")
        lab.wait("document.body.innerText.includes('open the address that')", "the page does not say what to do")
        browser.events.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", type=pathlib.Path, help="directory for screenshots")
    parser.add_argument("--only", help="names of checks, with commas between them")
    parser.add_argument("--axe", type=pathlib.Path, help="axe.min.js of axe-core, whose rules the page must keep, too")
    parser.add_argument("--without", default="", help="names of checks to leave out, with commas between them")
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    arguments = parser.parse_args()
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if binary is None:
        print("no Chromium (apt-get install chromium)")
        return 77  # The exit code of a skipped test, as in automake.
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    axe = arguments.axe.read_text() if arguments.axe else None

    def keeps_the_rules(browser, program, shot):
        accessible(browser, program, shot, axe)
    keeps_the_rules.__name__ = accessible.__name__
    checks = [edits, runs, watches, datagrams, live, guest, keeps_the_rules, keyboard, large, hostile, once]
    wanted = arguments.only.split(",") if arguments.only else [check.__name__ for check in checks]
    wanted = [name for name in wanted if name not in arguments.without.split(",")]
    failures = 0
    browser = Browser(binary)
    try:
        for check in checks:
            if check.__name__ not in wanted:
                continue

            def shot(name, check=check):
                if arguments.shots:
                    browser.run("new Promise(done => setTimeout(done, 400))")
                    browser.shot(arguments.shots / f"{check.__name__}-{name}.png", whole=False)
            try:
                check(browser, arguments.program, shot)
                print(f"{check.__name__}: fine")
            except (AssertionError, RuntimeError) as error:
                failures += 1
                print(f"{check.__name__}: {error}", file=sys.stderr)
                browser.session = None
    finally:
        browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
