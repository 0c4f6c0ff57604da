//! The lab: what the command does, and how its page works in a browser.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::live::alone;
use crate::shell::able;
use crate::support::{Desk, SMALL, wait_until};

/// Exit code of `lab_browser.py` if there is no browser.
const NO_BROWSER: i32 = 77;

/// A lab, with its port and key.
struct Lab {
    child: Child,
    port: u16,
    key: String,
}

impl Lab {
    fn start(desk: &Desk, arguments: &[&str]) -> Lab {
        let arguments = [&["lab"], arguments].concat();
        let mut child =
            desk.program(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (port, key) =
            line.trim().strip_prefix("Lab: http://127.0.0.1:").unwrap().split_once("/#").unwrap();
        let (port, key) = (port.parse().unwrap(), key.to_owned());
        Lab { child, port, key }
    }

    /// Asks as the page does, and returns the body of the answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let (port, key, length) = (self.port, &self.key, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Starts a run that would take hours, and waits until it writes its results.
    fn endless(&self, desk: &Desk) {
        let text =
            SMALL.replace("duration = \"2s\"", "duration = \"10000000s\"\nsample_interval = \"1000s\"");
        let wish = serde_json::json!({ "text": text, "name": "endless" });
        self.ask("POST", "/api/runs", &wish.to_string());
        wait_until("the run", || self.ask("GET", "/api/runs", "").contains("\"running\""));
        // Its process is there by then, and perhaps no more.
        wait_until("the begin of the run", || !desk.names("runs").is_empty());
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

/// Waits until the run is whole in the directory of runs, and nothing of it lies beside it.
fn is_kept(desk: &Desk) {
    wait_until("the end of the run", || {
        desk.path().join("runs/endless/summary.json").exists()
            && !desk.names("runs").iter().any(|name| name.contains(".partial-"))
    });
    assert_eq!(desk.summary("runs/endless")["complete"], false);
}

#[test]
fn ctrl_c_ends_the_lab_and_stops_its_runs() {
    let desk = Desk::new();
    let mut lab = Lab::start(&desk, &["small.toml"]);
    assert!(lab.ask("GET", "/api/hello", "").contains("\"first\":\"small.toml\""));
    lab.endless(&desk);
    lab.signal("-INT");
    assert_eq!(lab.child.wait().unwrap().code(), Some(0));
    // It has waited for its runs.
    assert!(desk.path().join("runs/endless/summary.json").exists());
    is_kept(&desk);
}

#[test]
fn a_lab_that_is_killed_leaves_no_run_behind() {
    let desk = Desk::new();
    let mut lab = Lab::start(&desk, &[]);
    lab.endless(&desk);
    lab.signal("-KILL");
    lab.child.wait().unwrap();
    is_kept(&desk);
}

#[test]
fn what_cannot_be_opened_is_told() {
    let desk = Desk::new();
    let answer = desk.warpline(&["lab", "nothing.toml"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("nothing.toml"), "{answer:?}");
    let lab = Lab::start(&desk, &[]);
    let answer = desk.warpline(&["lab", "--port", &lab.port.to_string()]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stderr.contains("--port"), "{answer:?}");
    lab.signal("-INT");
}

/// axe-core, which checks pages for accessibility: npm brings the version that `tests/axe` names. None without npm, or without its registry.
fn axe() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    fs::create_dir_all(&place).unwrap();
    for name in ["package.json", "package-lock.json"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/axe").join(name), place.join(name))
            .unwrap();
    }
    let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"];
    let brought =
        Command::new("npm").args(words).arg(&place).output().is_ok_and(|output| output.status.success());
    let file = place.join("node_modules/axe-core/axe.min.js");
    (brought && file.is_file()).then_some(file)
}

#[test]
fn the_lab_works_in_a_browser() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab_browser.py");
    assert!(fs::metadata(&script).is_ok());
    let mut command = Command::new("python3");
    command.arg(script).arg(env!("CARGO_BIN_EXE_warpline"));
    // Says so itself if not; the rest of the page needs no hosts.
    let turn = able(false, &["ping"]).then(alone);
    if turn.is_none() {
        command.args(["--without", "live,guest"]);
    }
    match axe() {
        Some(file) => drop(command.arg("--axe").arg(file)),
        None => warpline_skip::skip(
            "axe",
            "npm cannot bring axe-core; our own checks of names and contrast are made",
        ),
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return warpline_skip::skip("program", format!("python3 cannot be started ({error})"));
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(NO_BROWSER) {
        return warpline_skip::skip("program", said.trim());
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
