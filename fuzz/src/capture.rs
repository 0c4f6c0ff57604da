//! Captures from which a scenario is inferred: whatever the bytes are, there is an error, or a scenario that can be read.

use std::path::Path;

use warpline_scenario::Source;

/// Infers from bytes. What is proposed must be a scenario, unless it has numbers that no scenario may have.
pub fn run(data: &[u8]) {
    let Ok(Some(text)) = warpline_study::infer::infer_from(data, "cubic") else { return };
    if let Err(error) = Source::from_text("inferred", &text, Path::new("")).load(&[]) {
        // A capture of damaged times can be longer than a run may be.
        assert!(!error.to_string().contains("expected"), "{error}\n{text}");
    }
}
