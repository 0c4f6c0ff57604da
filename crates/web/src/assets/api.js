// Asks the server. The key comes with the page's address, after the #, and is kept for this tab only.

const STORE = "warpline-lab-key";
// How often to ask what a run has said, in milliseconds.
const LOOK = 300;
let key = "";

// Takes the key out of the address, so that neither history nor bookmarks have it.
export const enter = async () => {
  const given = location.hash.slice(1);
  if (given) history.replaceState(null, "", location.pathname);
  if (given.startsWith("once-")) {
    key = (await call("POST", "/api/enter", { key: given.slice(5) })).token;
  } else {
    key = given || (sessionStorage.getItem(STORE) ?? "");
  }
  sessionStorage.setItem(STORE, key);
};

const request = async (method, path, body, signal) => {
  const headers = { authorization: `Bearer ${key}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The lab does not answer: it may have ended. Start `warpline lab` again.");
  }
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw Object.assign(new Error(said.error ?? `The lab answered ${response.status}.`), { status: response.status });
  }
  return response;
};

export const call = async (method, path, body, signal) => (await request(method, path, body, signal)).json();

// A path with what is asked for.
export const asked = (path, what) => `${path}?${new URLSearchParams(what)}`;

// Waits for so many milliseconds.
export const pause = (time) => new Promise((done) => { setTimeout(done, time); });

// The events of a run, one after the other, soon after they come. Not as a stream: `events` in server.rs says why.
export async function* follow(run, signal) {
  for (let from = 0; ;) {
    const said = await call("GET", asked("/api/runs/events", { run, from }), undefined, signal);
    yield* said.events;
    if (said.over) return;
    from = said.next;
    await pause(LOOK);
  }
}

// The events of an answer, one after the other, as they come.
export async function* events(method, path, body, signal) {
  const response = await request(method, path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
      if (data) yield JSON.parse(data);
    }
  }
}
