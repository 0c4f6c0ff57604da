//! The samples of flows: numbers that the machine outside reads after the run.
//!
//! A guest has little memory, and a long run has many samples, so they are written to the file a part at a time.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use warpline_agent::Sample;

use crate::failure::{Doing, Failure};

/// Bytes in memory from which on they are written. Writing takes time of the guest, so it is not done for each sample.
const PART: usize = 1 << 20;

/// Samples, a line of JSON each.
pub(crate) struct Samples {
    path: PathBuf,
    /// None before the first part.
    file: Option<File>,
    /// Lines that are not in the file yet.
    lines: Vec<u8>,
}

impl Samples {
    /// No samples. The file is made when the first are written.
    pub(crate) fn new(path: PathBuf) -> Self {
        Samples { path, file: None, lines: Vec::new() }
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, sample: &Sample) {
        // It holds numbers only, so that it can always be written to memory.
        let _ = serde_json::to_writer(&mut self.lines, sample);
        self.lines.push(b'\n');
    }

    /// Writes what is in memory if it is much.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn make_room(&mut self) -> Result<(), Failure> {
        if self.lines.len() < PART { Ok(()) } else { self.write() }
    }

    /// Writes all that is in memory. The file is there afterwards, also if it is empty.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&mut self) -> Result<(), Failure> {
        let doing = || format!("write {}", self.path.display());
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(&self.path).doing(doing)?),
        };
        file.write_all(&self.lines).doing(doing)?;
        self.lines.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use warpline_agent::TcpInfo;

    use super::*;

    #[test]
    fn samples_are_in_the_file_in_order_and_few_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples");
        let mut samples = Samples::new(path.clone());
        let mut added = Vec::new();
        while added.len() < 3 * PART {
            let sample = Sample { time: added.len() as u64, id: 7, info: TcpInfo::default() };
            serde_json::to_writer(&mut added, &sample).unwrap();
            added.push(b'\n');
            samples.add(&sample);
            samples.make_room().unwrap();
            assert!(samples.lines.len() < PART);
        }
        assert!(fs::metadata(&path).unwrap().len() >= 2 * PART as u64);
        samples.write().unwrap();
        assert!(fs::read(&path).unwrap() == added);
    }

    #[test]
    fn without_samples_the_file_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples");
        let mut samples = Samples::new(path.clone());
        samples.make_room().unwrap();
        assert!(!path.exists());
        samples.write().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        let nowhere = Samples::new(directory.path().join("none/samples")).write().unwrap_err();
        assert!(nowhere.to_string().contains("none/samples"), "{nowhere}");
    }
}
