//! The other end of a control socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::{ControlError, system};

/// How long people wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the longest answer.
const LONGEST: u64 = 64 << 20;

/// Sends a line to the run that listens at `path`, and returns the line that it answers within `patience`.
///
/// # Errors
/// If nobody listens there, or nothing comes back.
pub fn ask(path: &Path, line: &str, patience: Duration) -> Result<String, ControlError> {
    let nobody = |source| ControlError::Nobody { path: path.to_owned(), source };
    let mut stream = UnixStream::connect(path).map_err(nobody)?;
    stream.set_read_timeout(Some(patience)).map_err(system("wait for an answer from", path))?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(system("write to", path))?;
    let mut answer = String::new();
    match BufReader::new(stream.take(LONGEST)).read_line(&mut answer) {
        Ok(0) => Err(nobody(ErrorKind::UnexpectedEof.into())),
        Ok(_) => Ok(answer.trim_end_matches('\n').to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(ControlError::Silent(path.to_owned()))
        }
        Err(error) => Err(system("read from", path)(error)),
    }
}
