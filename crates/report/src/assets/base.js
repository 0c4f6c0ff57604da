// The report's name space, elements, and the record of errors.
const W = {};
(() => {
  "use strict";
  const root = document.documentElement;

  // Errors are kept on <html>, where a test can see them and a reader can be told.
  W.fail = (text) => {
    root.dataset.errors += (root.dataset.errors ? "\n" : "") + text;
  };
  addEventListener("error", (e) => W.fail(String(e.message)));
  addEventListener("unhandledrejection", (e) => W.fail(String(e.reason)));
  addEventListener("securitypolicyviolation", (e) => W.fail("blocked: " + e.violatedDirective));

  // An element. Text is always set as text, never as HTML: names in a scenario may hold anything.
  W.el = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };

  // A labelled <select>. `items` are [value, text].
  W.select = (label, items, value, change) => {
    const select = W.el("select", { onchange: () => change(select.value) },
      ...items.map(([v, text]) => W.el("option", { value: v }, text)));
    select.value = value;
    return W.el("label", { class: "field" }, label, select);
  };

  // Hands a text or a Blob to the reader as a file.
  W.download = (name, blob) => {
    const url = URL.createObjectURL(blob);
    const link = W.el("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };

  W.fileName = (...parts) => parts.join("-").replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 80);

  // The first index whose value is not below `x`, in an ascending array.
  W.lowerBound = (array, x) => {
    let low = 0, high = array.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (array[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const manifest = JSON.parse(document.getElementById("manifest").textContent);
  W.runs = manifest.runs;
  // What is known across the seeds of each set; none where single runs are shown.
  W.sets = manifest.sets ?? [];
  // What is known of the columns of a run's totals and of the run itself; that of tables is with them.
  W.totalHeads = manifest.totals;
  W.runHeads = manifest.run;
  // What the rows of tables make as one value; the values of a run are in the same order.
  W.foldHeads = manifest.folds;
})();
