//! Files of sessions, as `clean` reads them: no bytes make the reader panic, and a session that is read survives writing and reading.

use warpline_live::registry::Session;

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let Ok(session) = serde_json::from_slice::<Session>(bytes) else { return };
    let text = serde_json::to_vec(&session).expect("a session can be written");
    assert_eq!(serde_json::from_slice::<Session>(&text).expect("what was written can be read"), session);
}
