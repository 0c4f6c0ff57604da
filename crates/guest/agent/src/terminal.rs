//! Messages at a terminal of a guest: between a shell there, and somebody of the machine who types.
//!
//! A terminal is a console of the guest's kernel (`con2` of its boot line, and so on), whose ends on the machine are two pipes. On each, messages are lines of
//! JSON. So whoever comes later finds the next message, even if the one before went away in the middle of one.
//!
//! A console's buffer has 4096 bytes, and one that has been full takes nothing more for ever (seen with Linux 6.1). So messages to the guest are small, there is
//! only one of them that is typed is on its way at a time, and the order of a command is in a file of the share.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Ending;

/// Terminals of each guest that can be entered. User-Mode Linux has sixteen consoles, of which two have another use.
pub const TERMINALS: u32 = 8;
/// The number of the first terminal's console.
pub const FIRST: u32 = 2;
/// The most bytes in one message: as JSON, where a byte takes six at most, they fit into a console's buffer, and into a pipe as a whole (`PIPE_BUF`, pipe(7)).
pub const MOST: usize = 500;

/// Name of the file in the share with the order of the next command at a terminal.
pub fn order_file(terminal: u32) -> String {
    format!("terminal{terminal}.order")
}

/// Bytes that are typed or printed. In JSON each is one character, from U+0000 to U+00FF, since what programs print need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.iter().map(|&byte| char::from(byte)).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = text.chars().map(|sign| u8::try_from(u32::from(sign)));
        bytes.collect::<Result<_, _>>().map(Bytes).map_err(serde::de::Error::custom)
    }
}

/// A command at a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalOrder {
    /// Number of the host.
    pub host: u32,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory.
    pub directory: String,
    /// Rows and columns.
    pub size: (u16, u16),
    /// Whether somebody types there. If not, the input, the output and the errors of the command are pipes.
    pub typed: bool,
}

/// To a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToTerminal {
    /// Starts the command of the order's file, after hanging up on what still runs there. The number is the caller's own, for [`FromTerminal::Began`].
    Begin(u64),
    /// What is typed; at most [`MOST`] bytes. The next follows after [`FromTerminal::Took`].
    Typed(Bytes),
    /// New rows and columns.
    Size(u16, u16),
    /// The input is over, where nobody types.
    Over,
    /// A signal for the command, where nobody types.
    Signal(i32),
    /// Hangs up: the command hears SIGHUP.
    HangUp,
}

/// From a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromTerminal {
    /// The command with this number has begun; all that follows belongs to it.
    Began(u64),
    /// The command with this number could not be started.
    Failed(u64, Start),
    /// What is printed; at most [`MOST`] bytes.
    Printed(Bytes),
    /// What is printed as an error, where nobody types; at most [`MOST`] bytes.
    Complained(Bytes),
    /// A message [`ToTerminal::Typed`] has been taken.
    Took,
    /// So many of the bytes typed have been passed on, and whether the command itself was in the foreground then, not one that it has started.
    Passed(u32, bool),
    /// The command has ended, and all that it printed was sent.
    Ended(Ending),
}

/// Why a command could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Whether there is no such program.
    pub missing: bool,
    /// What went wrong.
    pub why: String,
}

/// A message as a line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // It holds numbers and texts only, so this cannot fail.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Bytes of a line, at most: what is longer is no message.
const LONGEST: usize = 1 << 16;

/// Puts messages together from what is read piece by piece.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Adds what was read.
    pub fn add(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() > LONGEST && !self.rest.contains(&b'\n') {
            self.rest.clear();
        }
    }

    /// The next message. Lines that are none are left out.
    pub fn next_message<M: for<'de> Deserialize<'de>>(&mut self) -> Option<M> {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Ok(message) = serde_json::from_slice(&line) {
                return Some(message);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_also_after_one_that_was_cut_off() {
        let all: Vec<u8> = (0..=255).collect();
        let first = line(&ToTerminal::Typed(Bytes(all.clone())));
        let mut lines = Lines::default();
        lines.add(&first[..10]);
        assert_eq!(lines.next_message::<ToTerminal>(), None);
        lines.add(b"\n");
        for byte in &first {
            lines.add(&[*byte]);
        }
        lines.add(&line(&ToTerminal::HangUp));
        assert_eq!(lines.next_message(), Some(ToTerminal::Typed(Bytes(all))));
        assert_eq!(lines.next_message(), Some(ToTerminal::HangUp));
        assert_eq!(lines.next_message::<ToTerminal>(), None);
    }

    #[test]
    fn the_largest_message_fits_into_a_pipe_as_a_whole() {
        // A control character takes six bytes in JSON.
        let largest = line(&FromTerminal::Printed(Bytes(vec![1; MOST])));
        assert!(largest.len() <= 4096, "{}", largest.len());
    }
}
