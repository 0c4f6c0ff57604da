//! What tells this program from other versions and builds of it: results that are kept are kept by it.

use std::fs::File;

use crate::failure::Failure;

/// The version of this program, and a hash of its file.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn this_build() -> Result<String, Failure> {
    let failed =
        |error: std::io::Error| Failure::run(format!("cannot read the file of this program: {error}"));
    let file = File::open(std::env::current_exe().map_err(failed)?).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(failed)?;
    Ok(format!("{}-{}", env!("CARGO_PKG_VERSION"), &hasher.finalize().to_hex()[..12]))
}
