//! The server as another program on this machine sees it, and what a page of another origin could try through a browser.

// Helpers of a test may panic, like tests.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpline_web::{Options, Server};

/// A test does not wait longer than this for what the lab says.
const PATIENCE: Duration = Duration::from_secs(60);
/// A test that asks again and again waits so long in between.
const PAUSE: Duration = Duration::from_millis(5);

/// Asks until there is something, as long as a test has patience.
#[expect(clippy::disallowed_methods, reason = "the lab is waited for, not the clock of a run")]
fn soon<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(found) = ask() {
            return Some(found);
        }
        sleep(PAUSE);
    }
    None
}

const SCENARIO: &str = "duration = \"5s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n";

/// A lab of its own, with folders of its own.
struct Lab {
    root: tempfile::TempDir,
    port: u16,
    key: String,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Lab {
    /// One whose runs all fail.
    fn start() -> Lab {
        Lab::with(|_| "/bin/false".into())
    }

    /// One that starts this program, made in the lab's folder, for whatever it is asked to run.
    fn with(program: impl FnOnce(&Path) -> PathBuf) -> Lab {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("scenarios")).unwrap();
        std::fs::write(root.path().join("scenarios/one.toml"), SCENARIO).unwrap();
        std::fs::write(root.path().join("secret.toml"), "duration = \"1s\" # secret").unwrap();
        let options = Options {
            program: program(root.path()),
            place: root.path().join("scenarios/one.toml"),
            runs: root.path().join("runs"),
            port: 0,
        };
        let server = Server::bind(&options).unwrap();
        let address = server.address();
        let (port, key) = address.strip_prefix("http://127.0.0.1:").unwrap().split_once("/#").unwrap();
        let (port, key) = (port.parse().unwrap(), key.to_owned());
        let stop = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&stop);
        let serving = std::thread::spawn(move || server.serve(|| own.load(Ordering::Relaxed)).unwrap());
        Lab { root, port, key, stop, serving: Some(serving) }
    }

    /// Sends a request as it is, and returns status, head and body of the answer.
    fn raw(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }

    /// A request with these headers; `Host` is the lab's unless they have one.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        self.raw(&self.request(method, path, headers, body))
    }

    /// The text of such a request.
    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let host = format!("127.0.0.1:{}", self.port);
        let own = [("host", host.as_str()), ("connection", "close")];
        let given =
            own.iter().filter(|(name, _)| !headers.iter().any(|(other, _)| other == name)).chain(headers);
        let lines: String = given.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} {path} HTTP/1.1\r\n{lines}content-length: {}\r\n\r\n{body}", body.len())
    }

    /// As the page asks.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let key = format!("Bearer {}", self.key);
        let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, _, body) = self.send(method, path, &headers, &body);
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// What a run has said, as soon as that is so.
    fn said_by(&self, run: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/api/runs/events?run={run}");
        let ask = || {
            let (status, said) = self.ask("GET", &path, &Value::Null);
            assert_eq!(status, 200, "{said}");
            Some(said).filter(&is_so)
        };
        soon(ask).unwrap_or_else(|| panic!("{run} does not say so"))
    }

    fn stored(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.path().join(name)).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.serving.take().map(JoinHandle::join);
    }
}

#[test]
fn the_page_and_its_parts_are_given_with_a_policy() {
    let lab = Lab::start();
    let (status, head, body) = lab.send("GET", "/", &[], "");
    assert_eq!(status, 200);
    assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
    for header in [
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(!head.contains("access-control") && !head.contains("set-cookie"), "{head}");
    assert!(!body.contains(&lab.key), "the page itself has the key");
    // All that the page names is there.
    let mut count = 0;
    for part in body.split('"').filter(|part| part.starts_with("/assets/")) {
        assert_eq!(lab.send("GET", part, &[], "").0, 200, "{part}");
        count += 1;
    }
    assert!(count > 15, "{count}");
    // And all that its modules name.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/assets");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert_eq!(lab.send("GET", &format!("/assets/{name}"), &[], "").0, 200, "{name}");
    }
    assert_eq!(lab.send("GET", "/assets/nothing.js", &[], "").0, 404);
    assert_eq!(lab.send("GET", "/assets/..%2f..%2flib.rs", &[], "").0, 404);
}

#[test]
fn other_pages_of_the_same_browser_get_nothing() {
    let lab = Lab::start();
    let key = format!("Bearer {}", lab.key);
    let key = ("authorization", key.as_str());
    let json = ("content-type", "application/json");
    let body = json!({ "name": "one.toml", "text": "taken", "version": null }).to_string();
    let own = format!("http://127.0.0.1:{}", lab.port);
    // Without the key: what a form, an image, a script or a frame of another page can send.
    for path in
        ["/api/hello", "/api/runs", "/api/file?name=one.toml", "/api/runs/events?run=x", "/api/schema"]
    {
        assert_eq!(lab.send("GET", path, &[], "").0, 401, "{path}");
    }
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"] {
        assert_eq!(lab.send("POST", "/api/runs", &[("content-type", kind)], &body).0, 401, "{kind}");
        // Even with the key, a form's body is not JSON.
        assert_eq!(lab.send("POST", "/api/runs", &[key, ("content-type", kind)], &body).0, 415, "{kind}");
    }
    // From elsewhere, even with the key.
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"] {
        let (status, head, _) = lab.send("PUT", "/api/file", &[key, json, ("origin", origin)], &body);
        assert_eq!(status, 403, "{origin}");
        assert!(!head.contains("access-control"), "{head}");
        assert_eq!(lab.send("GET", "/api/runs/events?run=x", &[key, ("origin", origin)], "").0, 403);
    }
    assert_eq!(lab.send("PUT", "/api/file", &[key, json, ("sec-fetch-site", "cross-site")], &body).0, 403);
    // The question that a browser asks first is not answered with a permission.
    let asking = [
        ("origin", "http://evil.example"),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "authorization"),
    ];
    let (status, head, _) = lab.send("OPTIONS", "/api/file", &asking, "");
    assert!(status >= 400 && !head.contains("access-control-allow"), "{head}");
    // A name that was bound to this machine later.
    for host in ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1.evil.example:80"] {
        assert_eq!(lab.send("GET", "/api/hello", &[key, ("host", host)], "").0, 421, "{host}");
        assert_eq!(lab.send("GET", "/", &[("host", host)], "").0, 421, "{host}");
    }
    let (status, ..) = lab.raw(&format!("GET http://evil.example/api/hello HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\nauthorization: {}\r\n\r\n", lab.port, key.1));
    assert_eq!(status, 421);
    // There is no WebSocket to be opened.
    let upgrade = [
        ("connection", "upgrade, close"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("origin", "http://evil.example"),
    ];
    assert_eq!(lab.send("GET", "/api/runs/events?run=x", &upgrade, "").0, 403);
    // The page itself may.
    assert_eq!(
        lab.send("GET", "/api/hello", &[key, ("origin", &own), ("sec-fetch-site", "same-origin")], "").0,
        200
    );
    assert_eq!(lab.stored("scenarios/one.toml"), SCENARIO);
}

#[test]
fn a_key_for_once_opens_once() {
    let root = tempfile::tempdir().unwrap();
    let options = Options {
        program: "/bin/false".into(),
        place: root.path().into(),
        runs: root.path().join("runs"),
        port: 0,
    };
    let server = Server::bind(&options).unwrap();
    let address = server.address_for_once().unwrap();
    let again = server.address_for_once().unwrap();
    assert_ne!(address, again);
    assert!(address.contains("/#once-") && !address.contains(server.address().split('#').nth(1).unwrap()));
}

#[test]
fn nothing_outside_the_folders_is_read_or_written() {
    let lab = Lab::start();
    for name in [
        "../secret.toml",
        "..%2Fsecret.toml",
        "/etc/passwd",
        "a/../../secret.toml",
        ".",
        "%00",
        "one.toml/../../secret.toml",
    ] {
        let (status, said) = lab.ask("GET", &format!("/api/file?name={name}"), &Value::Null);
        assert!(matches!(status, 400 | 403), "{name}: {status} {said}");
        assert!(!said.to_string().contains("# secret"), "{name}");
    }
    for name in ["../new.toml", "/tmp/new.toml", "..\\new.toml", ".hidden.toml"] {
        let (status, _) = lab.ask("PUT", "/api/file", &json!({ "name": name, "text": "x", "version": null }));
        assert_eq!(status, 403, "{name}");
    }
    for run in ["..", "../scenarios", "/etc", ".lab", "a/../../scenarios", ""] {
        for path in ["watch", "packets", "packet", "step"] {
            let more = "&from=0&to=1&limit=1&packet=1&time=1&back=false";
            let (status, _) = lab.ask("GET", &format!("/api/runs/{path}?run={run}{more}"), &Value::Null);
            assert!(matches!(status, 403 | 404), "{path} {run}: {status}");
        }
        assert!(matches!(lab.ask("POST", "/api/report", &json!({ "runs": [run] })).0, 403 | 404), "{run}");
        assert!(
            matches!(lab.ask("POST", "/api/runs/rename", &json!({ "run": run, "name": "x" })).0, 403 | 404),
            "{run}"
        );
    }
    assert!(!lab.root.path().join("new.toml").exists());
    // A report has an address that cannot be guessed.
    assert_eq!(lab.send("GET", "/report/one", &[], "").0, 404);
}

#[test]
fn a_scenario_is_read_checked_changed_and_written() {
    let lab = Lab::start();
    let (_, hello) = lab.ask("GET", "/api/hello", &Value::Null);
    assert_eq!((&hello["first"], &hello["files"]), (&json!("one.toml"), &json!(["one.toml"])));
    let (_, file) = lab.ask("GET", "/api/file?name=one.toml", &Value::Null);
    assert_eq!(file["text"], SCENARIO);
    let (_, checked) = lab.ask("POST", "/api/check", &json!({ "name": "one.toml", "text": SCENARIO }));
    assert_eq!(checked["valid"], true, "{checked}");
    let changes = json!([{ "do": "set", "path": ["link", 0, "rate"], "value": "2Mbit/s" }]);
    let (_, edited) =
        lab.ask("POST", "/api/edit", &json!({ "name": "one.toml", "text": SCENARIO, "changes": changes }));
    assert_eq!(edited["text"], SCENARIO.replace("1Mbit/s", "2Mbit/s"));
    let written = |text: &Value, version: &Value| {
        lab.ask("PUT", "/api/file", &json!({ "name": "one.toml", "text": text, "version": version }))
    };
    let (status, first) = written(&edited["text"], &file["version"]);
    assert_eq!(status, 200, "{first}");
    assert_eq!(lab.stored("scenarios/one.toml"), edited["text"].as_str().unwrap());
    // Somebody else has changed it: nothing is lost.
    std::fs::write(lab.root.path().join("scenarios/one.toml"), "by an editor").unwrap();
    let (status, said) = written(&edited["text"], &first["version"]);
    assert_eq!(status, 409, "{said}");
    assert_eq!(lab.stored("scenarios/one.toml"), "by an editor");
    // Where nodes were put is kept.
    assert_eq!(
        lab.ask("PUT", "/api/places", &json!({ "name": "one.toml", "places": { "a": [1.5, 2.0] } })).0,
        200
    );
    assert_eq!(lab.ask("GET", "/api/places?name=one.toml", &Value::Null).1, json!({ "a": [1.5, 2.0] }));
    // A request that is not understood gets an error that says why.
    let (status, said) =
        lab.ask("POST", "/api/edit", &json!({ "text": SCENARIO, "changes": [{ "do": "magic" }] }));
    assert_eq!(status, 422, "{said}");
    assert!(said["error"].as_str().unwrap().contains("magic"), "{said}");
}

#[test]
fn a_run_that_cannot_begin_says_why() {
    let lab = Lab::start();
    let (status, said) = lab.ask("POST", "/api/runs", &json!({ "text": "duration = 1\n" }));
    assert_eq!(status, 400, "{said}");
    assert!(said["error"].as_str().unwrap().contains("duration"), "{said}");
    let (status, started) =
        lab.ask("POST", "/api/runs", &json!({ "text": SCENARIO, "file": "one.toml", "seeds": [1, 2] }));
    assert_eq!((status, &started["runs"]), (200, &json!(["one/seed-1", "one/seed-2"])), "{started}");
    // The last that a run says is what became of it.
    for run in ["one/seed-1", "one/seed-2"] {
        let said = lab.said_by(run, |said| said["over"] == true);
        let last = said["events"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["event"], &last["job"]["state"]), (&json!("over"), &json!("failed")), "{said}");
        // From there on there is nothing else.
        let path = format!("/api/runs/events?run={run}&from={}", said["next"]);
        let (_, rest) = lab.ask("GET", &path, &Value::Null);
        assert_eq!((&rest["events"], &rest["over"]), (&json!([]), &json!(true)), "{rest}");
    }
    let (_, list) = lab.ask("GET", "/api/runs", &Value::Null);
    let grid = list.as_array().unwrap().iter().find(|entry| entry["run"] == "one").unwrap();
    assert_eq!(grid["grid"]["seeds"], json!([1, 2]), "{list}");
    assert_eq!(grid["cells"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(lab.ask("POST", "/api/runs/stop", &json!({ "run": "one" })).0, 404);
}

/// Makes a program of these commands of the shell.
#[cfg(unix)]
fn script(folder: &Path, commands: &str) -> PathBuf {
    let program = folder.join("script");
    let text = format!("#!/bin/sh\n{commands}\n");
    // Another process writes it: while this one has it open, a program that another test starts would hold it, too, and it could not be run.
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""]).arg(&program).arg(text);
    assert!(write.status().unwrap().success());
    program
}

#[cfg(unix)]
#[test]
fn what_a_run_says_takes_no_connection_while_it_goes_on() {
    let lab = Lab::with(|folder| script(folder, "echo '{\"event\":\"begin\"}'; exec sleep 1000"));
    let (status, started) = lab.ask("POST", "/api/runs", &json!({ "text": SCENARIO }));
    assert_eq!(status, 200, "{started}");
    let run = started["runs"][0].as_str().unwrap();
    // Each answer is read to its end.
    let said = lab.said_by(run, |said| said["events"] == json!([{ "event": "begin" }]));
    assert_eq!((&said["next"], &said["over"]), (&json!(1), &json!(false)), "{said}");
    assert_eq!(lab.ask("POST", "/api/runs/stop", &json!({ "run": run })).0, 200);
    let said = lab.said_by(run, |said| said["over"] == true);
    assert_eq!(said["events"][1]["job"]["state"], "stopped", "{said}");
}

#[cfg(live)]
mod terminals {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Makes a program that is started in place of `warpline enter`: it repeats each line that is typed, and ends at "end".
    fn shell(folder: &Path) -> PathBuf {
        script(folder, "while read line; do test \"$line\" = end && exit; echo \"got $line\"; done")
    }

    /// A run in progress, as far as its control socket shows that there is one. Other programs of this user see the socket, too, and may take it
    /// for a run: a test drops it as soon as its terminals are open.
    struct Run(PathBuf);

    impl Run {
        fn begin(name: &str) -> Run {
            let name = format!("web-{name}-{}.sock", std::process::id());
            let path = warpline_live::registry::directory().unwrap().path().join(name);
            let listener = UnixListener::bind(&path).unwrap();
            // It hangs up on whoever asks it something.
            std::thread::spawn(move || listener.incoming().for_each(drop));
            Run(path)
        }
    }

    impl Drop for Run {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// The answer to a wish for a terminal, as far as it has come.
    struct Screen {
        stream: TcpStream,
        said: String,
    }

    impl Screen {
        fn of(lab: &Lab, run: &Run) -> Screen {
            let key = format!("Bearer {}", lab.key);
            let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
            let socket = run.0.file_name().unwrap().to_str().unwrap();
            let body = json!({ "socket": socket, "host": "a" }).to_string();
            let mut stream = TcpStream::connect(("127.0.0.1", lab.port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(lab.request("POST", "/api/terminals", &headers, &body).as_bytes()).unwrap();
            Screen { stream, said: String::new() }
        }

        /// Reads on until these words have come. Returns whether they have: the answer may end before.
        fn shows(&mut self, words: &str) -> bool {
            let mut piece = [0; 4096];
            while !self.said.contains(words) {
                match self.stream.read(&mut piece).unwrap() {
                    0 => return false,
                    count => self.said.push_str(&String::from_utf8_lossy(&piece[..count])),
                }
            }
            true
        }

        /// Whether there is a terminal.
        fn is_open(&mut self) -> bool {
            self.shows("{\"terminal\":")
        }
    }

    fn type_in(lab: &Lab, terminal: u64, text: &str) -> (u16, String) {
        let wish = json!({ "terminal": terminal, "text": text });
        let (status, said) = lab.ask("POST", "/api/terminals/type", &wish);
        (status, said["error"].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_terminal_is_open_for_as_long_as_its_answer_is_read() {
        let (lab, run) = (Lab::with(shell), Run::begin("read"));
        let mut screen = Screen::of(&lab, &run);
        assert!(screen.shows("{\"terminal\":0}"), "{}", screen.said);
        drop(run);
        assert_eq!(type_in(&lab, 0, "hello\n").0, 200);
        assert!(screen.shows("got hello"), "{}", screen.said);
        drop(screen);
        let is_gone = soon(|| (type_in(&lab, 0, "").0 == 404).then_some(()));
        assert!(is_gone.is_some(), "the terminal is still there");
    }

    #[test]
    fn what_is_typed_where_no_terminal_is_open_is_refused() {
        let (lab, run) = (Lab::with(shell), Run::begin("typed"));
        let ended = (404, "this terminal has ended".to_owned());
        assert_eq!(type_in(&lab, 7, "x"), ended);
        let mut screen = Screen::of(&lab, &run);
        assert!(screen.is_open(), "{}", screen.said);
        drop(run);
        assert_eq!(type_in(&lab, 0, "end\n").0, 200);
        // Its answer ends with it.
        assert!(screen.shows("\"ended\":true"), "{}", screen.said);
        assert!(!screen.shows("more"), "{}", screen.said);
        assert_eq!(type_in(&lab, 0, "x"), ended);
        // Of a run that nobody knows there is none.
        let nobody = Run(PathBuf::from("nobody.sock"));
        let mut screen = Screen::of(&lab, &nobody);
        assert!(!screen.is_open());
        assert!(screen.said.contains("404") && screen.said.contains("this run is over"), "{}", screen.said);
    }

    #[test]
    fn when_too_many_terminals_are_open_the_lab_says_what_to_do() {
        let (lab, run) = (Lab::with(shell), Run::begin("many"));
        let mut open = Vec::new();
        let refused = loop {
            let mut screen = Screen::of(&lab, &run);
            if !screen.is_open() {
                break screen.said;
            }
            open.push(screen);
            assert!(open.len() < 6, "a browser has six connections to a server");
        };
        assert!(refused.contains("409") && refused.contains("close one first"), "{refused}");
        // Those that are open go on, and one that is closed makes room.
        assert_eq!(type_in(&lab, 0, "hello\n").0, 200);
        assert!(open[0].shows("got hello"));
        drop(open.pop());
        let is_open = soon(|| Screen::of(&lab, &run).is_open().then_some(()));
        assert!(is_open.is_some(), "there is no room");
    }
}
