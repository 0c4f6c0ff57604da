//! The program on a terminal, which Python's standard library opens.

use crate::support::{Answer, Desk};

/// Runs the program on a terminal of this kind (the variable `TERM`), without colours. `stdout` is everything that it and its command write
/// there. The terminal has 33 rows of 101 columns, and 50 of 160 once `ready` has been written to it.
pub(crate) fn on_a_terminal(desk: &Desk, kind: &str, words: &[&str]) -> Answer {
    let script = r#"
import fcntl, os, pty, struct, sys, termios
def size(descriptor, rows, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
child, terminal = pty.fork()
if child == 0:
    size(0, 33, 101)
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    if b"ready" not in said and b"ready" in said + part:
        size(terminal, 50, 160)
    said += part
sys.stdout.buffer.write(said)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;
    let mut command = desk.program_in(&["python3", "-c", script], words);
    Answer::from(command.env("TERM", kind).env("NO_COLOR", "1").output().unwrap())
}
