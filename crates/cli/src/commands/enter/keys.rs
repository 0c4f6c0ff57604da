//! Lines that are typed at a shell, put together from its keys, as the shell would take them.

/// What ends with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A line; none if it has keys whose effect only the shell knows: completion, history, moves of the cursor.
    Line(Option<String>),
    /// Ctrl-C.
    Interrupt,
}

/// Ctrl-C.
pub(super) const INTERRUPT: u8 = 3;
/// What terminals put around a text that is pasted (xterm's bracketed paste), without the escape.
const PASTE: [&[u8]; 2] = [b"[200~", b"[201~"];

/// The keys since the last end.
#[derive(Debug, Default)]
pub(super) struct Keys {
    line: Vec<u8>,
    /// A control sequence that has begun: what follows the escape.
    sequence: Option<Vec<u8>>,
    unknown: bool,
}

impl Keys {
    /// Takes a key. Returns what has ended with it.
    pub(super) fn press(&mut self, byte: u8) -> Option<Typed> {
        if let Some(sequence) = &mut self.sequence {
            sequence.push(byte);
            // Its last byte is a letter or `~` (ECMA-48, section 5.4).
            let whole = sequence.len() > 1 && (0x40..=0x7e).contains(&byte) || sequence[0] != b'[';
            if whole {
                self.unknown |= !PASTE.contains(&&sequence[..]);
                self.sequence = None;
            }
            return None;
        }
        match byte {
            b'\r' | b'\n' => {
                let Keys { line, unknown, .. } = std::mem::take(self);
                let line = String::from_utf8(line).ok().filter(|_| !unknown);
                return Some(Typed::Line(line.map(|line| line.trim().to_owned())));
            }
            INTERRUPT => {
                *self = Keys::default();
                return Some(Typed::Interrupt);
            }
            // Backspace takes a character back, which may have several bytes.
            8 | 127 => while self.line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            // Ctrl-U
            21 => self.line.clear(),
            // Ctrl-W takes the blanks at the end, and the word before them.
            23 => {
                for blank in [true, false] {
                    while self.line.last().is_some_and(|byte| byte.is_ascii_whitespace() == blank) {
                        self.line.pop();
                    }
                }
            }
            // Ctrl-D, Ctrl-L and Ctrl-Z change nothing of the line.
            4 | 12 | 26 => {}
            27 => self.sequence = Some(Vec::new()),
            0..=31 => self.unknown = true,
            _ => self.line.push(byte),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(typed: &str) -> Vec<Typed> {
        let mut keys = Keys::default();
        typed.bytes().filter_map(|byte| keys.press(byte)).collect()
    }

    fn line(text: &str) -> Typed {
        Typed::Line(Some(text.to_owned()))
    }

    #[test]
    fn a_line_is_what_was_left_of_it_at_its_end() {
        assert_eq!(lines("ping x\r ls\n"), [line("ping x"), line("ls")]);
        assert_eq!(lines("lé\x7f\x7fps\r"), [line("ps")]);
        assert_eq!(lines("rm all\x15echo one  two \x17\x17three\r"), [line("echo three")]);
        assert_eq!(lines("sleep 9\x03ls\r"), [Typed::Interrupt, line("ls")]);
        assert_eq!(lines("\x1b[200~echo pasted\x1b[201~ text\r"), [line("echo pasted text")]);
        assert_eq!(lines("\r"), [line("")]);
    }

    #[test]
    fn a_line_that_only_the_shell_knows_is_no_text() {
        for typed in ["pi\tx\r", "\x1b[A\r", "\x12ping\r", "\x1bbx\r", "\x1bOA\r"] {
            assert_eq!(lines(&format!("{typed}ls\r")), [Typed::Line(None), line("ls")], "{typed:?}");
        }
    }
}
