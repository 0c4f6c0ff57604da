#!/usr/bin/env python3
"""Opens reports in headless Chromium and checks that they work.

    report_browser.py [--shots DIR] REPORT.html...

For each report: there is no error on the console and no network request, the page reports that it is ready, every plot is drawn and none
is blank, also in the dark scheme, on a narrow screen and on paper; zoom, reset, legend, sorting, filter and keyboard work.
Prints how long each page took to open. Without Chromium it exits with 77. Standard library only.
"""

import argparse
import base64
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time


class Browser:
    """A Chromium that is controlled through a pair of pipes."""

    def __init__(self, binary):
        to_read, self.out = os.pipe()
        self.inp, to_write = os.pipe()
        # High numbers, which the new process does not use for anything else.
        child_in = fcntl.fcntl(to_read, fcntl.F_DUPFD, 50)
        child_out = fcntl.fcntl(to_write, fcntl.F_DUPFD, 60)
        self.profile = tempfile.mkdtemp(prefix="report-browser-")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
                 f"--user-data-dir={self.profile}"]
        # Chromium reads from descriptor 3 and writes to 4.
        start = f"import os, sys; os.dup2({child_in}, 3); os.dup2({child_out}, 4); os.execv(sys.argv[1], sys.argv[1:])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, binary, *flags, "about:blank"],
            pass_fds=(child_in, child_out), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_read, to_write, child_in, child_out):
            os.close(fd)
        self.next_id, self.buffer, self.events, self.session = 0, b"", [], None

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self):
        while b"\0" not in self.buffer:
            chunk = os.read(self.inp, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.next_id += 1
        request = {"id": self.next_id, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.message()
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.events.clear()
        return target

    def end_page(self, target):
        self.session = None
        self.call("Target.closeTarget", targetId=target)

    def run(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def size(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def shot(self, path, whole=True):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(image["data"]))

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === '1'", "the page never reported that it was ready")

    def wait(self, condition, complaint):
        for _ in range(1200):
            if self.run(f"Boolean({condition})"):
                return
            time.sleep(0.05)
        raise AssertionError(complaint)

    def complaints(self):
        """Console errors, exceptions and network requests so far."""
        found = []
        for event in self.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                found.append("console: " + str([a.get("value", a.get("description")) for a in p["args"]]))
            elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                found.append("log: " + p["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "blob:", "about:")):
                found.append("request: " + p["request"]["url"])
            elif method == "Page.javascriptDialogOpening":
                found.append("dialog: " + p["message"])
        return found


# For each drawn plot: its title, and the number of colours on its canvas (a blank canvas has one).
CANVASES = """[...document.querySelectorAll('.plot')].map(p => {
  const c = p.querySelector('canvas');
  if (!c) return [p.ariaLabel, p.dataset.empty ? -1 : 0];
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
  return [p.ariaLabel, seen.size];
})"""


def check_drawn(browser):
    plots = browser.run(CANVASES)
    assert plots, "the report has no plot"
    for title, colours in plots:
        assert colours == -1 or colours >= 3, f"the plot {title!r} is blank ({colours} colours)"
    return plots


def check_interaction(browser):
    run = browser.run
    before = run("W.timeline.range.join()")
    span = run("W.timeline.span")
    # A drag across the first plot zooms all of them.
    run("document.querySelector('.plot .u-over').scrollIntoView({ block: 'center' })")
    box = run("(() => { const r = document.querySelector('.plot .u-over').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
    x, y, width, height = box
    def mouse(kind, at, **more):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x + width * at, y=y + height / 2, **more)
    mouse("mouseMoved", 0.3)
    mouse("mousePressed", 0.3, button="left", buttons=1, clickCount=1)
    mouse("mouseMoved", 0.4, button="left", buttons=1)
    mouse("mouseMoved", 0.5, button="left", buttons=1)
    mouse("mouseReleased", 0.5, button="left", clickCount=1)
    browser.wait("W.timeline.zoomed", "a drag did not zoom")
    low, high = run("W.timeline.range")
    assert abs(low - 0.3 * span) < 0.02 * span and abs(high - 0.5 * span) < 0.02 * span, (low, high, span)
    limits = run("[...W.plots].filter(p => p.u && p.spec.time !== false).map(p => p.u.scales.x.min)")
    assert all(abs(v - low) < 1e-9 for v in limits), limits
    # The legend shows values under the cursor.
    mouse("mouseMoved", 0.45)
    browser.wait("[...document.querySelectorAll('.plot .legend .value')].some(v => v.textContent)", "no values on hover")
    # A double click resets the zoom.
    for click in (1, 2):
        mouse("mousePressed", 0.4, button="left", clickCount=click)
        mouse("mouseReleased", 0.4, button="left", clickCount=click)
    browser.wait("!W.timeline.zoomed", "a double click did not reset")
    assert run("W.timeline.range.join()") == before
    # The keyboard zooms and moves the cursor.
    run("document.querySelector('.plot .uplot').focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="+", text="+")
    browser.wait("W.timeline.zoomed", "the plus key did not zoom")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert run("document.querySelector('.plot [aria-live]').textContent"), "the arrow key announced nothing"
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="0", text="0")
    browser.wait("!W.timeline.zoomed", "the key 0 did not reset")
    # A legend entry hides its line.
    assert run("""(() => { const p = [...W.plots].find(p => p.entries?.some(([, i]) => i)), b = p.legend.querySelector('button');
        const i = p.entries[0][1], before = p.u.series[i].show; b.click();
        const changed = p.u.series[i].show !== before; b.click(); return changed && p.u.series[i].show === before; })()"""), "the legend does nothing"
    # Every choice of every list works.
    run("document.querySelectorAll('.plot select, .part-head select').forEach(s => [...s.options].reverse().forEach(o => { s.value = o.value; s.dispatchEvent(new Event('change')); }))")
    run("document.querySelectorAll('.picker').forEach(p => { p.open = true; })")
    browser.run("new Promise(done => requestAnimationFrame(done))")
    run("document.querySelectorAll('.picker').forEach(p => { const b = p.querySelector('input[type=checkbox]'); b.click(); b.click(); p.open = false; })")
    # Tables sort in both directions and filter.
    assert run("""(() => { const t = [...document.querySelectorAll('.card.table')].find(t => t.querySelector('thead button'));
        const th = t.querySelectorAll('thead th')[0], b = th.querySelector('button');
        const column = () => [...t.querySelectorAll('tbody tr')].map(r => r.cells[0].textContent);
        b.click(); const up = column(); b.click(); const down = column();
        return th.ariaSort === 'descending' && up.length > 0 && (up.length < 2 || up.length > 200 || up.join() === down.reverse().join()); })()"""), "sorting is wrong"
    assert run("""(() => { const f = document.querySelector('.card.table input[type=search]'); if (!f) return true;
        f.value = 'no such name'; f.dispatchEvent(new Event('input'));
        const none = f.closest('.card').querySelectorAll('tbody tr').length === 0;
        f.value = ''; f.dispatchEvent(new Event('input'));
        return none && f.closest('.card').querySelectorAll('tbody tr').length > 0; })()"""), "the filter is wrong"
    # The image of a plot is a PNG.
    assert run("""new Promise(done => { const real = W.download; W.download = (name, blob) => { W.download = real; done(name.endsWith('.png') && blob.size > 2000); };
        [...W.plots].find(p => p.u).save(); })"""), "the PNG export is empty"


def check_words(browser):
    run = browser.run
    # Ticks have as many decimal places as their distance.
    assert run("W.ticks('s', [10, 10.25, 10.5], 0.25).texts.join()") == "10.00,10.25,10.50", "ticks in seconds"
    assert run("W.ticks('bps', [0, 2e6, 4e6], 2e6).texts.join()") == "0,2,4", "ticks of a rate"
    # The number of flows is that of the run, not of the flows that can be chosen.
    assert run("""(() => { const p = document.querySelector('.part[aria-label=Flows] .picker summary');
        return !p || p.textContent.endsWith(` of ${W.human('count', W.current.tables.find(t => t.id === 'flows').total_rows)} flows`); })()"""), "the number of flows is wrong"
    # No link is used by more than 100 %.
    assert run("""[...W.plots].filter(p => p.spec.title === 'Link utilisation' && p.built).every(p =>
        p.built.lines.every(l => W.maximum(l.values) <= 100))"""), "a link is used by more than 100 %"
    # A distribution of one value alone, even of zero, is a step on an axis with a width.
    assert run("""(async () => {
        const column = (text, i) => { const id = `one${i}`; document.body.append(W.el('script', { type: 'text/plain', id: 'c' + id }, text)); return { c: id, t: 'i8', n: 1, b: 0, d: 0, s: 1 }; };
        const [value, fraction] = ['AA==', 'AQ=='].map(column);
        const p = W.distributionPlot({ title: 'Zeros', unit: 'ms', lines: [{ name: 'a', samples: 1, columns: { value, fraction } }] });
        document.body.append(p.element);
        p.draw();
        await new Promise(requestAnimationFrame);
        const { min, max } = p.u.scales.x, [from, to] = p.built.x;
        p.destroy();
        p.element.remove();
        return min === 0 && max === 1 && from < to && to === 0; })()"""), "a distribution of zeros is blank"
    # Every list has a name, and the image of a plot of several runs is not called after one of them.
    assert run("[...document.querySelectorAll('select')].every(s => s.ariaLabel || [...s.labels].some(l => l.firstChild !== s && l.firstChild.textContent.trim()))"), "a list has no name"
    assert run("""(async () => {
        const real = W.download, common = [...W.plots].filter(p => p.u && p.element.closest('.part[aria-label=Comparison], .part[aria-label="Across seeds"]'));
        let all = true;
        for (const p of common) all &&= (await new Promise(done => { W.download = done; p.save(); })).startsWith(W.fileName(W.several()));
        W.download = real;
        return all; })()"""), "an image of several runs is called after one"
    # Where time was skipped, no line of samples is drawn.
    assert run("W.runs.length > 1 || !W.runs.some(r => r.skipped?.length) || [...W.plots].some(p => p.u && p.built.skipped?.length)"), "no plot knows when time was skipped"
    assert run("""[...W.plots].filter(p => p.u && p.built.skipped?.length).every(p => {
        const [[from, to]] = p.built.skipped, { bbox } = p.u, clips = p.u.series.slice(1).filter(s => s.show && s._paths).map(s => s._paths.clip);
        const drawn = (clip, t) => !clip || p.u.ctx.isPointInPath(clip, p.u.valToPos(t, 'x', true), bbox.top + bbox.height / 2);
        return clips.every(c => !drawn(c, (from + to) / 2)) && clips.some(c => drawn(c, from - 0.2) && drawn(c, to + 0.2));
      })"""), "a line is drawn where time was skipped"
    # Sets of seeds have means and intervals, and are not compared with their first run.
    if run("W.sets.length"):
        assert run("document.querySelector('.part[aria-label=\\'Across seeds\\'] td .difference')?.textContent.startsWith('± ')"), "no interval"
        assert not run("document.body.innerText.includes('Differences are from the first run')"), "seeds are compared with the first"
        assert run("[...W.plots].filter(p => p.built?.lines.some(l => l.low && l.name === W.sets[0].label)).length") > 3, "no bands"
        assert run("W.sets.every(s => !s.incomplete || document.body.innerText.includes(`left out, because incomplete: ${s.incomplete}.`))"), "seeds are left out without a word"
    # Runs side by side have what the rows of their tables make together.
    elif run("W.runs.length > 1"):
        assert run("""[...document.querySelectorAll('.card[aria-label="Key figures"] tr')].some(r =>
            r.cells[0].textContent === 'Completion time (mean of transfers)' && [...r.cells].slice(1).every(c => /\\d/.test(c.textContent)))"""), "no completion times"


def check(browser, path, shots):
    target = browser.page()
    browser.size(1280)
    browser.scheme("light")
    browser.open(path.resolve().as_uri())
    opened = browser.run("document.documentElement.dataset.openMs")
    assert browser.run("document.querySelectorAll('.plot[data-drawn]').length") > 0, "no plot is drawn at first"
    started = time.monotonic()
    browser.run("W.drawAll()")
    drawing = time.monotonic() - started
    plots = check_drawn(browser)
    dilated = browser.run("W.runs.some((run) => run.tables.some((t) => t.id === 'dilation' && t.cells[0].length > 1))")
    assert any(title == "Time dilation factor" for title, _ in plots) == dilated, "the factors of a dilated run have a plot, and only those"
    assert int(browser.run("document.documentElement.dataset.plots")) == len(plots)
    check_words(browser)
    if shots:
        browser.shot(shots / f"{path.stem}-1280-light.png")
    check_interaction(browser)
    for width, scheme in ((1280, "dark"), (390, "dark"), (390, "light")):
        browser.size(width)
        browser.scheme(scheme)
        browser.open(path.resolve().as_uri())
        browser.run("W.drawAll()")
        check_drawn(browser)
        wide = browser.run("document.documentElement.scrollWidth")
        assert wide <= width, f"at {width} px the page is {wide} px wide"
        if shots:
            browser.shot(shots / f"{path.stem}-{width}-{scheme}.png")
    # On paper everything is drawn, even without scrolling to it.
    browser.size(1280)
    browser.open(path.resolve().as_uri())
    paper = browser.call("Page.printToPDF", printBackground=True)["data"]
    assert len(paper) > 20000, "the printed report is empty"
    browser.wait("document.querySelectorAll('.plot:not([data-drawn])').length === 0", "printing left plots undrawn")
    errors = browser.run("document.documentElement.dataset.errors")
    assert not errors, errors
    complaints = browser.complaints()
    assert not complaints, "\n".join(complaints)
    browser.end_page(target)
    size = path.stat().st_size / 1e6
    print(f"{path.parent.name}/{path.name}: {size:.2f} MB, {len(plots)} plots, opened in {opened} ms, all drawn in {drawing * 1e3:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", type=pathlib.Path, help="directory for screenshots")
    parser.add_argument("reports", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if binary is None:
        print("no Chromium (apt-get install chromium)")
        return 77  # The exit code of a skipped test, as in automake.
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    browser = Browser(binary)
    failures = 0
    try:
        for path in arguments.reports:
            try:
                check(browser, path, arguments.shots)
            except AssertionError as error:
                failures += 1
                print(f"{path.name}: {error}", file=sys.stderr)
                browser.session = None
    finally:
        browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
