//! A run directory on a disk that fails: it appears whole or not at all, and is never said to be there when it is not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use warpline_core::{FlowId, LinkId};
use warpline_disk::Directory as _;
use warpline_disk::sim::{Fault, SimDisk};

use crate::{CaptureOptions, Recorder as _, ResultError, RunWriter, example};

/// What a run directory holds; none if there is none.
type Found = Option<BTreeMap<OsString, Vec<u8>>>;

fn found(disk: &SimDisk, path: &Path) -> Found {
    let root = disk.root();
    let names = root.names(path).ok()?;
    Some(names.into_iter().map(|name| (name.clone(), root.read(&path.join(name)).unwrap())).collect())
}

/// Records a small run of this seed with one of each kind of file.
fn record(disk: &SimDisk, seed: u64) -> Result<(), ResultError> {
    let mut writer = RunWriter::create_at(disk.root(), Path::new("runs/first"), true, example::book())?;
    writer.record_capture(LinkId(0), "a>b", CaptureOptions::default())?;
    writer.record_qlog(FlowId(0), "up")?;
    writer.add_file("scenario.toml", format!("seed = {seed}").as_bytes())?;
    let summary = example::summary(1, seed);
    writer.flow_samples(&[])?;
    let mut sealed = writer.seal(&summary, &[])?;
    sealed.add_file("report.html", b"a report")?;
    sealed.publish().map(|_| ())
}

#[test]
fn whatever_operation_fails_a_run_is_there_whole_or_not_at_all() {
    let target = Path::new("runs/first");
    let whole = |seed| {
        let disk = SimDisk::new(1);
        record(&disk, seed).unwrap();
        found(&disk.survivor(), target)
    };
    let (first, second) = (whole(1), whole(2));
    assert!(first.as_ref().is_some_and(|files| files.len() >= 8) && first != second);
    let (mut done, mut failed) = (0, 0);
    for replaces in [false, true] {
        for fault in [Fault::Fail, Fault::Full(1000), Fault::Background, Fault::Kill, Fault::PowerLoss] {
            for number in 0.. {
                let disk = SimDisk::new(number);
                if replaces {
                    record(&disk, 1).unwrap();
                }
                let before = disk.count();
                disk.inject(before + number, fault);
                let result = record(&disk, 2);
                let context = format!("{fault:?} at {number}, replaces: {replaces}: {result:?}");
                for _ in 0..3 {
                    let there = found(&disk.survivor(), target);
                    match &result {
                        Ok(()) => assert!(there == second, "{context}"),
                        // The earlier one may be beside: the next run brings it back.
                        Err(_) => assert!(
                            there.is_none() || there == second || (replaces && there == first),
                            "{context}: {:?}",
                            there.map(|files| files
                                .into_iter()
                                .map(|(n, b)| (n, b.len()))
                                .collect::<Vec<_>>())
                        ),
                    }
                }
                if result.is_ok() {
                    done += 1
                } else {
                    failed += 1
                }
                if disk.count() - before <= number {
                    assert!(number > 40, "{number} operations are too few");
                    break;
                }
                disk.restart();
                // Nothing stands in the way of the next run.
                record(&disk, 2).unwrap_or_else(|error| panic!("{context}; then {error}"));
                assert!(found(&disk.survivor(), target) == second, "{context}");
                assert_eq!(disk.root().names(Path::new("runs")).unwrap(), ["first"], "{context}");
            }
        }
    }
    assert!(failed > 200 && done > 10, "{failed} {done}");
}
