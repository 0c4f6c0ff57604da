//! Runs every target on its committed corpus: a few inputs that get far, and every input that once failed.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeSet;
use std::path::Path;

use warpline_fuzz::TARGETS;

/// Limit of the total size of the corpora in bytes.
const MOST: u64 = 200_000;

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

#[test]
fn every_target_passes_its_corpus() {
    let mut size = 0;
    for (name, target) in TARGETS {
        let mut inputs = 0;
        for file in std::fs::read_dir(corpus().join(name)).unwrap_or_else(|error| panic!("{name}: {error}")) {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            println!("{}", path.display());
            target(&bytes);
            size += bytes.len() as u64;
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no corpus");
        // The first inputs of a fuzzer.
        target(&[]);
    }
    assert!(size < MOST, "{size} bytes");
}

#[test]
fn every_corpus_and_every_program_belongs_to_a_target() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let entries = |directory: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(entries(&corpus()), names);
    assert_eq!(entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets")), names);
}
