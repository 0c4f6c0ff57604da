//! The title of a terminal that a command uses: there we can show something without mixing it with the command's output.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use nix::sys::signal::{SigSet, Signal};

/// Saves the terminal's title, and restores it (xterm's control sequences 22 and 23).
const PUSH: &str = "\x1b[22;2t";
const POP: &str = "\x1b[23;2t";

/// The title of the terminal on stderr. It is restored at the end.
///
/// A thread writes it, so that a stopped terminal (Ctrl-S) stops nothing else.
#[derive(Debug)]
pub struct Title {
    texts: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
}

/// Whether a terminal of this kind (`TERM`) has a title. Others may print the text among the command's output.
fn has_title(kind: &str) -> bool {
    !kind.is_empty()
        && !["dumb", "linux", "vt", "ansi", "cons", "sun"].iter().any(|none| kind.starts_with(none))
}

impl Title {
    /// The title of stderr's terminal; `None` without a terminal, or without a title.
    pub fn of_stderr() -> Option<Title> {
        let kind = std::env::var("TERM").unwrap_or_default();
        (std::io::stderr().is_terminal() && has_title(&kind)).then(|| Title { texts: None, writer: None })
    }

    /// Shows a text. If the terminal does not accept output at the moment, it is left out.
    pub fn show(&mut self, text: &str) {
        if self.writer.is_none() {
            let (sender, receiver) = sync_channel(1);
            self.texts = Some(sender);
            let named = std::thread::Builder::new().name("title".to_owned());
            self.writer = named.spawn(move || write_all(&receiver)).ok();
        }
        if let Some(texts) = &self.texts {
            let _ = texts.try_send(text.replace(|c: char| c.is_control(), " "));
        }
    }
}

impl Drop for Title {
    fn drop(&mut self) {
        self.texts = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write_all(texts: &Receiver<String>) {
    // The command is in the foreground, we are not: with `stty tostop` a write would stop us, and the network with us.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTOU);
    let _ = signals.thread_block();
    let write = |text: &str| {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    };
    write(PUSH);
    for text in texts {
        write(&format!("\x1b]2;{text}\x07"));
    }
    write(POP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_without_a_title_are_left_alone() {
        for (kind, expected) in [
            ("xterm-256color", true),
            ("tmux-256color", true),
            ("foot", true),
            ("linux", false),
            ("dumb", false),
            ("", false),
            ("vt100", false),
        ] {
            assert_eq!(has_title(kind), expected, "{kind}");
        }
    }
}
